"""Plan → the sbatch script."""

from __future__ import annotations

from functools import cache
from typing import Any

from tuneplane.durations import spoken
from tuneplane.errors import InputError, SiteError
from tuneplane.experiment.secrets import READ_SH
from tuneplane.experiment.snapshot import CHECK_SH
from tuneplane.plan.model import Plan, Ref, Variable
from tuneplane.plan.paths import site_path
from tuneplane.render import encode
from tuneplane.render.encode import Encoded, NotEncodable
from tuneplane.sites.model import Site

PARAMS_END = "TUNEPLANE_PARAMS"
PREFIXES = {"host": "", "apptainer": "APPTAINERENV_"}
"""What a runtime wants before the name of a variable that is to arrive inside."""


def render(plan: Plan, site: Site) -> str:
    """The script's text. Raises InputError for a value that no script can hold, SiteError above the site's size."""
    try:
        text = str(_template("job.sbatch.j2").render(_context(plan, site)))
    except NotEncodable as error:
        raise InputError.of(str(error)) from None
    size, limit = len(text.encode()), site.slurm.max_script_size
    if size > limit:
        raise SiteError.of(f"the script has {size} bytes", expected=f"at most {limit} (max_script_size)")
    return text


def _printed(value: Any) -> Any:
    """Every `{{ … }}` passes here: what no encoder made is a bug in a template."""
    if not isinstance(value, Encoded):
        raise TypeError(f"a template prints {value!r}, which no encoder made")
    return value


@cache
def _template(name: str) -> Any:
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    from tuneplane.cache import cache_folder
    from tuneplane.resources import bundled

    folder = cache_folder()
    environment = Environment(
        loader=FileSystemLoader(bundled("templates")),
        bytecode_cache=FileSystemBytecodeCache(str(folder)) if folder else None,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        finalize=_printed,
        autoescape=False,
    )
    environment.filters |= {
        "word": encode.word,
        "directive": encode.directive,
        "comment": encode.comment,
        "number": encode.number,
        "verbatim": encode.verbatim,
    }
    return environment.get_template(name)


def _context(plan: Plan, site: Site) -> dict[str, Any]:
    everywhere, on_node = _variables(plan)
    return {
        "plan": plan,
        "site": site,
        "header": _header(plan, site),
        "audit": " ".join(encode.word(item) for item in plan.provenance.command),
        "everywhere": everywhere,
        "on_node": on_node,
        "prefix": encode.verbatim(PREFIXES[plan.runtime]),
        "path": ":".join(site.path),
        "inherited": set(site.inherit),
        "secrets_file": site_path(site.folders.secrets),
        "model_cache": site_path(site.folders.model_cache),
        "mounts": _mounts(plan),
        "scratch": site_path(site.folders.scratch),
        "binds": [
            (site_path(bind.removesuffix(":ro")), ",ro" if bind.endswith(":ro") else "")
            for bind in site.runtime.binds
        ],
        "check_sh": encode.verbatim(CHECK_SH.strip("\n")),
        "read_sh": encode.verbatim(READ_SH.strip("\n")),
        "params": encode.heredoc(plan.params, PARAMS_END),
        "params_end": encode.verbatim(PARAMS_END),
    }


def _variables(plan: Plan) -> tuple[list[Variable], list[Variable]]:
    """Variables the batch shell exports, and those that each node sets because they hold its scratch folder."""
    here: list[Variable] = []
    there: list[Variable] = []
    for variable in plan.environment:
        on_node = isinstance(variable.value, Ref) and variable.value.place == "scratch"
        (there if on_node else here).append(variable)
    return here, there


def _mounts(plan: Plan) -> list[str]:
    """Paths a container must see, each once, in the plan's order."""
    return list(dict.fromkeys(item.mount or item.path for item in plan.located if item.path))


def _header(plan: Plan, site: Site) -> list[tuple[str, str]]:
    """(label, text) lines that tell an auditor what this is."""
    p, t = plan.provenance, plan.topology
    gpus = (
        f"{t.gpus_per_node} GPUs" + (f" ({t.gpu_type})" if t.gpu_type else "")
        if t.gpus_per_node
        else "no GPUs"
    )
    lines = [
        ("experiment", p.experiment),
        ("", p.experiment_dir),
        ("method", f"{p.method} {p.recipe_version}, {p.framework} {p.framework_version}"),
        ("lock", f"sha256:{p.recipe_digest}"),
        ("site", f"{p.site}, {plan.scheduler}, {plan.runtime}"),
        ("", f"sha256:{p.site_digest}"),
        *([("registry", f"{p.registry}, which is not the site's")] if p.registry else []),
        *_image_lines(plan),
        (
            "placement",
            f"{t.profile}: {_count(t.nodes, 'node')}, {gpus} and {_count(t.processes_per_node, 'process')} each",
        ),
        ("time", spoken(plan.seconds)),
        ("files", f"sha256:{p.files_digest} ({_count(p.files_count, 'file')}, frozen, checked below)"),
        ("helper", f"sha256:{p.helper_digest} (what runs inside, checked below)"),
    ]
    for item in plan.located:
        text = item.path or "unknown"
        lines.append((item.key, f"{text} ({item.given})" if item.commit else text))
    if plan.secrets:
        lines.append(("secrets", ", ".join(plan.secrets) + f" from {site.folders.secrets} on each node"))
    return lines


def _image_lines(plan: Plan) -> list[tuple[str, str]]:
    if plan.image is None:
        return [("image", "none, the job runs on the host")]
    digest = f"sha256:{plan.image.sha256}" if plan.image.sha256 else "digest unknown"
    return [("image", f"{plan.image.path} ({plan.image.source})"), ("", digest)]


def _count(number: int, noun: str) -> str:
    plural = noun + ("es" if noun.endswith("s") else "s")
    return f"{number} {noun if number == 1 else plural}"
