"""What a plan follows from, and what the command line says of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tuneplane.catalog.recipe import Recipe
from tuneplane.documents.tree import Mark
from tuneplane.experiment.config import COMMAND_LINE, CONFIG_FILE, Config, Located, Written
from tuneplane.plan.model import Image
from tuneplane.sites.model import Site


@dataclass(frozen=True)
class Request:
    """What the command line adds to the experiment.

    pools: (roles, profile) of each `--profile` that names roles; settings: (key, text) of each `--set`; image_by: the
    option or variable that names the image.
    """

    profile: str | None = None
    pools: tuple[tuple[str, str], ...] = ()
    time: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    model: str | None = None
    train_data: str | None = None
    validation_data: str | None = None
    image: str | None = None
    image_by: str = "--image"
    words: tuple[str, ...] = ()

    def written(self, config: Config) -> Config:
        """`config` with the model, data, resources and words that the command line names in their place."""
        mark = Mark(COMMAND_LINE)

        def over(text: str | None, option: str, below: Written | None) -> Written | None:
            lost = ((CONFIG_FILE, below.text, below.where),) if below else ()
            return Written(text, mark, option, lost) if text is not None else below

        data = dict(config.data)
        for key, text, option in (
            ("train", self.train_data, "--train-data"),
            ("validation", self.validation_data, "--validation-data"),
        ):
            if text is not None:
                data = {name: item for name, item in data.items() if not name.startswith(f"{key}.")}
            if item := over(text, option, data.get(key)):
                data[key] = item
        resources = dict(config.resources)
        for key, text in (("profile", self.profile), ("time", self.time)):
            if item := over(text, f"--{key}", resources.get(key)):
                resources[key] = item
        return Config(
            model=over(self.model, "--model", config.model),
            data=data,
            params=config.params,
            overrides=config.overrides,
            env=config.env,
            secrets=config.secrets,
            tracking=config.tracking,
            resources=resources,
            pools={
                **config.pools,
                **{
                    roles: Written(text, mark, f"--profile {roles}", _lost(config, roles))
                    for roles, text in self.pools
                },
            },
            args=[Written(word, mark, "--") for word in self.words] if self.words else config.args,
        )


def _lost(config: Config, roles: str) -> tuple[tuple[str, str, str], ...]:
    below = config.pools.get(roles)
    return ((CONFIG_FILE, below.text, below.where),) if below else ()


@dataclass(frozen=True)
class Inputs:
    """All that a plan follows from.

    config: already with what the command line says in its place; keys: upstream's keys → their types, None where the
    method has no table of them or nothing asks for it; texts: contents of the files that parameters name, by the text
    that names them.
    """

    experiment: str
    experiment_dir: str
    config: Config
    recipe: Recipe
    site_name: str
    site_digest: str
    site: Site
    request: Request
    located: dict[str, Located]
    image: Image | None
    has_file: frozenset[str]
    files_digest: str
    helper_digest: str
    command: tuple[str, ...] = ()
    language: str = "en"
    config_name: str = "config.yaml"
    registry: str = ""
    keys: Mapping[str, str] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)
