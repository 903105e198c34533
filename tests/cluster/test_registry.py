"""Two publishers on two hosts, on a network filesystem whose flock holds on each host by itself: sshfs."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cluster.harness import Cluster

pytestmark = pytest.mark.cluster
SERVER, STORE, MOUNT, PORT = "n2", "/srv/registry", "/tmp/registry", "2222"
CLIENTS = (("login", "alice"), ("n1", "bob"))
PYTHON, PUBLISHER = "/opt/tp/bin/python", "/opt/tuneplane/tests/cluster/publisher.py"
_SSHD = """
Port {port}
PidFile /run/sshd-registry.pid
HostKey /run/sshd-registry.key
PasswordAuthentication no
AuthorizedKeysFile /run/sshd-registry.authorized
StrictModes no
Subsystem sftp internal-sftp
"""


class Shared:
    """A folder of the server that both clients have mounted, each as its own user with a key of its own."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        keys = [self._key(host, user) for host, user in CLIENTS]
        self.root(SERVER, f"install -d -o alice -g alice {STORE}; mkdir -p /run/sshd; usermod -p '*' alice")
        self.root(SERVER, "ssh-keygen -q -t ed25519 -N '' -f /run/sshd-registry.key")
        for name, text in (("conf", _SSHD.format(port=PORT)), ("authorized", "".join(keys))):
            self.root(SERVER, f"cat >/run/sshd-registry.{name}", input=text)
        self.root(SERVER, "/usr/sbin/sshd -f /run/sshd-registry.conf")
        for host, user in CLIENTS:
            options = f"port={PORT},IdentityFile=$HOME/.ssh/registry,StrictHostKeyChecking=no,UserKnownHostsFile=/dev/null,LogLevel=ERROR"
            script = f"mkdir -p {MOUNT} && sshfs -o {options} alice@{SERVER}:{STORE} {MOUNT}"
            cluster.run(host, ["sh", "-ec", script], user=user, check=True)

    def _key(self, host: str, user: str) -> str:
        script = "mkdir -p -m 700 ~/.ssh && rm -f ~/.ssh/registry* && ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/registry && cat ~/.ssh/registry.pub"
        return str(self.cluster.run(host, ["sh", "-ec", script], user=user, check=True).stdout)

    def root(self, host: str, script: str, **options: Any) -> str:
        return str(self.cluster.run(host, ["sh", "-ec", script], check=True, **options).stdout)

    def end(self) -> None:
        for host, user in CLIENTS:
            self.cluster.run(host, ["sh", "-c", f"fusermount3 -u {MOUNT}; rmdir {MOUNT}"], user=user)
        self.cluster.run(
            SERVER,
            [
                "sh",
                "-c",
                f"kill $(cat /run/sshd-registry.pid); pkill -KILL 'sshd|sftp-server'; rm -rf {STORE} /run/sshd-registry.*",
            ],
        )

    def fresh(self, name: str) -> tuple[str, str]:
        """A registry on the filesystem under test, as the clients name it, and a folder to meet in."""
        meeting = self.cluster.shared / f"meeting-{name}"
        meeting.mkdir()
        meeting.chmod(0o777)
        return f"{MOUNT}/{name}", f"/shared/{meeting.name}"

    def act(self, *roles: tuple[str, int], name: str, rounds: int, timeout: float) -> list[dict[str, Any]]:
        """What the roles said, each played on the client of that number."""
        root, meeting = self.fresh(name)
        started = []
        for role, me in roles:
            host, user = CLIENTS[me]
            words = [PYTHON, "-B", PUBLISHER, role, root, meeting, str(me), str(rounds)]
            started.append(self.cluster.popen(host, words, user=user, stdout=-1, stderr=-1))
        found = []
        for process in started:
            out, err = process.communicate(timeout=timeout)
            assert process.returncode == 0, err
            found.append(json.loads(out))
        return found


@pytest.fixture(scope="module")
def shared(cluster: Cluster) -> Iterator[Shared]:
    made = Shared(cluster)
    yield made
    made.end()


