"""The shape of a site file."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Literal

from tuneplane.catalog.manifest import Text
from tuneplane.documents.shape import document

GpuRequest = Literal["gres", "gpus-per-node", "gpus", "none"]


@document
class Option:
    """An sbatch option a user may set: the value when the user sets none, and the values allowed (all when empty)."""

    default: str = ""
    allowed: list[str] = field(default_factory=list)


@document
class Slurm:
    """What this Slurm expects of a script.

    options: what a user may set under `resources`; omit: directives of ours that this site does not take;
    add: directives it wants in every script, `true` for a flag; max_script_size: bytes, as slurm.conf has it;
    submit_timeout: seconds that sbatch may take.
    """

    gpu_request: GpuRequest = "gres"
    options: dict[str, Option] = field(default_factory=dict)
    omit: list[str] = field(default_factory=list)
    add: dict[str, Any] = field(default_factory=dict)
    job_name: str = "{experiment}"
    max_script_size: int = 4 << 20
    submit_timeout: int = 120


@document
class Profile:
    """A kind of node.

    arch: as `uname -m` says it there, for the image; cpus_per_node: CPUs asked for on a whole node; memory: `0` for all of a node or a Slurm size for a whole one;
    memory_per_gpu: for a part of a node; processes_per_node: processes on a node without GPUs; exclusive: when
    nodes are taken for this job alone; max_time: the longest run; max_nodes: 0 for no limit.
    """

    arch: Literal["x86_64", "aarch64"] = "x86_64"
    gpus_per_node: int = 0
    gpu_type: str = ""
    cpus_per_node: int
    memory: str = "0"
    memory_per_gpu: str = ""
    processes_per_node: int = 1
    constraint: str = ""
    partition: str = ""
    max_time: str = ""
    max_nodes: int = 0
    exclusive: Literal["whole-nodes", "always", "never"] = "whole-nodes"


@document
class Staging:
    """Copies of images on the nodes' own disks.

    folder: on the node itself, empty for no copies; `{user}` is the login name; keep_free: a Slurm size that stays free
    beside them; max_age: how long one is kept that nobody uses.
    """

    folder: str = ""
    keep_free: str = "10G"
    max_age: str = "30d"


@document
class Runtime:
    """How an image is started.

    apptainer, enroot: their paths on the nodes; gpu: whose GPUs the nodes have; home: whether the user's home is seen
    inside; writable: whether the image's own folders can be written, into node-local scratch that ends with the job;
    binds: host folders every container sees, `{user}` and all, read-only with a trailing `:ro`; images: files by
    runtime id, for those that are not registered; verify: what is read of an image before a job starts it, some blocks
    on each node, or once all of it; old_ray: whether a Ray older than 2.52, which lets anybody in, may be started.
    """

    kind: Literal["host", "apptainer", "pyxis", "enroot"]
    apptainer: str = "/usr/bin/apptainer"
    enroot: str = "/usr/bin/enroot"
    gpu: Literal["nvidia", "amd", "none"] = "nvidia"
    home: bool = False
    writable: bool = False
    binds: list[str] = field(default_factory=list)
    images: dict[str, str] = field(default_factory=dict)
    staging: Staging = field(default_factory=Staging)
    verify: Literal["samples", "full"] = "samples"
    old_ray: bool = False


@document
class Network:
    """interface: the one nodes reach each other on; online: whether nodes reach the Hub; heartbeat: how long a node
    may be silent before it counts as dead.
    """

    interface: str = ""
    online: bool = False
    heartbeat: str = "60s"


@document
class Requeue:
    """How a run that can resume goes on after its time limit, a preemption or the loss of a node.

    requeue: Slurm starts the same job again; successor: the job submits the next one, where nodes may submit;
    attempts: how often a run starts at most; warning: how long before the time limit it is told.
    """

    policy: Literal["none", "requeue", "successor"] = "none"
    attempts: int = 20
    warning: str = "5m"
    signal: Literal["USR1", "USR2", "HUP"] = "USR2"
    on: list[Literal["time-limit", "preemption", "lost"]] = field(
        default_factory=lambda: ["time-limit", "preemption", "lost"]
    )


@document
class Preflight:
    """What every node must have before a launch: free space, inodes (0 for unchecked), locked memory (`unlimited` or a
    size, empty for unchecked), and how its GPUs are counted: as the scheduler shows them, as device files, or by the
    vendor's tool.
    """

    scratch: str = "256M"
    shared_memory: str = "64M"
    run_folder: str = "256M"
    inodes: int = 1000
    memlock: str = ""
    gpus: Literal["visible", "devices", "tool", "none"] = "visible"


@document
class Publishers:
    """Who may publish to the registry: root always, users by uid, and a group by gid where the folders are its."""

    uids: list[int] = field(default_factory=list)
    gid: int | None = None


@document
class Freshness:
    """How old the registry's last check may be before a warning, and before a refusal; empty for never."""

    warn: str = ""
    refuse: str = ""


@document
class Folders:
    """Folders, and the secrets file: `~` is the user's home, `{user}` the login name; scratch: on the node itself;
    images: where built ones are put."""

    runs: str
    scratch: str = "/tmp"
    images: str = ""
    model_cache: str = ""
    registry: str = ""
    secrets: str = "~/.config/tuneplane/secrets.env"


@document
class Freeze:
    """Limits of a frozen snapshot."""

    max_bytes: int = 64 << 20
    max_files: int = 2000


@document
class Site:
    """A site file. inherit: variables a host job takes over from the submitter, on the local scheduler only."""

    schema: Literal[1]
    title: Text
    scheduler: Literal["slurm", "local"]
    runtime: Runtime
    folders: Folders
    profiles: dict[str, Profile]
    default_profile: str
    default_time: str
    slurm: Slurm = field(default_factory=Slurm)
    network: Network = field(default_factory=Network)
    requeue: Requeue = field(default_factory=Requeue)
    preflight: Preflight = field(default_factory=Preflight)
    path: list[str] = field(default_factory=lambda: ["/usr/local/bin", "/usr/bin", "/bin"])
    setup: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    inherit: list[str] = field(default_factory=list)
    recipes: list[str] = field(default_factory=list)
    freeze: Freeze = field(default_factory=Freeze)
    publishers: Publishers = field(default_factory=Publishers)
    freshness: Freshness = field(default_factory=Freshness)
    keep_published: str = "60d"
    private_runs: bool = False
