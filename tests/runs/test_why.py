"""Why a run waits or has failed: judged from recorded texts, as schedulers and programs write them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tuneplane.runs.folder import CANCEL_FILE, REQUEUE_FILE, Run
from tuneplane.runs.status import Job, judge
from tuneplane.runs.why.facts import gather
from tuneplane.runs.why.judge import why
from tuneplane.runs.why.reason import Reason

LOGS = Path(__file__).parent / "logs"
PLAN: dict[str, Any] = {
    "scheduler": "slurm",
    "seconds": 14400,
    "topology": {"nodes": 2, "processes_per_node": 2, "gpus_per_node": 2, "cpus_per_node": 8},
    "directives": [
        {"name": "partition", "value": "gpu", "source": "site"},
        {"name": "account", "value": "lab", "source": "site"},
        {"name": "nodes", "value": "2", "source": "profile"},
    ],
    "resume": None,
    "why_not": "",
}
OVER = Job("ended", word="FAILED")


class Made:
    """A run folder with one attempt; files are named texts under `logs/`, or what they hold."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plan = dict(PLAN)

    def attempt(
        self,
        number: int = 1,
        exit: dict[str, Any] | None = None,
        verdict: dict[str, Any] | None = None,
        **files: str,
    ) -> Made:
        place = self.folder / "attempts" / str(number)
        place.mkdir(parents=True)
        if exit is not None:
            (place / "exit.json").write_text(json.dumps({"attempt": number, "decided_by": "verdict"} | exit))
        if verdict is not None:
            whole = {
                "node": None,
                "host": None,
                "signal": None,
                "reason": "exited",
                "message": "",
                "rank": None,
            } | verdict
            (place / "verdict").write_text(f"{whole['code']}\n{json.dumps(whole)}\n")
        for name, text in files.items():
            file = self.folder / "slurm-5.out" if name == "slurm" else place / f"{name.replace('_', '-')}.log"
            file.write_text((LOGS / text).read_text() if (LOGS / text).exists() else text)
        return self

    def why(self, job: Job = OVER, run_job: Any = "") -> Reason:
        run = Run(
            self.folder, {"plan": self.plan}, {"scheduler": "slurm", "id": "5"} if run_job == "" else run_job
        )
        return why(gather(run, judge(run, job), job))


@pytest.fixture
def made(tmp_path: Path) -> Made:
    folder = tmp_path / "exp-abcdefgh"
    (folder / "attempts").mkdir(parents=True)
    return Made(folder)


FAILED = {"code": 1}
ON_1 = {"code": 1, "node": 1, "host": "n2", "message": "the command ended with exit code 1"}
ON_0 = {"code": 1, "node": 0, "host": "n1", "message": "the command ended with exit code 1"}
KILLED = {
    "code": 137,
    "node": 1,
    "host": "n2",
    "signal": "SIGKILL",
    "reason": "signal",
    "message": "the command was killed by SIGKILL",
}
LOST = {
    "code": 125,
    "node": 1,
    "host": "n2",
    "reason": "lost",
    "message": "nothing was heard from it for 60 s",
}


def said(reason: str, message: str, code: int = 125, **more: Any) -> dict[str, Any]:
    return {"code": code, "node": 1, "host": "n2", "reason": reason, "message": message, **more}


