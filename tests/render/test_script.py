"""The script in action: started in its run folder as a scheduler would, with the real bash and the real helper."""

from __future__ import annotations

import hashlib
import os
import signal
import stat
from pathlib import Path

import pytest
from render.places import PYTHON, SHOW, Place, Run, arrived, environ, nodes_of, odd_config, yaml

# ---- how a script ends


@pytest.mark.parametrize(
    ("train", "code", "reason"),
    [
        ("exit 0", 0, "exited"),
        ("exit 7", 7, "exited"),
        ("kill -KILL $$", 137, "signal"),
        ("exit 255", 255, "exited"),
    ],
)
def test_the_exit_code_is_that_of_the_command(place: Place, train: str, code: int, reason: str) -> None:
    run = place.frozen(train)
    assert run.go() == code
    assert run.record() == {"attempt": 1, "code": code, "decided_by": "verdict", "signal": ""}
    assert f'"reason": "{reason}"' in run.file("verdict") or code == 0
    assert list(place.scratch.iterdir()) == []


def test_a_second_start_is_a_second_attempt(place: Place) -> None:
    run = place.frozen(SHOW)
    assert [run.go(), run.go()] == [0, 0]
    assert environ(run)["TUNEPLANE_ATTEMPT"] == "2"
    assert (run.folder / "attempts/1/exit.json").exists() and (run.folder / "attempts/2/exit.json").exists()


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_a_signal_is_handed_on_and_recorded(place: Place, name: str) -> None:
    run = place.frozen(
        """
        cd "$TUNEPLANE_OUTPUT_DIR"
        trap 'echo told >told; exit 9' TERM
        echo up >up.part; mv up.part up
        while :; do sleep 0.05; done
        """
    )
    process = run.start()
    run.wait_for("up")
    # to the script alone, as scancel --batch would
    process.send_signal(getattr(signal, f"SIG{name}"))
    code = run.end()
    assert (run.folder / "output/told").read_text() == "told\n"
    assert run.record() == {"attempt": 1, "code": code, "decided_by": "verdict", "signal": name}
    assert code == 9
    assert list(place.scratch.iterdir()) == []


def test_a_signal_before_the_launch_ends_the_job(place: Place) -> None:
    fifo = place.root / "fifo"
    os.mkfifo(fifo)
    # the site's own lines run before the launch: this one waits for somebody who never writes
    place.place("slow", "local", setup=[f"read -r _ <{fifo}"])
    run = place.frozen('touch "$TUNEPLANE_OUTPUT_DIR/ran"', site="slow")
    process = run.start()
    with open(fifo, "w"):
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == -signal.SIGTERM
    assert not (run.folder / "output/ran").exists()


def test_what_a_site_sources_may_read_variables_that_are_not_set(place: Place) -> None:
    """As the profiles of environment modules and conda do."""
    (place.root / "modules.sh").write_text('test -n "$NEVER_SET" || export MODULES="$NEVER_SET loaded"\n')
    place.place("modules", "local", setup=[f"source {place.root}/modules.sh"])
    run = place.frozen(SHOW, site="modules")
    assert run.go() == 0, run.log()
    assert environ(run)["MODULES"] == " loaded"
    assert "\nset -u\n" in run.script.split("source ")[1]


# ---- what is checked before the launch


def refused(run: Run, code: int, sentence: str, *said: str) -> None:
    """The script ends in its checks, says why, and has started nothing."""
    assert run.go() == code
    assert run.record() == {"attempt": 1, "code": code, "decided_by": "check", "signal": ""}
    assert run.file("refusal") == f"{sentence}\n"
    assert run.log().splitlines() == [*said, f"tuneplane: {sentence}"]
    assert [line.split('"phase":"')[1] for line in run.file("phases.jsonl").splitlines()] == ['checks"}']


FILES = "the frozen files are not what this script was compiled from"
WARNING = "sha256sum: WARNING: 1 computed checksum did NOT match"


def edit(file: Path) -> None:
    file.chmod(0o644)
    file.write_text(file.read_text() + "# edited\n")
    file.chmod(0o444)


