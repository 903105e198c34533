"""`tp job logs`."""

from __future__ import annotations

import shlex
import time

import click

from tuneplane.cli.asked import POLL_SECONDS, find, over, pauses, run_argument, status_of
from tuneplane.cli.chosen import Chosen


@click.command("logs")
@run_argument
@click.option("--follow", "-f", is_flag=True, help="Go on until the run ends.")
@click.option("--lines", "-n", type=click.IntRange(min=0), help="Only the last lines of each log.")
@click.option("--node", metavar="RANK", type=click.IntRange(min=0), help="Only this node's log.")
@click.option("--attempt", type=click.IntRange(min=1), help="The attempt; the newest by default.")
@click.pass_obj
def logs(
    chosen: Chosen,
    run_word: str,
    follow: bool,
    lines: int | None,
    node: int | None,
    attempt: int | None,
) -> None:
    """Print a run's logs.

    The script's own comes first, then each node's; with several nodes, lines carry their rank.
    """
    from tuneplane.errors import InputError
    from tuneplane.runs.folder import nodes_of, read_run
    from tuneplane.runs.logs import follow as following
    from tuneplane.runs.logs import logs_of, tail

    site, run = find(chosen, run_word)

    asking, due = pauses(), 0.0

    def ended() -> bool:
        nonlocal due
        if time.monotonic() < due:
            return False
        found = status_of(site, read_run(run.folder) or run)
        due = time.monotonic() + next(asking)
        return over(found)

    while follow and not run.attempts() and not ended():
        time.sleep(POLL_SECONDS)
    attempts = [path for path in run.attempts() if attempt is None or int(path.name) == attempt]
    if not attempts:
        there = [int(path.name) for path in run.attempts()]
        what = f"{run.id} has no attempt {attempt}" if attempt and there else f"{run.id} has not started"
        expected = f"{there[0]} to {there[-1]}" if there else ""
        raise InputError.of(what, expected=expected, hint=shlex.join(["tp", "job", "status", run.id]))
    nodes = nodes_of(run.plan)
    if node is not None and node >= nodes:
        raise InputError.of(f"{run.id} has no node {node}", "--node", f"0 to {nodes - 1}")
    many = nodes > 1

    def show(label: str, data: bytes) -> None:
        if node is None or label == str(node):
            prefix = f"{label}: ".encode() if many else b""
            for line in data.splitlines(keepends=True):
                click.echo(prefix + line, nl=False)

    offsets: dict[str, int] = {}
    for log in logs_of(attempts[-1]):
        data, offsets[log.label] = tail(log.path, lines)
        show(log.label, data)
    if follow:
        for label, data in following(run, attempts[-1], ended, offsets, later=attempt is None):
            show(label, data)
