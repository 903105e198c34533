"""Who publishes, and where."""

from __future__ import annotations

import os
import pwd


def me() -> str:
    """The user by the password database: the environment of a cron job or of `sudo` names whom it likes."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return f"uid {os.geteuid()}"


def host() -> str:
    """This host's name."""
    return os.uname().nodename


def signature() -> str:
    """Both in one word."""
    return f"{me()}@{host()}"
