"""Variables, words and bind mounts, read back inside a real container by a real Apptainer."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from subprocess import CompletedProcess

import pytest
from cluster.harness.apptainer import ApptainerHost, apptainer_host
from cluster.harness.images import in_host, python_sif
from cluster.harness.requirements import give_up, missing
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from render.places import SHOW, Place, arrived, odd_config, yaml
from render.values import in_parts, odd, texts

from tuneplane.plan.apptainer import CHANGED, MAX_BYTES, OWN_NAMES, size
from tuneplane.render.encode import word
from tuneplane.render.templates import template

pytestmark = pytest.mark.tools
EXEC = "apptainer --silent exec --cleanenv --no-eval --pid --no-mount home,cwd --pwd /"


@pytest.fixture(scope="module")
def host() -> Iterator[ApptainerHost]:
    """A host with Apptainer; the tests are skipped where none can be made."""
    lacking = missing()
    if lacking:
        give_up(lacking)
    with apptainer_host() as running:
        yield running


@pytest.fixture(scope="module")
def image(host: ApptainerHost) -> str:
    return in_host(python_sif())


def bash(host: ApptainerHost, script: str) -> CompletedProcess[bytes]:
    return host.run(["bash", "-p"], input=script.encode())


def kept(text: str) -> bool:
    """What `contained.check` lets through."""
    return not any(bad in text for bad in CHANGED)


def inside(host: ApptainerHost, image: str, variables: dict[str, str]) -> dict[str, bytes]:
    """The environment of a program in the container, in which the script has exported `variables`."""
    lines = "".join(f"export APPTAINERENV_{name}={word(value)}\n" for name, value in variables.items())
    done = bash(host, f"{lines}{EXEC} {image} cat /proc/self/environ\n")
    assert (done.returncode, done.stderr) == (0, b"")
    found = (item.partition(b"=") for item in done.stdout.split(b"\0"))
    return {name.decode(): value for name, _, value in found}


def numbered(values: list[str]) -> dict[str, str]:
    return {f"TPTEST_{i}": value for i, value in enumerate(values)}


def encoded(variables: dict[str, str]) -> dict[str, bytes]:
    return {name: value.encode() for name, value in variables.items()}


def test_variables_reach_the_container(host: ApptainerHost, image: str) -> None:
    for values in in_parts(odd(4000, seed=51, keep=kept), number=500, size=400_000):
        variables = numbered(values)
        found = inside(host, image, variables)
        assert {name: found.get(name) for name in variables} == encoded(variables)


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck))
@given(values=st.lists(texts.filter(kept), min_size=1, max_size=30))
def test_any_variables_reach_the_container(host: ApptainerHost, image: str, values: list[str]) -> None:
    variables = numbered(values)
    found = inside(host, image, variables)
    assert {name: found.get(name) for name in variables} == encoded(variables)


def test_words_reach_the_container(host: ApptainerHost, image: str) -> None:
    """Apptainer hands them on as they are, also those that it cannot hand on in variables."""
    for values in in_parts(odd(1500, seed=52), number=500, size=400_000):
        words = " \\\n".join(f"    {word(value)}" for value in values)
        done = bash(host, f"{EXEC} {image} sh -c 'cat \"/proc/$$/cmdline\"' sh \\\n{words}\n")
        assert (done.returncode, done.stderr) == (0, b"")
        assert done.stdout.split(b"\0")[4:-1] == [value.encode() for value in values]


# ---- what is refused at compile time, because Apptainer does this to it


@pytest.mark.parametrize("bad", CHANGED)
def test_what_is_refused_would_not_arrive(host: ApptainerHost, image: str, bad: str) -> None:
    value = f"a{bad}b"
    done = bash(host, f"export APPTAINERENV_V={word(value)}\n{EXEC} {image} cat /proc/self/environ\n")
    assert f"V={value}".encode() not in done.stdout.split(b"\0")


@pytest.mark.parametrize("name", sorted(OWN_NAMES))
def test_names_that_are_refused_would_not_arrive(host: ApptainerHost, image: str, name: str) -> None:
    done = bash(host, f"export APPTAINERENV_{name}='x y'\n{EXEC} {image} cat /proc/self/environ\n")
    assert f"{name}=x y".encode() not in done.stdout.split(b"\0")


def test_no_other_single_character_is_changed(host: ApptainerHost, image: str) -> None:
    """The list of refusals is whole as far as Unicode's first two blocks and line ends go."""
    texts = [*(f"{chr(code)}x{chr(code)}" for code in range(1, 0x250)), "\n\r", "\r", "\r\r", "x\r", "\n\n"]
    variables = numbered([text for text in texts if kept(text)])
    found = inside(host, image, variables)
    assert {name: found.get(name) for name in variables} == encoded(variables)


@pytest.mark.parametrize("letter", ["x", "<", "\n", "\x01", "é"])
def test_as_much_as_is_let_through_arrives(host: ApptainerHost, image: str, letter: str) -> None:
    """The measure of `contained` is that of Apptainer's own configuration."""
    room = MAX_BYTES // size(letter * 1000)
    variables = numbered([letter * 1000] * room)
    found = inside(host, image, variables)
    assert {name: found.get(name) for name in variables} == encoded(variables)