def test_an_edited_file_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0")
    edit(run.folder / "files/train.sh")
    refused(run, 4, FILES, "frozen files: train.sh: FAILED", f"frozen files: {WARNING}")


def test_an_added_file_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0")
    (run.folder / "files/more é.py").write_text("")
    refused(run, 4, FILES, "frozen files: more é.py: added")


def test_a_removed_file_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0")
    (run.folder / "files/train.sh").unlink()
    refused(run, 4, FILES, "frozen files: train.sh: removed, or no regular file any more")


def test_a_file_made_executable_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0")
    (run.folder / "files/train.sh").chmod(0o555)
    assert run.go() == 4
    assert run.file("refusal") == f"{FILES}\n"
    assert "frozen files: -r-xr-xr-x train.sh" in run.log()


def test_a_file_replaced_by_a_link_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0")
    file = run.folder / "files/train.sh"
    file.rename(place.root / "elsewhere.sh")
    file.symlink_to(place.root / "elsewhere.sh")
    refused(run, 4, FILES, "frozen files: train.sh: removed, or no regular file any more")


def test_an_edited_manifest_ends_the_job(place: Place) -> None:
    """Files and their manifest changed together are still not those of the script."""
    run = place.frozen("exit 0")
    edit(run.folder / "files.sha256")
    refused(run, 4, FILES, "frozen files: the manifest is not the one that was submitted")


@pytest.mark.parametrize("name", ["start", "supervise.py", "tuneplane/job/main.py", "tuneplane/report.py"])
def test_an_edited_helper_ends_the_job(place: Place, name: str) -> None:
    run = place.frozen("exit 0")
    edit(run.folder / "helper" / name)
    sentence = "the helper is not what this script was compiled from"
    refused(run, 4, sentence, f"helper: {name}: FAILED", f"helper: {WARNING}")


def test_data_that_is_gone_ends_the_job(place: Place) -> None:
    data = place.folder / 'data it\'s "é" $(touch pwned)'
    data.mkdir()
    run = place.frozen("exit 0", f"data: {{train: {yaml(str(data))}}}\n")
    data.rmdir()
    refused(run, 3, f"data.train is gone: {data}")


def test_data_that_was_never_there_ends_the_job(place: Place) -> None:
    run = place.frozen("exit 0", "data: {train: ../none}\n")
    assert run.go() == 3
    assert run.file("refusal").startswith("data.train does not exist")


# ---- the scratch folder


def planted(place: Place, run: Run) -> Path:
    return place.scratch / f"tp-{run.folder.name.rpartition('-')[2]}-1-0"


def test_a_link_planted_for_the_scratch_folder_is_not_used(place: Place) -> None:
    run = place.frozen("exit 0")
    victim = place.root / "victim"
    victim.mkdir()
    (victim / "precious").write_text("")
    planted(place, run).symlink_to(victim)
    assert run.go() == 1
    assert "its scratch folder is there already or cannot be made" in run.log()
    assert [file.name for file in victim.iterdir()] == ["precious"]
    assert planted(place, run).is_symlink()
    assert (run.folder / "attempts/1/verdict").read_text().startswith("1\n")


def test_a_folder_planted_for_the_scratch_folder_is_not_used(place: Place) -> None:
    run = place.frozen("exit 0")
    spot = planted(place, run)
    spot.mkdir(mode=0o777)
    (spot / "precious").write_text("")
    assert run.go() == 1
    assert run.record() == {"attempt": 1, "code": 1, "decided_by": "verdict", "signal": ""}
    assert [file.name for file in spot.iterdir()] == ["precious"]


def test_a_link_to_nowhere_planted_for_the_scratch_folder_is_not_used(place: Place) -> None:
    run = place.frozen("exit 0")
    planted(place, run).symlink_to(place.root / "nowhere")
    assert run.go() == 1
    assert not (place.root / "nowhere").exists()


