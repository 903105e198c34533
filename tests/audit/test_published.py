"""Where an auditor's inputs come from: what the auditor's own registry has ever published, and nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from audit.audited import audited, found, rewrite, submitted
from cli.world import REPOSITORY, World

RECIPES = REPOSITORY / "tests/cli/recipes"


class Published:
    """A site whose registry publishes a method of its own, and a run that was admitted against it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.registry = world.root / "registry"
        self.recipes = world.root / "recipes"
        shutil.copytree(RECIPES, self.recipes)
        self.site = self.write_site()
        self.refresh()
        self.experiment = world.made("exp", "toy/tuned", "--site", "pub")
        (self.experiment / "config.yaml").write_text("model: m\ndata: {train: t}\n")
        self.run = submitted(world, str(self.experiment), "pub")

    def write_site(self, name: str = "pub", registry: Path | None = None, **changes: object) -> Path:
        folders = {"runs": str(self.world.runs), "registry": str(registry or self.registry)}
        changes = {"recipes": [str(self.recipes)], "folders": folders} | changes
        return self.world.site(name, "local", **changes)

    def refresh(self, *options: str) -> None:
        said = self.world.tp("--site", "pub", *options, "catalog", "refresh")
        assert said.code == 0, said

    def edit_recipe(self, old: str, new: str) -> None:
        rewrite(self.recipes / "toy/tuned/recipe.yaml", (old, new))

    def serials(self, recipe: int, site: int) -> dict[str, str]:
        return {"recipe": f"serial {recipe} of {self.registry}", "site": f"serial {site} of {self.registry}"}

    def audit(self, *options: str) -> dict[str, object]:
        return audited(self.world, self.run, *(options or ("--site", "pub")))


@pytest.fixture
def published(world: World) -> Published:
    return Published(world)


def test_the_newest_serial_that_has_it(published: Published) -> None:
    report = published.audit()
    assert (report["code"], report["verdict"]) == (0, "untouched"), report
    assert report["published"] == published.serials(1, 1)
    assert report["claims"]["admitted"] == f"serial 1 of {published.registry}"  # type: ignore[index]


def test_a_recipe_and_a_site_file_of_earlier_serials(published: Published) -> None:
    """Both have changed since, one after the other: the run was right when it was made."""
    published.edit_recipe("default: 10", "default: 11")
    published.refresh()
    published.write_site(default_time="3h")
    published.refresh()
    report = published.audit()
    assert (report["code"], report["verdict"]) == (0, "untouched"), report
    assert report["published"] == published.serials(1, 2)
    # one that was made of the new ones is, too
    shutil.rmtree(published.experiment)
    published.world.made("exp", "toy/tuned", "--site", "pub")
    (published.experiment / "config.yaml").write_text("model: m\ndata: {train: t}\n")
    published.run = submitted(published.world, str(published.experiment), "pub")
    assert published.audit()["published"] == published.serials(3, 3)


def test_a_site_file_that_is_not_published(published: Published) -> None:
    """The auditor's own copy of it does not count while there is a registry."""
    published.write_site(default_time="3h")
    run = submitted(published.world, str(published.experiment), "pub")
    report = audited(published.world, run, "--site", "pub")
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    [what] = report["not_published"]
    assert what.startswith("the site file of pub, sha256:")
    assert report["reasons"] == [f"{what} is not published"]
    assert report["err"] == (
        f"error: cannot be re-compiled: {what} is not published\n  try      tp --site pub catalog ls\n"
    )
    published.refresh()
    assert audited(published.world, run, "--site", "pub")["verdict"] == "untouched"


def test_a_recipe_that_is_not_published(published: Published) -> None:
    """Submitted against a registry of the submitter's own: it is named, and does not count."""
    other = published.world.root / "other"
    published.edit_recipe("interpreter: [bash]", "interpreter: [bash, -x]")
    published.refresh("--registry", str(other))
    shutil.rmtree(published.experiment)
    said = published.world.tp(
        "--site", "pub", "--registry", str(other), "new", "exp", "--method", "toy/tuned"
    )
    assert said.code == 0, said
    (published.experiment / "config.yaml").write_text("model: m\ndata: {train: t}\n")
    run = submitted(published.world, str(published.experiment), "pub", str(other))
    report = audited(published.world, run, "--site", "pub")
    assert (report["code"], report["verdict"]) == (4, "cannot be re-compiled")
    [what] = report["not_published"]
    assert what.startswith("the recipe of toy/tuned for 2.0.0, sha256:")
    assert f"it names the registry {other}, which is not the site's" in report["notes"]
    # an auditor who trusts that registry says so
    report = audited(published.world, run, "--site", "pub", "--registry", str(other))
    assert (report["code"], report["verdict"]) == (0, "untouched")


