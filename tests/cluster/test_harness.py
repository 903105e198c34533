"""The harness on this machine: its hosts, its Slurm, its faults, and that nothing of it stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from cluster.harness import Cluster, ClusterSpec, HarnessError, network
from cluster.harness.apptainer import ApptainerHost
from cluster.harness.tools import starttime, until

pytestmark = pytest.mark.cluster

SLURM = {"bookworm": "22.05", "trixie": "24.11", "sid": "26.05"}


def states(cluster: Cluster) -> dict[str, str]:
    listed = cluster.run("login", ["sinfo", "-h", "-N", "-p", "gpu", "-o", "%N %t"]).stdout
    return dict(line.split() for line in listed.splitlines())


def reaches(cluster: Cluster, host: str, port: int, source: str = "login") -> bool:
    script = f"exec 3<>/dev/tcp/{host}/{port}"
    return cluster.run(source, ["timeout", "2", "bash", "-c", script]).returncode == 0


def left_of(name: str, state: Path) -> list[str]:
    """The namespaces of a cluster; none when the name has passed on to another run's cluster."""
    claim = network.read_claim(name)
    if claim and claim.state != str(state):
        return []
    return [entry for entry in os.listdir("/run/netns") if entry.startswith(f"{name}-")]


def own_clusters() -> list[str]:
    """Other test runs on this machine have clusters too."""
    return [
        name
        for name in network.clusters()
        if (claim := network.read_claim(name)) and claim.pid == os.getpid()
    ]


def owned(script: str) -> subprocess.Popen[str]:
    """A process of its own that uses the harness."""
    env = os.environ | {"PYTHONPATH": str(Path(__file__).resolve().parents[1])}
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=env)


# -- hosts --------------------------------------------------------------------------------------------------


def test_hosts_have_names_and_addresses_of_their_own(cluster: Cluster) -> None:
    for host in ("login", "n1", "n2", "n3"):
        assert cluster.run(host, ["hostname"]).stdout == f"{host}\n"
        shown = cluster.run(host, ["ip", "-4", "-o", "addr", "show", "eth0"]).stdout
        assert f" {cluster.spec.address(host, cluster.subnet)}/24 " in shown
    assert cluster.run("n1", ["getent", "hosts", "n3"]).stdout.split() == [
        cluster.spec.address("n3", cluster.subnet),
        "n3",
    ]
    assert reaches(cluster, "n2", 6818, source="n1")
    assert (
        f"src {cluster.spec.address('n2', cluster.subnet)} "
        in cluster.run("n2", ["ip", "route", "get", "192.0.2.1"]).stdout
    )


def test_slurm_of_the_suite_and_all_nodes_idle(cluster: Cluster, suite: str) -> None:
    assert cluster.run("login", ["sinfo", "--version"]).stdout.startswith(f"slurm-wlm {SLURM[suite]}.")
    assert states(cluster) == {"n1": "idle", "n2": "idle", "n3": "idle"}
    assert cluster.run("login", ["sinfo", "-h", "-o", "%P"]).stdout.split() == ["gpu*", "low", "short"]


