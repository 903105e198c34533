"""One node: it starts the command when all nodes are there, stops it when it must, and records the end."""

from __future__ import annotations

import os
import traceback
from typing import Optional, Union

from tuneplane.job.command import Command, CouldNotStart
from tuneplane.job.follower import Follower
from tuneplane.job.head import Head
from tuneplane.job.loop import Loop
from tuneplane.job.outcome import LAUNCH_FAILED, Outcome, launch_failure, signal_name, verdict_of
from tuneplane.job.records import Records, complain
from tuneplane.job.rendezvous import Go
from tuneplane.job.settings import Options, Place, command_environment
from tuneplane.job.torchrun import torchrun_words

# How often to look while something is about to happen; otherwise only signals and the heartbeat wake us.
SOON_SECONDS = 0.05


class Node:
    """What the supervisor does on its own node, beside what it is to the others."""

    def __init__(
        self, loop: Loop, options: Options, place: Place, records: Records, team: Union[Head, Follower]
    ) -> None:
        self._loop, self._options, self._place, self._records, self._team = (
            loop,
            options,
            place,
            records,
            team,
        )
        self._command: Optional[Command] = None
        self._outcome: Optional[Outcome] = None
        self._why: Optional[str] = None
        self._told: Optional[int] = None

    def run(self) -> int:
        """Supervise until the run is over; returns the exit code of this supervisor."""
        try:
            while True:
                self._team.tick()
                self._step()
                # Again, so that what the step brought about is told at once.
                self._team.tick()
                if self._team.final is not None:
                    return self._team.final
                self._loop.wait(self._patience())
        finally:
            if self._command is not None and self._outcome is None:
                self._command.destroy()

    def crashed(self, error: Exception) -> int:
        """Record that the supervisor itself failed: a bug, or a host that is out of something."""
        for line in traceback.format_exc().splitlines():
            self._records.say(line)
        outcome = launch_failure("lost", f"the supervisor of node {self._place.rank} failed: {error!r}")
        complain(outcome.message)
        self._records.node(outcome)
        return (
            self._records.claim(verdict_of(self._place.rank, self._place.host, outcome)).code or LAUNCH_FAILED
        )

    def _patience(self) -> float:
        waiting = self._team.go is None or (self._command is not None and self._command.stopping)
        return SOON_SECONDS if waiting or self._team.verdict is not None else self._loop.longest_step

    def _step(self) -> None:
        if self._loop.stops and self._told is None:
            self._told = self._loop.stops[0]
            self._told_to_stop(self._told)
        verdict = self._team.verdict
        if self._team.trouble is not None and self._outcome is None and self._command is None:
            self._finish(self._team.trouble)
        elif verdict is not None and verdict.code != 0:
            self._stop(verdict.because())
        elif self._team.go is not None and self._command is None and self._outcome is None:
            self._start(self._team.go)
        while self._loop.passed_on:
            number = self._loop.passed_on.pop(0)
            if self._command is not None:
                self._command.send(number)
        if self._command is not None and self._outcome is None:
            end = self._command.poll(self._loop.now)
            if end is not None:
                self._finish(self._judged(end))

    def _start(self, go: Go) -> None:
        options, place = self._options, self._place
        words = list(options.words)
        if options.kind == "torchrun":
            words = torchrun_words(options, place, go)
        environment = command_environment(os.environ, helper_folder(), go.address, go.user_port)
        self._records.say(f"starting the command on node {place.rank} of {options.nodes} ({place.host})")
        try:
            folder, log = place.experiment_folder, self._records.log
            self._command = Command(words, folder, environment, log, options.stop_grace)
        except CouldNotStart as error:
            self._finish(error.outcome())
        else:
            self._team.phase("running")

    def _told_to_stop(self, number: int) -> None:
        why = f"told to stop by {signal_name(number)}"
        if self._outcome is None:
            self._stop(why)
        else:
            self._team.ended(
                Outcome(128 + number, None, "stopped", f"{why} while waiting for the other nodes")
            )

    def _stop(self, why: str) -> None:
        if self._why is not None or self._outcome is not None:
            return
        self._why = why
        self._records.say(why)
        if self._command is not None:
            self._command.stop(self._loop.now)
        else:
            code = 128 + self._told if self._told is not None else LAUNCH_FAILED
            self._finish(Outcome(code, None, "stopped", f"{why}; the command had not been started"))

    def _judged(self, end: Outcome) -> Outcome:
        """The end of the command as the end of the node: being stopped is not an end of its own."""
        if self._why is None:
            return end
        # A command that answers TERM by ending with 0 has still not done what it was started for.
        code = end.code or (128 + self._told if self._told is not None else 0)
        return Outcome(code, end.signal, "stopped", f"{self._why}; {end.message}")

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._records.say(outcome.message)
        if outcome.code != 0:
            complain(f"node {self._place.rank} ({self._place.host}): {outcome.message}")
        if not self._team.refused:
            self._records.node(outcome)
        self._team.ended(outcome)


def helper_folder() -> str:
    """The folder that holds `tuneplane/`, for the command's PYTHONPATH."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
