"""The supervisor of one node, started once per node inside the container.

start --kind process|torchrun --nodes N [--processes-per-node P] [--interface NAME]
      [--rendezvous-timeout SECONDS] [--heartbeat-bound SECONDS] [--stop-grace SECONDS] [--python PATH] -- WORD…
"""

from __future__ import annotations

import os
from typing import List, Union

from tuneplane.job import settings
from tuneplane.job.address import NoAddress, head_address
from tuneplane.job.follower import Follower
from tuneplane.job.head import Head
from tuneplane.job.loop import Loop
from tuneplane.job.node import Node
from tuneplane.job.outcome import LAUNCH_FAILED, launch_failure, verdict_of
from tuneplane.job.ports import Claim, NoPorts, claim, ephemeral_floor
from tuneplane.job.processes import adopt_orphans
from tuneplane.job.records import Records, complain
from tuneplane.job.rendezvous import beat_interval, publish
from tuneplane.job.requires import unmet
from tuneplane.job.settings import Options, Place, Refusal


def main(arguments: List[str]) -> int:
    """Supervise this node; the exit code is the run's: 0 only if every node's was 0."""
    try:
        options = settings.read_options(arguments)
        place = settings.read_place(os.environ, options.nodes)
    except Refusal as refusal:
        return refuse(str(refusal))
    records = Records(place.attempt_folder, place.rank, place.host)
    lacking = [sentence for sentence in map(unmet, options.requires) if sentence]
    if lacking:
        return _refuse(records, "; ".join(lacking))
    adopt_orphans()
    loop = Loop(longest_step=beat_interval(options.heartbeat_bound))
    try:
        held = claim(settings.job_key(os.environ, place), max(128, options.nodes), ephemeral_floor())
        team = _team(loop, options, place, records, held)
    except (Refusal, NoPorts, NoAddress) as problem:
        return _refuse(records, str(problem))
    team.phase("started", host=place.host)
    team.phase("rendezvous")
    node = Node(loop, options, place, records, team)
    try:
        return node.run()
    except Exception as error:
        return node.crashed(error)


def _team(loop: Loop, options: Options, place: Place, records: Records, held: Claim) -> Union[Head, Follower]:
    if place.rank != 0:
        return Follower(loop, options, place, records)
    head, written = publish(records, held, head_address(options.nodes, options.interface))
    if not written and options.nodes > 1:
        raise Refusal(f"the head cannot write to `{place.attempt_folder}`")
    return Head(loop, options, records, held, head)


def refuse(why: str) -> int:
    """End before anything started, leaving a record and the verdict as far as we know where."""
    try:
        folder = settings.attempt_folder(os.environ)
    except Refusal as second:
        complain(why)
        if str(second) != why:
            complain(str(second))
        return LAUNCH_FAILED
    return _refuse(Records(folder, settings.rank_of(os.environ), settings.host_of(os.environ)), why)


def _refuse(records: Records, why: str) -> int:
    outcome = launch_failure("preflight", why)
    complain(why)
    records.say(why)
    records.node(outcome)
    return records.claim(verdict_of(records.rank, records.host, outcome)).code or LAUNCH_FAILED
