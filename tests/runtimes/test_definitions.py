"""Definitions of runtime images: every fault is named with its place, and the two files of each say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from builders import problems_of, replaced

from tuneplane.catalog.load import load_catalog
from tuneplane.documents.shape import construct
from tuneplane.errors import ImageError, InputError
from tuneplane.resources import bundled
from tuneplane.runtimes.definitions import (
    Definition,
    build_file,
    definition_names,
    load_definition,
    read_definition,
)

NAMES = sorted(definition_names())
SECTION = re.compile(r"%([a-z]+)\n")
TOY = """\
schema: 1
title: {en: A toy, zh: 玩具}
framework: {kind: toy, version: 1.2.0}
base:
  image: docker.io/library/toy:1
  source: https://example.org/toy/tags
python: {executable: /opt/venv/bin/python, version: "3.12"}
packages:
  - toy==1.2.0
  - ray[default]==2.55.1
ray: 2.55.1
capabilities: [cuda]
"""
DIGEST = "sha256:" + "0" * 64


# --- one file ---


def test_a_definition_is_read_as_it_stands() -> None:
    found = read_definition(TOY, "toy.yaml")
    assert found == construct(
        Definition,
        {
            "schema": 1,
            "title": {"en": "A toy", "zh": "玩具"},
            "framework": {"kind": "toy", "version": "1.2.0"},
            "base": {"image": "docker.io/library/toy:1", "source": "https://example.org/toy/tags"},
            "python": {"executable": "/opt/venv/bin/python", "version": "3.12"},
            "packages": ["toy==1.2.0", "ray[default]==2.55.1"],
            "ray": "2.55.1",
            "capabilities": ["cuda"],
        },
    )
    assert (found.base.digest, found.notes) == ("", None)


def test_what_was_read_before_is_the_same(cold_cache: Path) -> None:
    first = read_definition(TOY, "toy.yaml")
    assert read_definition(TOY, "toy.yaml") == first
    assert any(cold_cache.rglob("*"))


def test_pins_have_the_names_that_indexes_compare() -> None:
    text = replaced(TOY, ("toy==1.2.0", "Toy_Kit.X==1.2.0.post1"))
    assert read_definition(text, "toy.yaml").pins() == {"toy-kit-x": "1.2.0.post1", "ray": "2.55.1"}


FAULTS = [
    ("schema: 1", "schema: 2", "`2` does not fit", "toy.yaml:1 schema"),
    ("capabilities:", "capability:", "unknown key `capability`", "toy.yaml:12 capability"),
    ("version: 1.2.0}", "version: 1.2}", "`1.2` is not text", "toy.yaml:3 framework.version"),
    ("  image: docker.io/library/toy:1\n", "", "the key `image` is missing", "toy.yaml:4 base.image"),
    ("  source: https", "  digest: sha256:12\n  source: https", "`sha256:12` is no digest", "toy.yaml:6 base.digest"),
    ("https://example.org/toy/tags", "Docker Hub", "`Docker Hub` is no address", "toy.yaml:6 base.source"),
    ("/opt/venv/bin/python", "python", "`python` is not absolute", "toy.yaml:7 python.executable"),
    ('"3.12"', '"3"', "`3` is no version of Python such as `3.12`", "toy.yaml:7 python.version"),
    ("toy==1.2.0", "toy", "`toy` is not one version of one package", "toy.yaml:9 packages.0"),
    ("toy==1.2.0", "toy>=1.2", "`toy>=1.2` is not one version of one package", "toy.yaml:9 packages.0"),
    ("toy==1.2.0", "toy==1.2.*", "`toy==1.2.*` is not one version of one package", "toy.yaml:9 packages.0"),
    ("toy==1.2.0", "toy==1.2.0 x==1", "`toy==1.2.0 x==1` is not one version of one package", "toy.yaml:9 packages.0"),
    ("toy==1.2.0", "toy==1.2.0;x", "`toy==1.2.0;x` is not one version of one package", "toy.yaml:9 packages.0"),
    ("toy==1.2.0", "Ray==2.55.1", "`ray` stands here twice", "toy.yaml:10 packages.1"),
    ("ray: 2.55.1", "ray: 2.60.0", "`2.60.0` is not the Ray of this image", "toy.yaml:11 ray"),
    ("  - ray[default]==2.55.1\n", "", "`2.55.1` is not the Ray of this image", "toy.yaml:10 ray"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "what", "where"), FAULTS)
def test_a_fault_has_its_place(old: str, new: str, what: str, where: str) -> None:
    with pytest.raises(InputError) as caught:
        read_definition(replaced(TOY, (old, new)), "toy.yaml")
    (problem,) = problems_of(caught)
    assert (problem.what, problem.where) == (what, where)


def test_all_faults_are_reported_together() -> None:
    text = replaced(TOY, ("toy==1.2.0", "toy"), ('"3.12"', '"4"'), ("ray: 2.55.1\n", ""))
    with pytest.raises(InputError) as caught:
        read_definition(text, "toy.yaml")
    assert [p.what for p in problems_of(caught)] == [
        "`4` is no version of Python such as `3.12`",
        "`toy` is not one version of one package",
        '`""` is not the Ray of this image',
    ]


def test_a_digest_is_taken() -> None:
    text = replaced(TOY, ("  source:", f"  digest: {DIGEST}\n  source:"))
    assert read_definition(text, "toy.yaml").base.digest == DIGEST


# --- finding ---


def test_the_first_folder_with_a_name_wins(tmp_path: Path) -> None:
    first, second = tmp_path / "a b", tmp_path / "c"
    for folder, title in ((first, "First"), (second, "Second")):
        folder.mkdir()
        (folder / "toy-1.yaml").write_text(replaced(TOY, ("A toy", title)))
    (second / "toy-2.yaml").write_text(TOY)
    assert definition_names([first, second]) == {
        "toy-1": first / "toy-1.yaml",
        "toy-2": second / "toy-2.yaml",
    }
    assert load_definition("toy-1", [first, second]).title.en == "First"


def test_an_unknown_name_is_refused_with_the_nearest(tmp_path: Path) -> None:
    (tmp_path / "toy-1.2.0.yaml").write_text(TOY)
    with pytest.raises(ImageError) as caught:
        load_definition("toy-1.3.0", [tmp_path])
    (problem,) = problems_of(caught)
    assert problem.what == "there is no definition of `toy-1.3.0`, did you mean `toy-1.2.0`?"
    assert problem.expected == "one of toy-1.2.0"


def test_a_name_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "toy-1.yaml").write_text(TOY)
    with pytest.raises(ImageError):
        load_definition("../toy-1", [tmp_path / "x"])


def test_a_folder_without_definitions(tmp_path: Path) -> None:
    with pytest.raises(ImageError) as caught:
        load_definition("toy", [tmp_path])
    assert problems_of(caught)[0].expected == "a folder with definitions"


def test_a_definition_without_a_build_file(tmp_path: Path) -> None:
    (tmp_path / "toy-1.yaml").write_text(TOY)
    with pytest.raises(ImageError) as caught:
        build_file("toy-1", [tmp_path])
    assert problems_of(caught)[0].where == str(tmp_path / "toy-1.def")
    (tmp_path / "toy-1.def").touch()
    assert build_file("toy-1", [tmp_path]) == tmp_path / "toy-1.def"


# --- those that ship ---


def sections(runtime_id: str) -> dict[str, str]:
    """Section → its text; what stands before the first one is under an empty name."""
    head, *rest = SECTION.split(build_file(runtime_id).read_text())
    return {"": head, **dict(zip(rest[::2], rest[1::2], strict=True))}


def arguments(runtime_id: str) -> dict[str, str]:
    """The build arguments that a file declares, with their defaults."""
    lines = sections(runtime_id)["arguments"].split("\n")
    return dict(line.strip().split("=", 1) for line in lines if line.strip())


def test_every_file_of_the_folder_is_half_of_a_definition() -> None:
    files = {file.name for file in bundled("runtimes").iterdir()}
    assert files == {f"{name}{kind}" for name in NAMES for kind in (".def", ".yaml")}


def test_every_runtime_id_of_the_catalog_has_a_definition() -> None:
    catalog = load_catalog()
    versions = [
        (method, number, version.runtime_id)
        for method in catalog.entries
        for number, version in catalog.manifest(method).framework.versions.items()
        if version.runtime_id
    ]
    assert versions
    assert [found for found in versions if found[2] not in NAMES] == []


@pytest.mark.parametrize("name", NAMES)
def test_the_name_is_the_framework_and_its_version(name: str) -> None:
    framework = load_definition(name).framework
    assert name == f"{framework.kind}-{framework.version}"


@pytest.mark.parametrize("name", NAMES)
def test_the_build_file_has_its_sections_and_uses_its_arguments(name: str) -> None:
    found = sections(name)
    assert list(found) == [part for part in ("", "arguments", "post", "labels", "environment", "runscript", "test") if part in found]  # fmt: skip
    assert found[""].endswith("Bootstrap: {{ bootstrap }}\nFrom: {{ base }}\n\n")
    assert {"arguments", "labels", "environment", "runscript", "test"} < set(found)
    text = build_file(name).read_text()
    assert set(re.findall(r"\{\{ (\w+) \}\}", text)) == set(arguments(name))
    assert text.count("{{") == len(re.findall(r"\{\{ \w+ \}\}", text))
    assert found["runscript"] == '    exec "$@"\n\n'
    assert f"    tuneplane.runtime {name}\n" in found["labels"]


@pytest.mark.parametrize("name", NAMES)
def test_both_files_name_the_same_base(name: str) -> None:
    base = load_definition(name).base
    untagged = base.image.rpartition(":")[0]
    default = f"{untagged}@{base.digest}" if base.digest else base.image
    assert re.search(r":[\w.-]+\Z", base.image), "a base is named by its tag"
    assert (arguments(name)["bootstrap"], arguments(name)["base"]) == ("docker", default)


@pytest.mark.parametrize("name", NAMES)
def test_both_files_name_the_same_packages(name: str) -> None:
    definition, declared = load_definition(name), arguments(name)
    if "post" in sections(name):
        assert declared["packages"].split() == definition.packages
    else:
        assert "packages" not in declared
        assert definition.base.digest, "what is in a base that we do not build is known by its digest alone"


@pytest.mark.parametrize("name", NAMES)
def test_both_files_name_the_same_python(name: str) -> None:
    executable = load_definition(name).python.executable
    found = sections(name)
    assert executable in found["test"]
    assert f'export PATH="{Path(executable).parent}:$PATH"' in found["environment"]


@pytest.mark.parametrize("name", [name for name in NAMES if "post" in sections(name)])
def test_a_build_stops_at_its_first_error_and_leaves_no_cache(name: str) -> None:
    post, declared = sections(name)["post"], arguments(name)
    assert post.startswith("    set -euf\n    umask 022\n")
    assert "--no-cache-dir" in post and "--isolated" in post
    assert "rm -rf /var/lib/apt/lists" in post
    assert {"bootstrap", "base", "index", "before", "system", "packages"} <= set(declared)
    assert declared["index"] == "https://pypi.org/simple"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT00:00:00Z", declared["before"])
    assert declared["packages"].startswith("pip=="), "`before` is an option of that pip"


@pytest.mark.parametrize("name", [name for name in NAMES if "post" in sections(name)])
def test_no_build_argument_is_shell_text(name: str) -> None:
    """Each stands in single quotes, and a value that holds one is refused before."""
    post = sections(name)["post"]
    assert post.count("{{") == len(re.findall(r"='\{\{ \w+ \}\}'(?=\s)", post)) >= 4
    assert " eval " not in post and "sh -c" not in post


@pytest.mark.parametrize("name", [name for name in NAMES if "post" in sections(name)])
def test_all_are_built_in_the_same_way(name: str) -> None:
    """The steps are written out in each file, so that one file is all that a build needs."""
    plain = re.sub(r"    # it comes as source only.*?    done\n", "", sections(name)["post"], flags=re.DOTALL)
    assert plain == sections("pytorch-2.14.0")["post"]
    compiled = "flash-attn" in load_definition(name).pins()
    assert (plain != sections(name)["post"]) == compiled == ({"gpus", "jobs"} < set(arguments(name)))


@pytest.mark.parametrize("name", NAMES)
def test_ray_is_new_enough_for_its_tokens(name: str) -> None:
    """`RAY_AUTH_MODE=token` is of 2.52: an older Ray lets any user of the cluster run code in the job."""
    definition = load_definition(name)
    assert ("ray" in definition.capabilities) == bool(definition.ray)
    if definition.ray:
        assert tuple(int(part) for part in definition.ray.split(".")) >= (2, 52)


@pytest.mark.parametrize("name", NAMES)
def test_what_people_read_is_in_both_languages(name: str) -> None:
    definition = load_definition(name)
    assert definition.title.zh and definition.notes and definition.notes.zh


@pytest.mark.parametrize("name", NAMES)
def test_the_framework_itself_is_among_the_packages(name: str) -> None:
    definition, own = load_definition(name), {"pytorch": "torch"}
    kind, version = definition.framework.kind, definition.framework.version
    if kind not in ("evalkit", "nemo-rl"):  # a set of tools, and one that is on no index
        assert definition.pins()[own.get(kind, kind)] == version
