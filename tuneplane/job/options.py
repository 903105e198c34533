"""What the supervisor was asked to do: its arguments."""

from __future__ import annotations

import json
import signal
import sys
from typing import Dict, List, NamedTuple, Optional, Tuple

from tuneplane.job.checks.columns import DataFile, read_files
from tuneplane.job.checks.preflight import Needs
from tuneplane.job.settings import Refusal
from tuneplane.job.team.pools import Pool, read_pools

KINDS = ("process", "torchrun", "accelerate", "ray")


class Options(NamedTuple):
    """The arguments before `--`; times in seconds; `warning` is the signal for the workers or None."""

    kind: str
    nodes: int
    pools: Tuple[Pool, ...]
    interface: Optional[str]
    rendezvous: str
    rendezvous_timeout: float
    heartbeat_bound: float
    stop_grace: float
    python: str
    requires: Tuple[str, ...]
    launcher_words: Tuple[str, ...]
    old_ray: bool
    warning: Optional[int]
    needs: Needs
    data: Tuple[DataFile, ...]
    words: Tuple[str, ...]


def read_options(arguments: List[str]) -> Options:
    """Read `--option VALUE … -- WORD…`; the form `--option=VALUE` is not taken. Raises Refusal."""
    if "--" not in arguments:
        raise Refusal("the arguments have no `--` before the command")
    split = arguments.index("--")
    given, words = arguments[:split], tuple(arguments[split + 1 :])
    if not words:
        raise Refusal("no command after `--`")
    if len(given) % 2:
        raise Refusal(f"the option `{given[-1]}` has no value")
    values = {given[i]: given[i + 1] for i in range(0, len(given), 2)}
    kind = _one_of(values, "--kind", "", KINDS)
    nodes = _whole("--nodes", values.pop("--nodes", ""))
    options = Options(
        kind=kind,
        nodes=nodes,
        pools=_pools(values, kind, nodes),
        interface=values.pop("--interface", "") or None,
        rendezvous=_one_of(values, "--rendezvous", "static", ("static", "c10d")),
        rendezvous_timeout=_seconds(values, "--rendezvous-timeout", "300"),
        heartbeat_bound=_seconds(values, "--heartbeat-bound", "60"),
        stop_grace=_seconds(values, "--stop-grace", "10"),
        python=values.pop("--python", "") or sys.executable or "python3",
        requires=tuple(values.pop("--requires", "").split()),
        launcher_words=_word_list(values, "--launcher-words"),
        old_ray=_one_of(values, "--old-ray", "refused", ("refused", "allowed")) == "allowed",
        warning=_warning(values.pop("--warning", "none")),
        needs=_needs(values),
        data=_data(values.pop("--columns", "")),
        words=words,
    )
    if values:
        raise Refusal(f"unknown option `{sorted(values)[0]}`")
    return options


def _pools(values: Dict[str, str], kind: str, nodes: int) -> Tuple[Pool, ...]:
    """The pools, or one of all nodes."""
    cpus = _whole("--cpus", values.pop("--cpus", "1"))
    gpus = _whole("--gpus", values.get("--gpus", "0"), least=0)
    processes = _whole("--processes-per-node", values.pop("--processes-per-node", "1"))
    text = values.pop("--pools", "")
    if not text:
        return (Pool("all", 0, nodes, cpus, gpus, processes),)
    try:
        pools = read_pools(text)
    except ValueError as error:
        raise Refusal(f"`--pools` cannot be read: {error}") from error
    placed = sum(pool.nodes for pool in pools)
    if placed != nodes:
        raise Refusal(f"the pools have {placed} nodes in all, but the job is for {nodes} (--nodes)")
    if kind != "ray" and sum(pool.server is None for pool in pools) > 1:
        raise Refusal(f"`--kind {kind}` can have one pool without a server only")
    return pools


def _needs(values: Dict[str, str]) -> Needs:
    try:
        free = json.loads(values.pop("--free", "") or "{}")
        sizes = {name: int(free.get(name, 0)) for name in ("scratch", "shared_memory", "run", "inodes")}
    except (ValueError, TypeError, AttributeError) as error:
        raise Refusal(f"`--free` cannot be read: {error}") from error
    memlock = values.pop("--memlock", "")
    if memlock not in ("", "unlimited"):
        _whole("--memlock", memlock, least=0)
    return Needs(
        memlock=memlock,
        gpus=_whole("--gpus", values.pop("--gpus", "0"), least=0),
        gpu_count=_one_of(values, "--gpu-count", "none", ("visible", "devices", "tool", "none")),
        gpu_vendor=_one_of(values, "--gpu-vendor", "none", ("nvidia", "amd", "none")),
        **sizes,
    )


def _data(text: str) -> Tuple[DataFile, ...]:
    try:
        return read_files(text or "[]")
    except ValueError as error:
        raise Refusal(f"`--columns` cannot be read: {error}") from error


def _warning(text: str) -> Optional[int]:
    if text == "none":
        return None
    how, _, name = text.partition(":")
    number = getattr(signal, f"SIG{name[3:] if name.startswith('SIG') else name}", None)
    if how != "signal" or not isinstance(number, signal.Signals):
        raise Refusal(f"`--warning {text}` is neither `none` nor `signal:NAME`")
    return int(number)


def _word_list(values: Dict[str, str], option: str) -> Tuple[str, ...]:
    try:
        words = json.loads(values.pop(option, "") or "[]")
    except ValueError as error:
        raise Refusal(f"`{option}` cannot be read: {error}") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise Refusal(f"`{option}` is not a list of words")
    return tuple(words)


def _one_of(values: Dict[str, str], option: str, otherwise: str, allowed: Tuple[str, ...]) -> str:
    text = values.pop(option, otherwise)
    if text not in allowed:
        raise Refusal(f"`{option} {text}` is none of {', '.join(allowed)}")
    return text


def _whole(option: str, text: str, least: int = 1) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise Refusal(f"`{option} {text}` is not a whole number from {least}")
    return int(text)


def _seconds(values: Dict[str, str], option: str, otherwise: str) -> float:
    text = values.pop(option, otherwise)
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise Refusal(f"`{option} {text}` is not a number of seconds above 0")
    return value
