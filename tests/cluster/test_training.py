"""Training on several nodes, from `tp new` to the result."""

from __future__ import annotations

import json
import re

import pytest
from cluster.harness import Cluster
from cluster.researcher import Researcher

pytestmark = pytest.mark.cluster

DIGITS = 1438  # training images: scikit-learn's 1797 less the fifth that validates


def test_image_classification_on_two_nodes(cluster: Cluster, torch_image: str) -> None:
    alice = Researcher(cluster, images={"pytorch-2.13.0": torch_image})
    alice.experiment("digits", method="pytorch/image-classification", version="2.13.0")
    facts = alice.run("digits", "--profile", "cpu:2", "--set", "epochs=2", timeout=400)
    assert (facts["state"], facts["code"], facts["attempt"]) == ("completed", 0, 1), alice.log(facts["run"])
    result = json.loads(alice.output(facts["run"], "result.json"))
    assert (result["world_size"], result["hosts"]) == (4, ["n1", "n2"])
    # summed over the ranks: whole batches of 64 only, each image counted by the one rank that saw it
    assert result["samples_seen"] == 2 * (DIGITS // 64) * 64
    assert result["accuracy"] > 0.8
    assert "INFO:" not in alice.log(facts["run"])
    alice.assert_nothing_left()


ABOUT_ME = """
printf '%s\\n' "$(hostname)" "$TUNEPLANE_NODES" "$TUNEPLANE_HEAD_ADDRESS" >"$TUNEPLANE_OUTPUT_DIR/$TUNEPLANE_NODE_RANK"
python3 -c 'from tuneplane import report; report.log({"train/loss": 0.5}, 1)'
"""


def three_nodes(alice: Researcher, *options: str) -> None:
    alice.experiment("own", ABOUT_ME)
    facts = alice.run("own", "--profile", "one:3", *options)
    assert (facts["state"], facts["code"]) == ("completed", 0), alice.log(facts["run"])
    said = [alice.output(facts["run"], str(rank)).decode().split() for rank in range(3)]
    assert sorted(host for host, _, _ in said) == ["n1", "n2", "n3"]
    assert {nodes for _, nodes, _ in said} == {"3"}
    head = alice.cluster.spec.address(said[0][0], alice.cluster.subnet)
    assert {address for _, _, address in said} == {head}
    alice.assert_nothing_left()


def test_custom_on_three_nodes(cluster: Cluster) -> None:
    three_nodes(Researcher(cluster))


@pytest.mark.long
def test_custom_on_three_nodes_in_a_container(cluster: Cluster, python_image: str) -> None:
    three_nodes(Researcher(cluster, runtime="apptainer"), "--image", python_image)


@pytest.mark.long
def test_the_starter_as_it_comes(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("starter")
    run = alice.submit("starter")
    said = alice.tp("job", "logs", run, "--follow")
    assert re.search(r"^step 200 loss 0\.\d+ accuracy 0\.9\d+$", said.out, re.M), said
    assert alice.status(run)["state"] == "completed"


@pytest.mark.long
def test_pretend_gpus_of_two_whole_nodes(cluster: Cluster) -> None:
    alice = Researcher(cluster)
    alice.experiment("gpus", 'echo "$CUDA_VISIBLE_DEVICES" >"$TUNEPLANE_OUTPUT_DIR/$TUNEPLANE_NODE_RANK"')
    facts = alice.run("gpus", "--profile", "h200:16")
    assert facts["state"] == "completed", alice.log(facts["run"])
    assert [alice.output(facts["run"], rank) for rank in "01"] == [b"0,1,2,3,4,5,6,7\n"] * 2


@pytest.mark.long
def test_pretend_gpus_reach_a_container(cluster: Cluster, python_image: str) -> None:
    alice = Researcher(cluster, runtime="apptainer")
    alice.experiment("gpus", 'echo "$CUDA_VISIBLE_DEVICES" >"$TUNEPLANE_OUTPUT_DIR/seen"')
    facts = alice.run("gpus", "--profile", "h200:2", "--image", python_image)
    assert facts["state"] == "completed", alice.log(facts["run"])
    assert len(alice.output(facts["run"], "seen").strip().split(b",")) == 2
