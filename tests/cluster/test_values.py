"""Arguments and environment values arrive in the job byte for byte, whatever they hold."""

from __future__ import annotations

import json

import pytest
from cluster.harness import Cluster
from cluster.researcher import DUMP, Researcher, environ

pytestmark = pytest.mark.cluster

ODD = {
    "empty": "",
    "blanks": "  two  \t ",
    "quotes": 'it\'s "quoted" `id` \'\'""',
    "dollars": "$HOME ${PATH} $(touch /tmp/pwned) $((1+1)) $'a\\n' $\"b\"",
    "backslashes": "\\ \\\\ \\n \\' \\\" trailing\\",
    "commas": "a,b=c,,d;e|f&g<h>i(j)k{l}m[n]o*p?q~r!s#t%u^v",
    "newlines": "first\nsecond\n\nlast\n",
    "controls": "bell\x07 escape\x1b[31m return\r delete\x7f unit\x1f",
    "utf-8": "é 世界 🚀 \u202e\u00a0 e\u0301",
    "option": "--help",
    "percent": "%j %x %% %u",
    "directive": "\n#SBATCH --partition=nowhere\nTUNEPLANE_PARAMS\nEOF\n",
    "assignment": "A=B C=D export E=F",
    "glob": "* /* ~ ~root !!",
    "long": "é" * 30_000,
}


def check(alice: Researcher, *options: str) -> None:
    """Run a job with ODD as its arguments, from the file and from the command line, and as its environment."""
    words = list(ODD.values())
    env = {f"ODD_{i}": word for i, word in enumerate(words)}
    alice.experiment("odd", DUMP, config={"args": words, "env": env})
    facts = alice.run("odd", "--profile", "one:2", *options, "--", *words)
    assert facts["state"] == "completed", alice.log(facts["run"])
    for rank in "01":
        argv = alice.output(facts["run"], f"argv-{rank}").split(b"\0")
        assert [word.decode() for word in argv[2:-1]] == words
        assert argv[0] == b"bash"
        seen = environ(alice.output(facts["run"], f"environ-{rank}"))
        assert {name: seen.get(name.encode(), b"?").decode() for name in env} == env
    params = json.loads(alice.folder(f"runs/{facts['run']}/attempts/1/params.json").read_text())
    assert params["args"] == words
    for host in alice.cluster.spec.hosts:
        assert alice.cluster.run(host, ["test", "-e", "/tmp/pwned"]).returncode == 1
    alice.assert_nothing_left()


def test_values_in_a_container(cluster: Cluster, python_image: str) -> None:
    check(Researcher(cluster, runtime="apptainer"), "--image", python_image)


def test_values_on_the_host(cluster: Cluster) -> None:
    check(Researcher(cluster))
