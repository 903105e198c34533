"""Whether the image is one that this site starts, for this kind of node and this method."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.catalog.recipe import Recipe
from tuneplane.errors import ImageError, SiteError, shown
from tuneplane.experiment.config import Config
from tuneplane.faults import Faults
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.model import NOT_REGISTERED, Image, Refusal
from tuneplane.sites.kinds import NAMES, STARTED_BY
from tuneplane.sites.model import Site


def check_image(inputs: Inputs, faults: Faults) -> None:
    """What no script could be made for."""
    kind, image = inputs.site.runtime.kind, inputs.image
    if kind == "host":
        if inputs.request.image:
            faults.add(SiteError, "this site runs on the host, without images", inputs.request.image_by)
        return
    formats = STARTED_BY[kind]
    if image is None:
        faults.add(ImageError, f"this site has no image for {inputs.recipe.name}", hint=_option(kind))
    elif image.format and image.format not in formats:
        faults.add(
            ImageError,
            f"the image {shown(image.path, 400)} is a {NAMES[image.format]}",
            image.source,
            f"a {' or '.join(NAMES[name] for name in formats)}: this site starts images by {kind}",
            "tp runtime import",
        )


def image_refusals(inputs: Inputs) -> Iterator[Refusal]:
    """Why the image cannot be started as it is now."""
    image = inputs.image
    if image is None:
        return
    code, option = ImageError.exit_code, _option(inputs.site.runtime.kind)
    if image.source == NOT_REGISTERED:
        what = f"this site has no image for {shown(image.runtime_id)}"
        there = f", only {image.trouble}" if image.trouble else ""
        yield Refusal(code, what + there, "", option)
        return
    if image.sha256 is None:
        what = f"the image {shown(image.path, 400)} does not exist"
        yield Refusal(code, what, image.source, option)
    arch = node_arch(inputs.site, inputs.config)
    if image.arch and arch and image.arch != arch:
        what = f"the image {shown(image.path, 400)} is for {image.arch}, and the nodes are {arch}"
        yield Refusal(code, what, image.source, option)
    yield from _lacking(inputs, image)


def image_trouble(image: Image | None) -> Iterator[Refusal]:
    """What is wrong with a registered image's file. No script says it: it follows from the record, and looks itself."""
    if image is not None and image.trouble and image.source != NOT_REGISTERED:
        yield Refusal(ImageError.exit_code, image.trouble, image.source, "tp runtime verify")


def _lacking(inputs: Inputs, image: Image) -> Iterator[Refusal]:
    """What the method asks for and registration did not find."""
    asked = asked_of(inputs.recipe, inputs.site)
    if image.packages is None or not asked:
        return
    from tuneplane.catalog.requires import unmet

    for requirement, held in unmet(asked, dict(image.packages)):
        has = f"holds {held}" if held else "does not hold it"
        what = f"{inputs.recipe.name} needs {requirement}, and the image of {image.runtime_id} {has}"
        yield Refusal(ImageError.exit_code, what, image.source, "tp runtime show " + image.runtime_id)


def asked_of(recipe: Recipe, site: Site) -> list[str]:
    """What an image must hold for a method: what the method says, and a Ray that lets nobody else in."""
    guarded = recipe.launch.kind == "ray" and not site.runtime.old_ray
    return [*recipe.requires, *(["ray>=2.52"] if guarded else [])]


def unchecked(inputs: Inputs) -> tuple[str, ...]:
    """What the method asks of an image that nobody has looked into."""
    if inputs.image is None or inputs.image.packages is not None:
        return ()
    return tuple("".join(text.split()) for text in asked_of(inputs.recipe, inputs.site))


def node_arch(site: Site, config: Config) -> str:
    """The architecture of the nodes that are asked for; empty for a profile that the site does not have."""
    chosen = config.resources.get("profile") or next(iter(config.pools.values()), None)
    profile = site.profiles.get((chosen.text if chosen else site.default_profile).partition(":")[0])
    return profile.arch if profile else ""


def _option(kind: str) -> str:
    return f"--image FILE.{STARTED_BY.get(kind, ('sif',))[0]}"