CAUSES: dict[str, tuple[dict[str, Any], dict[str, str], str, str, str]] = {
    # verdict, files → kind, sentence, a part of the evidence
    "CUDA memory": (ON_1 | {"rank": 3}, {"node_1": "cuda_oom.log"}, "gpu memory", "a GPU ran out of memory on rank 3 of node 1 (n2): 2.26 GiB more were asked for", "torch.OutOfMemoryError"),
    "CUDA memory beats a timeout elsewhere": (ON_0, {"node_0": "nccl_timeout_node0.log", "node_1": "cuda_oom.log"}, "gpu memory", "a GPU ran out of memory on rank 3 of node 1: 2.26 GiB more were asked for", "Tried to allocate"),
    "NCCL timeout": (ON_0 | {"rank": 0}, {"node_0": "nccl_timeout_node0.log", "node_1": "nccl_timeout_node1.log"}, "collective timeout", "a collective operation (ALLREDUCE) did not end within 10m: rank 3 never came, ranks 0, 1, 2 waited", "Watchdog caught"),
    "NCCL network": (ON_0, {"node_0": "nccl_remote.log"}, "network", "the ranks lost each other (NCCL error) on rank 0 of node 0 (n1)", "DistBackendError"),
    "gloo": (ON_0, {"node_0": "gloo.log"}, "network", "the ranks lost each other on rank 1 of node 0 (n1)", "closed by peer"),
    "host memory, slurmstepd": (KILLED, {"job": "host_oom_job.log", "node_1": "host_oom_node.log"}, "host memory", "the host ran out of the job's memory on node 1 (n2)", "oom_kill event"),
    "host memory, probably": (KILLED, {"node_1": "host_oom_node.log"}, "killed", "it was killed on node 1 (n2), probably because the host ran out of memory", "loading shard 37 of 96"),
    "host memory, Ray": (ON_0, {"node_0": "ray_oom.log"}, "host memory", "the host ran out of the job's memory on node 0 (n1)", "memory pressure"),
    "shared memory": (ON_0, {"node_0": "shm.log"}, "shared memory", "/dev/shm is too small or full on node 0 (n1)", "Bus error"),
    "disk full": (ON_1, {"node_1": "disk.log"}, "disk full", "the disk was full on node 1 (n2), writing /scratch/run/output/checkpoint-400/model.safetensors", "Errno 28"),
    "quota": (ON_1, {"node_1": "quota.log"}, "disk full", "the disk quota was exceeded on node 1 (n2), writing /home/alice/it is/best.pt", "cp: error"),
    "torch.save": (ON_1, {"node_1": "torch_save.log"}, "disk full", "the disk was full on node 1 (n2)", "PytorchStreamWriter"),
    "module": (ON_0, {"node_0": "module.log"}, "module", "the program's Python lacks a module on node 0 (n1): No module named 'flash_attn'", "ModuleNotFoundError"),
    "exception": (ON_0, {"node_0": "handled.log"}, "exception", "the program ended with KeyError on node 0 (n1)", "KeyError: 'prompt'"),
    "exception in a Ray task": (ON_0, {"node_0": "ray_task.log"}, "exception", "the program ended with ValueError on node 0 (n1)", "reward is not a number"),
    "Ray": (ON_0, {"node_0": "ray_died.log"}, "ray", "a Ray worker or node died (ray.exceptions.ActorDiedError) on node 0 (n1)", "died unexpectedly"),
    "Ray's own verdict": (said("ray", "Ray did not come up"), {}, "ray", "Ray did not come up on node 1 (n2)", ""),
    "lost": (LOST, {"node_0": "nccl_remote.log"}, "node failure", "node 1 (n2) was lost: nothing was heard from it for 60 s", ""),
    "lost, but full before": (LOST, {"node_1": "quota.log"}, "disk full", "the disk quota was exceeded on node 1 (n2), writing /home/alice/it is/best.pt", ""),
    "preflight": (said("preflight", "/tmp has 3 MiB free, 256 MiB are needed"), {}, "preflight", "/tmp has 3 MiB free, 256 MiB are needed on node 1 (n2)", ""),
    "packages": (said("preflight", "the image has no vllm, and the method needs vllm>=0.9"), {}, "image", "the image has no vllm, and the method needs vllm>=0.9 on node 1 (n2)", ""),
    "secret": (said("preflight", "a secret cannot be read, the job log says why", 3), {"job": "secret_job.log"}, "secret", "a secret cannot be read, the job log says why on node 1 (n2)", "WANDB_API_KEY"),
    "rendezvous": (said("rendezvous", "node 1 did not come within 600 s"), {}, "rendezvous", "the nodes did not find each other: node 1 did not come within 600 s on node 1 (n2)", ""),
    "could not start": (said("could-not-start", "cannot start `trian.sh`: No such file", 127), {}, "could not start", "cannot start `trian.sh`: No such file on node 1 (n2)", ""),
    "server": (said("server", "the server of the pool judge ended with exit code 3"), {"node_1": "bad flag --modle\n"}, "server", "the server of the pool judge ended with exit code 3 on node 1 (n2)", "--modle"),
    "SIGSEGV": (said("signal", "the command was killed by SIGSEGV", 139, signal="SIGSEGV"), {"node_1": "before\n"}, "signal", "the command was killed by SIGSEGV on node 1 (n2)", "before"),
    "exit code": (ON_1, {"node_1": "tuneplane: starting\nbad luck\ntuneplane: the command ended with exit code 1\n"}, "exit code", "the command ended with exit code 1 on node 1 (n2)", "bad luck"),
    "only the verdict's tail": (ON_1 | {"tail": ["x", "CUDA out of memory. Tried to allocate 1.00 GiB"]}, {}, "gpu memory", "a GPU ran out of memory on node 1 (n2): 1.00 GiB more were asked for", "CUDA"),
}  # fmt: skip