# ---- bind mounts


def tp_mount() -> str:
    """The very function of the script."""
    source = template("job.sbatch.j2").environment.loader.get_source(None, "runtime/apptainer.j2")[0]
    match = re.search(r"^tp_mount\(\) \{\n.*?^\}\n", source, re.MULTILINE | re.DOTALL)
    assert match is not None and "{{" not in match[0]
    return match[0]


PATHS = [
    *" '\",:=\\#$`!*?[]{}()<>|&;~%@^+-\t\n\r\x01\x7f\x80\x81\x85é世\u202e\xa0\u0301\ufeff\U0001f600",
    *(
        "a b",
        " lead",
        "trail ",
        ",ro",
        ":ro",
        "src=/x",
        "dst=/x",
        'a,"b',
        '""',
        "''",
        "\\,",
        "\\:",
        "\\n",
        "\n\n",
        "\n\r",
    ),
    *("$(touch pwned)", "`id`", "${HOME}", "-n", "--", "type=bind", "image-src=1", "%20", "a\nb\tc"),
]


def test_paths_reach_the_container(host: ApptainerHost, image: str) -> None:
    """As source and as target, as a folder and in the middle of a path; `kept` shows the content of each."""
    pairs = []
    for i, text in enumerate(PATHS):
        pairs.append((f"/tmp/src{i}/{text}", f"/mnt/plain{i}"))
        pairs.append((f"/tmp/plain{i}", f"/mnt/dst{i}/{text}/x"))
        pairs.append((f"/tmp/both{i}/{text}/{text}", f"/mnt/both{i}/{text}x{text}"))
    script = f"{tp_mount()}tp_mounts=()\nset -e\n"
    for i, (source, target) in enumerate(pairs):
        script += f"mkdir -p -- {word(source)}\nprintf %s {i} >{word(source + '/n')}\n"
        script += f"tp_mount {word(source)} {word(target)} ,ro\n"
    show = "for folder; do cat -- \"$folder/n\"; printf '\\0'; (: >\"$folder/w\") 2>/dev/null || printf ro; printf '\\0'; done"
    targets = " ".join(word(target) for _, target in pairs)
    done = bash(host, f'{script}{EXEC} "${{tp_mounts[@]}}" {image} sh -c {word(show)} sh {targets}\n')
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.split(b"\0")[:-1] == [part for i in range(len(pairs)) for part in (b"%d" % i, b"ro")]


def test_a_path_that_is_refused_would_not_arrive(host: ApptainerHost, image: str) -> None:
    path = word("/tmp/a\r\nb")
    script = f"{tp_mount()}tp_mounts=()\nmkdir -p -- {path}\ntp_mount {path} /mnt/x ,ro\n"
    done = bash(host, f'{script}{EXEC} "${{tp_mounts[@]}}" {image} true\n')
    assert done.returncode == 255 and b"doesn't exist" in done.stderr


# ---- the script whole


def test_a_whole_script_starts_its_container(place: Place, host: ApptainerHost, image: str) -> None:
    """Run folder, scratch and data have names of every kind; the job sees them, its words and its variables."""
    file = place.root / "python, 3.sif"
    shutil.copyfile(python_sif(), file)
    data = place.folder / 'data: "é", a=b'
    data.mkdir()
    (data / "n").write_text("42")
    runtime = {"kind": "apptainer", "apptainer": "/usr/bin/apptainer"}
    profiles = {"cpu": {"cpus_per_node": 1}}
    place.place("contained", "local", runtime=runtime, inherit=[], profiles=profiles)
    values, config = odd_config(200, seed=53, keep=kept)
    train = (
        'cp "$TUNEPLANE_TRAIN_DATA/n" "$TUNEPLANE_OUTPUT_DIR/n"\ncp /etc/os-release "$TUNEPLANE_OUTPUT_DIR"\n'
    )
    train += 'touch "$TUNEPLANE_EXPERIMENT_DIR/x" 2>/dev/null || touch "$TUNEPLANE_OUTPUT_DIR/read-only"\n'
    config += f"data: {{train: {yaml(str(data))}}}\n"
    run = place.frozen(train + SHOW, config, site="contained", image=str(file))
    os.chmod(place.root, 0o755)
    for parent, _, files in os.walk(place.root):
        for path in (parent, *(f"{parent}/{name}" for name in files)):
            os.chown(path, 1001, 1001, follow_symlinks=False)
    host.bind(place.root, str(place.root))
    done = host.run(["/bin/bash", "-p", "job.sbatch"], cwd=str(run.folder), env={"TUNEPLANE": "x"})
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b""), run.log()
    arrived(run, values)
    output = run.folder / "output"
    assert (output / "n").read_text() == "42"
    assert "bookworm" in (output / "os-release").read_text()
    assert (output / "read-only").exists()
    assert list(place.scratch.iterdir()) == []