def test_a_foreign_registry_with_the_same_recipe(published: Published) -> None:
    other = published.world.root / "other"
    published.refresh("--registry", str(other))
    run = submitted(published.world, str(published.experiment), "pub", str(other))
    report = audited(published.world, run, "--site", "pub")
    assert (report["code"], report["verdict"]) == (0, "untouched")
    assert report["notes"] == [f"it names the registry {other}, which is not the site's"]


def test_a_digest_of_another_recipe_that_is_published(published: Published) -> None:
    """The script names another recipe than it was made from; both are published."""
    published.edit_recipe("interpreter: [bash]", "interpreter: [bash, -x]")
    published.refresh()
    shutil.rmtree(published.experiment)
    published.world.made("exp", "toy/tuned", "--site", "pub")
    (published.experiment / "config.yaml").write_text("model: m\ndata: {train: t}\n")
    newer = submitted(published.world, str(published.experiment), "pub")
    digests = [
        next(line for line in (run / "job.sbatch").read_text().split("\n") if line.startswith("#   lock"))
        for run in (published.run, newer)
    ]
    rewrite(published.run / "job.sbatch", tuple(digests))  # type: ignore[arg-type]
    report = published.audit()
    assert report["code"] == 4
    assert {item[0] for item in found(report)} == {"lock", "argument"}


def test_a_registry_of_the_submitters_is_never_read(published: Published) -> None:
    """The site file names another registry now; the run folder's word for where it was admitted is a claim."""
    elsewhere = published.world.root / "elsewhere"
    published.write_site(registry=elsewhere)
    published.edit_recipe("default: 10", "default: 11")
    published.refresh()
    report = published.audit()
    assert (report["code"], len(report["not_published"])) == (4, 2)  # type: ignore[arg-type]


def test_a_registry_that_cannot_be_trusted(published: Published) -> None:
    published.registry.chmod(0o777)
    said = published.world.tp("--site", "pub", "audit", str(published.run))
    assert said.code == 4 and said.out == "" and "is writable by everybody" in said.err


# -- without a registry -------------------------------------------------------------------------------------


def test_the_bundled_catalog_and_the_auditors_own_site_file(world: World) -> None:
    file = world.site("mine", "local", folders={"runs": str(world.runs)})
    run = submitted(world, str(world.made()), "mine")
    # whatever site the auditor has in hand, the one of that name is the auditor's own
    for options in ([], ["--site", "mine"], ["--site", "local"]):
        report = audited(world, run, *options)
        assert (report["code"], report["verdict"]) == (0, "untouched"), report
        assert report["published"] == {"recipe": "the bundled catalog", "site": str(file)}
    world.site("mine", "local", folders={"runs": str(world.runs)}, default_time="9h")
    report = audited(world, run)
    assert report["code"] == 4 and report["not_published"][0].startswith("the site file of mine, sha256:")
    assert report["err"].endswith("  try      tp site ls\n")


def test_a_site_that_the_auditor_does_not_know(world: World) -> None:
    file = world.site("mine", "local", folders={"runs": str(world.runs)})
    run = submitted(world, str(world.made()), "mine")
    file.unlink()
    report = audited(world, run)
    assert (report["code"], report["published"]) == (4, {"recipe": "the bundled catalog", "site": None})


def test_a_site_file_with_a_byte_order_mark(published: Published) -> None:
    published.site.write_bytes(b"\xef\xbb\xbf" + published.site.read_bytes())
    published.refresh()
    run = submitted(published.world, str(published.experiment), "pub")
    assert audited(published.world, run, "--site", "pub")["verdict"] == "untouched"
