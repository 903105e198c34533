"""The script again: from the auditor's recipe and site, the frozen files, and the submitter's claims."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import replace
from pathlib import Path

from tuneplane.audit.frozen import Frozen
from tuneplane.audit.model import CannotRecompile, Claims, Difference, Place
from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.text import decoded
from tuneplane.errors import TuneplaneError
from tuneplane.experiment.config import CONFIG_FILE, Config, Located, Written, read_config
from tuneplane.experiment.hub import snapshot_of
from tuneplane.experiment.locate import LOCK_FILE
from tuneplane.experiment.locations import at_path, in_hub, may_be_hub_id
from tuneplane.experiment.lock import fields_of, read_lock
from tuneplane.plan.build import make_plan
from tuneplane.plan.images import asked_of, node_arch
from tuneplane.plan.inputs import Inputs
from tuneplane.plan.model import Image
from tuneplane.prepare import RESOURCE_KEYS, located, named_texts
from tuneplane.registry.shelf import Shelf
from tuneplane.render.script import render
from tuneplane.runs.helper import helper
from tuneplane.runtimes.image import Wanted, named_image, record_of
from tuneplane.sites.model import Site


def recompile(
    claims: Claims,
    recipe: Recipe,
    site: Site,
    files: Frozen,
    shelf: Shelf | None,
    keys: dict[str, str] | None = None,
) -> str:
    """The script's text. keys: the recipe's table of upstream's keys. Raises CannotRecompile."""
    try:
        return render(make_plan(replace(inputs(claims, recipe, site, files, shelf), keys=keys)), site)
    except TuneplaneError as error:
        raise CannotRecompile(f"from these inputs tp makes no script: {error}") from None


def inputs(claims: Claims, recipe: Recipe, site: Site, files: Frozen, shelf: Shelf | None = None) -> Inputs:
    """What `prepare` would have read. Raises InputError for a configuration that is none."""
    command, request = claims.command, claims.command.request
    folder = command.experiment_dir
    config = request.written(_config(files))

    def find(key: str, item: Written, path: str | None) -> Located:
        return _located(key, item, path, claims.places.get(key), folder, site.folders.model_cache)

    return Inputs(
        experiment=posixpath.basename(folder),
        experiment_dir=folder,
        config=config,
        recipe=recipe,
        site_name=claims.site,
        site_digest=claims.site_digest,
        site=site,
        request=request,
        located=located(folder, config, recipe, request, files.names, find),
        image=image_of(claims, recipe, site, shelf, config),
        has_file=files.names,
        files_digest=files.digest,
        helper_digest=helper().digest,
        command=command.words(),
        registry=command.registry,
        texts=named_texts(recipe, config, request, files.files),
    )


def _config(files: Frozen) -> Config:
    if files.config is None:
        raise CannotRecompile(f"the frozen files hold no {CONFIG_FILE}")
    return read_config(decoded(files.config, CONFIG_FILE), CONFIG_FILE, RESOURCE_KEYS)


def image_of(
    claims: Claims, recipe: Recipe, site: Site, shelf: Shelf | None, config: Config | None = None
) -> Image | None:
    """The image that command, recipe, `shelf` and site name; of one that is not registered digests and size are as
    claimed. Without `config`, which says what nodes it is for, it is the record's image at the claimed path.
    """
    if site.runtime.kind == "host":
        return None
    request = claims.command.request
    held = shelf.current if shelf and shelf.runtime_id == recipe.runtime_id else {}
    archs = [item.arch for item in held.values() if item.path == claims.image_path]
    arch = node_arch(site, config) if config else "".join(archs[:1])
    wanted = Wanted(recipe.runtime_id, arch, tuple(asked_of(recipe, site)), request.image, request.image_by)
    named = named_image(wanted, site, held, shelf.serial if shelf else 0)
    if named is None or record_of(named.source):
        return named
    return replace(named, sha256=claims.image_sha256, size=claims.image_size, samples=claims.image_samples)


def lock_differences(recipe: Recipe, files: Frozen) -> list[Difference]:
    """Where the frozen lock does not say what the recipe is."""
    if files.lock is None:
        return [Difference("lock", f"files/{LOCK_FILE}", "a lock", None)]
    try:
        locked = read_lock(files.lock, LOCK_FILE).fields
    except TuneplaneError as error:
        return [Difference("lock", f"files/{LOCK_FILE}", "a lock", str(error))]
    return [
        Difference("lock", f"files/{LOCK_FILE} {key}", value, locked[key])
        for key, value in fields_of(recipe).items()
        if locked[key] != value
    ]


def _located(
    key: str, item: Written, path: str | None, claim: Place | None, folder: str, cache: str
) -> Located:
    """What lay at a place when the script was made. Existence, commit and whose home `~` was are claims; where a text
    leads follows from the text.
    """
    claim = claim or Place(None, True)
    if path is not None:
        return at_path(key, item, path, claim.exists)
    if may_be_hub_id(item.text):
        if claim.commit:
            kind = "model" if key == "model" else "dataset"
            tail = snapshot_of(item.text, kind, Path(cache, "hub"), claim.commit)  # type: ignore[arg-type]
            return in_hub(key, item, Path(_at_home(str(tail), claim.path)), claim.commit)
        if claim.path is None and claim.missing:
            return Located(
                key, item.text, None, False, where=item.where, missing=claim.missing, remedy=claim.remedy
            )
    return at_path(key, item, _at_home(_joined(folder, item.text), claim.path), claim.exists)


def _joined(folder: str, text: str) -> str:
    return posixpath.normpath(text if text.startswith("~") else posixpath.join(folder, text))


def _at_home(path: str, claimed: str | None) -> str:
    """`path` with a home folder and login name that only the submitter knows: those of the claimed path."""
    if not path.startswith("~") and "{user}" not in path:
        return path
    pattern = re.escape(path).replace(re.escape("{user}"), "[^/]+")
    pattern = re.sub(r"^\\?~[^/]*", "/[^\0]*", pattern)
    own = os.path.expanduser(path)
    return claimed if claimed is not None and re.fullmatch(pattern, claimed) else own
