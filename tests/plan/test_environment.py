"""The job's environment: whose value wins, and which names no user may set."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Any

import pytest
from builders import site
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plan.cases import plan, refused

from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.tree import Mark
from tuneplane.experiment.config import Config, Located, Written
from tuneplane.faults import Faults
from tuneplane.names import owned
from tuneplane.plan.environment import ELSEWHERE, layered
from tuneplane.plan.model import Ref, Variable
from tuneplane.render.encode import VARIABLES


def variables(recipe: Recipe, text: str = "", **over: Any) -> dict[str, Variable]:
    found = plan(recipe, text, **over).environment
    assert [v.name for v in found] == sorted({v.name for v in found})
    return {v.name: v for v in found}


# --- layers ---


def test_the_users_over_the_recipes_over_the_sites_over_the_platforms(tuned: Recipe) -> None:
    here = site(environment={"OMP_NUM_THREADS": "2", "TOY_MODE": "site", "NCCL_DEBUG": "WARN", "LANG": "C"})
    found = variables(tuned, "env:\n  TOY_MODE: mine\n  NCCL_DEBUG: ''\n", site=here)
    assert found["TOY_MODE"] == Variable(
        "TOY_MODE",
        "mine",
        "config.yaml",
        "exp/config.yaml:2 env.TOY_MODE",
        (("recipe", "recipe", ""), ("site", "site", "")),
    )
    assert found["NCCL_DEBUG"] == Variable(
        "NCCL_DEBUG", "", "config.yaml", "exp/config.yaml:3 env.NCCL_DEBUG", (("site", "WARN", ""),)
    )
    assert found["OMP_NUM_THREADS"] == Variable(
        "OMP_NUM_THREADS", "3", "recipe", "", (("site", "2", ""), ("platform", "12", ""))
    )
    assert found["LANG"] == Variable("LANG", "C", "site", "", (("platform", "C.UTF-8", ""),))


def test_what_every_job_sees(tuned: Recipe) -> None:
    data = Located("data.train", "t", "/data/t", True)
    found = variables(tuned, "data: {train: t}", located={"data.train": data})
    values = {name: v.value for name, v in found.items() if name.startswith("TUNEPLANE_")}
    assert values == {
        "TUNEPLANE_RUN_DIR": Ref("run"), "TUNEPLANE_OUTPUT_DIR": Ref("output"), "TUNEPLANE_EXPERIMENT_DIR": Ref("files"),
        "TUNEPLANE_PARAMS": Ref("attempt", "/params.json"), "TUNEPLANE_MODEL": "", "TUNEPLANE_TRAIN_DATA": "/data/t",
        "TUNEPLANE_VALIDATION_DATA": "", "TUNEPLANE_NODES": "1", "TUNEPLANE_GPUS_PER_NODE": "8",
        "TUNEPLANE_HOME": Ref("scratch", "/home"),
    }  # fmt: skip
    promised = "RUN_DIR RUN_ID OUTPUT_DIR EXPERIMENT_DIR ATTEMPT RESUME_FROM MODEL TRAIN_DATA VALIDATION_DATA NODES NODE_RANK GPUS_PER_NODE HEAD_ADDRESS HEAD_PORT PARAMS"
    assert {f"TUNEPLANE_{name}" for name in promised.split()} <= values.keys() | ELSEWHERE.keys()


def test_caches_are_on_the_node_and_the_hub_is_the_sites(tuned: Recipe) -> None:
    found = variables(tuned, site=site(folders={"runs": "/r", "model_cache": "~/hf"}))
    assert found["HF_HOME"].value == Ref("home", "/hf")
    on_node = {name for name, v in found.items() if isinstance(v.value, Ref) and v.value.place == "scratch"}
    assert on_node >= {
        "TMPDIR",
        "XDG_CACHE_HOME",
        "TRITON_CACHE_DIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "VLLM_CACHE_ROOT",
    }
    assert "HF_HOME" not in variables(tuned)


@pytest.mark.parametrize("online", [True, False])
def test_jobs_are_offline_unless_the_site_says_otherwise(tuned: Recipe, online: bool) -> None:
    found = variables(tuned, site=site(network={"online": online}))
    offline = {
        name: found[name].value
        for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE", "TRANSFORMERS_OFFLINE")
        if name in found
    }
    assert offline == (
        {} if online else {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    )


def test_values_arrive_as_they_are_written(tuned: Recipe) -> None:
    text = (
        "env:\n  A: 010\n  B: 1.10\n  C: yes\n  D: ''\n  E: \"$(x) `y` 'z'\\n世\"\n  http_proxy: http://p:1\n"
    )
    found = variables(tuned, text)
    assert [found[name].value for name in "ABCDE"] == ["010", "1.10", "yes", "", "$(x) `y` 'z'\n世"]
    assert found["http_proxy"].value == "http://p:1"


# --- names ---

DESIGN = "RANK MASTER_ADDR MASTER_PORT MASTER_X RAY_ADDRESS CUDA_VISIBLE_DEVICES SLURM_JOB_ID SLURM_EXPORT_ENV APPTAINER_BIND APPTAINERENV_X PATH LD_PRELOAD BASH_ENV"
MORE = "WORLD_SIZE LOCAL_RANK TORCHELASTIC_RUN_ID PET_NNODES SBATCH_EXPORT SINGULARITY_BIND ENROOT_X PYXIS_X ENV HOME TMPDIR XDG_CACHE_HOME PYTHONPATH IFS PS4 TUNEPLANE_RUN_DIR"
RESERVED = [*DESIGN.split(), *MORE.split(), *ELSEWHERE]


@pytest.mark.parametrize("name", RESERVED)
def test_names_that_belong_to_the_launcher(tuned: Recipe, name: str) -> None:
    what = f"`{name}` belongs to the launcher"
    assert refused(tuned, f"env:\n  {name}: x") == (3, [(what, f"exp/config.yaml:2 env.{name}")])
    assert (what, "exp/config.yaml:1 secrets.0") in refused(tuned, f"secrets: [{name}]")[1]


@pytest.mark.parametrize(
    "name",
    "NCCL_DEBUG OMP_NUM_THREADS HF_HOME LD_LIBRARY_PATH http_proxy HOMEPAGE PATHS ENVIRONMENT RANKS LANG TZ A _A".split(),
)
def test_names_that_are_the_users(tuned: Recipe, name: str) -> None:
    assert variables(tuned, f"env: {{{name}: x}}")[name].value == "x"


PREFIXES = [
    "MASTER_",
    "RAY_",
    "SLURM_",
    "SBATCH_",
    "APPTAINER",
    "APPTAINERENV_",
    "SINGULARITY",
    "TUNEPLANE_",
    "TORCHELASTIC_",
    "BASH_",
    "XDG_",
    "tp_",
]


@given(
    st.sampled_from(RESERVED)
    | st.tuples(st.sampled_from(PREFIXES), st.text("ABCxyz_019", min_size=1, max_size=8)).map("".join)
    | st.text(max_size=6)
)
@settings(max_examples=200, deadline=None)
@example("PATH\n")
@example("RANK ")
@example("A=B")
@example("BASH_FUNC_srun%%")
@example("ＰＡＴＨ")
def test_no_owned_name_and_no_strange_one_is_ever_accepted(name: str) -> None:
    """Straight into the layers, past anything that `config.yaml` itself refuses."""
    faults = Faults()
    mark = Mark("f", 1)
    config = Config(env={name: Written("evil", mark, "env")})
    found = layered([Variable(name, "ours", "platform")], {}, {}, config, faults)
    is_name = name.isascii() and name.isidentifier()
    reserved = name in RESERVED or name.startswith(tuple(PREFIXES))
    if reserved or not is_name:
        assert faults.found and [v.value for v in found] == ["ours"]
    assert bool(faults.found) == (found[0].value == "ours")


def test_every_variable_of_the_script_itself_is_owned() -> None:
    for text in VARIABLES.values():
        assert owned(text.removeprefix("$").partition("/")[0])


@pytest.mark.skipif(shutil.which("bash") is None, reason="asks bash itself")
def test_every_variable_that_bash_makes_itself_is_owned() -> None:
    """A user's value for one of these would be lost, or would change how the script runs."""
    script = "compgen -v; enable -f x y 2>/dev/null; compgen -A variable"
    done = subprocess.run(["bash", "-p", "-c", script], env={}, capture_output=True, text=True, check=True)
    names = set(done.stdout.split())
    assert {"BASH_VERSION", "UID", "IFS", "OPTIND"} <= names
    assert {name for name in names if not owned(name)} <= {"TERM"}


