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

    range: an interval such as `(0, 1]`, in which `inf` stands for no bound; path: its name upstream, and `also` further
    ones that get the same value; for a list, `items` is the type of its members and range and choices hold for each of
    them; formerly: names it had in earlier publications, so that an upgrade finds it; alias: its name in every method
    that has its like; spelled: our word → upstream's, both are taken and upstream's is sent; otherwise: an expression
    for what is sent when nobody sets it; excludes: parameters that cannot be set beside it.

    A `function` is FILE[:FUNCTION] of the experiment: `path` gets the file and `function_path` the function's name;
    `function` is the name where none is written, and without a `function_path` the only one there is. A `content` is a
    file of the experiment whose text is sent, or one of `words`, which stand for themselves.
    """

    type: Literal["int", "float", "bool", "str", "enum", "list", "duration", "path", "function", "content"]
    doc: Text
    path: str = ""
    also: list[str] = field(default_factory=list)
    default: Any = None
    otherwise: str = ""
    excludes: list[str] = field(default_factory=list)
    spelled: dict[str, str] = field(default_factory=dict)
    function: str = ""
    function_path: str = ""
    words: list[str] = field(default_factory=list)
    range: str = ""
    choices: list[str] = field(default_factory=list)
    items: Literal["int", "float", "str", "enum", ""] = ""
    unit: str = ""
    alias: str = ""
    group: str = "general"
    formerly: list[str] = field(default_factory=list)

    @property
    def keys(self) -> list[str]:
        """Every key upstream that it sets."""
        return [key for key in (self.path, self.function_path, *self.also) if key]


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
    """How parameters reach the entry: `hydra` writes `path=value`, `flags` writes `--path value`, `argv` nothing.

    index: the table of upstream's keys against which overrides are checked, none refuses them; open: sections that take
    keys upstream does not have yet; booleans: whether a flag stands for true by its `presence` or takes a `value`.
    """

    style: Literal["hydra", "flags", "argv"]
    index: str = ""
    open: list[str] = field(default_factory=list)
    booleans: Literal["value", "presence"] = "value"


@document
class Owned:
    """A key upstream that tp sets: an expression for its value, none where it only stays as it is, and what a user sets
    instead.
    """

    by: str
    value: str = ""


@document
class Layout:
    """Columns that a row has together, where `when` holds; `{name}` is the value of a parameter, a dot goes inside."""

    columns: list[str]
    when: str = "true"


@document
class Data:
    """The data a method starts from.

    formats: suffixes of its files, any where empty; separators: characters at which upstream splits a path; layouts:
    each row has the columns of one of them, any columns where there is none.
    """

    kind: str
    train: Need = "none"
    validation: Need = "none"
    doc: Text | None = None
    formats: list[Literal["parquet", "jsonl", "json", "csv"]] = field(default_factory=list)
    separators: str = ""
    layouts: list[Layout] = field(default_factory=list)


@document
class Migration:
    """Values of earlier parameters, all of them, and what they become; a parameter nobody set has its default."""

    before: dict[str, Any]
    after: dict[str, Any]


@document
class Version:
    """One release of the framework and how it differs from the manifest's main text.

    keys: the release whose tables of upstream keys count, its own where empty; migrate: what an upgrade to this release
    makes of parameters that are no more.
    """

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
    keys: str = ""
    pinned: dict[str, str] = field(default_factory=dict)
    owned: dict[str, Owned] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    migrate: list[Migration] = field(default_factory=list)


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
class Pointer:
    """A file beside the checkpoints from which the entry reads where to go on, and its text, with `{step}` for the
    step's number. beside: further folders below the output folder that have one.

    An entry that writes it before the checkpoint is whole would, killed in between, never start again: before each
    attempt it is made to name the newest whole one, and where none is whole the folder is moved away.
    """

    file: str
    text: str
    beside: list[str] = field(default_factory=list)


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
    pointer: Pointer | None = None
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


Tracker = Literal["console", "tensorboard", "wandb"]


@document
class Manifest:
    """`recipe.yaml` after shared pieces have been merged in.

    use: when to take this method; variables: of the job's environment, as expressions; pinned: keys upstream that make
    the method what it is, as they are sent, and elsewhere: key → value → the method that has it; owned: keys that tp
    sets; ignored: keys or sections that upstream takes and does not heed → those that it heeds; attached: name → sha256
    of what lies beside the manifest and belongs to it, filled in where the recipe is read.
    """

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
    use: Text | None = None
    environment: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    tracking: list[Tracker] = field(default_factory=lambda: ["console"])
    pinned: dict[str, str] = field(default_factory=dict)
    elsewhere: dict[str, dict[str, str]] = field(default_factory=dict)
    owned: dict[str, Owned] = field(default_factory=dict)
    ignored: dict[str, str] = field(default_factory=dict)
    attached: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)
    rules: list[Rule] = field(default_factory=list)
    checkpoints: Checkpoints | None = None
    metrics: Metrics = field(default_factory=Metrics)
