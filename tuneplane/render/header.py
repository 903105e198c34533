"""The comment at the top of a script: what an auditor reads first."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.durations import spoken
from tuneplane.plan.model import Plan, Pool
from tuneplane.sites.model import Site


def header(plan: Plan, site: Site) -> list[tuple[str, str]]:
    """(label, text) lines that tell an auditor what this is."""
    p = plan.provenance
    lines = [
        ("experiment", p.experiment),
        ("", p.experiment_dir),
        ("method", f"{p.method} {p.recipe_version}, {p.framework} {p.framework_version}"),
        ("lock", f"sha256:{p.recipe_digest}"),
        ("site", f"{p.site}, {plan.scheduler}, {plan.runtime}"),
        ("", f"sha256:{p.site_digest}"),
        *([("registry", f"{p.registry}, which is not the site's")] if p.registry else []),
        *_image_lines(plan),
        *_placement(plan),
        ("time", spoken(plan.seconds)),
        *([("comes back", _comeback(plan))] if plan.scheduler == "slurm" else []),
        *([("Ray", "may be older than 2.52, which lets anybody in")] if _old_ray(plan) else []),
        ("files", f"sha256:{p.files_digest} ({_count(p.files_count, 'file')}, frozen, checked below)"),
        ("helper", f"sha256:{p.helper_digest} (what runs inside, checked below)"),
    ]
    for item in plan.located:
        text = item.path or "unknown"
        lines.append((item.key, f"{text} ({item.given})" if item.commit else text))
    if plan.secrets:
        lines.append(("secrets", ", ".join(plan.secrets) + f" from {site.folders.secrets} on each node"))
    return lines


def _placement(plan: Plan) -> Iterator[tuple[str, str]]:
    """The nodes, a line for each pool."""
    for pool in plan.pools or [Pool("", plan.topology)]:
        made = pool.topology
        gpus = "no GPUs"
        if made.gpus_per_node:
            gpus = f"{made.gpus_per_node} GPUs" + (f" ({made.gpu_type})" if made.gpu_type else "")
        runs = "a server" if pool.words else _count(made.processes_per_node, "process")
        what = f"{made.profile}: {_count(made.nodes, 'node')}, {gpus} and {runs} each"
        yield "placement", f"{pool.name}, {what}" if pool.name else what


def _comeback(plan: Plan) -> str:
    warned = f"told {spoken(plan.warning[1])} before its time limit" if plan.warning else ""
    if plan.resume is None:
        return ", ".join(filter(None, [f"no: {plan.why_not}", warned]))
    how = "Slurm starts it again" if plan.resume.policy == "requeue" else "it submits its successor"
    causes = ", ".join(cause.replace("-", " ") for cause in plan.resume.on)
    return f"{how} after {causes}, at most {_count(plan.resume.attempts, 'attempt')}, {warned}"


def _old_ray(plan: Plan) -> bool:
    return ("--old-ray", "allowed") in plan.launch


def _image_lines(plan: Plan) -> list[tuple[str, str]]:
    if plan.image is None:
        return [("image", "none, the job runs on the host")]
    image = plan.image
    digest = f"sha256:{image.sha256}, {image.size} bytes, samples {image.samples}"
    return [("image", f"{image.path} ({image.source})"), ("", digest if image.sha256 else "digest unknown")]


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"
