"""What logs say of causes that an exit code does not tell: the kinds of lines, the most specific cause first."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuneplane.runs.why.facts import Facts, Text
from tuneplane.runs.why.reason import Evidence

NEWEST_LINES = 3000
"""Of each log only its end counts: a program may have got over what it wrote before."""

_RANK = re.compile(r"\[rank\s?(\d+)\]", re.IGNORECASE)
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


@dataclass(frozen=True)
class Found:
    """A line that shows a cause. match: what the pattern matched; node, rank: where, None when not known."""

    line: str
    match: re.Match[str]
    text: Text
    rank: int | None

    @property
    def evidence(self) -> Evidence:
        return Evidence(self.line.strip()[:400], self.text.file)


def search(facts: Facts, pattern: re.Pattern[str], *, script_only: bool = False) -> Found | None:
    """The first line in the logs, the log that counts most first, that matches."""
    return next(every(facts, pattern, script_only=script_only), None)


def every(facts: Facts, pattern: re.Pattern[str], *, script_only: bool = False) -> Iterator[Found]:
    """Every line in the logs that matches."""
    for text in facts.texts:
        if script_only and text.node is not None:
            continue
        for raw in text.lines[-NEWEST_LINES:]:
            line = _COLOURS.sub("", raw)
            if match := pattern.search(line):
                yield Found(line, match, text, rank_of(line, text, facts))


def rank_of(line: str, text: Text, facts: Facts) -> int | None:
    """The rank that wrote a line: by its own word, or the verdict's where it is of the node that failed first."""
    if match := _RANK.search(line):
        return int(match[1])
    rank = facts.verdict.get("rank")
    return rank if isinstance(rank, int) and text.node == facts.verdict.get("node") else None


def where(facts: Facts, found: Found) -> str:
    """` on rank 3 of node 1 (n2)`, as much of it as is known."""
    node = found.text.node
    if node is None and found.rank is None:
        return ""
    host = facts.hosts.get(node, "") if node is not None else ""
    named = f"node {node}" + (f" ({host})" if host else "") if node is not None else ""
    if found.rank is None:
        return f" on {named}"
    return f" on rank {found.rank}" + (f" of {named}" if named else "")


GPU_MEMORY = re.compile(
    r"OutOfMemoryError: (?:CUDA|HIP|XPU) out of memory|(?:CUDA|HIP) out of memory|CUDA error: out of memory"
    r"|HIP error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|cudaErrorMemoryAllocation|hipErrorOutOfMemory"
    r"|CUDNN_STATUS_ALLOC_FAILED|No available memory for the cache blocks"
    r"|NCCL WARN Cuda failure (?:\d+ )?'?out of memory|RESOURCE_EXHAUSTED: .*out of memory",
    re.IGNORECASE,
)
ALLOCATION = re.compile(r"Tried to allocate ([0-9.]+ [KMGT]iB)")
HOST_MEMORY = re.compile(
    r"oom[-_ ]kill(?:er)? event|oom_kill\b|task \d+: Out Of Memory|Out of memory: Killed process"
    r"|Exceeded (?:job|step) memory limit|killed due to memory pressure|ray\.exceptions\.OutOfMemoryError"
    r"|DefaultCPUAllocator: (?:can't|not enough)|^(?:\[\S+\]:? *)?MemoryError\b|Cannot allocate memory"
    r"|DataLoader worker \(pid \d+\) is killed by signal: Killed",
    re.IGNORECASE,
)
SHARED_MEMORY = re.compile(
    r"insufficient shared memory|killed by signal: Bus error|unable to open shared memory"
)
DISK = re.compile(
    r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]|\bENOSPC\b|\bEDQUOT\b|disk is full"
    r"|PytorchStreamWriter failed writing file",
    re.IGNORECASE,
)
_FILE = re.compile(
    r"['\"‘](/[^'\"’]+)['\"’]|(?:^|[\s:])(/[^\s:'\"]+): (?:No space|Disk quota|write)", re.IGNORECASE
)
IMAGE = re.compile(
    r"^FATAL:|pyxis: .*(?:couldn't start|failed to|\[ERROR\]|No such file)|enroot-\w+: |^\[ERROR\] "
    r"|apptainer: (?:command )?not found|singularity: (?:command )?not found"
)
SECRET = re.compile(r"^tp: secret ")
COLLECTIVE = re.compile(
    r"Watchdog caught collective operation timeout: \w+\((?:.*?OpType=(\w+))?(?:.*?Timeout\(ms\)=(\d+))?"
)
NETWORK = re.compile(
    r"ncclRemoteError|ncclSystemError|ncclInternalError|ncclUnhandledCudaError|NCCL error", re.I
)
PEERS = re.compile(
    r"Connection (?:closed|reset) by (?:remote )?peer|DistNetworkError|DistStoreError"
    r"|Timed out after \d+ seconds waiting for clients|RendezvousTimeoutError|RendezvousConnectionError"
)
RAY = re.compile(
    r"ray\.exceptions\.\w*(?:Died|Crashed|Unavailable|Unschedulable|System)\w*|ray\.exceptions\.Ray\w+Error"
)
SRUN = re.compile(r"^(?:srun|slurmstepd|sbatch): (?:error|fatal): (?!.*(?:Terminated|Killed)$)")
CANCELLED = re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON (\S+) CANCELLED AT (\S+)(?: DUE TO ([A-Z ]+))?")
NODE_FAILURE = re.compile(r"Node failure on (\S+)|DUE TO NODE FAILURE")


def file_of(line: str) -> str:
    """The file that a line about a full disk names, empty when it names none."""
    match = _FILE.search(line)
    return (match[1] or match[2]) if match else ""
