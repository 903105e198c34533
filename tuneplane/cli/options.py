"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tuneplane.cli import complete

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Data as JSON on stdout.")
lang_option = click.option(
    "--lang", type=click.Choice(["en", "zh"]), help="Language of texts; the locale's by default."
)


_WORDS = "tuneplane.words"


class WithWords(click.Command):
    """A command whose words behind `--` are the user's own, whatever they look like; none are without it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            at = args.index("--")
            args, ctx.meta[_WORDS] = args[:at], tuple(args[at + 1 :])
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[-- ARGS]"]


def experiment_argument(function: F) -> F:
    """EXP: a folder, or a name in the current folder or its `experiments/`."""
    return click.argument("experiment", metavar="EXP", shell_complete=complete.experiments)(function)


def request_options(function: F) -> F:
    """What a command line can say over `config.yaml`, handed on as one `request`; goes with `WithWords`."""

    @click.option(
        "profiles",
        "--profile",
        metavar="[ROLES=]NAME[:N]",
        multiple=True,
        shell_complete=complete.profiles,
        help="Kind of node and number of GPUs, for some roles or for the launch; can be repeated.",
    )
    @click.option(
        "--set",
        "settings",
        metavar="KEY=VALUE",
        multiple=True,
        shell_complete=complete.settings,
        help="A parameter; can be repeated.",
    )
    @click.option("--time", metavar="DURATION", help="Time limit: 90m, 12h, 1d12h, H:MM:SS or D-HH:MM:SS.")
    @_place("--model", "PATH|ID", "The model, in place of the configuration's.")
    @_place("--train-data", "PATH|ID", "Training data, in place of the configuration's.")
    @_place("--validation-data", "PATH|ID", "Validation data, in place of the configuration's.")
    @_place("--image", "FILE", "The image to start.")
    def wrapped(
        *args: Any,
        profiles: tuple[str, ...],
        settings: tuple[str, ...],
        time: str | None,
        model: str | None,
        train_data: str | None,
        validation_data: str | None,
        image: str | None,
        **kwargs: Any,
    ) -> Any:
        from tuneplane.plan.command import roles_of
        from tuneplane.plan.inputs import Request

        split = [roles_of(text) for text in profiles]
        plain = [text for roles, text in split if not roles]
        if len(plain) > 1:
            raise click.BadParameter("it is given twice for the launch itself", param_hint="--profile")
        request = Request(
            profile=plain[0] if plain else None,
            pools=tuple((roles, text) for roles, text in split if roles),
            time=time,
            settings=tuple(_assignment(text) for text in settings),
            model=model,
            train_data=train_data,
            validation_data=validation_data,
            image=image,
            words=click.get_current_context().meta.get(_WORDS, ()),
        )
        return function(*args, request=request, **kwargs)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    if hasattr(function, "__click_params__"):
        wrapped.__click_params__ = [*wrapped.__click_params__, *function.__click_params__]  # type: ignore[attr-defined]
    return wrapped  # type: ignore[return-value]


def _place(name: str, metavar: str, help_text: str) -> Callable[[F], F]:
    """An option that names a file or folder; an empty word would be the experiment's own folder."""

    def check(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
        if text == "":
            raise click.BadParameter("the text is empty")
        return text

    return click.option(name, metavar=metavar, help=help_text, type=click.Path(), callback=check)


def _assignment(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise click.BadParameter(f"{text!r} is no KEY=VALUE", param_hint="--set")
    return key, value
