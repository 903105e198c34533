"""`tp`: the table of commands, and the one place where an error becomes an exit code."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import click

from tuneplane import __version__
from tuneplane.cli.chosen import Chosen
from tuneplane.errors import TuneplaneError, UsageError, shown

COMMANDS: dict[str, tuple[str, str]] = {
    "methods": ("methods:methods", "What can be run, and with which parameters"),
    "new": ("new:new", "Make an experiment"),
    "validate": ("validate:validate", "Check an experiment against catalog and site"),
    "explain": ("explain:explain", "Who set which value of an experiment"),
    "compile": ("compile:compile_", "Print the script of an experiment"),
    "submit": ("submit:submit", "Freeze an experiment and run it"),
    "recipe": ("recipe:recipe", "The recipe of an experiment and the one in force"),
    "catalog": ("catalog:catalog", "The published catalog"),
    "runtime": ("runtime:runtime", "Images: register, build, check, retire"),
    "site": ("site:site", "The sites known here"),
    "job": ("job:job", "Runs and how they stand"),
    "doctor": ("doctor:doctor", "Check what a run needs, here and with a small job"),
    "audit": ("audit:audit", "Compile a script again and name every difference"),
}
"""Name → (module:object below tuneplane.cli, one line for `tp --help`); nothing is imported before it is run."""


class Commands(click.Group):
    """A group that imports a command when it is called, and lists all without importing any."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(import_module(f"tuneplane.cli.{module}"), name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except TuneplaneError as error:
            from tuneplane.cli.output import site_words

            # what to type next is to be typed for the site that was named; `tp site ls` names them all
            again = shlex.join(["tp", *site_words("registry")])
            error.problems = tuple(
                replace(p, hint=f"{again} {p.hint[3:]}")
                if p.hint.startswith("tp ") and p.hint != "tp site ls"
                else p
                for p in error.problems
            )
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from tuneplane.errors import nearest

            close = nearest(args[0], COMMANDS)
            hint = f" Did you mean `{close}`?" if close else ""
            raise click.UsageError(error.message + hint, ctx) from None


def _complete_site(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from tuneplane.cli.complete import sites

    return sites(incomplete)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tp", message="%(prog)s %(version)s")
@click.option(
    "--site",
    metavar="NAME",
    envvar="TUNEPLANE_SITE",
    shell_complete=_complete_site,
    help="A site's name or file.",
)
@click.option(
    "--registry",
    metavar="DIR",
    envvar="TUNEPLANE_REGISTRY",
    type=click.Path(),
    help="A registry in place of the site's.",
)
@click.pass_context
def tp(ctx: click.Context, site: str | None, registry: str | None) -> None:
    """Run LLM post-training on Slurm clusters: recipes compiled into one script that can be audited."""
    ctx.obj = Chosen(site, registry)


def main() -> None:
    """The console script. Exit codes are those of the README."""
    if sys.getfilesystemencoding() != "utf-8":
        # in other locales arguments, paths and output would be other bytes than the same command's elsewhere
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code."""
    try:
        for word in arguments:
            if not word.isascii() and word != word.encode(errors="ignore").decode():
                raise UsageError.of(f"the argument {shown(word)} is not UTF-8 text")
        if "_TP_COMPLETE" in os.environ:
            tp.main(arguments, prog_name="tp")
        with tp.make_context("tp", list(arguments)) as context:
            tp.invoke(context)
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except TuneplaneError as error:
        _tell(error)
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return UsageError.exit_code
    except click.ClickException as error:
        _tell(_wrong_usage(error))
        return UsageError.exit_code
    except click.exceptions.Abort:
        return 130
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # the reader has gone: nothing more to say, also not at the interpreter's end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        return _tell_bug(arguments, error)


def _wrong_usage(error: click.ClickException) -> TuneplaneError:
    """click's account of a wrong command line in the form of all other errors."""
    what = error.format_message().removesuffix(".")
    if isinstance(error, click.NoSuchOption):
        # in words of our own: click's differ from release to release
        close = f", did you mean {shown(error.possibilities[0])}?" if error.possibilities else ""
        what = f"there is no option {shown(error.option_name)}{close}"
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "tp"
    return UsageError.of(what[:1].lower() + what[1:], hint=f"{command} --help")


def _tell(error: TuneplaneError) -> None:
    if os.environ.get("TUNEPLANE_DEBUG") == "1":
        import traceback

        traceback.print_exc()
    for problem in error.problems:
        click.echo("error: " + "\n".join(problem.lines()), err=True)


def _tell_bug(arguments: list[str], error: Exception) -> int:
    import platform
    import traceback

    if os.environ.get("TUNEPLANE_DEBUG") == "1":
        traceback.print_exc()
    else:
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {shown(error, 400)}"
        click.echo(
            f"error: a bug in tp: {what}\n  at       {last.filename}:{last.lineno} {last.name}", err=True
        )
    words = shlex.join(_reportable(arguments))
    click.echo(f"  report   tp {__version__}, Python {platform.python_version()}: tp {words}", err=True)
    click.echo("  try      the same with TUNEPLANE_DEBUG=1", err=True)
    return 1


def _reportable(arguments: list[str]) -> list[str]:
    """The command line as it may be pasted into a report: without the user's own words and secret values."""
    from tuneplane.names import looks_secret

    own = arguments.index("--") if "--" in arguments else len(arguments)
    words = []
    for word in arguments[:own]:
        key, equals, _ = word.partition("=")
        words.append(f"{key}=…" if equals and looks_secret(key) else word)
    return [*words, "--", "…"] if arguments[own:] else words
