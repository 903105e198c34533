"""A cluster by hand: `python -m cluster.harness up`, then `exec`, `cut`, `link`, `kill`, `restart`, `down`."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import fields

from . import enter, network
from .cluster import Cluster
from .config import ClusterSpec
from .images import python_sif, torch_sif
from .rootfs import SUITES, rootfs
from .tools import HarnessError


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m cluster.harness", description=__doc__)
    verbs = top.add_subparsers(dest="verb", required=True)
    up = verbs.add_parser("up", help="start a cluster that stays; prints its name")
    for field in fields(ClusterSpec):
        option = f"--{field.name.replace('_', '-')}"
        if isinstance(field.default, bool):
            up.add_argument(option, action="store_true")
        elif isinstance(field.default, tuple):
            up.add_argument(option, action="append", default=[], metavar="LINE")
        else:
            up.add_argument(option, type=type(field.default), default=field.default)
    run = verbs.add_parser("exec", help="run a command on a host")
    run.add_argument("--user", default="root", choices=enter.IDS)
    run.add_argument("--cwd")
    run.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    run.add_argument("cluster")
    run.add_argument("host")
    run.add_argument("command", nargs=argparse.REMAINDER)
    for verb, text in {
        "cut": "take a host's network away",
        "link": "give it back",
        "kill": "end a host at once",
        "restart": "bring a host back",
    }.items():
        fault = verbs.add_parser(verb, help=text)
        fault.add_argument("cluster")
        fault.add_argument("host")
    down = verbs.add_parser("down", help="remove a cluster")
    down.add_argument("--force", action="store_true", help="also one that a running process uses")
    down.add_argument("cluster")
    verbs.add_parser("list", help="the clusters on this machine")
    verbs.add_parser("sweep", help="remove the clusters whose owner is dead")
    build = verbs.add_parser("build", help="build into the cache and print the path")
    build.add_argument("what", choices=[*SUITES, "python", "torch"])
    return top


def execute(args: argparse.Namespace) -> None:
    """Replace this process by the command, on the terminal at hand."""
    cluster = Cluster.attach(args.cluster)
    env = enter.environment(args.user, dict(pair.split("=", 1) for pair in args.env))
    if "TERM" in os.environ:
        env.setdefault("TERM", os.environ["TERM"])
    words = enter.command(
        cluster.init(args.host), args.command or ["bash"], args.user, args.cwd or env["HOME"]
    )
    os.execve(words[0], [os.fspath(word) for word in words], env)


def take_down(name: str, force: bool) -> None:
    """Remove a cluster, but not from under a test run. Raises HarnessError."""
    owner = network.read_claim(name)
    if owner and owner.pid != network.KEPT and not owner.dead and not force:
        raise HarnessError(
            f"`{name}` belongs to the running process {owner.pid}; `down --force {name}` removes it anyway"
        )
    Cluster.attach(name).stop()


def main() -> None:
    args = parser().parse_args()
    if args.verb == "up":
        values = {field.name: getattr(args, field.name) for field in fields(ClusterSpec)}
        values["slurm_conf"] = tuple(values["slurm_conf"])
        print(Cluster(ClusterSpec(**values)).start(kept=True).name)
    elif args.verb == "exec":
        execute(args)
    elif args.verb == "list":
        print("".join(f"{name}\n" for name in network.clusters()), end="")
    elif args.verb == "sweep":
        print("".join(f"{name}\n" for name in network.sweep()), end="")
    elif args.verb == "build":
        print(
            rootfs(args.what)
            if args.what in SUITES
            else {"python": python_sif, "torch": torch_sif}[args.what]()
        )
    elif args.verb == "down":
        take_down(args.cluster, args.force)
    else:
        getattr(Cluster.attach(args.cluster), args.verb)(args.host)


if __name__ == "__main__":
    try:
        main()
    except (HarnessError, ValueError) as error:
        sys.exit(f"cluster harness: {error}")