def test_a_program_starts_with_a_clean_environment(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    seen = cluster.run("n1", ["env"], user="alice", env={"ODD": "a b\n'$(x)é"}).stdout
    assert {line.partition("=")[0] for line in seen.splitlines() if "=" in line} - {"PWD", "OLDPWD", "_"} == {
        "HOME", "USER", "LOGNAME", "PATH", "LANG", "ODD"
    }  # fmt: skip
    assert "ODD=a b\n'$(x)é\n" in seen


def test_users_and_shared_homes(cluster: Cluster) -> None:
    cluster.run("login", ["sh", "-c", "echo mine > note"], user="alice", check=True)
    assert cluster.run("n3", ["cat", "/shared/home/alice/note"], user="alice").stdout == "mine\n"
    assert cluster.run("n3", ["cat", "/shared/home/alice/note"], user="bob").returncode == 1
    assert (cluster.shared / "home/alice/note").read_text() == "mine\n"
    assert cluster.run("n1", ["id"], user="bob").stdout == "uid=1002(bob) gid=1002(bob) groups=1002(bob)\n"
    assert (
        cluster.run("n1", ["grep", "-E", "^Cap(Prm|Eff)", "/proc/self/status"], user="bob").stdout.split()[
            1::2
        ]
        == ["0" * 16] * 2
    )


@pytest.mark.parametrize("argument", ["a b", "new\nline", "'quo\"te$(x)`y`", "--option=x", "", "é", "\udcff"])
def test_arguments_arrive_as_they_are(cluster: Cluster, argument: str) -> None:
    assert cluster.run("n1", ["printf", "%s|", argument, "end"], user="alice").stdout == f"{argument}|end|"


def test_a_program_and_a_folder_with_odd_names(cluster: Cluster) -> None:
    folder = cluster.shared / "o dd=1\n'x"
    folder.mkdir()
    (folder / "a=b").write_text('#!/bin/sh\nprintf %s "$PWD"\n')
    (folder / "a=b").chmod(0o755)
    assert (
        cluster.run("n1", ["./a=b"], user="alice", cwd=f"/shared/{folder.name}").stdout
        == f"/shared/{folder.name}"
    )


def test_input_output_and_status(cluster: Cluster) -> None:
    assert cluster.run("n1", ["cat"], input="é").stdout == "é"
    assert cluster.run("n1", ["cat"], input=b"\xff\0").stdout == b"\xff\0"
    assert cluster.run("n1", ["cat"]).stdout == ""
    assert cluster.run("n1", ["sh", "-c", "echo bad >&2; exit 7"]).returncode == 7
    assert cluster.run("n1", ["sh", "-c", "kill -9 $$"]).returncode == -9
    with pytest.raises(subprocess.CalledProcessError):
        cluster.run("n1", ["false"], check=True)
    with pytest.raises(ValueError, match="no such user"):
        cluster.run("n1", ["true"], user="carol")
    with pytest.raises(HarnessError, match="no host"):
        cluster.run("n9", ["true"])


def test_a_program_that_takes_too_long_is_ended(cluster: Cluster) -> None:
    with pytest.raises(subprocess.TimeoutExpired) as caught:
        cluster.run("n1", ["sh", "-c", "echo begun; exec sleep 611"], user="bob", timeout=0.5)
    assert str(caught.value.stdout) == "begun\n"
    until(lambda: not cluster.processes("n1", "bob"), "bob's program has ended", 5)


def test_what_a_program_started_is_ended_with_it(cluster: Cluster) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        cluster.run("n1", ["sh", "-c", "setsid sh -c 'sleep 613; true'; true"], user="bob", timeout=0.5)
    until(lambda: not cluster.processes("n1", "bob"), "bob's programs have ended", 5)


def test_signals_reach_the_program(cluster: Cluster) -> None:
    script = "trap 'echo got; exit 42' USR2; echo ready; while :; do sleep 0.05; done"
    process = cluster.popen("n1", ["bash", "-c", script], user="alice", stdout=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "ready\n"
    listed = [found for found in cluster.processes("n1", "alice") if found.argv[:1] == ["bash"]]
    assert listed[0].argv == ["bash", "-c", script]
    assert cluster.run("n1", ["cat", f"/proc/{listed[0].pid}/comm"]).stdout == "bash\n"
    process.send_signal(signal.SIGUSR2)
    assert process.communicate(timeout=10)[0] == "got\n"
    assert process.returncode == 42


def test_the_clone_is_read_only_and_memory_folders_have_a_size(
    cluster: Cluster, make_cluster: Callable[..., Cluster]
) -> None:
    assert cluster.run("n1", ["touch", "/opt/tuneplane/x"]).returncode == 1
    other = make_cluster(nodes=1, tmp_size="8m", shm_size="4m")
    for folder, size in {"/tmp": 8, "/dev/shm": 4}.items():
        filled = other.run("n1", ["dd", "if=/dev/zero", f"of={folder}/x", "bs=1M", "count=16"], user="alice")
        assert "No space left" in filled.stderr
        assert (
            (size - 1) << 20 <= int(other.run("n1", ["stat", "-c", "%s", f"{folder}/x"]).stdout) <= size << 20
        )


def test_orphans_are_reaped(cluster: Cluster) -> None:
    cluster.run("n1", ["sh", "-c", "(sleep 0.1 &) ; exit 0"], check=True)
    time.sleep(0.4)
    assert "Z" not in cluster.run("n1", ["ps", "-eo", "stat="]).stdout


def test_the_project_runs_on_every_host(cluster: Cluster) -> None:
    asked = "import click, filelock, jinja2, pydantic, submitit, tabulate, yaml; import tuneplane; print(tuneplane.__file__)"
    for host in ("login", "n3"):
        done = cluster.run(host, ["/opt/tp/bin/python", "-c", asked], user="alice")
        assert done.stdout == "/opt/tuneplane/tuneplane/__init__.py\n", done.stderr
    assert cluster.run("login", ["tp", "--help"], user="alice").stdout.startswith("Usage: ")


# -- Slurm --------------------------------------------------------------------------------------------------


def test_a_users_job_sees_three_hosts(cluster: Cluster) -> None:
    done = cluster.run("login", ["srun", "-N3", "sh", "-c", "hostname; id -un"], user="alice")
    assert sorted(done.stdout.split()) == ["alice", "alice", "alice", "n1", "n2", "n3"]


def test_pretend_gpus(cluster: Cluster) -> None:
    asked = 'echo "$CUDA_VISIBLE_DEVICES $SLURM_GPUS_ON_NODE $SLURMD_NODENAME"'
    big = cluster.run("login", ["srun", "--gres=gpu:h200:8", "sh", "-c", asked], user="alice")
    assert big.stdout in ("0,1,2,3,4,5,6,7 8 n1\n", "0,1,2,3,4,5,6,7 8 n2\n")
    assert (
        cluster.run("login", ["srun", "--gres=gpu:l4:2", "sh", "-c", asked], user="bob").stdout
        == "0,1 2 n3\n"
    )


def test_a_job_in_low_makes_way(cluster: Cluster) -> None:
    held = ["sbatch", "--parsable", "-p", "low", "-w", "n1", "--exclusive", "--wrap", "sleep 300"]
    low = cluster.run("login", held, user="alice", check=True).stdout.strip()

    def restarts() -> str:
        shown = cluster.run("login", ["scontrol", "show", "job", low]).stdout
        return str(shown.partition("Restarts=")[2].split()[0])

    try:
        until(lambda: states(cluster)["n1"] == "alloc", "the low job runs", 20)
        assert (
            cluster.run("login", ["srun", "-w", "n1", "--exclusive", "hostname"], user="bob").stdout == "n1\n"
        )
        assert restarts() == "1"
    finally:
        cluster.run("login", ["scancel", low])
        cluster.wait_idle(timeout=30)


def test_a_second_login_host_only_submits(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=1, login2=True)
    assert small.run("login2", ["srun", "hostname"], user="alice").stdout == "n1\n"
    assert {process.name for process in small.processes("login2")} == {"munged", "sleep"}


def test_accounting(make_cluster: Callable[..., Cluster]) -> None:
    counted = make_cluster(nodes=1, accounting=True)
    counted.run("login", ["srun", "--gres=gpu:2", "-J", "seen", "true"], user="alice", check=True)
    rows = "sacct", "-aXPn", "-o", "JobName,User,State,AllocTRES"
    row = until(
        lambda: "COMPLETED" in (text := counted.run("login", rows).stdout) and text, "sacct shows it", 30
    )
    assert row.startswith("seen|alice|COMPLETED|")
    assert "gres/gpu=2" in row
    # jobs and database outlive the controller's host; a controller that is not asked to end loses its last seconds
    counted.daemon("login", "slurmctld", "TERM")
    until(
        lambda: "slurmctld" not in {process.name for process in counted.processes("login")},
        "no slurmctld",
        20,
    )
    counted.restart("login")
    counted.wait_idle()
    assert counted.run("login", rows).stdout == row


# -- faults -------------------------------------------------------------------------------------------------


def test_a_killed_node_goes_and_comes_back(make_cluster: Callable[..., Cluster]) -> None:
    small = make_cluster(nodes=2, slurmd_timeout=5)
    small.run("n2", ["touch", "/var/own", "/shared/kept"], check=True)
    small.kill("n2")
    with pytest.raises(HarnessError, match="n2 is not running"):
        small.run("n2", ["true"])
    until(lambda: states(small)["n2"].startswith("down"), "n2 is down", 40)
    small.restart("n2")
    small.wait_idle()
    assert small.run("login", ["srun", "-w", "n2", "hostname"], user="alice").stdout == "n2\n"
    assert small.run("n2", ["ls", "/var/own", "/shared/kept"]).stdout == "/shared/kept\n"


def test_a_cut_host_is_silent_until_linked(cluster: Cluster) -> None:
    try:
        cluster.cut("n2")
        assert not reaches(cluster, "n2", 6818)
        assert cluster.run("n2", ["hostname"]).stdout == "n2\n"
    finally:
        cluster.link("n2")
    until(lambda: reaches(cluster, "n2", 6818), "n2 answers", 30)
    cluster.wait_idle()


def test_a_stopped_daemon_and_a_killed_one(cluster: Cluster) -> None:
    cluster.daemon("login", "slurmctld", "STOP")
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            cluster.run("login", ["sinfo"], timeout=1)
    finally:
        cluster.daemon("login", "slurmctld", signal.SIGCONT)
    assert cluster.run("login", ["sinfo"]).returncode == 0
    cluster.daemon("n3", "slurmd", "KILL")
    until(lambda: not reaches(cluster, "n3", 6818), "no slurmd on n3", 5)
    with pytest.raises(HarnessError, match="no `slurmd` runs on n3"):
        cluster.daemon("n3", "slurmd", "TERM")
    cluster.start_daemon("n3", "slurmd")
    cluster.wait_idle()


# -- side by side, and afterwards ---------------------------------------------------------------------------


def test_two_clusters_do_not_meet(cluster: Cluster, make_cluster: Callable[..., Cluster]) -> None:
    other = make_cluster(nodes=1)
    assert (other.name, other.subnet) != (cluster.name, cluster.subnet)
    assert set(states(other)) == {"n1"}
    assert set(states(cluster)) == {"n1", "n2", "n3"}
    (other.shared / "only-here").touch()
    assert cluster.run("n1", ["ls", "/shared/only-here"]).returncode == 2
    assert not reaches(cluster, other.spec.address("n1", other.subnet), 6818)


def test_nothing_stays_behind(suite: str) -> None:
    links = os.listdir("/sys/class/net")
    with Cluster(ClusterSpec(nodes=2, suite=suite)) as small:
        name, state = small.name, small.state
        small.popen("n1", ["sleep", "600"], user="alice")
        until(lambda: small.processes("n1", "alice"), "alice's program runs")
        running = [process.outer_pid for host in small.spec.hosts for process in small.processes(host)]
        assert len(running) > 8
        assert len(left_of(name, state)) == 4
        assert os.listdir("/sys/class/net") == links
    assert left_of(name, state) == []
    assert not state.exists()
    assert [pid for pid in running if starttime(pid)] == []
    mounts = Path("/proc/self/mounts").read_text()
    assert state.name not in mounts
    assert network.read_claim(name) or f"/run/netns/{name}-" not in mounts
    with pytest.raises(HarnessError, match="not up"):
        small.run("login", ["true"])


def test_a_start_that_fails_leaves_nothing(suite: str) -> None:
    broken = Cluster(ClusterSpec(nodes=1, suite=suite, slurm_conf=("NoSuchKey=1",)))
    before = own_clusters()
    with pytest.raises(HarnessError, match="NoSuchKey"):
        broken.start()
    assert own_clusters() == before


def test_leftovers_of_a_killed_owner_are_removed(suite: str, cluster: Cluster) -> None:
    script = (
        "import time; from cluster.harness import Cluster, ClusterSpec\n"
        f"c = Cluster(ClusterSpec(nodes=1, suite={suite!r})).start()\n"
        "print(c.name, c.state, *(p.outer_pid for p in c.processes('n1')), flush=True); time.sleep(600)\n"
    )
    with owned(script) as owner:
        assert owner.stdout
        name, state, *pids = owner.stdout.readline().split()
        assert name not in network.sweep()
        assert left_of(name, Path(state))
        assert all(starttime(int(pid)) for pid in pids)
        owner.kill()
    network.sweep()  # another run may have been first
    assert left_of(name, Path(state)) == []
    assert not Path(state).exists()
    assert not any(starttime(int(pid)) for pid in pids)
    assert states(cluster)["n1"] == "idle"


def test_by_hand(suite: str, cluster: Cluster) -> None:
    def harness(*words: str, status: int = 0) -> str:
        tests = Path(__file__).resolve().parents[1]
        done = subprocess.run(
            [sys.executable, "-m", "cluster.harness", *words],
            cwd=tests, env=os.environ | {"PYTHONPATH": str(tests)}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == status, done.stderr
        return done.stdout if status == 0 else done.stderr

    name = harness("up", "--nodes", "1", "--suite", suite).strip()
    state = Cluster.attach(name).state
    try:
        assert name not in network.sweep()
        assert name in harness("list").split()
        assert harness("exec", "--user", "alice", name, "login", "srun", "hostname") == "n1\n"
        assert (
            harness("exec", "--env", "A=b=c", "--cwd", "/", name, "n1", "sh", "-c", "echo $A; pwd")
            == "b=c\n/\n"
        )
        harness("cut", name, "n1")
        harness("link", name, "n1")
        harness("kill", name, "n1")
        harness("restart", name, "n1")
        assert harness("exec", name, "n1", "hostname") == "n1\n"
    finally:
        harness("down", name)
    assert not state.exists()
    assert f"`{cluster.name}` belongs to the running process {os.getpid()}" in harness(
        "down", cluster.name, status=1
    )
    assert states(cluster)["n1"] == "idle"


# -- Apptainer ----------------------------------------------------------------------------------------------


def test_an_image_runs_on_a_node(cluster: Cluster, python_image: str) -> None:
    words = [
        "srun",
        "-w",
        "n1",
        "apptainer",
        "-s",
        "exec",
        "--cleanenv",
        "--pid",
        python_image,
        "python3",
        "-c",
    ]
    asked = "import os, platform; print(os.getuid(), platform.freedesktop_os_release()['VERSION_ID'], os.uname().nodename)"
    done = cluster.run("login", [*words, asked], user="alice")
    assert (done.stdout, done.returncode) == ("1001 12 n1\n", 0), done.stderr
    until(lambda: not cluster.processes("n1", "alice"), "nothing of alice's on n1", 10)


def test_processes_in_a_container_are_seen(cluster: Cluster, python_image: str) -> None:
    words = ["apptainer", "-s", "exec", "--pid", python_image, "sleep", "612"]
    process = cluster.popen("n2", words, user="alice")
    try:
        until(
            lambda: ["612"] in [found.argv[-1:] for found in cluster.processes("n2", "alice")],
            "it sleeps",
            20,
        )
    finally:
        process.terminate()
        process.wait()
    until(lambda: not cluster.processes("n2", "alice"), "nothing of alice's on n2", 10)


def test_the_bare_host_passes_odd_values(bare_host: ApptainerHost, python_image: str, tmp_path: Path) -> None:
    folder = tmp_path / "d ir,a:b=c é"
    folder.mkdir()
    (folder / "file").write_bytes(b"\xff")
    tmp_path.chmod(0o755)
    script = "import os, sys; sys.stdout.buffer.write(os.environb[b'V'] + open('/o dd,x:y=z/file', 'rb').read() + sys.stdin.buffer.read())"
    value = "a,'\"$(touch /tmp/x)`y`\n\\é"
    mount = 'type=bind,"src=/seen/d ir,a:b=c é","dst=/o dd,x:y=z"'
    words = [
        "apptainer",
        "-s",
        "exec",
        "--cleanenv",
        "--no-eval",
        "--mount",
        mount,
        python_image,
        "python3",
        "-c",
        script,
    ]
    done = bare_host.run(words, env={"APPTAINERENV_V": value}, binds=[(tmp_path, "/seen")], input=b"in\xfe")
    assert done.stdout == value.encode() + b"\xffin\xfe", done.stderr


def test_the_bare_host_ends_with_its_owner(apptainer_suite: str) -> None:
    script = (
        "import time; from cluster.harness.apptainer import apptainer_host\n"
        f"with apptainer_host({apptainer_suite!r}) as host: print(host.init, flush=True); time.sleep(600)\n"
    )
    with owned(script) as owner:
        assert owner.stdout
        init = int(owner.stdout.readline())
        assert starttime(init)
        owner.kill()
    until(lambda: starttime(init) is None, "the host has ended", 5)


def test_the_torch_image(bare_host: ApptainerHost, torch_image: str) -> None:
    script = "import torch, ray, sklearn, numpy; print(torch.__version__.split('+')[0], torch.ones(2).sum().item())"
    done = bare_host.run(
        ["apptainer", "-s", "exec", "--cleanenv", "--no-home", torch_image, "python3", "-c", script],
        timeout=120,
    )
    assert done.stdout == b"2.13.0 2.0\n", done.stderr
    ray = bare_host.run(
        ["apptainer", "-s", "exec", "--cleanenv", torch_image, "ray", "--version"], timeout=120
    )
    assert ray.stdout.startswith(b"ray, version 2."), ray.stderr
