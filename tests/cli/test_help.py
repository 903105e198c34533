"""`--help` of every command, `--version`, and command lines that are wrong."""

from __future__ import annotations

import pytest
from cli.world import Expected, World

from tuneplane import __version__

expected = Expected("help")

COMMANDS = [
    "",
    "methods",
    "new",
    "validate",
    "explain",
    "compile",
    "submit",
    "recipe",
    "recipe ls",
    "recipe status",
    "recipe upgrade",
    "catalog",
    "catalog refresh",
    "catalog status",
    "catalog ls",
    "catalog rollback",
    "catalog gc",
    "runtime",
    "runtime register",
    "runtime build",
    "runtime import",
    "runtime ls",
    "runtime show",
    "runtime verify",
    "runtime retire",
    "runtime undo",
    "site",
    "site ls",
    "site show",
    "job",
    "job ls",
    "job status",
    "job wait",
    "job why",
    "job logs",
    "job cancel",
    "job requeue",
    "doctor",
    "audit",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(world: World, command: str) -> None:
    said = world.tp(*command.split(), "--help")
    expected(said, f"tp {command}".rstrip(), world)
    assert world.tp(*command.split(), "-h") == said


def test_every_command_is_listed_here(world: World) -> None:
    """A command that is added has its help compared."""
    import click

    from tuneplane.cli.main import COMMANDS as TABLE
    from tuneplane.cli.main import tp

    context = click.Context(tp)
    found = [""]
    for name in TABLE:
        command = tp.get_command(context, name)
        found.append(name)
        if isinstance(command, click.Group):
            found += [f"{name} {inner}" for inner in command.commands]
    assert sorted(found) == sorted(COMMANDS)


def test_version(world: World) -> None:
    said = world.tp("--version")
    assert (said.code, said.out, said.err) == (0, f"tp {__version__}\n", "")


WRONG = {
    "no command": [],
    "no command of a group": ["job"],
    "unknown command": ["frobnicate"],
    "unknown command with a near one": ["sumbit"],
    "unknown option": ["compile", "exp", "--profilee", "cpu"],
    "an option behind the command": ["methods", "--site", "local"],
    "missing argument": ["compile"],
    "words without --": ["submit", "exp", "one", "two"],
    "a setting without =": ["validate", "exp", "--set", "beta"],
    "a setting without a key": ["validate", "exp", "--set", "=1"],
    "an option without its value": ["validate", "exp", "--time"],
    "an empty model": ["validate", "exp", "--model", ""],
    "an empty image": ["validate", "exp", "--image", ""],
    "not UTF-8": ["validate", "exp", "--set", "note=\udcff"],
    "lines that are no number": ["job", "logs", "run", "-n", "many"],
    "lines below zero": ["job", "logs", "run", "-n", "-1"],
    "unknown language": ["methods", "--lang", "fr"],
    "data beside a method": ["methods", "custom/custom", "--data", "any"],
    "version without a method": ["methods", "--framework-version", "2.14.0"],
    "new without a method": ["new", "exp"],
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_usage(world: World, case: str) -> None:
    before = world.tree()
    expected(world.tp(*WRONG[case]), case, world)
    assert world.tree() == before
