"""The templates: they print what an encoder made, and nothing else."""

from __future__ import annotations

from functools import cache
from typing import Any

from tuneplane.errors import InputError, SiteError
from tuneplane.render import encode
from tuneplane.render.encode import Encoded, NotEncodable


def filled(name: str, context: dict[str, Any], limit: int) -> str:
    """The text of a template. limit: bytes that the site takes.

    Raises InputError for a value that no script can hold, SiteError above the limit.
    """
    try:
        text = str(template(name).render(context))
    except NotEncodable as error:
        raise InputError.of(str(error)) from None
    size = len(text.encode())
    if size > limit:
        raise SiteError.of(f"the script has {size} bytes", expected=f"at most {limit} (max_script_size)")
    return text


def _printed(value: Any) -> Any:
    """Every `{{ … }}` passes here: what no encoder made is a bug in a template."""
    if not isinstance(value, Encoded):
        raise TypeError(f"a template prints {value!r}, which no encoder made")
    return value


@cache
def template(name: str) -> Any:
    """A template, compiled once and kept in the user's cache."""
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
