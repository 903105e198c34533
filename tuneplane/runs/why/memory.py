"""Causes that logs tell whatever else is known: no memory on a GPU or a host, no space on a disk."""

from __future__ import annotations

from tuneplane.runs.why import symptoms
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.reason import Reason
from tuneplane.runs.why.symptoms import Found, search, where

MORE_MEMORY = "less memory: fewer data loader workers, no offload to the host, or more of it for the job (a whole node, more nodes)"


def exhausted(facts: Facts) -> Reason | None:
    """Which resource ran out, None when no log says so."""
    return _gpu(facts) or _host(facts) or _shared(facts) or _disk(facts)


def _gpu(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.GPU_MEMORY)
    if found is None:
        return None
    size = symptoms.ALLOCATION.search(found.line)
    more = f": {size[1]} more were asked for" if size else ""
    return Reason(
        "gpu memory",
        f"a GPU ran out of memory{where(facts, found)}{more}",
        "a smaller batch per GPU, shorter sequences, or more GPUs (--profile)",
        found.evidence,
    )


def _host(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.HOST_MEMORY)
    if found is None and facts.job.word != "OUT_OF_MEMORY":
        return None
    place = where(facts, found) if found else facts.place
    if found is None or found.text.node is None:
        place = place or facts.place or _task(found)
    return Reason(
        "host memory",
        f"the host ran out of the job's memory{place}",
        MORE_MEMORY,
        found.evidence if found else None,
    )


def _task(found: Found | None) -> str:
    """The host that srun names: `srun: error: n2: task 1: Out Of Memory`."""
    words = found.line.split(": ") if found else []
    return f" on {words[2]}" if len(words) > 3 and words[0] == "srun" and words[3].startswith("task") else ""


def _shared(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.SHARED_MEMORY)
    if found is None:
        return None
    return Reason(
        "shared memory",
        f"/dev/shm is too small or full{where(facts, found)}",
        "fewer data loader workers; a site can ask for more with `preflight: shared_memory`",
        found.evidence,
    )


def _disk(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.DISK)
    if found is None:
        return None
    file = symptoms.file_of(found.line)
    quota = "quota" in found.line.lower() or "EDQUOT" in found.line or "Errno 122" in found.line
    what = "the disk quota was exceeded" if quota else "the disk was full"
    check = "`quota -s` shows what is used" if quota else f"`df -h {file or 'FOLDER'}` shows what is free"
    return Reason(
        "disk full",
        f"{what}{where(facts, found)}" + (f", writing {file}" if file else ""),
        f"remove old checkpoints and outputs, or keep fewer of them; {check}",
        found.evidence,
    )
