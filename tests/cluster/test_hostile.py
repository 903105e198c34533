"""What the submitter's environment holds changes nothing: not the job, not its limits, not what `tp job ls` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from cluster.harness import Cluster
from cluster.researcher import DUMP, Researcher, Said, environ, without

pytestmark = pytest.mark.cluster

MARKER = "/shared/home/alice/it-ran"
TRAP = f"printf '%s\\n' \"$(hostname)\" >>{MARKER}"
FUNCTION = f"() {{  {TRAP}; printf '999\\n'; }}"
OWN = "/usr/bin/env"  # the trap is in what `env` sets, and never in what starts it

HOSTILE: dict[str, list[str]] = {
    "shell": [OWN, f"BASH_ENV={MARKER}.sh", f"ENV={MARKER}.sh", "CDPATH=/", "GLOBIGNORE=*", "SHELLOPTS=xtrace",
              "POSIXLY_CORRECT=1", "PS4=$(touch " + MARKER + ")", "IFS=/", "TMOUT=1", "PROMPT_COMMAND=" + TRAP],
    "functions": [OWN, *(f"BASH_FUNC_{name}%%={FUNCTION}" for name in
                         ("srun", "sbatch", "squeue", "mkdir", "id", "cd", "date", "printf", "tp_node", "apptainer"))],
    "loader": [OWN, "LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libm.so.6", "LD_AUDIT=/nowhere.so", "LD_BIND_NOW=1",
               "LD_LIBRARY_PATH=/tmp", "MALLOC_ARENA_MAX=1"],
    "limits": ["/bin/bash", "-c", 'ulimit -n 256 -s 4096 -l 64 -u 4000 -t 600 -f 1000000; umask 0; exec "$@"', "bash"],
    "sbatch": [OWN, "SBATCH_PARTITION=low", "SBATCH_TIMELIMIT=5", "SBATCH_EXPORT=ALL", "SBATCH_JOB_NAME=other",
               "SBATCH_ACCOUNT=nobody", "SBATCH_QOS=nothing", "SBATCH_REQUEUE=1", "SBATCH_EXCLUSIVE=1", "SBATCH_NO_KILL=1",
               "SBATCH_GET_USER_ENV=1", "SBATCH_SIGNAL=USR1@30", "SBATCH_ARRAY_INX=1-3", "SBATCH_WAIT=1", "SBATCH_HINT=nomultithread",
               "SBATCH_MEM_BIND=local", "SBATCH_OPEN_MODE=truncate", "SBATCH_CLUSTERS=moon", "SBATCH_COMMENT=seen", "SBATCH_DEBUG=3",
               "SBATCH_IGNORE_PBS=1", "SBATCH_PROFILE=all", "SBATCH_GPUS=8", "SBATCH_CONSTRAINT=none", "SBATCH_WCKEY=x"],
    "slurm": [OWN, "SLURM_CLUSTERS=moon", "SLURM_TIME_FORMAT=relative", "SLURM_JOB_ID=1", "SLURM_JOBID=1", "SLURM_NTASKS=7",
              "SLURM_NNODES=3", "SLURM_STEP_ID=0", "SLURM_CPU_BIND=quiet,mask_cpu:0x1", "SLURM_NTASKS_PER_NODE=2",
              "SLURM_EXPORT_ENV=NONE", "SLURM_DISTRIBUTION=cyclic", "SLURM_HOSTFILE=/nowhere", "SLURM_EXIT_ERROR=9",
              "SLURM_CPUS_PER_TASK=9", "SLURM_TRES_PER_TASK=cpu:9", "SLURM_MEM_PER_CPU=1", "SLURM_GTIDS=5", "SLURM_DEBUG=5",
              "SLURM_EXACT=1", "SLURM_OVERLAP=1", "SLURM_WCKEY=x", "SRUN_EXPORT_ENV=NONE", "SRUN_CPUS_PER_TASK=9", "SRUN_ERROR=/nowhere"],
    "squeue": [OWN, "SQUEUE_PARTITION=low", "SQUEUE_STATES=CANCELLED", "SQUEUE_USERS=root", "SQUEUE_FORMAT=%j", "SQUEUE_SORT=-i",
               "SQUEUE_ACCOUNT=none", "SQUEUE_ALL=1", "SQUEUE_ARRAY=1", "SQUEUE_FORMAT2=name", "SQUEUE_NAMES=none", "SQUEUE_QOS=none",
               "SQUEUE_LICENSES=none", "SQUEUE_FEDERATION=1", "SACCT_FORMAT=JobName", "SACCT_FEDERATION=1", "SCANCEL_INTERACTIVE=1",
               "SCANCEL_STATE=PENDING", "SINFO_FORMAT=%x", "SCONTROL_ALL=1"],
    "containers": [OWN, *(f"{name}_{key}" for name in ("APPTAINER", "SINGULARITY") for key in
                          ("BIND=/etc:/mnt", "BINDPATH=/etc:/mnt", "MOUNT=type=bind,src=/etc,dst=/mnt", "NV=1", "CONTAIN=1",
                           "WRITABLE_TMPFS=1", "PWD=/etc", "HOME=/etc", "NOHTTPS=1", "SHELL=/bin/false", "DISABLE_CACHE=1")),
                   "APPTAINERENV_LEAK=1", "SINGULARITYENV_LEAK=1", "APPTAINERENV_PREPEND_PATH=/etc", "PYXIS_CONTAINER_IMAGE=moon",
                   "PYXIS_CONTAINER_MOUNTS=/etc:/mnt", "SLURM_CONTAINER=/nowhere", "ENROOT_DATA_PATH=/nowhere"],
    "python": [OWN, "PYTHONDONTWRITEBYTECODE=x", "PYTHONUNBUFFERED=", "PYTHONHASHSEED=7", "LC_ALL=C", "LANG=POSIX"],
    "launchers": [OWN, "RANK=3", "WORLD_SIZE=9", "MASTER_ADDR=moon", "MASTER_PORT=1", "CUDA_VISIBLE_DEVICES=7", "TUNEPLANE_NODES=9",
                  "TUNEPLANE_RUN_DIR=/tmp", "TUNEPLANE_RUN_ID=other", "tp_run=/tmp", "tp_attempt=9", "OMP_NUM_THREADS=64", "PMI_RANK=1",
                  "PMIX_RANK=1", "TMPDIR=/nowhere", "HF_HOME=/nowhere", "XDG_RUNTIME_DIR=/nowhere", "SECRET=1"],
    "inside a job": ["srun", "--nodes=1", "--ntasks=1", "--cpus-per-task=3", "--gres=gpu:h200:1", "--nodelist=n2", "--job-name=outer",
                     "--partition=low", "--time=7", "--mem=512M"],
}  # fmt: skip
FIRST = ("functions", "sbatch", "squeue", "inside a job")
CASES = [pytest.param(name, id=name, marks=() if name in FIRST else pytest.mark.long) for name in HOSTILE]

# Ports, process numbers, times and the host of the submission differ from run to run by their nature.
VOLATILE = re.compile(
    r"SLURM_(SRUN_COMM_PORT|STEP_LAUNCHER_PORT|TASK_PID|JOB_START_TIME|JOB_END_TIME|JOB_SLUID|SUBMIT_HOST)"
)


OF_ITS_MOMENT = re.compile(
    r"JobId|SLUID|(Submit|Eligible|Accrue|Start|End|Run|Preempt|PreemptEligible|Suspend)Time|LastSchedEval|Scheduler|Priority"
    r"|AllocNode:Sid|Command|SubmitLine|WorkDir|Std(In|Out|Err)"
)


def picture(alice: Researcher, facts: dict[str, Any]) -> dict[str, Any]:
    """All that a job was: environment, arguments, limits of each node, and how Slurm has it."""
    run, job = facts["run"], facts["job"]
    assert (facts["state"], facts["code"]) == ("completed", 0), (facts, alice.log(run))
    seen: dict[str, Any] = {}
    for rank in "01":
        for name in ("argv", "limits", "umask"):
            seen[f"{rank}: {name}"] = alice.output(run, f"{name}-{rank}").decode()
        text = without(alice.output(run, f"environ-{rank}").decode(), run, run[-8:])
        variables = {key.decode(): value.decode() for key, value in environ(text.encode()).items()}
        assert 10_000 < int(variables.pop("TUNEPLANE_HEAD_PORT")) < 32_768
        assert {variables.pop(key, job) for key in ("SLURM_JOB_ID", "SLURM_JOBID")} == {job}
        seen |= {f"{rank}: {key}": value for key, value in variables.items() if not VOLATILE.fullmatch(key)}
    shown = alice.slurm("scontrol", "--oneliner", "show", "job", job)
    fields = dict(re.findall(r"(\w[\w:/]*)=(\S*)", shown))
    seen |= {key: value for key, value in fields.items() if not OF_ITS_MOMENT.fullmatch(key)}
    return seen


@pytest.fixture(scope="module")
def places(cluster: Cluster) -> dict[str, tuple[Researcher, list[str]]]:
    """Who submits with which options, by runtime."""
    alice = Researcher(cluster)
    alice.write(f"{MARKER}.sh", f"{TRAP}; export LEAK=1\n")
    found: dict[str, tuple[Researcher, list[str]]] = {"host": (alice, [])}
    if cluster.spec.suite != "bookworm":
        from cluster.harness.images import in_host, python_sif

        found["apptainer"] = (Researcher(cluster, runtime="apptainer"), ["--image", in_host(python_sif())])
    for who, _ in found.values():
        who.experiment("exp", DUMP)
    return found


@pytest.fixture(scope="module")
def quiet(places: dict[str, tuple[Researcher, list[str]]]) -> dict[str, Any]:
    """How a job looks that was submitted from a clean environment, by runtime."""
    return {
        name: picture(who, who.run("exp", "--profile", "one:2", *options))
        for name, (who, options) in places.items()
    }


@pytest.fixture
def marker(cluster: Cluster) -> Iterator[None]:
    """No trap of the environment goes off on a node."""
    place = cluster.shared / MARKER.removeprefix("/shared/")
    place.unlink(missing_ok=True)
    yield
    ran = set(place.read_text().split()) if place.exists() else set()
    assert ran <= {"login"}, ran


def ls(alice: Researcher, *through: str) -> Said:
    return alice.tp("job", "ls", through=through)


def compare(place: tuple[Researcher, list[str]], clean: dict[str, Any], through: list[str]) -> None:
    alice, options = place
    # Slurm chooses no node on which another job is still ending
    alice.cluster.wait_idle()
    said = alice.tp("submit", "exp", "--profile", "one:2", *options, through=through)
    assert said.code == 0 and re.fullmatch(r"exp-\w{8}\n", said.out), said
    seen = picture(alice, alice.ended(said.out.strip()))
    assert {
        key: (clean.get(key), seen.get(key)) for key in {*clean, *seen} if clean.get(key) != seen.get(key)
    } == {}
    held = alice.submit("exp", "--hold", *options)
    try:
        plain = ls(alice)
        assert plain.out.count("queued") == 1
        dirty = ls(alice, *through)
        # the loader of a hostile environment complains to everybody; Slurm's srun says what it does
        assert (dirty.code, dirty.out) == (0, plain.out)
    finally:
        assert alice.tp("job", "cancel", held, through=through).code == 0


@pytest.mark.parametrize("case", CASES)
def test_a_hostile_environment(case: str, places: Any, quiet: Any, marker: None) -> None:
    compare(places["host"], quiet["host"], HOSTILE[case])


@pytest.mark.parametrize(
    "case", [pytest.param(name, marks=() if name == "containers" else pytest.mark.long) for name in HOSTILE]
)
def test_a_hostile_environment_around_a_container(
    case: str, apptainer_suite: str, places: Any, quiet: Any, marker: None
) -> None:
    compare(places["apptainer"], quiet["apptainer"], HOSTILE[case])


@pytest.mark.long
def test_all_of_it_at_once(places: Any, quiet: Any, marker: None) -> None:
    together = [
        word for name, words in HOSTILE.items() if words[0] == OWN for word in words[1:] if name != "python"
    ]
    compare(places["host"], quiet["host"], [*HOSTILE["limits"], OWN, *together])


@pytest.mark.long
def test_login_files_do_not_reach_the_job(cluster: Cluster, places: Any, quiet: Any) -> None:
    """Slurm 22.05 loads the user's login environment in spite of `--export=NIL`."""
    alice = places["host"][0]
    files = [f"/shared/home/alice/{name}" for name in (".bash_profile", ".profile", ".bashrc")]
    try:
        for file in files:
            alice.write(file, f"export LEAK=1 BASH_ENV={MARKER}.sh LD_BIND_NOW=1 SLURM_CPU_BIND=none RANK=7\n"
                              f"srun() {{ touch {MARKER}; }}\nexport -f srun\n")  # fmt: skip
        compare(places["host"], quiet["host"], [])
    finally:
        for file in files:
            alice.folder(file).unlink()
