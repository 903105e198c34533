"""The supervisor of one node, started once per node inside the container.

start --kind process|torchrun|accelerate|ray --nodes N [--option VALUE]… -- WORD…

--cpus N, --gpus N, --processes-per-node P   of each node
--pools JSON              pools in the order of the ranks, where the nodes are not all alike
--interface NAME          the network interface for what the nodes say to each other
--rendezvous static|c10d  of torchrun
--launcher-words JSON     words for accelerate itself
--python PATH             the interpreter; --requires WORDS what it must find
--old-ray allowed|refused whether a Ray without authentication may run
--warning none|signal:NAME   what the ranks get when the file `warning` appears: the time limit is near
--columns JSON            the columns that data files need, looked for on node 0
--free JSON, --memlock BYTES|unlimited, --gpu-count HOW, --gpu-vendor NAME   what is checked before anything starts
--rendezvous-timeout, --heartbeat-bound, --stop-grace SECONDS
"""

from __future__ import annotations

import os
from typing import List, Optional, Union

from tuneplane.job import settings
from tuneplane.job.checks import data
from tuneplane.job.checks.preflight import first_problem
from tuneplane.job.checks.requires import unmet
from tuneplane.job.kinds.ray_ports import ports_needed
from tuneplane.job.kinds.ray_version import ray_problem
from tuneplane.job.loop import Loop
from tuneplane.job.node import Node
from tuneplane.job.options import Options, read_options
from tuneplane.job.outcome import LAUNCH_FAILED, launch_failure, verdict_of
from tuneplane.job.processes import adopt_orphans
from tuneplane.job.records import Records, complain
from tuneplane.job.settings import Place, Refusal
from tuneplane.job.team.address import NoAddress, own_address
from tuneplane.job.team.follower import Follower
from tuneplane.job.team.head import Head
from tuneplane.job.team.pools import pool_of
from tuneplane.job.team.ports import Claim, NoPorts, Offer, claim, ephemeral_floor, free_port
from tuneplane.job.team.rendezvous import OFFERED, beat_interval, publish


def main(arguments: List[str]) -> int:
    """Supervise this node; the exit code is the run's: 0 only if every node's was 0."""
    try:
        options = read_options(arguments)
        place = settings.read_place(os.environ, options.nodes)
    except Refusal as refusal:
        return refuse(str(refusal))
    records = Records(place.attempt_folder, place.rank, place.host)
    # From here on a signal waits until there is somebody to answer it.
    loop = Loop(longest_step=beat_interval(options.heartbeat_bound))
    problem = _problem(options, place)
    if problem is None and place.rank == 0:
        problem = data.problem(options.data, records.say)
    if problem is not None:
        return _refuse(records, problem)
    adopt_orphans()
    try:
        held = claim(
            settings.job_key(os.environ, place),
            max(128, options.nodes),
            ephemeral_floor(),
            _ports(options, place),
        )
        own = own_address(options.nodes, options.interface)
        offered = free_port(held, skip=OFFERED)
        team = _team(loop, options, place, records, held, own, Offer(offered, held.first, held.last))
    except (Refusal, NoPorts, NoAddress) as refusal:
        return _refuse(records, str(refusal))
    node = Node(loop, options, place, records, team, held, own, offered)
    node.phase("started", host=place.host)
    node.phase("preflight")
    node.phase("rendezvous")
    try:
        return node.run()
    except Exception as error:
        return node.crashed(error)


def _problem(options: Options, place: Place) -> Optional[str]:
    """Why this node cannot take part, or None."""
    lacking = [sentence for sentence in map(unmet, options.requires) if sentence]
    pool = pool_of(options.pools, place.rank)
    if options.kind == "ray" and pool.server is None and not lacking:
        lacking = [sentence for sentence in [ray_problem(options.old_ray)] if sentence]
    if lacking:
        return "; ".join(lacking)
    needs = options.needs._replace(gpus=pool.gpus)
    return first_problem(needs, place.attempt_folder, place.run_id, place.attempt, options.nodes)


def _ports(options: Options, place: Place) -> int:
    pool = pool_of(options.pools, place.rank)
    return ports_needed(pool.cpus) if options.kind == "ray" and pool.server is None else 60


def _team(
    loop: Loop, options: Options, place: Place, records: Records, held: Claim, own: str, offer: Offer
) -> Union[Head, Follower]:
    if place.rank != 0:
        return Follower(loop, options, place, records, own, offer)
    head, written = publish(records, held, own)
    if not written and options.nodes > 1:
        raise Refusal(f"the head cannot write to `{place.attempt_folder}`")
    return Head(loop, options, records, held, head, offer)


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
    outcome = launch_failure("preflight", why, "preflight")
    complain(why)
    records.say(why)
    records.node(outcome)
    return records.claim(verdict_of(records.rank, records.host, outcome)).code or LAUNCH_FAILED
