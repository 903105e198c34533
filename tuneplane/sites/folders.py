"""Where a site's folders lie for the user at hand."""

from __future__ import annotations

import os
import pwd

from tuneplane.errors import SiteError
from tuneplane.sites.model import Site


def place(site: Site, text: str) -> str:
    """A folder or file of the site file: `~/` is the user's home, `{user}` the login name.

    On a cluster the home is the one that the password database names, because a job there has no other: a HOME of the
    submitting shell would name a folder that the job does not look in.
    """
    if "{user}" in text:
        text = text.replace("{user}", _entry().pw_name)
    if not text.startswith("~/"):
        return text
    home = os.path.expanduser("~") if site.scheduler == "local" else _entry().pw_dir
    return home + text[1:]


def _entry() -> pwd.struct_passwd:
    try:
        return pwd.getpwuid(os.getuid())
    except KeyError:
        raise SiteError.of(f"the password database has no user {os.getuid()}") from None