def test_the_scratch_folder_is_for_the_user_alone(place: Place) -> None:
    run = place.frozen('stat -c "%a %F" "${TMPDIR%/tmp}" >"$TUNEPLANE_OUTPUT_DIR/mode"; touch "$TMPDIR/x"')
    assert run.go() == 0
    assert (run.folder / "output/mode").read_text() == "700 directory\n"
    assert list(place.scratch.iterdir()) == []


def test_the_end_of_the_scratch_folder_follows_no_link(place: Place) -> None:
    kept = place.root / "kept"
    kept.mkdir()
    (kept / "file").write_text("")
    run = place.frozen(f'ln -s {kept} "$TMPDIR/link"')
    assert run.go() == 0
    assert (kept / "file").exists()


# ---- what the job sees

SRUN = """\
#!/bin/sh
# Stands in for srun on one node: it starts the command behind its options.
while [ "${1#--}" != "$1" ]; do shift; done
exec "$@"
"""


@pytest.fixture
def slurm(place: Place) -> Place:
    """The place with a site whose script is the one for Slurm."""
    programs = place.root / "programs"
    programs.mkdir()
    (programs / "srun").write_text(SRUN)
    (programs / "srun").chmod(0o755)
    path = [str(programs), PYTHON, "/usr/bin", "/bin"]
    profiles = {"cpu": {"cpus_per_node": 1}}
    place.place("slurm", "slurm-modules", setup=[], path=path, profiles=profiles, default_profile="cpu")
    return place


def test_variables_and_words_arrive_as_they_are(place: Place) -> None:
    values, config = odd_config(300, seed=31)
    run = place.frozen(SHOW, config)
    assert run.go() == 0, run.log()
    arrived(run, values)


def test_variables_and_words_arrive_through_the_script_for_slurm(slurm: Place) -> None:
    """There the functions of the script reach the node as text of their own."""
    values, config = odd_config(300, seed=32)
    run = slurm.frozen(SHOW, config, site="slurm")
    assert run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711") == 0, run.log()
    arrived(run, values)


def test_many_long_words_arrive_through_the_script_for_slurm(slurm: Place) -> None:
    words = [c * 100_000 for c in "abc"]
    run = slurm.frozen(SHOW, site="slurm", words=tuple(words))
    assert run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4711") == 0, run.log()
    assert (run.folder / "output/args").read_text() == "".join(f"{word}\0" for word in words)


def test_a_run_belongs_to_the_job_that_started_first(slurm: Place) -> None:
    """A submission that happened twice runs once; the same job may start again."""
    run = slurm.frozen(SHOW, site="slurm")
    assert [run.go(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID=job) for job in ("4711", "4711")] == [0, 0]
    process = run.start(SLURM_JOB_NUM_NODES=nodes_of(run), SLURM_JOB_ID="4712")
    said, _ = process.communicate(timeout=60)
    assert (process.returncode, said) == (4, b"tuneplane: job 4712 ends: the run is job 4711\n")
    assert sorted(folder.name for folder in (run.folder / "attempts").iterdir()) == ["1", "2"]


# names that the shells on the way use or used: as variables of the script, of the helper, of bash itself
OWNED = """
    tp_run tp_dir tp_step tp_id tp_scratch IFS PS4 PS1 PS0 PROMPT_COMMAND BASH_ENV ENV SHELLOPTS BASHOPTS PATH CDPATH
    GLOBIGNORE HOME USER LOGNAME PWD OLDPWD TMPDIR LD_PRELOAD LD_AUDIT OPTIND OPTARG RANDOM SECONDS LINENO UID EUID PPID
    POSIXLY_CORRECT FUNCNEST BASH_XTRACEFD EXECIGNORE TMOUT PYTHONPATH REPLY MAPFILE SLURM_JOB_ID SLURM_EXPORT_ENV
    TUNEPLANE_RUN_DIR RANK MASTER_ADDR CUDA_VISIBLE_DEVICES APPTAINER_BIND APPTAINERENV_X SINGULARITY_BIND XDG_CACHE_HOME
    """.split()
