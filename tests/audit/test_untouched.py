"""What nobody touched passes, for every golden case: each site, kind of launch, option, model and lack there is."""

from __future__ import annotations

from pathlib import Path

import pytest
from audit.audited import audited, found, rewrite, submitted
from cli.world import REPOSITORY, World
from render.golden import Case, Maker, cases

from tuneplane.audit.claims import claims_of_record, claims_of_script
from tuneplane.cli.options import _assignment
from tuneplane.files import read_json

CASES = cases()
OPTIONS = {"--image": "image", "--time": "time"}


@pytest.fixture(scope="module")
def maker(tmp_path_factory: pytest.TempPathFactory) -> Maker:
    made = Maker(tmp_path_factory.mktemp("place"))
    for base in ("slurm-apptainer", "slurm-modules", "local"):
        made.world.site(base, base, folders=_folders(made, base))
    return made


def _folders(maker: Maker, base: str) -> dict[str, str]:
    runs = f"{maker.root}/runs"
    if base == "slurm-modules":
        return {"runs": runs}
    cache = "~/.cache/huggingface" if base == "local" else f"{maker.world.home}/.cache/huggingface"
    return {"runs": runs, "model_cache": cache}


def made(maker: Maker, name: str) -> tuple[Path, Path]:
    """The run folder of a case, and a copy of its script without one."""
    case = CASES[name]
    maker.script(name, case)
    run = submitted(maker.world, f"{maker.root}/experiments/{name}", case.site, **asked(maker, case))
    copy = maker.root / f"{name}.sbatch"
    copy.write_bytes((run / "job.sbatch").read_bytes())
    return run, copy


def asked(maker: Maker, case: Case) -> dict[str, object]:
    """The request of a case's options."""
    words = [maker.real(word) for word in case.options]
    own = words.index("--") if "--" in words else len(words)
    fields: dict[str, object] = {"words": tuple(words[own + 1 :])}
    for option, value in zip(words[:own:2], words[1:own:2], strict=True):
        if option == "--set":
            fields["settings"] = (_assignment(value),)
        else:
            fields[OPTIONS[option]] = value
    return fields


@pytest.mark.parametrize("name", CASES)
def test_a_run_and_a_copy_of_its_script(maker: Maker, name: str) -> None:
    run, copy = made(maker, name)
    for word in (run, copy):
        report = audited(maker.world, word, "--site", "local")
        assert (report["code"], report["verdict"], found(report)) == (0, "untouched", []), report
        assert report["err"] == ""


def test_the_script_makes_the_claims_of_the_record(maker: Maker) -> None:
    """But for what is missing, of which the script has the sentence alone."""
    for run in sorted((maker.root / "runs").iterdir()):
        said = claims_of_script((run / "job.sbatch").read_text())
        recorded = claims_of_record(read_json(run / "run.json"))
        assert said is not None and recorded is not None
        if ".missing" not in run.name and ".hub" not in run.name:
            assert said == recorded


def test_paths_of_the_submitters_home(world: World) -> None:
    """Whose home `~` was only the submitter knows: the auditor has another one."""
    world.site(
        "mine", "local", recipes=[str(REPOSITORY / "tests/cli/recipes")], folders={"runs": str(world.runs)}
    )
    folder = world.made("exp", "toy/tuned", "--site", "mine")
    (world.home / "m").mkdir()
    (world.home / "t.jinja").write_text("{{ x }}")
    (folder / "config.yaml").write_text(
        f"model: ~/m\ndata: {{train: ~/none, validation: ../d}}\nparams: {{template: '{world.home}/t.jinja'}}\n"
    )
    run = submitted(world, str(folder), "mine")
    copy = world.root / "copied.sh"
    copy.write_bytes((run / "job.sbatch").read_bytes())
    for word in (run, copy):
        report = audited(world, word, HOME="/nobody's")
        assert (report["code"], report["verdict"]) == (0, "untouched"), report
        assert report["claims"]["model"] == f"{world.home}/m (there)"
        assert report["claims"]["data.train"] == f"{world.home}/none (not there)"
        assert report["claims"]["params.template"] == f"{world.home}/t.jinja (there)"
    # the rest of the path is the configuration's
    for file in (run / "job.sbatch", run / "run.json"):
        rewrite(file, lambda text: text.replace(f"{world.home}/m", f"{world.home}/evil"))
    report = audited(world, run, HOME="/nobody's")
    assert report["code"] == 4 and "environment" in {item[0] for item in found(report)}


def test_as_it_was_submitted(world: World) -> None:
    """By `tp submit` itself, twice: two runs, one script."""
    folder = world.made("exp")
    (folder / "train.sh").write_text("exit 0\n")
    runs = [world.tp("submit", "exp", "--", "a b", "it's").out.strip() for _ in range(2)]
    for run in runs:
        report = audited(world, run)
        assert (report["code"], report["verdict"], report["notes"]) == (0, "untouched", []), report
    scripts = {(world.runs / run / "job.sbatch").read_bytes() for run in runs}
    assert len(scripts) == 1
