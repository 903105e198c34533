"""What scheduler commands and local jobs see of the user's environment."""

from __future__ import annotations

import os
import pwd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane.schedulers.environment import clean_environment

KEPT = ("HOME", "USER", "LOGNAME", "KRB5CCNAME", "SLURM_CONF", "SLURM_JWT")
HOSTILE = {
    "SBATCH_EXPORT": "ALL", "SBATCH_PARTITION": "other", "SQUEUE_FORMAT": "%i", "SQUEUE_STATES": "PD", "SLURM_CLUSTERS": "other", "SLURM_JOB_ID": "1",
    "SLURM_EXPORT_ENV": "NONE", "BASH_ENV": "/tmp/evil", "ENV": "/tmp/evil", "LD_PRELOAD": "/tmp/evil.so", "LD_LIBRARY_PATH": "/tmp", "PYTHONPATH": "/tmp",
    "BASH_FUNC_srun%%": "() { echo evil; }", "APPTAINER_BIND": "/", "PATH": "/tmp/evil", "LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "IFS": "x", "HF_TOKEN": "secret",
}  # fmt: skip


@pytest.fixture
def hostile(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**HOSTILE, **{name: f"of {name}" for name in KEPT}}.items():
        monkeypatch.setenv(name, value)


def test_only_the_allowlist_passes(hostile: None) -> None:
    entry = pwd.getpwuid(os.getuid())
    assert clean_environment() == {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "of HOME", "USER": entry.pw_name, "LOGNAME": entry.pw_name,
        "KRB5CCNAME": "of KRB5CCNAME", "SLURM_CONF": "of SLURM_CONF", "SLURM_JWT": "of SLURM_JWT",
    }  # fmt: skip


def test_what_the_site_lets_pass(hostile: None) -> None:
    found = clean_environment(["PATH", "VIRTUAL_ENV"])
    assert (found["PATH"], "VIRTUAL_ENV" in found) == ("/tmp/evil", False)
    assert found.keys() == clean_environment().keys()


def test_an_empty_environment_gets_a_home_and_a_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    entry = pwd.getpwuid(os.getuid())
    assert clean_environment() == {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": entry.pw_dir, "USER": entry.pw_name, "LOGNAME": entry.pw_name,
    }  # fmt: skip


def test_a_user_whom_the_password_database_does_not_know(
    hostile: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(_: int) -> None:
        raise KeyError("uid not found")

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    found = clean_environment()
    assert (found["HOME"], found["USER"]) == ("of HOME", "of USER")


@given(
    st.dictionaries(
        st.text("ABCLMPSUHQR_0%", min_size=1, max_size=12), st.text("abc", max_size=2), max_size=6
    )
)
@settings(max_examples=50, deadline=None)
def test_no_other_name_ever_passes(variables: dict[str, str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        assert clean_environment().keys() <= {*KEPT, "PATH", "LANG", "LC_ALL"}