@pytest.mark.parametrize("case", CAUSES)
def test_a_cause(made: Made, case: str) -> None:
    verdict, files, kind, sentence, evidence = CAUSES[case]
    found = made.attempt(1, {"code": verdict["code"]}, verdict, **files).why()
    assert (found.kind, found.sentence) == (kind, sentence)
    assert found.action
    assert evidence in (found.evidence.line if found.evidence else "")
    if found.evidence:
        line = (made.folder / found.evidence.file).read_text()
        assert found.evidence.line[:60] in line or found.evidence.file.endswith("verdict")


SCHEDULERS: dict[str, tuple[dict[str, Any] | None, dict[str, str], Job, str, str]] = {
    # exit record, files, the scheduler's word → kind, sentence; no supervisor left a verdict
    "a node, says the accounting": (None, {}, Job("ended", "failed", "Slurm says NODE_FAIL", word="NODE_FAIL"), "node failure", "a node of the job failed (Slurm says NODE_FAIL)"),
    "a node, says srun": (None, {"slurm": "node_fail_slurm.out"}, Job("unknown"), "vanished", "the scheduler does not know the job, and it left no record of its end; its log says that the node n2 failed"),
    "a node, with a name": ({"code": 143, "decided_by": "step", "cause": "lost"}, {"slurm": "node_fail_slurm.out"}, OVER, "node failure", "the node n2 failed"),
    "host memory, says Slurm": (None, {}, Job("ended", "failed", "Slurm says OUT_OF_MEMORY", word="OUT_OF_MEMORY"), "host memory", "the host ran out of the job's memory"),
    "time limit": ({"code": 143, "cause": "time limit", "why_next": "the recipe does not resume"}, {"slurm": "time_limit_slurm.out"}, OVER, "time limit", "the time limit of 4h was reached, and no attempt follows: the recipe does not resume"),
    "time limit, no record": (None, {}, Job("ended", "timed-out", "Slurm says TIMEOUT", word="TIMEOUT"), "time limit", "the time limit of 4h was reached"),
    "preemption": ({"code": 143, "cause": "preemption", "why_next": "the site does not requeue"}, {}, Job("ended", "failed", word="PREEMPTED"), "preemption", "a job of higher priority took its nodes, and no attempt follows: the site does not requeue"),
    "preemption is no time limit": ({"code": 143, "cause": "preemption"}, {}, Job("ended", "timed-out", word="TIMEOUT"), "preemption", "a job of higher priority took its nodes"),
    "cancelled by root": ({"code": 143}, {"slurm": "cancelled_slurm.out"}, Job("ended", "cancelled", word="CANCELLED", by="12345678"), "cancelled", "it was cancelled by uid 12345678 while it ran"),
    "cancelled by nobody knows whom": ({"code": 143}, {"node_0": "nccl_remote.log"}, Job("ended", "cancelled", word="CANCELLED"), "cancelled", "it was cancelled while it ran"),
    "image": ({"code": 5, "decided_by": "check"}, {"job": "apptainer_job.log"}, OVER, "image", "a check failed before the launch"),
    "pyxis": ({"code": 1, "decided_by": "step"}, {"job": "pyxis_job.log"}, OVER, "image", "the container did not start"),
    "frozen files": ({"code": 4, "decided_by": "check"}, {}, OVER, "frozen files", "a check failed before the launch"),
    "input": ({"code": 3, "decided_by": "check"}, {}, OVER, "input", "a check failed before the launch"),
    "disk, in a check": ({"code": 1, "decided_by": "check"}, {"job": "mkdir: cannot create directory '/r/output': Disk quota exceeded\n"}, OVER, "disk full", "the disk quota was exceeded, writing /r/output"),
    "launcher": ({"code": 1, "decided_by": "step"}, {"job": "srun: error: Unable to create step for job 5: Memory required by task is not available\n"}, OVER, "launcher", "the launcher ended with 1 before a supervisor could say why"),
    "killed": (None, {}, OVER, "unknown", "the job ended without a record of its end: it was killed"),
    "no answer": (None, {}, Job("unknown", note="squeue: timed out", asked=False), "no answer", "the scheduler did not answer: squeue: timed out"),
}  # fmt: skip


