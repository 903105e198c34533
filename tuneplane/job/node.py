"""One node: it starts what it runs when all nodes are there, stops it when it must, and records the end."""

from __future__ import annotations

import os
import traceback
from typing import Callable, Optional, Union

from tuneplane.job import processes
from tuneplane.job.crew import CouldNotStart, Crew
from tuneplane.job.environment import command_environment, helper_folder
from tuneplane.job.kinds.table import work_of
from tuneplane.job.kinds.work import Scene, Work
from tuneplane.job.loop import Loop
from tuneplane.job.options import Options
from tuneplane.job.outcome import LAUNCH_FAILED, Outcome, launch_failure, signal_name, verdict_of
from tuneplane.job.records import Records, complain
from tuneplane.job.settings import Place
from tuneplane.job.team.follower import Follower
from tuneplane.job.team.head import Head
from tuneplane.job.team.pools import pool_of
from tuneplane.job.team.ports import Claim
from tuneplane.job.team.rendezvous import Go

# How often to look while something is about to happen; otherwise only signals and the heartbeat wake us.
SOON_SECONDS = 0.05


class Node:
    """What the supervisor does on its own node, beside what it is to the others."""

    def __init__(
        self,
        loop: Loop,
        options: Options,
        place: Place,
        records: Records,
        team: Union[Head, Follower],
        held: Claim,
        own: str,
        offered: int,
    ) -> None:
        """`own` is the address of this node, `held` are its ports, of which the others know `offered`."""
        self._loop, self._options, self._place, self._records = loop, options, place, records
        self._team, self._held, self._own, self._offered = team, held, own, offered
        self._crew = Crew(place.experiment_folder, records.log, options.stop_grace)
        self._work: Optional[Work] = None
        self._decided: Optional[Outcome] = None
        self._outcome: Optional[Outcome] = None
        self._why: Optional[str] = None
        self._told: Optional[int] = None
        self._warned = False
        self._phase = "started"

    def phase(self, phase: str, **more: object) -> None:
        """A milestone of this node."""
        self._phase = phase
        self._team.phase(phase, **more)

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
            if self._work is not None and self._outcome is None:
                self._crew.destroy()
                self._work.release()
            self._team.close()

    def crashed(self, error: Exception) -> int:
        """Record that the supervisor itself failed: a bug, or a host that is out of something."""
        for line in traceback.format_exc().splitlines():
            self._records.say(line)
        why = f"the supervisor of node {self._place.rank} failed: {error!r}"
        outcome = launch_failure("lost", why, self._phase)
        complain(outcome.message)
        self._records.node(outcome)
        return (
            self._records.claim(verdict_of(self._place.rank, self._place.host, outcome)).code or LAUNCH_FAILED
        )

    def _patience(self) -> float:
        busy = self._team.go is None or self._team.verdict is not None or self._crew.stopping
        if self._work is not None:
            # Something is being started, or the main program has just ended.
            busy = busy or self._phase != "running" or self._crew.pid(self._work.main()) is None
        return SOON_SECONDS if busy else self._loop.longest_step

    def _step(self) -> None:
        if self._loop.stops and self._told is None:
            self._told = self._loop.stops[0]
            self._told_to_stop(self._told)
        verdict = self._team.verdict
        if self._team.trouble is not None and self._outcome is None and self._work is None:
            self._finish(self._team.trouble)
        elif verdict is not None and verdict.code != 0:
            self._stop(verdict.because())
        elif self._team.go is not None and self._work is None and self._outcome is None:
            self._start(self._team.go)
        self._signals()
        if self._work is not None and self._outcome is None:
            self._watch(self._work)

    def _signals(self) -> None:
        while self._loop.passed_on:
            number = self._loop.passed_on.pop(0)
            if self._work is not None:
                self._crew.send(self._work.main(), number)
        if "warned" in self._team.stages and not self._warned:
            self._warned = True
            self._records.say("warned: the time limit or a preemption is near")
            self._team.phase("warned")
            if self._options.warning is not None and self._work is not None:
                processes.kill(self._work.warned(), self._options.warning)

    def _start(self, go: Go) -> None:
        options, place, records = self._options, self._place, self._records
        key = self._team.secret("api key")
        environment = command_environment(
            os.environ, options, helper_folder(), place.attempt_folder, go, self._own, key
        )
        pool = pool_of(options.pools, place.rank)
        beside = f", pool `{pool.name}`" if len(options.pools) > 1 else ""
        records.say(f"starting the command on node {place.rank} of {options.nodes} ({place.host}){beside}")
        scene = Scene(
            options,
            place,
            pool,
            go,
            self._own,
            self._offered,
            self._held,
            self._crew,
            self._team,
            records,
            self.phase,
            environment,
        )
        self._work = work_of(scene)
        self._guarded(self._work.go)

    def _watch(self, work: Work) -> None:
        """Follow what runs, until nothing of it is left."""
        now = self._loop.now
        self._crew.collect()
        if self._decided is None and self._why is None:
            self._guarded(lambda: self._decide(work, work.poll(now)))
        if self._why is not None and self._crew.pid(work.main()) is None:
            # What only served the main program may have less time.
            self._crew.stop(now, work.grace())
        if (self._decided is not None or self._why is not None) and self._crew.gone(now):
            work.release()
            self._finish(self._decided or self._stopped(work))

    def _guarded(self, step: Callable[[], None]) -> None:
        try:
            step()
        except CouldNotStart as error:
            self._decided = self._placed(error.outcome())
            self._team.failing(self._decided)

    def _decide(self, work: Work, end: Optional[Outcome]) -> None:
        """The work has ended: if badly, everyone hears it before what is left here has been stopped."""
        if end is None:
            return
        self._decided = self._placed(end)
        if end.code != 0:
            self._team.failing(self._decided)
        if not self._crew.gone(self._loop.now):
            self._crew.stop(self._loop.now, work.grace())

    def _placed(self, outcome: Outcome) -> Outcome:
        return outcome._replace(phase=self._phase) if outcome.phase is None else outcome

    def _told_to_stop(self, number: int) -> None:
        why = f"told to stop by {signal_name(number)}"
        if self._outcome is None:
            self._stop(why)
        else:
            outcome = Outcome(128 + number, None, "stopped", f"{why} while waiting for the other nodes")
            self._team.ended(self._placed(outcome))

    def _stop(self, why: str) -> None:
        if self._why is not None or self._decided is not None or self._outcome is not None:
            return
        self._why = why
        self._records.say(why)
        if self._work is None:
            self._finish(self._not_started())
        else:
            self._crew.stop(self._loop.now, self._work.grace())

    def _not_started(self) -> Outcome:
        code = 128 + self._told if self._told is not None else LAUNCH_FAILED
        return Outcome(code, None, "stopped", f"{self._why}; the command had not been started")

    def _stopped(self, work: Work) -> Outcome:
        """Being stopped is not an end of its own: how the main program took it counts."""
        name = work.main()
        if not self._crew.has(name):
            return self._not_started()
        end = self._crew.end(name)
        if end is None:
            end = Outcome(137, "SIGKILL", "signal", f"the {name} did not vanish after SIGKILL")
        # A command that answers TERM by ending with 0 has still not done what it was started for.
        code = end.code or (128 + self._told if self._told is not None else 0)
        return Outcome(code, end.signal, "stopped", f"{self._why}; {end.message}")

    def _finish(self, outcome: Outcome) -> None:
        self._outcome = outcome = self._placed(outcome)
        self._records.say(outcome.message)
        if outcome.code != 0:
            complain(f"node {self._place.rank} ({self._place.host}): {outcome.message}")
        if not self._team.refused:
            self._records.node(outcome)
        self._team.ended(outcome)
