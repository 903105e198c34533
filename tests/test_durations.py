"""Lengths of time: the forms taken, the ambiguous ones refused, and what Slurm then reads."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tuneplane.durations import LONGEST, parse_duration, slurm_time, spoken

MINUTE, HOUR, DAY = 60, 3600, 86400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90m", 90 * MINUTE), ("12h", 12 * HOUR), ("1d12h", 36 * HOUR), ("1d", DAY), ("45s", 45), ("1d2h3m4s", DAY + 2 * HOUR + 184),
     ("100h", 100 * HOUR), ("1h90m", 150 * MINUTE), ("007m", 7 * MINUTE), ("0d1s", 1), ("366d", LONGEST),
     ("1:30:00", 90 * MINUTE), ("00:00:30", 30), ("100:00:00", 100 * HOUR), ("01:02:03", HOUR + 123),
     ("1-00:00:00", DAY), ("1-12:30:00", 36 * HOUR + 30 * MINUTE), ("0-00:00:01", 1), ("366-00:00:00", LONGEST)],
)  # fmt: skip
def test_forms(text: str, seconds: int) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("text", "message"),
    [("90", "90 could be 90 minutes (as Slurm reads it) or 90 seconds"),
     ("0", "0 could be 0 minutes (as Slurm reads it) or 0 seconds"),
     ("90:30", "90:30 could be 90 hours 30 minutes or 90 minutes 30 seconds (as Slurm reads it)"),
     ("2:00", "2:00 could be 2 hours 00 minutes or 2 minutes 00 seconds (as Slurm reads it)"),
     ("1-24:00:00", "1-24:00:00 has more than 23 hours beside its days"),
     ("0h", "0h is not between one second and 366 days"), ("0:00:00", "0:00:00 is not between one second and 366 days"),
     ("367d", "367d is not between one second and 366 days"), ("366d1s", "366d1s is not between one second and 366 days")],
)  # fmt: skip
def test_refused_with_every_reading(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_duration(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "text",
    ["", " ", "-1", "+1h", "UNLIMITED", "infinite", "1.5", "1.5h", "1h 30m", "1m1h", "1h1h", "H", "1H", "1w", "1 h", " 1h",
     "1h ", "1h\n", "1-2-3", "1:2:3:4", "1:2:3", "1:60:00", "1:00:60", "1-0", "1-12", "1-12:30", "-1:00:00", "１h", "90m\x1b[31m",
     "9" * 5000, "9" * 5000 + "h", "1-" + "0" * 50 + "1:00:00"],
)  # fmt: skip
def test_what_is_no_length_of_time(text: str) -> None:
    with pytest.raises(ValueError, match="is not a length of time") as caught:
        parse_duration(text)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 120


def slurm_minutes(text: str) -> int:
    """How Slurm reads `--time` (sbatch(1)): M, M:S, H:M:S, D-H, D-H:M, D-H:M:S, seconds rounded up to a minute."""
    match = re.fullmatch(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", text, re.ASCII)
    assert match, text
    days, fields = match[1], [int(field) for field in match.groups()[1:] if field is not None]
    names = ["h", "m", "s"] if days is not None or len(fields) == 3 else ["m", "s"]
    read = dict(zip(names, fields, strict=False))
    seconds = int(days or 0) * DAY + read.get("h", 0) * HOUR + read.get("m", 0) * MINUTE + read.get("s", 0)
    return math.ceil(seconds / MINUTE)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("90", 90), ("90:30", 91), ("1:30:00", 90), ("00:00:30", 1), ("1-0", 1440), ("1-12", 2160), ("1-12:30", 2190), ("1-00:00:00", 1440)],
)  # fmt: skip
def test_the_reading_of_slurm_is_the_measured_one(text: str, minutes: int) -> None:
    """The values are those measured on Slurm 22.05 (facts/launch.md 1.2)."""
    assert slurm_minutes(text) == minutes


@given(st.integers(1, LONGEST))
@settings(max_examples=200)
@example(59)
@example(LONGEST)
def test_slurm_reads_what_was_meant(seconds: int) -> None:
    assert slurm_minutes(slurm_time(seconds)) == math.ceil(seconds / MINUTE)
    assert parse_duration(slurm_time(seconds)) == seconds


@given(st.integers(1, LONGEST))
@settings(max_examples=200)
def test_spoken_is_exact_and_has_no_empty_part(seconds: int) -> None:
    text = spoken(seconds)
    assert parse_duration(text) == seconds
    assert re.fullmatch(r"(?:[1-9]\d*[dhms])+", text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(5400, "1h30m"), (129600, "1d12h"), (60, "1m"), (0, "0s"), (90061, "1d1h1m1s")]
)
def test_spoken(seconds: int, text: str) -> None:
    assert spoken(seconds) == text


@given(st.text("0123456789dhms:- \n", max_size=12))
@settings(max_examples=300)
def test_whatever_is_accepted_slurm_reads_alike(text: str) -> None:
    """No text is taken that Slurm itself would take for another length."""
    try:
        seconds = parse_duration(text)
    except ValueError:
        return
    assert 0 < seconds <= LONGEST
    if re.fullmatch(r"[0-9:-]+", text):
        assert slurm_minutes(text) == math.ceil(seconds / MINUTE)
