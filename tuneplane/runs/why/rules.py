"""Slurm's reasons for a job that waits, each in words; what a rule does not know is said as Slurm says it."""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """kind, sentence and action for reasons that the pattern matches whole; `{…}` are fields of `_words`."""

    pattern: str
    kind: str
    sentence: str
    action: str


RULES = [
    Rule(
        r"Resources",
        "resources",
        "it waits until {asked} are free{expected}",
        "nothing; a shorter --time or fewer nodes may start sooner",
    ),
    Rule(
        r"Priority",
        "priority",
        "jobs of a higher priority come first{expected}",
        "nothing; `sprio -j {job}` shows what makes up its priority",
    ),
    Rule(
        r"PartitionTimeLimit",
        "partition limit",
        "its time limit of {time} is longer than the partition {partition} allows",
        "{cancel}, then submit with a shorter --time: `sinfo -o '%P %l'` shows the limits",
    ),
    Rule(
        r"PartitionNodeLimit",
        "partition limit",
        "its {nodes} are more than the partition {partition} gives one job, or than are up in it",
        "{cancel}, then submit with fewer nodes: `sinfo -o '%P %D %a'` shows the partitions",
    ),
    Rule(
        r"PartitionDown|PartitionInactive",
        "partition down",
        "the partition {partition} starts no jobs now ({reason})",
        "wait, or {cancel} and submit to another partition: `sinfo -o '%P %a'` shows which are up",
    ),
    Rule(
        r"AccountNotAllowed|InvalidAccount",
        "account",
        "the account {account} may not run it ({reason})",
        "{cancel}, then set another one under `resources: account`: `sacctmgr show assoc user=$USER`",
    ),
    Rule(
        r"QOSNotAllowed|InvalidQOS",
        "qos",
        "the QOS {qos} may not be used here ({reason})",
        "{cancel}, then set another one under `resources: qos`: `sacctmgr show assoc user=$USER format=Account,QOS`",
    ),
    Rule(
        r"AssocGrp\w*|QOSGrp\w*|MaxJobs\w*|MaxSubmit\w*|QOSJobLimit|QOSResourceLimit|AssociationJobLimit|AssociationResourceLimit",
        "limit",
        "jobs of the account {account} or its QOS use all that they may together ({reason})",
        "wait for others of the account to end: `squeue --account={account}`, or use another account",
    ),
    Rule(
        r"Assoc\w*Limit\w*|AssocMax\w*|QOSMax\w*|QOSMin\w*|Max\w+Per\w+|AssociationTimeLimit|QOSTimeLimit|QOSUsageThreshold",
        "limit",
        "it asks for more than one job or user of the account {account} or its QOS may have ({reason})",
        "{cancel}, then ask for less: `sacctmgr show assoc user=$USER` and `sacctmgr show qos` show the limits",
    ),
    Rule(
        r"DependencyNeverSatisfied",
        "dependency impossible",
        "the run that it is to come after will not complete any more{after}",
        "{cancel}, then submit it again without --after, or after another run",
    ),
    Rule(
        r"Dependency",
        "dependency",
        "it waits for another job to complete{after}",
        "nothing; `{ls}` shows how the other run stands",
    ),
    Rule(r"JobHeldUser", "held", "it is held by its owner", "`scontrol release {job}`"),
    Rule(
        r"JobHeldAdmin",
        "held",
        "it is held by an administrator",
        "ask the administrators; a user cannot release it",
    ),
    Rule(
        r"JobHoldMaxRequeue|.*requeued.*held.*|LaunchFailed\w*|JobLaunchFailure",
        "launch failed",
        "Slurm could not launch it and holds it ({reason})",
        "`scontrol release {job}`; when it is held again tell the administrators: a node or its prolog is broken",
    ),
    Rule(
        r".*[Mm]aintenance.*",
        "maintenance",
        "the nodes that it needs are reserved for maintenance{expected}",
        "wait, or {cancel} and submit with a --time that ends before it: `scontrol show reservation`",
    ),
    Rule(
        r"ReqNodeNotAvail.*|NodeDown|.*[Nn]odes required for job are.*",
        "nodes unavailable",
        "nodes that it needs are down, drained or reserved ({reason})",
        "wait, or {cancel} and submit without `nodelist` or to other nodes: `sinfo -R` says why they are out",
    ),
    Rule(
        r"Reservation\w*",
        "reservation",
        "its reservation has not begun, is full or is gone ({reason})",
        "`scontrol show reservation` shows when it begins",
    ),
    Rule(
        r"Licenses",
        "licenses",
        "it waits for licences that others use",
        "nothing; `scontrol show licenses` shows them",
    ),
    Rule(
        r"BadConstraints",
        "constraints",
        "no node has all that it asks for: {asked}",
        "{cancel}, then submit with another profile or constraint: `sinfo -o '%N %f %G'` shows what nodes have",
    ),
    Rule(r"JobArrayTaskLimit", "array limit", "other tasks of its array come first", "nothing"),
    Rule(r"Prolog|Cleaning|None|", "starting", "Slurm is about to look at it or to start it", "nothing"),
]
