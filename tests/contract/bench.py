"""A method on one release, ready to compile: its starter as an experiment with a model, data and GPUs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from builders import catalog, config, site
from contract.cases import Case
from contract.values import FILE, MODEL, TEMPLATE
from plan.cases import inputs

from tuneplane.catalog.manifest import Parameter
from tuneplane.catalog.params import function_of, sent
from tuneplane.catalog.recipe import Recipe, resolve
from tuneplane.experiment.config import Located, Written
from tuneplane.experiment.freeze import freeze
from tuneplane.experiment.snapshot import Snapshot
from tuneplane.plan.build import make_plan
from tuneplane.plan.hydra import Raw
from tuneplane.plan.inputs import Inputs, Request
from tuneplane.plan.model import Plan, Ref
from tuneplane.plan.paths import path_value
from tuneplane.prepare import located, named_texts, table_of_keys

ROOT = Path(__file__).parents[2]
CATALOG = catalog(ROOT / "recipes")
SITE = site()
POOL = "h200:8"
CODE = """\
try:
    from openrlhf.utils.agent import AgentExecutorBase
except ImportError:
    AgentExecutorBase = object


class AgentExecutor(AgentExecutorBase):
    async def execute(self, *_):
        pass


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **more):
    return {"score": 1.0, "acc": 1.0}


def reward_func(queries, prompts, labels):
    return {"rewards": [], "scores": []}
"""


@dataclass(frozen=True)
class Compiled:
    """words: what follows the module; expected: upstream's key → the value it must have."""

    words: list[str]
    expected: dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """folder: the experiment's; model: a folder with a configuration and a tokenizer; places: what only a job knows."""

    recipe: Recipe
    folder: Path
    model: str
    data: tuple[str, str]
    places: Mapping[str, str]

    @staticmethod
    def of(method: str, version: str, work: Path, model: Path) -> Bench:
        """The starter's files and those of `contract.values`, in a folder below `work`."""
        folder = work / method.replace("/", "-") / version
        for path, (content, _) in CATALOG.starter(method).items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        (folder / FILE).parent.mkdir(parents=True, exist_ok=True)
        (folder / FILE).write_text(CODE)
        (folder / TEMPLATE).write_text("{% for m in messages %}{{ m['content'] }} it's\n{% endfor %}\\")
        tiny_model(folder / MODEL)
        places = {
            "files": str(folder),
            "run": str(work),
            "output": str(work / "output"),
            "home": str(work / "home"),
        }
        recipe = resolve(CATALOG.manifest(method), version)
        suffix = (recipe.data.formats or ["jsonl"])[0]
        data = (f"/data/it's a set of $HOME é 中.{suffix}", f"/data/another set.{suffix}")
        return Bench(recipe, folder, str(model), data, places)

    @cached_property
    def keys(self) -> Mapping[str, str] | None:
        return table_of_keys(CATALOG, self.recipe)

    @cached_property
    def files(self) -> Snapshot:
        return freeze(self.folder, name="experiment")

    def text(self, case: Case) -> str:
        """The case as `config.yaml`."""
        data = {"train": self.data[0], "validation": self.data[1]}
        needs = {"train": self.recipe.data.train, "validation": self.recipe.data.validation}
        pools = {pool.roles[0]: POOL for pool in self.recipe.launch.pools.values()}
        resources = {"pools": {"trainer": case.profile, **pools}} if pools else {"profile": case.profile}
        content = {
            "model": self.model,
            "data": {
                key: path
                for key, path in data.items()
                if needs[key] != "none" and (case.validation or key == "train")
            },
            "params": dict(case.params),
            "resources": resources,
            **case.more,
        }
        return json.dumps({key: value for key, value in content.items() if value}, ensure_ascii=False)

    def inputs(self, case: Case, request: Request | None = None) -> Inputs:
        text, request = self.text(case), request or Request()
        read = config(text)
        has_file = frozenset(file.path for file in self.files.files)

        def find(key: str, item: Written, path: str | None) -> Located:
            return Located(key, item.text, path or item.text, True)

        return inputs(
            self.recipe,
            text,
            request,
            experiment_dir=str(self.folder),
            site=SITE,
            located=located(str(self.folder), read, self.recipe, request, has_file, find),
            has_file=has_file,
            keys=self.keys,
            texts=named_texts(self.recipe, read, request, self.files),
        )

    def compiled(self, case: Case) -> Compiled:
        """Raises what refuses the case."""
        plan = make_plan(self.inputs(case))
        module = plan.words.index("-m")
        return Compiled([self._resolved(word) for word in plan.words[module + 2 :]], self._expected(plan))

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, Ref):
            return value.prefix + self.places[value.place] + self._resolved(value.suffix)
        return [self._resolved(item) for item in value] if isinstance(value, list) else value

    def _expected(self, plan: Plan) -> dict[str, Any]:
        """What upstream must have at each key that the plan tells it, read off the plan's settings."""
        found = {setting.key: self._resolved(setting.value) for setting in plan.told}
        for setting in plan.settings:
            parameter = self.recipe.parameters[setting.key]
            if setting.value is not None and parameter.path:
                found |= self._of(parameter, setting.value)
        return found

    def _of(self, parameter: Parameter, value: Any) -> dict[str, Any]:
        if parameter.type == "content" and value in parameter.words:
            value = parameter.spelled.get(value, value)
            return {parameter.path: value} if value else {}
        if parameter.type == "content":
            return {parameter.path: self.files.text(value)}
        if parameter.type == "function":
            file, name = function_of(parameter, value)
            named = {parameter.function_path: name} if parameter.function_path else {}
            return {parameter.path: self._place(file), **named}
        value = self._place(value) if parameter.type == "path" else sent(parameter, value)
        if parameter.spelled and isinstance(value, str) and parameter.type not in ("enum", "str"):
            value = Raw(value)
        return dict.fromkeys([parameter.path, *parameter.also], value)

    def _place(self, text: str) -> str:
        frozen = [file.path for file in self.files.files]
        place: str = self._resolved(path_value(str(self.folder), frozen, text))
        return place


def tiny_model(folder: Path) -> Path:
    """A model's configuration and tokenizer, without weights."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"vocab_size": 4, "hidden_size": 8, "intermediate_size": 8}
    counts = dict.fromkeys(("num_hidden_layers", "num_attention_heads", "num_key_value_heads"), 1)
    model = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", **sizes, **counts}
    words = {"type": "WordLevel", "vocab": {"<unk>": 0, "<eos>": 1, "a": 2}, "unk_token": "<unk>"}
    tokens = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "<eos>"}
    for name, content in {
        "config.json": model,
        "tokenizer.json": {"version": "1.0", "added_tokens": [], "model": words},
        "tokenizer_config.json": tokens,
    }.items():
        (folder / name).write_text(json.dumps(content))
    return folder
