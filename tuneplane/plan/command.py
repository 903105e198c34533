"""The command that prints a script again: the words that stand in its header, written and read by one table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tuneplane.plan.inputs import Request

_OPTIONS = {
    "--profile": "profile",
    "--time": "time",
    "--model": "model",
    "--train-data": "train_data",
    "--validation-data": "validation_data",
    "--image": "image",
}
"""Options with one value, in the order they are written in, and the field of a request that each fills."""


_VARIABLE = re.compile(r"TUNEPLANE_IMAGE_[A-Z0-9_]+\Z")


def image_variable(framework: str) -> str:
    """The user's variable that names the image of a framework: `TUNEPLANE_IMAGE_PYTORCH`."""
    return "TUNEPLANE_IMAGE_" + re.sub(r"[^A-Z0-9]", "_", framework.upper())


@dataclass(frozen=True)
class Command:
    """`tp compile` with nothing that depends on the current folder.

    site: a name, or the path of a file; registry: one named in place of the site's, else empty; experiment_dir and the
    request's image: absolute paths.
    """

    site: str
    registry: str
    experiment_dir: str
    request: Request

    def words(self) -> tuple[str, ...]:
        """The command line, behind `env` when a variable names the image."""
        request = self.request
        words = ["tp", "--site", self.site]
        if request.image is not None and request.image_by != "--image":
            words = ["env", f"{request.image_by}={request.image}", *words]
            request = replace(request, image=None)
        words += ["--registry", self.registry] if self.registry else []
        words += ["compile", self.experiment_dir]
        for option, name in _OPTIONS.items():
            value = getattr(request, name)
            words += [option, value] if value is not None else []
            for roles, profile in request.pools if option == "--profile" else ():
                words += [option, f"{roles}={profile}"]
        for key, text in request.settings:
            words += ["--set", f"{key}={text}"]
        return (*words, "--", *request.words) if request.words else tuple(words)

    @staticmethod
    def read(words: Sequence[str]) -> Command:
        """The command that these words are. Raises ValueError when they are none that `words` gives."""
        words = list(words)
        image, by = None, "--image"
        if words[:1] == ["env"]:
            by, equals, image = "".join(words[1:2]).partition("=")
            if not equals or not _VARIABLE.match(by):
                raise ValueError("no variable that names an image")
            words = words[2:]
        own = words.index("--") if "--" in words else len(words)
        options, settings, places, pools = _split(words[:own])
        known = {"--site", "--registry", *_OPTIONS}
        if words[:1] != ["tp"] or set(options) - known or "--site" not in options or len(places) != 1:
            raise ValueError("no command of tp compile")
        request = Request(
            **{_OPTIONS[option]: value for option, value in options.items() if option in _OPTIONS},
            pools=tuple(pools),
            settings=tuple(settings),
            words=tuple(words[own + 1 :]),
        )
        request = replace(request, image=image, image_by=by) if image is not None else request
        return Command(options["--site"], options.get("--registry", ""), places[0], request)


def roles_of(profile: str) -> tuple[str, str]:
    """Roles, empty for those of the launch itself, and the profile of `[ROLES=]NAME[:N]`."""
    roles, equals, text = profile.rpartition("=")
    return (roles, text) if equals else ("", profile)


_Pairs: TypeAlias = "list[tuple[str, str]]"


def _split(words: Sequence[str]) -> tuple[dict[str, str], _Pairs, list[str], _Pairs]:
    """Options, settings, what stands behind `compile`, and pools."""
    options: dict[str, str] = {}
    settings: _Pairs = []
    pools: _Pairs = []
    places: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        # options take whatever follows; a path begins with a slash, so it is none
        value = next(rest, None)
        if value is None:
            raise ValueError(f"{word} has no value")
        if word == "--set":
            key, _, text = value.partition("=")
            settings.append((key, text))
        elif word == "--profile" and roles_of(value)[0]:
            pools.append(roles_of(value))
        elif word == "compile":
            places.append(value)
        else:
            options[word] = value
    return options, settings, places, pools