def hold(shared: Shared, name: str, rounds: int) -> None:
    first, second, *readers = shared.act(
        ("publisher", 0),
        ("publisher", 1),
        ("reader", 0),
        ("reader", 1),
        name=name,
        rounds=rounds,
        timeout=60 + 2 * rounds,
    )
    made = {serial: (word, nonce) for word, serial, nonce in (*first["made"], *second["made"])}
    assert sorted(made) == list(range(1, 2 * rounds + 1))
    shown = f"""
import json, sys
sys.path[:0] = ["/opt/tuneplane/tests", "/opt/tuneplane"]
from pathlib import Path
from registry.shelves import chain, strangers, word_of
from tuneplane.registry.layout import Registry
registry = Registry(Path("{MOUNT}/{name}"))
print(json.dumps([[[p.serial, word_of(registry, p), p.nonce] for p in chain(registry)], strangers(registry)]))
"""
    for host, user in CLIENTS:
        done = shared.cluster.run(
            host, [PYTHON, "-B", "-c", shown], user=user, check=True, timeout=60 + rounds
        )
        found, strange = json.loads(done.stdout)
        assert {serial: (word, nonce) for serial, word, nonce in found} == made and strange == []
    # the losers were told what cannot be believed
    assert first["refusals"] or second["refusals"]
    assert all(reader["reads"] and reader["last"] for reader in readers)
    print(
        f"{rounds} rounds, refusals {first['refusals']} {second['refusals']}, reads {[r['reads'] for r in readers]}"
    )


def test_both_hosts_get_the_lock(shared: Shared) -> None:
    """What makes this filesystem worth testing on: were it otherwise, the lock would hide what the claims have to bear."""
    shared.cluster.run(CLIENTS[0][0], ["mkdir", f"{MOUNT}/lock"], user=CLIENTS[0][1], check=True)
    assert shared.act(("holder", 0), ("holder", 1), name="lock", rounds=0, timeout=60) == [
        {"note": ""},
        {"note": ""},
    ]


def test_two_publishers_on_two_hosts(shared: Shared) -> None:
    hold(shared, "short", 12)


@pytest.mark.long
def test_two_publishers_on_two_hosts_for_long(shared: Shared) -> None:
    hold(shared, "long", 200)


def test_a_submission_is_admitted_from_there(shared: Shared) -> None:
    """By the real command, with the owner on the other side named by the site file."""
    host, user = CLIENTS[1]
    site = "/shared/home/bob/registry-site.yaml"
    text = {
        "schema": 1, "title": {"en": "x"}, "scheduler": "local", "runtime": {"kind": "host"}, "default_profile": "cpu:1", "default_time": "1h",
        "profiles": {"cpu": {"cpus_per_node": 1}}, "folders": {"runs": "/shared/home/bob/registry-runs", "registry": f"{MOUNT}/published"},
        "publishers": {"uids": [1001, 1002]}, "freshness": {"refuse": "1h"},
    }  # fmt: skip
    (shared.cluster.shared / Path(site).relative_to("/shared")).write_text(json.dumps(text))

    def tp(who: tuple[str, str], *words: str) -> tuple[int, str, str]:
        command = f"cd; umask 077; exec tp --site {site} {shlex.join(words)}"
        done = shared.cluster.run(who[0], ["sh", "-c", command], user=who[1])
        return done.returncode, done.stdout, done.stderr

    code, out, err = tp(CLIENTS[1], "catalog", "refresh")
    assert (code, err) == (0, "") and "published serial 1 (refresh)" in out
    assert tp(CLIENTS[1], "new", "from-there", "--method", "custom/custom")[0] == 0
    assert tp(CLIENTS[1], "validate", "from-there")[0] == 0
    facts = json.loads(tp(CLIENTS[1], "catalog", "status", "--json")[1])
    assert (facts["serial"], facts["by"]) == (1, f"{user}@{host}")
    assert tp(CLIENTS[1], "catalog", "refresh") == (0, "", "")