HARMLESS = """
    code status last last_status text folder label sum named name failed say item words host rank started pid told killer
    running logging session target reason message bad number node i x _x local function if done TERM HISTFILE HISTIGNORE
    FIGNORE IGNOREEOF COLUMNS LINES TIMEFORMAT TZ DEBUG PYTHONWARNINGS GREP_OPTIONS QUOTING_STYLE BLOCK_SIZE TIME_STYLE
    """.split()
HELPERS = "kind nodes grace python option word candidate helper".split()


def test_names_the_script_lives_by_are_refused(place: Place) -> None:
    place.experiment("exit 0", "env:\n" + "".join(f"  {name}: x\n" for name in OWNED))
    said = place.tp("--site", "here", "compile", "exp")
    assert (said.code, said.out) == (3, "")
    assert [name for name in OWNED if f"error: `{name}` belongs to the launcher\n" not in said.err] == []


def as_given(place: Place, names: list[str], value: str) -> None:
    """All variables arrive, and the script goes its usual way."""
    env = "".join(f"  {name}: {yaml(value)}\n" for name in names)
    run = place.frozen(SHOW, f"env:\n{env}")
    assert run.go() == 0, run.log()
    assert run.record() == {"attempt": 1, "code": 0, "decided_by": "verdict", "signal": ""}
    found = environ(run)
    assert {name: found.get(name) for name in names} == dict.fromkeys(names, value)


@pytest.mark.parametrize("value", ["x y", "1", "$(touch pwned)"])
def test_other_names_reach_the_job_and_disturb_nothing(place: Place, value: str) -> None:
    as_given(place, HARMLESS, value)


def test_names_the_helper_uses_reach_the_job(place: Place) -> None:
    as_given(place, HELPERS, "x y")


def test_a_hostile_environment_of_the_submitter_does_not_get_in(place: Place) -> None:
    """What `--export=NIL` keeps out on Slurm, the script itself keeps out too."""
    evil = place.root / "evil.sh"
    evil.write_text(f"touch {place.root}/pwned\n")
    run = place.frozen(SHOW)
    hostile = {
        "BASH_ENV": str(evil),
        "ENV": str(evil),
        "CDPATH": "/",
        "GLOBIGNORE": "*",
        "IFS": "abcdefg/ \n",
    }
    hostile |= {"SHELLOPTS": "xtrace:errexit", "PS4": f"$(touch {place.root}/pwned)", "POSIXLY_CORRECT": "1"}
    hostile |= {"BASH_FUNC_mkdir%%": "() { touch pwned; }", "BASH_FUNC_cat%%": "() { touch pwned; }"}
    hostile |= {
        "tp_attempt": "x",
        "tp_signal": "KILL",
        "tp_step": "1",
        "tp_dir": "/",
        "USER": "evil",
    }
    assert run.go(**hostile) == 0
    assert run.record() == {"attempt": 1, "code": 0, "decided_by": "verdict", "signal": ""}
    found = environ(run)
    assert "evil" not in str(found)
    assert {name for name in hostile if found.get(name) == hostile[name]} == set()


def test_a_secret_arrives_and_stands_in_no_file(place: Place) -> None:
    canary = "c4n4ry-'\"$(touch pwned) é"
    place.secrets.write_text(f"MY_TOKEN={canary}\n")
    place.secrets.chmod(0o600)
    run = place.frozen(
        'printf %s "$MY_TOKEN" | sha256sum >"$TUNEPLANE_OUTPUT_DIR/sum"', "secrets: [MY_TOKEN]\n"
    )
    assert run.go() == 0
    assert (run.folder / "output/sum").read_text().split()[0] == hashlib.sha256(canary.encode()).hexdigest()
    for file in run.folder.rglob("*"):
        assert not file.is_file() or b"c4n4ry" not in file.read_bytes(), file


def test_files_that_the_job_makes_are_for_the_group_at_most(place: Place) -> None:
    run = place.frozen('touch "$TUNEPLANE_OUTPUT_DIR/made"')
    assert run.go() == 0
    for file in (
        run.folder / "output/made",
        run.folder / "attempts/1/exit.json",
        run.folder / "attempts/1/job.log",
    ):
        assert stat.S_IMODE(file.stat().st_mode) & 0o037 == 0, file