# --- refusals ---


@pytest.mark.parametrize(
    ("text", "what"),
    [("HF_TOKEN: x", "`HF_TOKEN` looks like a secret"), ("WANDB_API_KEY: x", "`WANDB_API_KEY` looks like a secret"), ("A-B: x", "`A-B` is no name of a variable"),
     ("1A: x", "`1A` is no name of a variable"), ("'': x", '`""` is no name of a variable'), ("'A B': x", "`A B` is no name of a variable"), ("É: x", "`É` is no name of a variable"),
     ('A: "x\\0y"', "the value of `A` holds a NUL character"), ("BASH_FUNC_x%%: x", "`BASH_FUNC_x%%` is no name of a variable")],
)  # fmt: skip
def test_refused(tuned: Recipe, text: str, what: str) -> None:
    code, problems = refused(tuned, f"env:\n  {text}")
    assert (code, [found for found, _ in problems]) == (3, [what])
    assert problems[0][1].startswith("exp/config.yaml:2 env.")


def test_a_value_that_linux_could_not_hand_over(tuned: Recipe) -> None:
    size = os.sysconf("SC_PAGESIZE") * 32
    code, problems = refused(tuned, f"env: {{A: {'x' * size}}}")
    assert (code, problems) == (3, [(f"the value of `A` has {size} bytes", "exp/config.yaml:1 env.A")])
    wide = "é" * (size // 2)
    assert refused(tuned, f"env: {{A: {wide}}}")[1] == [
        (f"the value of `A` has {size} bytes", "exp/config.yaml:1 env.A")
    ]
    assert len(variables(tuned, f"env: {{A: {'x' * (size - 100)}}}")["A"].value) == size - 100  # type: ignore[arg-type]


def test_the_longest_value_taken_is_one_that_the_kernel_takes(tuned: Recipe) -> None:
    """With the longest prefix that a runtime puts before its name."""
    for size in range(131072 - 90, 131072):
        try:
            plan(tuned, f"env: {{A: {'x' * size}}}")
        except Exception:
            break
    longest = "x" * (size - 1)
    subprocess.run(["true"], env={"APPTAINERENV_A": longest}, check=True)


def test_a_name_is_a_secret_or_a_variable(tuned: Recipe) -> None:
    assert refused(tuned, "env:\n  MY_VAR: x\nsecrets: [MY_VAR]") == (
        3,
        [("`MY_VAR` stands under `secrets` too", "exp/config.yaml:2 env.MY_VAR")],
    )
    assert plan(tuned, "secrets: [HF_TOKEN, A_TOKEN, HF_TOKEN]").secrets == ("A_TOKEN", "HF_TOKEN")