@pytest.mark.parametrize("case", SCHEDULERS)
def test_without_a_verdict(made: Made, case: str) -> None:
    record, files, job, kind, sentence = SCHEDULERS[case]
    found = made.attempt(1, record, None, **files).why(job)
    assert (found.kind, found.sentence) == (kind, sentence)
    assert found.action
    if "slurm" in files:
        assert found.evidence is not None and found.evidence.file == "slurm-5.out"


def test_the_same_without_and_with_accounting(made: Made) -> None:
    """A verdict that was left outlives what Slurm has forgotten."""
    made.attempt(1, None, ON_1 | {"rank": 3}, node_1="cuda_oom.log")
    assert made.why(Job("unknown")) == made.why(OVER) == made.why(Job("ended", "failed", word="FAILED"))
    assert made.why(OVER).kind == "gpu memory"


def test_giving_up_names_the_last_cause(made: Made) -> None:
    made.attempt(1, FAILED, ON_1).attempt(
        2, {"code": 1, "decided_by": "no progress"}, ON_1 | {"rank": 3}, node_1="cuda_oom.log"
    )
    found = made.why()
    assert found.kind == "no progress" and found.evidence and "OutOfMemory" in found.evidence.line
    assert found.sentence == (
        "two attempts in a row made no new checkpoint; the last one: "
        "a GPU ran out of memory on rank 3 of node 1 (n2): 2.26 GiB more were asked for"
    )


def test_cancelled_by_oneself(made: Made) -> None:
    (made.folder / CANCEL_FILE).write_text(json.dumps({"at": 1, "by": os.getuid()}))
    assert (
        made.why(Job("ended", "cancelled", word="CANCELLED")).sentence
        == "it was cancelled by you before it started"
    )


def test_the_node_to_leave_out_is_the_one_that_failed(made: Made) -> None:
    """Slurm ended the others before a supervisor missed it: the verdict is of one that was told to stop."""
    stopped = said("stopped", "told to stop by SIGTERM", 143, node=0, host="n1")
    found = made.attempt(1, {"code": 143, "cause": "lost"}, stopped, slurm="node_fail_slurm.out").why()
    assert found.sentence == "the node n2 failed" and "(`resources: exclude: n2`)" in found.action
    lost = made.attempt(2, {"code": 125}, LOST).why()
    assert "(`resources: exclude: n2`)" in lost.action


def test_a_secret_value_is_never_shown(made: Made) -> None:
    """The evidence of a secret is the line about it, which names no value."""
    found = made.attempt(
        1, {"code": 3}, said("preflight", "a secret cannot be read", 3), job="secret_job.log"
    ).why()
    assert found.evidence is not None and found.evidence.line.endswith("holds this name 0 times")


