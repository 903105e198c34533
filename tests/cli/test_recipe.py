"""`tp recipe` and `tp submit --upgrade-recipe`: whole outputs, and the whole files that an upgrade leaves."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cli.world import REPOSITORY, Expected, Said, World, lines

from tuneplane import __version__
from tuneplane.experiment.journal import NAME

expected = Expected("recipe")
UPGRADES = REPOSITORY / "tests/cli/upgrades"
METHOD = "toy/upgraded"


class Shop:
    """A site `shop` with a registry and recipes of its own; `tp` counts for it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.recipes = world.root / "recipes"
        self.site("registry")
        self.publish("one")

    def site(self, registry: str) -> None:
        folders = {"runs": str(self.world.runs)}
        if registry:
            folders["registry"] = str(self.world.root / registry)
        self.recipes.mkdir(exist_ok=True)
        publishers = {"uids": [os.getuid()]}
        self.world.site("shop", "local", folders=folders, recipes=[str(self.recipes)], publishers=publishers)

    def put(self, name: str, *changes: tuple[str, str]) -> None:
        """Let the recipes be those of `upgrades/NAME`, with pieces of the manifest replaced."""
        shutil.rmtree(self.recipes)
        shutil.copytree(UPGRADES / name, self.recipes)
        file = self.recipes / METHOD / "recipe.yaml"
        text = file.read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        file.write_text(text)

    def publish(self, name: str, *changes: tuple[str, str]) -> None:
        self.put(name, *changes)
        self.refresh()

    def refresh(self) -> None:
        said = self.tp("catalog", "refresh")
        assert said.code == 0, said

    def tp(self, *words: str) -> Said:
        return self.world.tp(*words, TUNEPLANE_SITE="shop")

    def new(self, name: str = "exp", config: str | None = None) -> Path:
        said = self.tp("new", name, "--method", METHOD)
        assert said.code == 0, said
        folder = self.world.folder / name
        if config is not None:
            (folder / "config.yaml").write_bytes(config.encode())
        return folder


@pytest.fixture
def shop(world: World) -> Shop:
    return Shop(world)


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


CONFIG = lines(
    """
    # --- my run ---
    params:                     # tuned by hand
      'rate' : 1e-3             # rate: the step size
      steps: 400   # not more

      "mode": fast
      seed: 0x10
    env: {rate: "1", STEPS: steps}   # no parameters here
    resources: {profile: cpu, time: 1h}
    """
)

# --- how it stands ---


def test_current(shop: Shop) -> None:
    shop.new()
    expected(shop.tp("recipe", "status", "exp"), "current", shop.world)
    expected(shop.tp("recipe", "status", "exp", "--json"), "current as JSON", shop.world)
    expected(shop.tp("recipe", "upgrade", "exp"), "nothing to upgrade", shop.world)
    expected(shop.tp("recipe", "upgrade", "exp", "--check"), "nothing to upgrade", shop.world)


def test_stale(shop: Shop) -> None:
    shop.new()
    shop.publish("two")
    expected(shop.tp("recipe", "status", "exp"), "stale", shop.world)
    expected(shop.tp("recipe", "status", "exp", "--json"), "stale as JSON", shop.world)


def test_a_version_that_was_removed(shop: Shop) -> None:
    shop.new()
    shop.publish("two")
    text = (shop.recipes / METHOD / "recipe.yaml").read_text()
    (shop.recipes / METHOD / "recipe.yaml").write_text(
        re.sub(r"(?s)    1\.0\.0:\n.*?(?=    2\.0\.0)", "", text)
    )
    shop.refresh()
    expected(shop.tp("recipe", "status", "exp"), "version removed", shop.world)


def test_a_method_that_was_removed(shop: Shop) -> None:
    shop.new()
    shutil.rmtree(shop.recipes / METHOD)
    shop.refresh()
    expected(shop.tp("recipe", "status", "exp"), "method removed", shop.world)
    expected(shop.tp("recipe", "upgrade", "exp"), "upgrade of a method that was removed", shop.world)


DEPRECATED = (
    "1.0.0: {runtime_id: toy-1.0.0}",
    "1.0.0: {runtime_id: toy-1.0.0, status: deprecated, sunset: 2031-01-01}",
)


def test_deprecated(shop: Shop) -> None:
    shop.new()
    shop.publish("one", DEPRECATED)
    expected(shop.tp("recipe", "status", "exp"), "deprecated", shop.world)


