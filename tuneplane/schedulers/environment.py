"""The environment scheduler commands and local jobs run with: an allowlist, never the user's whole environment."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable

ALLOWED = ("HOME", "USER", "LOGNAME", "KRB5CCNAME", "SLURM_CONF", "SLURM_JWT")
FIXED = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}


def clean_environment(also: Iterable[str] = ()) -> dict[str, str]:
    """Variables of ALLOWED and `also` that are set, over fixed PATH and locale; who the user is comes from passwd."""
    found = {name: os.environ[name] for name in (*ALLOWED, *also) if name in os.environ}
    try:
        entry = pwd.getpwuid(os.getuid())
        found |= {"USER": entry.pw_name, "LOGNAME": entry.pw_name}
        found.setdefault("HOME", entry.pw_dir)
    except KeyError:
        pass
    return {**FIXED, **found}