PENDING = {
    "Resources": ("resources", "it waits until 2 nodes with 2 GPUs each in the partition gpu are free; Slurm expects it to start at 2026-11-30 22:00:00"),
    "Priority": ("priority", "jobs of a higher priority come first; Slurm expects it to start at 2026-11-30 22:00:00"),
    "PartitionTimeLimit": ("partition limit", "its time limit of 4h is longer than the partition gpu allows"),
    "PartitionNodeLimit": ("partition limit", "its 2 nodes are more than the partition gpu gives one job, or than are up in it"),
    "PartitionDown": ("partition down", "the partition gpu starts no jobs now (PartitionDown)"),
    "AssocGrpCpuLimit": ("limit", "jobs of the account lab or its QOS use all that they may together (AssocGrpCpuLimit)"),
    "QOSGrpGRES": ("limit", "jobs of the account lab or its QOS use all that they may together (QOSGrpGRES)"),
    "AssocMaxJobsLimit": ("limit", "it asks for more than one job or user of the account lab or its QOS may have (AssocMaxJobsLimit)"),
    "QOSMaxGRESPerUser": ("limit", "it asks for more than one job or user of the account lab or its QOS may have (QOSMaxGRESPerUser)"),
    "QOSMaxWallDurationPerJobLimit": ("limit", "it asks for more than one job or user of the account lab or its QOS may have (QOSMaxWallDurationPerJobLimit)"),
    "InvalidAccount": ("account", "the account lab may not run it (InvalidAccount)"),
    "InvalidQOS": ("qos", "the QOS by default may not be used here (InvalidQOS)"),
    "Dependency": ("dependency", "it waits for another job to complete (afterok:4(unfulfilled))"),
    "DependencyNeverSatisfied": ("dependency impossible", "the run that it is to come after will not complete any more (afterok:4(unfulfilled))"),
    "BeginTime": ("begin time", "it is not to begin before 2026-11-30 22:00:00"),
    "JobHeldUser": ("held", "it is held by its owner"),
    "JobHeldAdmin": ("held", "it is held by an administrator"),
    "JobHoldMaxRequeue": ("launch failed", "Slurm could not launch it and holds it (JobHoldMaxRequeue)"),
    "launch_failed_requeued_held": ("launch failed", "Slurm could not launch it and holds it (launch_failed_requeued_held)"),
    "ReqNodeNotAvail,_UnavailableNodes:n2": ("nodes unavailable", "nodes that it needs are down, drained or reserved (ReqNodeNotAvail,_UnavailableNodes:n2)"),
    "ReqNodeNotAvail,_Reserved_for_maintenance": ("maintenance", "the nodes that it needs are reserved for maintenance; Slurm expects it to start at 2026-11-30 22:00:00"),
    "Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions": ("nodes unavailable", "nodes that it needs are down, drained or reserved (Nodes_required_for_job_are_DOWN,_DRAINED_or_reserved_for_jobs_in_higher_priority_partitions)"),
    "Licenses": ("licenses", "it waits for licences that others use"),
    "BadConstraints": ("constraints", "no node has all that it asks for: 2 nodes with 2 GPUs each in the partition gpu"),
    "None": ("starting", "Slurm is about to look at it or to start it"),
    "SomethingNew": ("waiting", "Slurm says that it waits for: SomethingNew"),
}  # fmt: skip


def waits(reason: str) -> Job:
    return Job(
        "queued", word="PENDING", reason=reason, begins="2026-11-30T22:00:00", after="afterok:4(unfulfilled)"
    )


@pytest.mark.parametrize("reason", PENDING)
def test_a_job_that_waits(made: Made, reason: str) -> None:
    found = made.why(waits(reason))
    assert (found.kind, found.sentence) == PENDING[reason]
    assert found.action and "{" not in found.sentence + found.action


def test_a_job_that_waits_again(made: Made) -> None:
    made.plan["resume"] = {"attempts": 20}
    made.attempt(1, {"code": 143, "cause": "time limit", "next": "requeue"})
    assert made.why(waits("BeginTime")).sentence == (
        "attempt 2 of 20 waits: requeued at the time limit; "
        "Slurm starts a job that was requeued not before 2026-11-30 22:00:00"
    )
    (made.folder / REQUEUE_FILE).write_text('{"attempt": 1}')
    assert made.why(waits("Priority")).sentence.startswith(
        "attempt 2 of 20 waits: requeued by its owner; jobs of"
    )


def beat(made: Made, ago: float) -> None:
    file = made.folder / "attempts/1/alive.json"
    file.write_text(json.dumps({"t": time.time() - ago, "phase": "running"}))
    os.utime(file, (time.time() - ago,) * 2)


def test_running_and_silent(made: Made) -> None:
    made.attempt(1)
    beat(made, 5)
    assert made.why(Job("running", word="RUNNING")).kind == "running"
    beat(made, 600)
    found = made.why(Job("running", word="RUNNING"))
    since = time.strftime("%H:%M:", time.localtime(time.time() - 600))
    assert found.kind == "silent" and f" {since}" in found.sentence, found


def test_vanished_with_its_last_heartbeat(made: Made) -> None:
    made.attempt(1)
    beat(made, 900)
    found = made.why(Job("unknown"))
    assert found.kind == "vanished" and "; it was heard last at " in found.sentence
    assert found.action == "`tp job requeue exp-abcdefgh` starts it again"


def test_never_handed_over(made: Made) -> None:
    assert made.why(Job("unknown"), None).sentence == "no job was made of it: never handed to the scheduler"


def test_completed(made: Made) -> None:
    made.attempt(1, {"code": 0}, {"code": 0}, node_0="cuda_oom.log")
    assert made.why() == Reason("completed", "it completed")
