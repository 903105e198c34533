"""The plan: what will run, where, with what, and who decided each part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from tuneplane.experiment.config import Located
from tuneplane.job.checks.columns import DataFile

Place = Literal["run", "files", "attempt", "output", "scratch", "home", "user"]
"""What is known only where the job runs, folders and the user's name; the script has a variable for each."""


@dataclass(frozen=True)
class Ref:
    """A path below a folder that is known only in the job: `Ref("output")`, `Ref("scratch", "/tmp")`.

    suffix: what follows it in the same word, another reference too; prefix: text before it, such as `--file=`.
    """

    place: Place
    suffix: Value = ""
    prefix: str = ""

    def __str__(self) -> str:
        return f"{self.prefix}<{self.place}>{self.suffix}"


Value: TypeAlias = "str | Ref"


@dataclass(frozen=True)
class Setting:
    """A value, who set it and where, and what lost against it (source, text, place)."""

    key: str
    value: Any
    source: str
    where: str = ""
    lost: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Variable:
    """One environment variable of the job."""

    name: str
    value: Value
    source: str
    where: str = ""
    lost: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class Topology:
    """Where the job runs. memory: a Slurm size for each node, `0` for all of it, empty for the site's default."""

    profile: str
    nodes: int
    gpus_per_node: int
    gpu_type: str
    processes_per_node: int
    cpus_per_node: int
    memory: str
    exclusive: bool
    constraint: str = ""
    partition: str = ""

    @property
    def world_size(self) -> int:
        return self.nodes * self.processes_per_node

    @property
    def cpus_per_process(self) -> int:
        return max(1, self.cpus_per_node // self.processes_per_node)


@dataclass(frozen=True)
class Pool:
    """Nodes with one role, in the order of their ranks: the launch's own first.

    words: the server that each of its nodes runs, none for nodes of the launch; ready: the path that answers 200 when
    it is up; timeout: seconds until then.
    """

    name: str
    topology: Topology
    words: tuple[str, ...] = ()
    ready: str = ""
    timeout: int = 0


@dataclass(frozen=True)
class Resume:
    """How a run comes back: where its checkpoints are and what the script does at its end.

    before, after: of a checkpoint's path below the output folder, around the step's number; file, tracker: what tells a
    whole checkpoint, see `catalog.manifest.Complete`; pointer: name and text, around the step's number, of the file that
    the entry follows, and pointed the folders that have one, the checkpoints' own first; stopped: exit code of an entry that saved because it was told,
    None for any but 0; policy and the rest are the site's, warning in seconds.
    """

    before: str
    after: str
    file: str
    tracker: str
    pointer: tuple[str, str, str] | None
    pointed: tuple[str, ...]
    stopped: int | None
    policy: str
    attempts: int
    on: tuple[str, ...]


NOT_REGISTERED = "not registered"
"""The source of an image that no site file names; its path is none."""


@dataclass(frozen=True)
class Image:
    """The image file.

    sha256, size in bytes and samples (the sha256 of the sampled blocks) are None where they are not known: the file is
    not registered and was not there when this was compiled. format, arch: empty likewise. packages: (name, version) of
    what the method asks for, as registration found it, None when nobody looked; an empty version is a package that is
    not there. trouble: why it is not the registered file any more.
    """

    path: str
    runtime_id: str
    source: str
    sha256: str | None = None
    size: int | None = None
    samples: str | None = None
    format: str = ""
    arch: str = ""
    packages: tuple[tuple[str, str], ...] | None = None
    trouble: str = ""


@dataclass(frozen=True)
class Refusal:
    """Why a run could not start now: `submit` refuses with the code, a compiled script ends in its checks."""

    code: int
    what: str
    where: str = ""
    remedy: str = ""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.remedy}" if self.remedy else self.what


@dataclass(frozen=True)
class Directive:
    """One `#SBATCH` line; a flag has no value."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True)
class Provenance:
    """What the plan was made from, by name and digest. registry: the one that counted, where it is not the site's."""

    tool_version: str
    method: str
    recipe_version: str
    recipe_digest: str
    framework: str
    framework_version: str
    runtime_id: str
    site: str
    site_digest: str
    experiment: str
    experiment_dir: str
    files_digest: str
    files_count: int
    helper_digest: str
    command: tuple[str, ...]
    registry: str = ""


@dataclass(frozen=True)
class Plan:
    """Everything that the script says.

    topology: of the launch's own nodes; pools: all kinds of nodes, where there is more than one; launch: options of the
    supervisors; warning: (signal, seconds before the time limit), None where nobody is told; resume: None where a run
    does not come back, and why_not then says why; requires: of the image's packages, where the job itself has to look;
    told: what upstream is told under its own keys beside the parameters; data: files whose columns are known.
    """

    provenance: Provenance
    scheduler: str
    runtime: str
    topology: Topology
    seconds: int
    launch_kind: str
    words: tuple[Value, ...]
    settings: tuple[Setting, ...]
    environment: tuple[Variable, ...]
    directives: tuple[Directive, ...]
    params: dict[str, Any]
    secrets: tuple[str, ...] = ()
    image: Image | None = None
    requires: tuple[str, ...] = ()
    located: tuple[Located, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    pools: tuple[Pool, ...] = ()
    launch: tuple[tuple[str, str], ...] = ()
    warning: tuple[str, int] | None = None
    resume: Resume | None = None
    why_not: str = ""
    told: tuple[Setting, ...] = ()
    data: tuple[DataFile, ...] = ()

    @property
    def nodes(self) -> int:
        """All nodes of the run."""
        return sum(pool.topology.nodes for pool in self.pools) or self.topology.nodes
