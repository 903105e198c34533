"""What a test cluster looks like, and the text of the files that Slurm reads to be like that."""

from __future__ import annotations

from dataclasses import dataclass

GPU_FILES = "/var/lib/pretend-gpus/gpu"


@dataclass(frozen=True)
class ClusterSpec:
    """One cluster. Sizes are as tmpfs takes them (`64m`, `2g`); times are in seconds.

    The last `small_nodes` nodes have two GPUs of type l4, the others eight of type h200; a cluster has at
    least one node of the second kind. `slurm_conf` are more lines for the end of slurm.conf.
    """

    nodes: int = 3
    suite: str = "trixie"
    accounting: bool = False
    login2: bool = False
    slurmd_timeout: int = 30
    min_job_age: int = 3600
    kill_wait: int = 5
    small_nodes: int = 1
    cpus: int = 32
    memory_mb: int = 64000
    tmp_size: str = "2g"
    shm_size: str = "1g"
    root_size: str = "4g"
    slurm_conf: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= 90:
            raise ValueError(f"a cluster has 1 to 90 nodes, not {self.nodes}")

    @property
    def logins(self) -> list[str]:
        return ["login", "login2"] if self.login2 else ["login"]

    @property
    def compute(self) -> list[str]:
        return [f"n{number}" for number in range(1, self.nodes + 1)]

    @property
    def hosts(self) -> list[str]:
        """All hosts, the controller first: the order in which they must start."""
        return [*self.logins, *self.compute]

    def gpus(self, host: str) -> tuple[str, int]:
        """Type and number of the pretend GPUs of a host."""
        if host in self.logins:
            return "none", 0
        small = min(self.small_nodes, self.nodes - 1)
        return ("l4", 2) if int(host[1:]) > self.nodes - small else ("h200", 8)

    def address(self, host: str, subnet: int) -> str:
        """The IPv4 address of a host in the cluster's own /24."""
        number = 100 + self.logins.index(host) if host in self.logins else int(host[1:])
        return f"10.77.{subnet}.{number}"


def hosts_file(spec: ClusterSpec, subnet: int) -> str:
    rows = [("127.0.0.1", "localhost"), *((spec.address(host, subnet), host) for host in spec.hosts)]
    return "".join(f"{address} {name}\n" for address, name in rows)


def slurm_conf(spec: ClusterSpec, name: str, subnet: int) -> str:
    """slurm.conf, good for Slurm 22.05 to 26.05.

    `cred_expire` shortens what a requeued job waits for from two minutes to seconds. Without cgroups
    (`linuxproc`, `task/none`) nothing of the machine is needed, and a node may claim more CPUs than there are.
    """
    fixed = {
        "ClusterName": name,
        "SlurmctldHost": f"login({spec.address('login', subnet)})",
        "AuthType": "auth/munge",
        "AuthInfo": "cred_expire=5",
        "SlurmUser": "root",
        "SlurmdUser": "root",
        "StateSaveLocation": "/var/spool/slurm/ctld",
        "SlurmdSpoolDir": "/var/spool/slurm/d",
        "SlurmctldPidFile": "/run/slurmctld.pid",
        "SlurmdPidFile": "/run/slurmd.pid",
        "SlurmctldLogFile": "/var/log/slurm/slurmctld.log",
        "SlurmdLogFile": "/var/log/slurm/slurmd.log",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "ReturnToService": 2,
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core",
        "GresTypes": "gpu",
        "SlurmdParameters": "config_overrides",
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1",
        "JobRequeue": 1,
        "PreemptType": "preempt/partition_prio",
        "PreemptMode": "REQUEUE",
        "KillWait": spec.kill_wait,
        "MinJobAge": spec.min_job_age,
        "SlurmdTimeout": spec.slurmd_timeout,
        "MaxArraySize": 1001,
    }
    if spec.accounting:
        fixed |= {
            "AccountingStorageType": "accounting_storage/slurmdbd",
            "AccountingStorageHost": "login",
            "AccountingStorageTRES": "gres/gpu",
            "JobAcctGatherType": "jobacct_gather/linux",
            "JobAcctGatherFrequency": 1,
        }
    lines = [f"{key}={value}" for key, value in fixed.items()]
    for host in spec.compute:
        kind, count = spec.gpus(host)
        lines.append(
            f"NodeName={host} CPUs={spec.cpus} RealMemory={spec.memory_mb} Gres=gpu:{kind}:{count} State=UNKNOWN"
        )
    lines += [
        "PartitionName=gpu Nodes=ALL Default=YES MaxTime=1-00:00:00 PriorityTier=10 PreemptMode=OFF State=UP",
        "PartitionName=low Nodes=ALL MaxTime=1-00:00:00 PriorityTier=1 PreemptMode=REQUEUE State=UP",
        "PartitionName=short Nodes=ALL MaxTime=00:02:00 PriorityTier=10 PreemptMode=OFF State=UP",
        *spec.slurm_conf,
    ]
    return "\n".join(lines) + "\n"


def gres_conf(spec: ClusterSpec) -> str:
    rows = ((host, *spec.gpus(host)) for host in spec.compute)
    return "".join(
        f"NodeName={host} Name=gpu Type={kind} File={GPU_FILES}[0-{count - 1}]\n"
        for host, kind, count in rows
    )


def cgroup_conf(spec: ClusterSpec) -> str:
    """No cgroups: Slurm 22.05 knows no `disabled` plugin, and its first one is content with nothing."""
    return f"CgroupPlugin={'cgroup/v1' if spec.suite == 'bookworm' else 'disabled'}\n"


def slurmdbd_conf() -> str:
    values = {
        "AuthType": "auth/munge",
        "DbdHost": "login",
        "SlurmUser": "root",
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "localhost",
        "StorageUser": "slurm",
        "StorageLoc": "slurm_acct",
        "LogFile": "/var/log/slurm/slurmdbd.log",
        "PidFile": "/run/slurmdbd.pid",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def files(spec: ClusterSpec, name: str, subnet: int) -> dict[str, str]:
    """Every file of /etc/slurm by its name."""
    texts = {
        "slurm.conf": slurm_conf(spec, name, subnet),
        "gres.conf": gres_conf(spec),
        "cgroup.conf": cgroup_conf(spec),
    }
    return texts | ({"slurmdbd.conf": slurmdbd_conf()} if spec.accounting else {})
