"""The shape of `recipe.yaml`: one method of one framework, said in terms of a few launch kinds."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from tuneplane.documents.shape import document

Need = Literal["none", "optional", "required"]
TRAINER = "trainer"
"""The nodes of the launch itself, and the role that every launch has."""


@document
class Text:
    """A sentence in the catalog's two languages; the Chinese one may be missing."""

    en: str
    zh: str = ""

    def read(self, language: str) -> str:
        return self.zh if language == "zh" and self.zh else self.en


@document
class Parameter:
    """One parameter a user may set.

    range: an interval such as `(0, 1]`, in which `inf` stands for no bound; path: its name upstream; for a list,
    `items` is the type of its members and range and choices hold for each of them; formerly: names it had in earlier
    publications, so that an upgrade finds it.
    """

    type: Literal["int", "float", "bool", "str", "enum", "list", "duration", "path"]
    doc: Text
    path: str = ""
    default: Any = None
    range: str = ""
    choices: list[str] = field(default_factory=list)
    items: Literal["int", "float", "str", "enum", ""] = ""
    unit: str = ""
    alias: str = ""
    group: str = "general"
    formerly: list[str] = field(default_factory=list)


@document
class Rule:
    """A condition over parameters and topology that must hold where `when` does."""

    require: str
    message: Text
    when: str = "true"


@document
class Entry:
    """What is started: a file of the experiment, or a module of the image. Exactly one is given."""

    experiment: str = ""
    module: str = ""

    def __post_init__(self) -> None:
        if bool(self.experiment) == bool(self.module):
            raise ValueError("an entry names either `experiment` or `module`")


@document
class Server:
    """What each node of a pool serves: a command in which `{host}` and `{port}` stand for where it must listen, the
    path that answers 200 once it is ready, and how long that may take.
    """

    words: list[str]
    ready: str = "/health"
    timeout: str = "20m"


@document
class Pool:
    """Nodes beside those of the launch. roles: what a user may call them; without a server they belong to the launch
    itself, as further nodes of its Ray cluster.
    """

    roles: list[str]
    need: Literal["optional", "required"] = "required"
    server: Server | None = None


@document
class Launch:
    """How the entry is started.

    process: once per node; torchrun, accelerate: one process per GPU under that launcher; ray: once, on the head of a
    Ray cluster of all nodes. interpreter: words before the entry; words: whether the user's own words follow it;
    rendezvous: torchrun's backend; options: of Accelerate's launcher, by name without dashes; roles: what the nodes of
    the launch may be called beside `trainer`; pools: further nodes, by name.
    """

    kind: Literal["process", "torchrun", "accelerate", "ray"]
    entry: Entry
    interpreter: list[str] = field(default_factory=list)
    words: bool = False
    rendezvous: Literal["static", "c10d"] = "static"
    options: dict[str, str] = field(default_factory=dict)
    roles: list[str] = field(default_factory=list)
    pools: dict[str, Pool] = field(default_factory=dict)


@document
class Config:
    """How parameters reach the entry: `flags` writes `--path value`, `argv` writes nothing."""

    style: Literal["flags", "argv"]


@document
class Data:
    """The data a method starts from."""

    kind: str
    train: Need = "none"
    validation: Need = "none"
    doc: Text | None = None


@document
class Version:
    """One release of the framework and how it differs from the manifest's main text."""

    status: Literal["supported", "deprecated"] = "supported"
    sunset: str = ""
    runtime_id: str = ""
    requires: list[str] = field(default_factory=list)
    launch: Launch | None = None
    rename: dict[str, str] = field(default_factory=dict)
    paths: dict[str, str] = field(default_factory=dict)
    remove: list[str] = field(default_factory=list)
    add: dict[str, Parameter] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)


@document
class Framework:
    kind: str
    default: str
    versions: dict[str, Version]


@document
class Complete:
    """What tells a whole checkpoint from a half one: a file in it, or a file beside it that holds the newest whole
    one's number. Exactly one is given.
    """

    file: str = ""
    tracker: str = ""

    def __post_init__(self) -> None:
        if bool(self.file) == bool(self.tracker):
            raise ValueError("a checkpoint is complete by `file` or by `tracker`")


@document
class Notice:
    """How the entry hears that the time ends: by a signal to its processes, by the file that TUNEPLANE_WARNING_FILE
    names, or not at all, because it saves often. stopped: the exit code with which it then ends, having saved.
    """

    tell: Literal["none", "signal", "file"] = "none"
    signal: Literal["USR1", "USR2", "INT", "TERM", "HUP"] = "USR1"
    stopped: int | None = None


@document
class Checkpoints:
    """Where checkpoints appear below the output folder: `{step}` stands for the step's number.

    resume: whether the entry goes on from TUNEPLANE_RESUME_FROM, or from the newest by itself; complete: None where a
    checkpoint appears under its name only when it is whole.
    """

    format: str
    pattern: str
    resume: Literal["automatic", "none"] = "none"
    complete: Complete | None = None
    warning: Notice = field(default_factory=Notice)


@document
class Metric:
    """A metric under its canonical name; `better` tells in which direction it improves."""

    better: Literal["higher", "lower", "neither"] = "neither"
    aliases: list[str] = field(default_factory=list)


@document
class Metrics:
    source: Literal["report"] = "report"
    names: dict[str, Metric] = field(default_factory=dict)


@document
class Requires:
    """`core`: the versions of `tp` that can compile this recipe, as `>=A,<B`."""

    core: str


@document
class Manifest:
    """`recipe.yaml` after shared pieces have been merged in."""

    schema: Literal[1]
    name: str
    version: str
    title: Text
    summary: Text
    category: str
    requires: Requires
    framework: Framework
    launch: Launch
    config: Config
    data: Data
    model: Need = "none"
    environment: dict[str, str] = field(default_factory=dict)
    pinned: dict[str, str] = field(default_factory=dict)
    owned: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    checkpoints: Checkpoints | None = None
    metrics: Metrics = field(default_factory=Metrics)
