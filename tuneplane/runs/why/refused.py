"""Runs that did not get to their command: refused by a check, by a node's preflight, or never together."""

from __future__ import annotations

from tuneplane.runs.why import symptoms
from tuneplane.runs.why.facts import Facts
from tuneplane.runs.why.reason import Evidence, Reason
from tuneplane.runs.why.symptoms import search

_KINDS = {3: "input", 4: "frozen files", 5: "image"}
_ACTIONS = {
    3: "put back what is gone, then `{requeue}`",
    4: "nothing may change in a run folder: `tp submit` makes a new run",
    5: "`tp runtime ls` shows the images; `tp runtime verify` reads one, then submit again",
}


def refused(facts: Facts) -> Reason | None:
    """What a check before the launch found, None when there was none that failed."""
    reason = facts.verdict.get("reason")
    if facts.record.get("decided_by") == "check":
        return _check(facts, int(facts.record["code"]), facts.refusal or "a check failed before the launch")
    if reason == "preflight":
        return _check(
            facts, int(facts.verdict.get("code", 0)), f"{facts.verdict.get('message')}{facts.place}"
        )
    if reason == "rendezvous":
        return Reason(
            "rendezvous",
            f"the nodes did not find each other: {facts.verdict.get('message')}{facts.place}",
            f"`{facts.tp('doctor', '--job')}` tries the nodes' network; the site's `network: interface` must be one that all have",
        )
    if reason == "could-not-start":
        return Reason(
            "could not start",
            f"{facts.verdict.get('message')}{facts.place}",
            "check the program's name and mode in the experiment, and that the image has it",
            _last_of_node(facts),
        )
    return None


def _check(facts: Facts, code: int, sentence: str) -> Reason:
    if secret := search(facts, symptoms.SECRET, script_only=True):
        return Reason(
            "secret",
            sentence,
            "mend the secrets file that the line names, then " + _again(facts),
            secret.evidence,
        )
    image = search(facts, symptoms.IMAGE, script_only=True)
    if image or code == 5 or sentence.startswith("the image has"):
        return Reason("image", sentence, _ACTIONS[5], image.evidence if image else None)
    action = _ACTIONS.get(
        code, f"{_again(facts)}; when it is the same node again, leave it out (`resources: exclude`)"
    )
    found = search(facts, symptoms.SRUN, script_only=True) if code not in _KINDS else None
    kind = _KINDS.get(code, "preflight" if facts.verdict else "check")
    return Reason(
        kind,
        sentence,
        action.replace("{requeue}", facts.tp("job", "requeue", facts.run)),
        found.evidence if found else None,
    )


def _again(facts: Facts) -> str:
    return f"`{facts.tp('job', 'requeue', facts.run)}`"


def _last_of_node(facts: Facts) -> Evidence | None:
    """The last line that the first node to fail has written."""
    for text in facts.texts:
        if text.node is not None and text.lines:
            return Evidence(text.lines[-1].strip()[:400], text.file)
    return None
