"""The real programs that the tests of this room hold the encoders against."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest


def program(name: str) -> str:
    """The path of a program; without it the test is skipped, or fails with `TUNEPLANE_REQUIRE_TOOLS=1`."""
    return shutil.which(name) or lacking(f"`{name}` is not installed")


def lacking(what: str) -> NoReturn:
    if os.environ.get("TUNEPLANE_REQUIRE_TOOLS") == "1":
        pytest.fail(what, pytrace=False)
    pytest.skip(what)


LEGACY = ("zh_CN.GBK", "en_US.ISO-8859-1")
"""Locales in which UTF-8 is read otherwise; in GBK a backslash can be the second half of a character."""


def made_locale(folder: Path, name: str) -> Path:
    """The folder for LOCPATH, with the locale in it; where it cannot be made the test is skipped."""
    if not (folder / name).is_dir():
        language, charset = name.split(".", 1)
        words = ["localedef", "-i", language, "-f", charset, str(folder / name)]
        if not shutil.which("localedef") or subprocess.run(words, capture_output=True, timeout=60).returncode:
            pytest.skip(
                f"no locale {name}: `localedef` or its sources (Debian's `locales`) are not installed"
            )
    return folder
