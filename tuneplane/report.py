"""Report metrics from inside a training job, so that `tp metrics` can show them.

    from tuneplane import report
    report.init({"learning_rate": 1e-3})
    report.log({"train/loss": loss}, step=100)
    report.finish()

Rides into the container: standard library only, Python 3.8 and newer. Each line of
`$TUNEPLANE_RUN_DIR/attempts/$TUNEPLANE_ATTEMPT/metrics.jsonl` is one strict JSON object:

    {"t": 1760000000.0, "hparams": {...}, "attempt": 1}          from `init`
    {"t": 1760000000.0, "step": 100, "metrics": {"name": 0.5}}   from `log`

`t` is in Unix seconds. A float that is not finite is kept as "NaN", "Infinity" or "-Infinity".
Only rank 0 writes: `RANK`, or where that is not set `TUNEPLANE_NODE_RANK`, is unset or "0". Outside a job of tuneplane, without
`TUNEPLANE_RUN_DIR`, every call does nothing. No call ever raises into the training: the first
thing that goes wrong is noted on stderr, once.
"""

import contextlib
import json
import math
import os
import sys
import time
from typing import Any, Dict, Mapping, Optional

_descriptor: Optional[int] = None  # of metrics.jsonl, while it is open
_last_step = -1
_torn = False  # the last write ended inside a line
_noted = False  # something went wrong and stderr has been told


def init(hparams: Optional[Mapping[str, Any]] = None) -> None:
    """Begin to report, and record the hyperparameters.

    `hparams` maps names to values: numbers, text, None, anything with `.item()`, and lists and
    mappings of these; any other value is kept as its `str()`. Calling `init` is optional, and
    calling it again writes another such line. Never raises.
    """
    try:
        if _active():
            line = {"hparams": _hparam(hparams or {}), "attempt": _attempt()}
            _write(line)
    except Exception as error:
        _note(error)


def log(metrics: Mapping[str, Any], step: Optional[int] = None) -> None:
    """Record the metrics of one step.

    `metrics` maps names to an int, float, bool, str, or a scalar with `.item()` (a tensor or an
    array of one element); any other value is left out and noted. `step` is the optimizer step;
    None means the one after the last step logged by this process, from 0. Never raises.
    """
    global _last_step
    try:
        if not _active():
            return
        number = _last_step + 1 if step is None else _step(step)
        if number is not None:
            _last_step = number
        _write({"step": number, "metrics": _metrics(metrics)})
    except Exception as error:
        _note(error)


def finish() -> None:
    """Close the file. A later `init` or `log` opens it again. Never raises."""
    global _descriptor
    try:
        descriptor, _descriptor = _descriptor, None
        if descriptor is not None:
            os.close(descriptor)
    except Exception as error:
        _note(error)


def _active() -> bool:
    rank = os.environ.get("RANK") or os.environ.get("TUNEPLANE_NODE_RANK") or "0"
    return bool(os.environ.get("TUNEPLANE_RUN_DIR")) and rank == "0"


def _attempt() -> int:
    return int(os.environ.get("TUNEPLANE_ATTEMPT") or 1)


def _open() -> int:
    global _descriptor
    if _descriptor is None:
        folder = os.path.join(os.environ["TUNEPLANE_RUN_DIR"], "attempts", str(_attempt()))
        os.makedirs(folder, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        _descriptor = os.open(os.path.join(folder, "metrics.jsonl"), flags, 0o666)
    return _descriptor


def _write(fields: Dict[str, Any]) -> None:
    """Append one line with a single write, so that lines of two processes never mix."""
    global _torn
    line: Dict[str, Any] = {"t": time.time()}
    line.update(fields)
    text = json.dumps(line, allow_nan=False) + "\n"
    data = ("\n" + text if _torn else text).encode("ascii")
    written = os.write(_open(), data)
    _torn = written != len(data)
    if _torn:
        raise OSError("metrics.jsonl: wrote %d of %d bytes" % (written, len(data)))


def _metrics(metrics: Mapping[str, Any]) -> Dict[str, Any]:
    kept = {}
    for name, value in metrics.items():
        try:
            kept[str(name)] = _scalar(value)
        except Exception as error:
            _note("metric `%s` is left out: %s" % (name, error))
    return kept


def _scalar(value: Any) -> Any:
    """Raises TypeError for what is not a scalar, and whatever the value's own `.item()` raises."""
    if not isinstance(value, (bool, int, float, str)) and hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return _float(float(value))
    if isinstance(value, str):
        return str(value)
    raise TypeError("%s is not a number, a bool or text" % type(value).__name__)


def _float(value: float) -> Any:
    if math.isfinite(value):
        return value
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _hparam(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, Mapping):
        return {str(name): _hparam(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_hparam(item) for item in value]
    try:
        return _scalar(value)
    except Exception:
        return str(value)


def _step(step: Any) -> Optional[int]:
    try:
        return int(step)
    except Exception as error:
        _note("step %r is kept as null: %s" % (step, error))
        return None


def _note(problem: object) -> None:
    global _noted
    if _noted:
        return
    _noted = True
    with contextlib.suppress(Exception):  # without stderr there is nobody left to tell
        sys.stderr.write("tuneplane.report: %s (training goes on)\n" % (problem,))
