"""Folders of a site file: what the job makes of them is what the login node makes of them."""

from __future__ import annotations

import os
import pwd
import subprocess

import pytest

from tuneplane.plan.model import Ref
from tuneplane.plan.paths import site_path
from tuneplane.render.encode import word
from tuneplane.sites.folders import place


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("/shared/hub", "/shared/hub"),
        ("~/hub", Ref("home", "/hub")),
        ("/hub/{user}", Ref("user", "", "/hub/")),
        ("~/{user}/hub", Ref("home", Ref("user", "/hub", "/"))),
        ("/{user}/{user}x", Ref("user", Ref("user", "x", "/"), "/")),
        ("/a/~/b", "/a/~/b"),
    ],
)
def test_home_and_user_are_references(text: str, value: object) -> None:
    assert site_path(text) == value


@pytest.mark.parametrize(
    "text", ["~/.config/{user}", "/secrets/{user}", "/{user}/it's {user}", "~/$(id)/{user}.env"]
)
def test_the_script_looks_where_the_login_node_looks(text: str) -> None:
    from tuneplane.sites.load import load_site

    me = pwd.getpwuid(os.getuid())
    value = site_path(text)
    assert value is not None
    script = f"tp_home={word(me.pw_dir)}\ntp_user=$(id -un)\nprintf %s {word(value)}"
    there = subprocess.run(["bash", "-uc", script], capture_output=True, text=True, check=True).stdout
    assert there == place(load_site("slurm-apptainer").site, text)