def in_lock(old: str, new: str) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        text = (folder / "recipe.lock.json").read_text()
        assert text.count(old) == 1, old
        (folder / "recipe.lock.json").write_text(text.replace(old, new))

    return change


STRANGE: dict[str, Callable[[Path], object]] = {
    "core too old": in_lock(">=0.1,<0.2", ">=99"),
    "core too new": in_lock(">=0.1,<0.2", "<0.1"),
    "core that is none": in_lock(">=0.1,<0.2", "soon"),
    "malformed": in_lock('"digest"', '"digets"'),
    "no JSON": lambda folder: (folder / "recipe.lock.json").write_text("{"),
    "unknown method": in_lock("toy/upgraded", "toy/other"),
    "unknown version": in_lock('"version": "1.0.0",\n    "runtime', '"version": "9.0.0",\n    "runtime'),
    "another digest": lambda folder: (folder / "recipe.lock.json").write_text(re.sub('"digest": "."', '"digest": "0', (folder / "recipe.lock.json").read_text()).replace('"digest": "', '"digest": "dead', 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", STRANGE)
def test_other_states(shop: Shop, case: str) -> None:
    STRANGE[case](shop.new())
    known = {f"tuneplane {__version__} ": "this tp "} if case in ("core too old", "core too new") else None
    expected(shop.tp("recipe", "status", "exp"), f"status: {case}", shop.world, known=known)


def test_all_that_can_be_named(shop: Shop) -> None:
    expected(shop.tp("recipe", "ls"), "ls of nothing", shop.world)
    expected(shop.tp("recipe", "status"), "status of nothing", shop.world)
    shop.new("a")
    shop.new("b b")
    STRANGE["unknown method"](shop.new("c"))
    STRANGE["no JSON"](shop.new("d"))
    (shop.new("e") / "config.yaml").unlink()
    (shop.world.folder / "experiments").mkdir()
    shop.new("f").rename(shop.world.folder / "experiments/f")
    shop.publish("one", DEPRECATED)
    in_lock('"version": "1.0.0",\n    "digest', '"version": "0.9.0",\n    "digest')(shop.world.folder / "b b")
    expected(shop.tp("recipe", "ls"), "ls", shop.world)
    expected(shop.tp("recipe", "ls", "--json"), "ls as JSON", shop.world)
    expected(shop.tp("recipe", "status"), "status of all", shop.world)
    expected(shop.tp("recipe", "status", "a", "experiments/f"), "status of two", shop.world)
    expected(shop.tp("recipe", "status", "a", "g"), "status of one that is none", shop.world)


def test_without_a_registry_only_the_present_recipe_is_known(shop: Shop) -> None:
    shop.site("")
    shop.put("one")
    shop.new("old", "params: {rate: 0.5}\n")
    shop.put("two")
    shop.new("new")
    expected(shop.tp("recipe", "status"), "status without a registry", shop.world)
    expected(
        shop.tp("recipe", "upgrade", "old", "--framework-version", "2.0.0"),
        "upgrade without a registry",
        shop.world,
    )
    folder = shop.world.folder / "old"
    assert (folder / "config.yaml").read_text() == "params: {learning_rate: 0.5}\n"
    assert (folder / "util.sh").read_text() == "echo util one\n"
    assert (folder / "util.sh.new").read_text() == "echo util two\n"


def test_a_new_version_a_text_and_a_starter_leave_a_lock_current(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    before = files(folder)
    script = shop.tp("compile", "exp").out
    changes = [
        ("    1.0.0: {runtime_id: toy-1.0.0}", "    1.0.0: {runtime_id: toy-1.0.0}\n    3.0.0: {}"),
        ("{en: Prints its words}", "{en: Prints words, zh: 打印参数}"),
        ("doc: {en: Seed}", "doc: {en: The seed}, group: other"),
        ("A penalty needs small steps", "Only with small steps"),
    ]
    shop.put("one", *changes)
    (shop.recipes / METHOD / "starter/util.sh").write_text("echo util, mended\n")
    shop.refresh()
    assert shop.tp("recipe", "status", "exp").code == 0
    expected(shop.tp("recipe", "status", "exp"), "current all the same", shop.world)
    assert shop.tp("validate", "exp").code == 0 and shop.tp("compile", "exp").out == script
    assert files(folder) == before
    # the mended starter file may be had
    expected(shop.tp("recipe", "upgrade", "exp", "--check"), "a starter file may be had", shop.world)
    assert files(folder) == before
    expected(shop.tp("recipe", "upgrade", "exp"), "a starter file is had", shop.world)
    assert files(folder) == {**before, "util.sh": b"echo util, mended\n"}
    expected(shop.tp("recipe", "upgrade", "exp"), "nothing to upgrade", shop.world)


# --- upgrading ---


def test_upgrade_to_another_framework_version(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    before = files(folder)
    words = ("recipe", "upgrade", "exp", "--framework-version", "2.0.0")
    expected(shop.tp(*words, "--check"), "check", shop.world)
    expected(shop.tp(*words, "--check", "--json"), "check as JSON", shop.world)
    assert files(folder) == before
    expected(shop.tp(*words), "upgrade", shop.world)
    lock = json.loads((folder / "recipe.lock.json").read_text())
    assert (lock["recipe"]["version"], lock["framework"]["version"]) == ("2.0.0", "2.0.0")
    assert (folder / "config.yaml").read_text() == lines(
        """
        # --- my run ---
        params:                     # tuned by hand
          'learning_rate' : 1e-3             # rate: the step size
          max_steps: 400   # not more

          "mode": fast
          seed: 0x10
        env: {rate: "1", STEPS: steps}   # no parameters here
        resources: {profile: cpu, time: 1h}
        """
    )
    assert {name: data for name, data in files(folder).items() if name.endswith((".sh", ".txt"))} == {
        "main.sh": b'echo main one "$@"\n',
        "notes.txt": b"Read me.\n",
        "train.sh": b'. ./util.sh\necho train two "$@"\n',
        "util.sh": b"echo util two\n",
    }
    assert os.access(folder / "train.sh", os.X_OK) and not os.access(folder / "notes.txt", os.X_OK)
    assert not [name for name in os.listdir(folder) if name.startswith(".")]
    assert (shop.tp("validate", "exp").code, shop.tp("recipe", "upgrade", "exp", "--check").code) == (0, 0)
    script = shop.tp("compile", "exp").out
    assert all(word in script for word in ("train.sh", "--learning-rate=0.001", "--max-steps=400"))


def test_upgrade_of_the_same_version(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    expected(shop.tp("recipe", "upgrade", "exp", "--json"), "upgrade as JSON", shop.world)
    assert (folder / "config.yaml").read_text() == CONFIG
    assert json.loads((folder / "recipe.lock.json").read_text())["framework"]["version"] == "1.0.0"
    said = shop.tp("validate", "exp")
    assert said.code == 0 and "deprecated" in said.err


def test_back_again(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    for version in ("2.0.0", "1.0.0", "2.0.0", "1.0.0"):
        assert shop.tp("recipe", "upgrade", "exp", "--framework-version", version).code == 0
        assert shop.tp("validate", "exp").code == 0
    assert (folder / "config.yaml").read_text() == CONFIG


def test_starter_files_that_were_edited_are_left(shop: Shop) -> None:
    folder = shop.new("exp")
    (folder / "util.sh").write_text("echo mine\n")
    (folder / "util.sh").chmod(0o700)
    (folder / "train.sh").write_text("echo my own\n")
    (folder / "notes.txt").unlink()
    (folder / "main.sh").write_text("echo edited\n")
    shop.publish("two")
    expected(
        shop.tp("recipe", "upgrade", "exp", "--framework-version", "2.0.0"),
        "edited starter files",
        shop.world,
    )
    there = files(folder)
    assert {name: there[name] for name in there if not name.endswith((".yaml", ".json"))} == {
        "main.sh": b"echo edited\n",
        "train.sh": b"echo my own\n",
        "train.sh.new": b'. ./util.sh\necho train two "$@"\n',
        "util.sh": b"echo mine\n",
        "util.sh.new": b"echo util two\n",
    }
    assert (folder / "util.sh").stat().st_mode & 0o777 == 0o700
    expected(shop.tp("recipe", "upgrade", "exp"), "nothing to upgrade", shop.world)
    # another starter: what was put beside and not touched makes way for it, what was touched does not
    (folder / "train.sh.new").write_text("half merged\n")
    shop.put("two", ("[bash, -e]", "[bash, -u]"))
    for name in ("util.sh", "train.sh"):
        (shop.recipes / METHOD / "starter" / name).write_text("echo three\n")
    shop.refresh()
    expected(shop.tp("recipe", "upgrade", "exp"), "edited starter files again", shop.world)
    there = files(folder)
    assert there["util.sh.new"] == there["train.sh.new.2"] == b"echo three\n"
    assert there["train.sh.new"] == b"half merged\n" and "util.sh.new.2" not in there


TWO = ("recipe", "upgrade", "exp", "--framework-version", "2.0.0")
REFUSED = {
    "no successor": "params:\n  rate: 0.1\n  kl: 0.2   # gone\n",
    "out of range": "params: {steps: 501}\n",
    "no choice any more": "params:\n  mode: slow\n",
    "two meet": "params:\n  rate: 0.1\n  learning_rate: 0.2\n",
    "name and alias": "params:\n  lr: 0.1\n  learning_rate: 0.2\n",
    "several": "params:\n  kl: 0.2\n  steps: 0\n  sped: 1\n",
    "no parameter": "params:\n  stepz: 3\n",
    "an alias of a section": "params: &p {rate: 0.1}\nenv: *p\n",
    "a key with an anchor": "params: {&r rate: 0.1}\nargs: [*r]\n",
    "no YAML": "params: [\n",
    "a rule": "resources: {profile: cpu9}\n",
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_and_nothing_is_written(shop: Shop, case: str) -> None:
    folder = shop.new("exp", REFUSED[case])
    shop.publish("two")
    if case == "a rule":
        profiles = {"cpu9": {"cpus_per_node": 9, "processes_per_node": 9}}
        file = shop.world.config / "tuneplane/sites/shop.yaml"
        file.write_text(
            file.read_text().replace("profiles:\n", f"profiles:\n  cpu9: {json.dumps(profiles['cpu9'])}\n", 1)
        )
    before = shop.world.tree()
    expected(shop.tp(*TWO), f"refused: {case}", shop.world)
    expected(shop.tp(*TWO, "--check"), f"refused: {case}", shop.world)
    assert shop.world.tree() == before and (folder / "config.yaml").read_text() == REFUSED[case]


def test_refused_by_what_lies_there(shop: Shop) -> None:
    folder = shop.new()
    shop.publish("two")
    expected(
        shop.tp("recipe", "upgrade", "exp", "--framework-version", "3"),
        "refused: unknown version",
        shop.world,
    )
    expected(shop.tp("recipe", "upgrade", "exq"), "refused: no experiment", shop.world)
    (folder / "config.yaml").write_text("params: {rate: 0.1}\n")
    (folder / "config.yaml").rename(shop.world.folder / "shared.yaml")
    (folder / "config.yaml").symlink_to("../shared.yaml")
    before = shop.world.tree()
    expected(shop.tp(*TWO), "refused: a link", shop.world)
    assert shop.world.tree() == before


def test_an_alias_that_stays_is_not_renamed(shop: Shop) -> None:
    folder = shop.new("exp", "params: {lr: 0.5, steps: 1}\n")
    shop.publish("two")
    assert shop.tp(*TWO).code == 0
    assert (folder / "config.yaml").read_text() == "params: {lr: 0.5, max_steps: 1}\n"


def test_bytes_outside_the_keys_stay(shop: Shop) -> None:
    text = '\ufeff# é 世\r\nparams: {rate : 0.5,\t"steps":3 } # x\r\n\r\n# end, no newline'
    folder = shop.new("exp", text)
    (folder / "config.yaml").chmod(0o600)
    shop.publish("two")
    assert shop.tp(*TWO).code == 0
    renamed = text.replace("{rate :", "{learning_rate :").replace('"steps"', '"max_steps"')
    assert (folder / "config.yaml").read_bytes() == renamed.encode()
    assert (folder / "config.yaml").stat().st_mode & 0o777 == 0o600


# --- values that became others ---

THREE = ("recipe", "upgrade", "exp", "--framework-version", "3.0.0")
MIGRATED = lines(
    """
    params:
      max_steps: 40          # steps: not many
      correction: icepop     # how
      # --- the switch ---
      'correct': true        # on, always
      mode: "fast"   # as fast as it goes
    """
)


def at_two(shop: Shop, config: str) -> Path:
    shop.publish("three")
    said = shop.tp("new", "exp", "--method", METHOD, "--framework-version", "2.0.0")
    assert said.code == 0, said
    folder = shop.world.folder / "exp"
    (folder / "config.yaml").write_text(config)
    return folder


def test_values_that_became_others(shop: Shop) -> None:
    folder = at_two(shop, MIGRATED)
    expected(shop.tp(*THREE, "--check"), "migration: check", shop.world)
    expected(shop.tp(*THREE), "migration", shop.world)
    assert (folder / "config.yaml").read_text() == lines(
        """
        params:
          steps: 40          # steps: not many
          level: token     # how
          # --- the switch ---
          'gate': mask        # on, always
          mode: careful   # as fast as it goes
        """
    )
    assert shop.tp("validate", "exp").code == 0


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("params: {correct: true}\n", "params: {level: token}\n"),
        (
            "params:\n  correction: icepop  # how\nenv: {}\n",
            "params:\n  level: token  # how\n  gate: mask\nenv: {}\n",
        ),
        (
            "params:\n  correct: false  # none of it\n  mode: careful\n",
            "params:\n  # none of it\n  mode: careful\n",
        ),
        ("params:\n  correction:\n    icepop\n", "params:\n  level:\n    token\n  gate: mask\n"),
        ("params: {correct: false, max_steps: 3}\n", "params: {steps: 3}\n"),
    ],
)
def test_migrated(shop: Shop, before: str, after: str) -> None:
    folder = at_two(shop, before)
    said = shop.tp(*THREE)
    assert (said.code, (folder / "config.yaml").read_text()) == (0, after), said


REFUSED_THREE = {
    "no entry": "params:\n  correct: true\n  correction: both\n",
    "half an entry": "params: {correct: false, correction: icepop}\n",
    "no entry at all": "params: {legacy: 1, correct: false}\n",
    "over several lines": "params:\n  correction: >-\n    icepop\n",
    "used again": "params: {mode: &m fast}\nargs: [*m]\n",
}


@pytest.mark.parametrize("case", REFUSED_THREE)
def test_not_migrated(shop: Shop, case: str) -> None:
    at_two(shop, REFUSED_THREE[case])
    before = shop.world.tree()
    expected(shop.tp(*THREE), f"not migrated: {case}", shop.world)
    assert shop.world.tree() == before


def test_nothing_is_migrated_downwards(shop: Shop) -> None:
    folder = at_two(shop, MIGRATED)
    assert shop.tp(*THREE).code == 0
    expected(shop.tp(*THREE[:-1], "2.0.0"), "not migrated: downwards", shop.world)
    (folder / "config.yaml").write_text("params: {mode: fast, steps: 3}\n")
    assert shop.tp(*THREE[:-1], "2.0.0").code == 0
    assert (folder / "config.yaml").read_text() == "params: {mode: fast, max_steps: 3}\n"


@pytest.mark.parametrize("key", ["note", "notes"])
def test_overrides_are_held_against_the_new_release(world: World, key: str) -> None:
    world.site("two", "local", recipes=[str(REPOSITORY / "tests/cli/crossing")])
    world.environment["TUNEPLANE_SITE"] = "two"
    folder = world.made("exp", "alpha/align")
    text = "model: .\ndata: {train: .}\nparams: {policy_loss: gmpo, only_here: 1}\noverrides:\n  algorithm.note: x\n"
    (folder / "config.yaml").write_text(text.replace("note", key))
    words = ("recipe", "upgrade", "exp", "--framework-version", "1.1.0")
    expected(world.tp(*words), f"override: {key}", world)
    moved = text.replace("note", key).replace("policy_loss: gmpo, only_here: 1", "loss: gmpo")
    assert (folder / "config.yaml").read_text() == (moved if key == "notes" else text)


# --- in one step ---


def test_submit_upgrades_first(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    said = shop.tp("submit", "exp", "--upgrade-recipe", "--framework-version", "2.0.0", "--wait")
    run = said.out.split("\n")[0]
    expected(said, "submit --upgrade-recipe", shop.world, run)
    log = shop.tp("job", "logs", run).out
    assert (
        "util two" in log
        and "train two --learning-rate=0.001 --max-steps=400 --mode=fast --seed=16 --warmup=10" in log
    )
    assert "learning_rate" in (folder / "config.yaml").read_text()
    record = json.loads((shop.world.runs / run / "run.json").read_text())
    assert record["plan"]["provenance"]["framework_version"] == "2.0.0"


def test_submit_that_cannot_be_leaves_the_experiment(shop: Shop) -> None:
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    before = files(folder)
    for case, words in {
        "a wrong setting": ["--upgrade-recipe", "--framework-version", "2.0.0", "--set", "max_steps=501"],
        "a model that it does not take": ["--upgrade-recipe", "--model", "x"],
        "a dry run": ["--upgrade-recipe", "--dry-run"],
        "a version alone": ["--framework-version", "2.0.0"],
        "stale": [],
    }.items():
        expected(shop.tp("submit", "exp", *words), f"submit: {case}", shop.world)
        assert files(folder) == before, case
    assert not shop.world.runs.exists()


# --- killed ---


def interrupted(shop: Shop) -> Path:
    """An experiment whose upgrade was killed when it had been decided and nothing was written yet."""
    folder = shop.new("exp", CONFIG)
    shop.publish("two")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tuneplane.experiment.carrying.Carrying._all_forward", lambda _: os._exit(9))
        child = os.fork()
        if child == 0:
            shop.tp(*TWO)
            os._exit(1)
        assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 9
    assert (folder / NAME).is_dir() and (folder / "config.yaml").read_text() == CONFIG
    return folder


@pytest.mark.parametrize(
    "words",
    ["validate exp", "recipe status exp", "explain exp max_steps", "recipe ls", "new exp-2 --from exp"],
)
def test_the_next_command_finishes_it(shop: Shop, words: str) -> None:
    folder = interrupted(shop)
    expected(shop.tp(*words.split()), f"interrupted: {words}", shop.world)
    assert "learning_rate" in (folder / "config.yaml").read_text() and not (folder / NAME).exists()
    assert (folder / "train.sh").exists() and shop.tp("validate", "exp").err == ""


def test_the_next_command_undoes_it_when_a_file_was_edited(shop: Shop) -> None:
    folder = interrupted(shop)
    before = files(folder)
    (folder / "config.yaml").write_text("params: {rate: 0.25}\n")
    expected(shop.tp("recipe", "status", "exp"), "interrupted and edited", shop.world)
    kept = {name: data for name, data in before.items() if not name.startswith(NAME)}
    assert files(folder) == {**kept, "config.yaml": b"params: {rate: 0.25}\n"}
    assert (
        shop.tp(*TWO).code == 0 and (folder / "config.yaml").read_text() == "params: {learning_rate: 0.25}\n"
    )


CALLS = "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,chmod,fchmod,fchmodat,symlink,symlinkat,ftruncate,write,pwrite64,openat"


def test_killed_by_the_kernel_before_any_of_its_calls(shop: Shop) -> None:
    """The real `tp`, and every system call that writes: none that changes the experiment has been forgotten."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("`strace` is not installed")
    template = shop.new("template", CONFIG)
    shop.publish("two")
    old = files(template)
    shop.tp(*TWO[:2], "template", *TWO[3:])
    new = files(template)
    environment = shop.world.environment | {"TUNEPLANE_SITE": "shop", "PYTHONDONTWRITEBYTECODE": "1"}
    folder = shop.world.folder / "exp"

    def run(*inject: str) -> subprocess.CompletedProcess[bytes]:
        shutil.rmtree(folder, ignore_errors=True)
        for name, data in old.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        words = [strace, "-f", "-qq", "-o", str(shop.world.root / "trace"), f"--trace={CALLS}", *inject]
        return subprocess.run(
            [*words, sys.executable, "-m", "tuneplane", *TWO],
            cwd=shop.world.folder,
            env=environment,
            capture_output=True,
        )

    if run().returncode != 0 or files(folder) != new:
        pytest.skip("`strace` cannot trace here")
    trace = (shop.world.root / "trace").read_text(errors="replace").splitlines()
    named = re.compile(re.escape(NAME) + r"|exp/")
    changing = [line for line in trace if named.search(line) and not re.search(r"openat\(.*O_RDONLY", line)]
    assert len(changing) > 20
    states = set()
    for line in changing[:: int(os.environ.get("TUNEPLANE_STRACE_STEP", "6"))]:
        call = re.search(r"(?:^\d+ +)?(\w+)\(", line)
        assert call is not None
        name = call[1]
        same = [other for other in trace if re.search(rf"(?:^\d+ +)?{name}\(", other)]
        done = run(f"--inject={name}:signal=KILL:when={same.index(line) + 1}")
        assert done.returncode != 0, line
        said = shop.tp("recipe", "status", "exp")
        there = {path: data for path, data in files(folder).items() if not path.startswith(NAME)}
        assert there in (old, new), line
        assert said.code == (4 if there == old else 0), said
        states.add(there == new)
    assert states == {False, True}
