"""Why a run has failed: the most specific cause that scheduler, records and logs tell together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tuneplane.runs.why import symptoms
from tuneplane.runs.why.collective import broken
from tuneplane.runs.why.exceptions import exception
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.memory import MORE_MEMORY, exhausted
from tuneplane.runs.why.reason import Evidence, Reason
from tuneplane.runs.why.refused import refused
from tuneplane.runs.why.stopped import told_to_end
from tuneplane.runs.why.symptoms import search, where

_GAVE_UP = {
    "no progress": ("no progress", "two attempts in a row made no new checkpoint"),
    "attempts": ("attempts", "all attempts that the site allows are used up"),
}
_LOST = ("NODE_FAIL", "BOOT_FAIL")


def ended(facts: Facts) -> Reason:
    """The cause of the run's end."""
    gave_up = _GAVE_UP.get(str(facts.record.get("decided_by")))
    if gave_up is None:
        return told_to_end(facts) or cause(facts)
    last = cause(facts)
    return replace(last, kind=gave_up[0], sentence=f"{gave_up[1]}; the last one: {last.sentence}")


def cause(facts: Facts) -> Reason:
    """The cause of the last attempt's failure; causes of their own come before what follows from others."""
    rules: list[Callable[[Facts], Reason | None]] = [
        exhausted, refused, lost, _exception, broken, _ray, _server, _signal, _image, _command,
    ]  # fmt: skip
    return next((found for rule in rules if (found := rule(facts))), _nothing(facts))


def lost(facts: Facts) -> Reason | None:
    """A node that failed, None when none did."""
    named = search(facts, symptoms.NODE_FAILURE, script_only=True)
    heard = facts.verdict.get("reason") == "lost"
    if not heard and facts.job.word not in _LOST and facts.record.get("cause") != "lost" and not named:
        return None
    node, host = facts.verdict.get("node"), facts.verdict.get("host")
    if heard:
        what = f"node {node} ({host}) was lost: {facts.verdict.get('message')}"
    elif named and named.match[1]:
        what = f"the node {named.match[1]} failed"
    else:
        what = "a node of the job failed" + (
            f" (Slurm says {facts.job.word})" if facts.job.word in _LOST else ""
        )
    # where another node was told to stop first, the verdict is of that one
    out = host if heard else named.match[1] if named else None
    leave = f"; when it fails again leave it out (`resources: exclude: {out}`)" if out else ""
    action = f"`{facts.tp('job', 'requeue', facts.run)}` starts it again{leave}"
    return Reason("node failure", what, action, named.evidence if named else None)


def _exception(facts: Facts) -> Reason | None:
    found = exception(facts)
    if found is None:
        return None
    if found.match[1] in ("ModuleNotFoundError", "ImportError"):
        sentence = f"the program's Python lacks a module{where(facts, found)}: {found.match[2]}"
        action = (
            "add it to the image (`tp runtime build`) or to the experiment's own files, then submit again"
        )
        return Reason("module", sentence, action, found.evidence)
    action = f"read the lines above it: `{facts.logs}`"
    return Reason(
        "exception", f"the program ended with {found.match[1]}{where(facts, found)}", action, found.evidence
    )


def _ray(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.RAY)
    if found is None and facts.verdict.get("reason") != "ray":
        return None
    what = f"a Ray worker or node died ({found.match[0]}){where(facts, found)}" if found else ""
    sentence = what or f"{facts.verdict.get('message')}{facts.place}"
    return Reason(
        "ray", sentence, f"read what it said last: `{facts.logs}`", found.evidence if found else _last(facts)
    )


def _server(facts: Facts) -> Reason | None:
    if facts.verdict.get("reason") != "server":
        return None
    action = f"read the server's log: `{facts.logs}`"
    return Reason("server", f"{facts.verdict.get('message')}{facts.place}", action, _last(facts))


def _signal(facts: Facts) -> Reason | None:
    name = facts.verdict.get("signal")
    if facts.verdict.get("reason") != "signal" and facts.verdict.get("code") not in (137, 139, 135, 134):
        return None
    if name == "SIGKILL" or facts.verdict.get("code") == 137:
        sentence = f"it was killed{facts.place}, probably because the host ran out of memory"
        return Reason("killed", sentence, MORE_MEMORY, _last(facts))
    action = f"read what it said last: `{facts.logs}`"
    return Reason("signal", f"{facts.verdict.get('message')}{facts.place}", action, _last(facts))


def _image(facts: Facts) -> Reason | None:
    found = search(facts, symptoms.IMAGE, script_only=True)
    if found is None:
        return None
    return Reason(
        "image", "the container did not start", "`tp runtime verify` reads the image", found.evidence
    )


def _command(facts: Facts) -> Reason | None:
    """An exit code and no more: the last words of the program, or of Slurm where no supervisor spoke."""
    if facts.verdict.get("code"):
        action = f"read what it said last: `{facts.logs}`"
        return Reason("exit code", f"{facts.verdict.get('message')}{facts.place}", action, _last(facts))
    found = search(facts, symptoms.SRUN, script_only=True)
    if found is None and facts.record.get("decided_by") not in ("step", "killed", "script"):
        return None
    action = f"`{facts.logs}` shows what was said last; then `{facts.tp('job', 'requeue', facts.run)}`"
    return Reason("launcher", facts.status.why, action, found.evidence if found else _last(facts))


def _nothing(facts: Facts) -> Reason:
    action = f"`{facts.logs}` shows what was said last"
    return Reason("unknown", facts.status.why or "nobody says why it ended", action, _last(facts))


def _last(facts: Facts) -> Evidence | None:
    """The program's last words in the log that counts most; lines of our own say what is known already."""
    for text in facts.texts:
        for line in reversed(text.lines):
            if not line.startswith("tuneplane: "):
                return Evidence(line.strip()[:400], text.file)
    return None
