"""Spark's settings: what a long-running slot needs, per kind of master, and what it would not survive."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.errors import EnvironmentUnfit

OUR_SETTINGS = {
    "spark.app.name": "sparkmirror",
    "spark.scheduler.mode": "FAIR",
    "spark.task.maxFailures": "1",
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.dynamicAllocation.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # A flow runs for months, and each batch of a transform query is a job: what Spark remembers of them is bounded.
    "spark.ui.retainedJobs": "100",
    "spark.ui.retainedStages": "100",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "50",
    "spark.eventLog.rolling.enabled": "true",
    "spark.eventLog.rolling.maxFileSize": "16m",
}
# What ends a slot that is in order, each with the reason. Ours replace Spark's defaults; whoever asks for others is refused.
DEADLY_SETTINGS = {
    "spark.speculation": (
        "false",
        "Spark would start a second task for a slot, which refuses to run, and end the first one",
    ),
    "spark.python.worker.killOnIdleTimeout": (
        "false",
        "Spark would kill the Python of a slot, which tells it nothing until the slot ends",
    ),
}
IDLE_TIMEOUT = "spark.python.worker.idleTimeoutSeconds"  # 0: Spark neither kills idle workers nor logs about them
JVM_OPTIONS = "spark.driver.extraJavaOptions"
LOCAL_SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    # The JVM schedules and waits; no byte of the data passes it. Its optimising compiler and parallel collector would
    # only cost CPU at the start, and a heap of the usual size would grow for an hour before it was first swept.
    JVM_OPTIONS: "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms32m -Xmn16m -Xshare:auto",
    "spark.ui.enabled": "false",
    "spark.python.daemon.module": "sparkmirror.worker_daemon",
}
# Records that pass a transform pass the JVM too: it needs room for them, and after a million of them its optimising compiler
# was worth its start.
QUERY_SETTINGS = {
    "spark.driver.memory": "1g",
    JVM_OPTIONS: "-XX:+UseSerialGC -Xshare:auto",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.streaming.pollingDelay": "50ms",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
}
# Slots wait on the network more than they compute: where there are more slots than cores, up to four of them share one. No
# more than needed, for Spark fills an executor before it looks at the next.
SLOT_CPUS = (1.0, 0.5, 0.25)
# Containers are killed when their processes together outgrow heap and overhead. Slots are processes outside the heap. What
# spark.executor.pyspark.memory limits is address space, of which they map more than they use: it stays unset.
CONTAINER_MASTERS = ("yarn", "k8s://")
SLOT_MIB = 256
EXECUTOR_MIB = 384  # what the JVM needs beside its heap, Spark's own least overhead
CLUSTER_MASTERS = ("spark://", *CONTAINER_MASTERS)


@dataclass(frozen=True, slots=True)
class Need:
    """What Spark has to run: so many slots, and so many transform queries."""

    slots: int
    queries: int = 0


def is_sized(master: str) -> bool:
    """Whether we choose the threads of local mode, so that each slot has one at once."""
    return master in ("local", "local[*]")


def is_cluster(master: str) -> bool:
    """Whether tasks run in executors elsewhere."""
    return master.startswith(CLUSTER_MASTERS)


def sized(master: str, need: Need) -> str:
    """Local mode gets as many threads as slots, one for short jobs, and those of the queries."""
    if not is_sized(master):
        return master
    cores = os.cpu_count() or 1
    return f"local[{max(need.slots + 1, cores) + need.queries * cores}]"


def settings_for(master: str, need: Need, wanted: Mapping[str, str], jvm_option: str) -> dict[str, str]:
    """All settings for a master: ours, and `wanted` over them. Raises for those that no slot survives."""
    refuse_deadly(wanted)
    settings = dict(OUR_SETTINGS)
    if master.startswith("local"):
        settings |= LOCAL_SETTINGS
        scratch = tempfile.gettempdir()
        # Nothing is stored there, but Spark makes the folder, else in the one that the command was given in.
        settings["spark.sql.warehouse.dir"] = os.path.join(scratch, "sparkmirror-warehouse")
        settings |= QUERY_SETTINGS if need.queries else {}
        settings[JVM_OPTIONS] += f' {jvm_option} "-Djava.io.tmpdir={scratch}"'  # Java itself ignores TMPDIR
    else:
        settings["spark.python.daemon.module"] = "sparkmirror.worker_daemon"  # slots of one executor import once
    if need.queries and not master.startswith("local"):
        settings |= {key: value for key, value in QUERY_SETTINGS.items() if key.startswith("spark.sql.")}
    if master.startswith(CONTAINER_MASTERS):
        settings["spark.executor.memoryOverhead"] = f"{_overhead_mib(need, wanted)}m"
    deadly = {key: value for key, (value, _) in DEADLY_SETTINGS.items()}
    return settings | {IDLE_TIMEOUT: "0"} | dict(wanted) | deadly


def refuse_deadly(settings: Mapping[str, str]) -> None:
    """Raises `EnvironmentUnfit` if slots would be killed although they are in order."""
    for key, (value, reason) in DEADLY_SETTINGS.items():
        found = settings.get(key, value).strip().lower()
        if found != value:
            raise EnvironmentUnfit(f"{key}: expected {value}, found {found}: {reason}", hint=f"set {key}={value}")


def require_classic(session: object) -> None:
    """Raises `EnvironmentUnfit` for a session of Spark Connect; None is no session."""
    if session is not None and type(session).__module__.startswith("pyspark.sql.connect"):
        raise EnvironmentUnfit(
            "Spark Connect has no RDDs, and so no tasks of our kind: sparkmirror needs a session in classic mode",
            hint="run it where the driver is, with spark.api.mode=classic and without spark.remote",
        )


def shares_cores(master: str, settings: Mapping[str, str]) -> bool:
    """Whether tasks may ask for a part of a core: on clusters, and not while Spark sizes the cluster by their number."""
    return is_cluster(master) and settings.get("spark.dynamicAllocation.enabled", "false").lower() != "true"


def expected_cores(settings: Mapping[str, str]) -> int:
    """How many cores the application is going to have, if its settings say so; else 0."""
    cores = settings.get("spark.executor.cores", "1")
    found = settings.get("spark.cores.max") or settings.get("spark.executor.instances")
    if found is None or not (found.isdigit() and cores.isdigit()):
        return 0
    return int(found) * (1 if "spark.cores.max" in settings else int(cores))


def slot_cpus(cores: int, need: Need) -> float:
    """The part of a core that a slot asks for, so that all of them fit if that can be, beside a whole one for each query."""
    return next((part for part in SLOT_CPUS if (cores - need.queries) / part >= need.slots), SLOT_CPUS[-1])


def _overhead_mib(need: Need, wanted: Mapping[str, str]) -> int:
    """Room outside the heap for the slots that may meet in one executor."""
    cores = wanted.get("spark.executor.cores", "1")
    fitting = int((int(cores) if cores.isdigit() else 1) / SLOT_CPUS[-1])
    return EXECUTOR_MIB + SLOT_MIB * min(fitting, max(need.slots, 1))
