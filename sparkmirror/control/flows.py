"""All flows of one process: one conductor each, one Spark for all."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import ClusterSettings, FlowSettings, Settings, require_enabled_flow
from sparkmirror.control.topics import TopicControl
from sparkmirror.errors import ClusterUnreachable, EnvironmentUnfit, SparkmirrorError
from sparkmirror.pipeline import Conductor, FlowPlace, FlowStatus, SparkSlots
from sparkmirror.topology import ledger_topic, policy_for

__all__ = ["Mirror", "RunOptions", "run_flows"]

# A broker that is there answers in milliseconds; dialling one that is not takes 5 s. Nobody waits longer than 30 s.
REACH_S = 25.0
JOIN_S = 0.5


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to run, as given on the command line."""

    once: bool = False
    targets: Collection[str] | None = None
    take_over: bool = False
    master: str = "local[*]"
    conf: Mapping[str, str] = field(default_factory=dict)


class Mirror:
    """Every enabled flow of one file."""

    def __init__(self, settings: Settings, options: RunOptions) -> None:
        require_enabled_flow(settings, options.targets)
        self._settings, self._options = settings, options
        self._flows = settings.enabled_flows(options.targets)
        self._threads: list[threading.Thread] = []
        self._conductors: list[Conductor] = []
        self._spark: SparkSlots | None = None
        self._unfit: EnvironmentUnfit | None = None
        self._is_stopping = False

    @property
    def statuses(self) -> list[FlowStatus]:
        """One per flow, copied: the flows' own threads go on changing theirs."""
        return [_copy(conductor.status) for conductor in self._conductors]

    def check(self) -> None:
        """Raises unless every cluster answers. Starts and changes nothing, so it may be interrupted anywhere."""
        check_reachable(self._flows)

    def start(self) -> None:
        """Starts Spark and the flows, and returns while they start."""
        slots = slots_per_flow(self._flows)
        self._spark = SparkSlots(master=self._options.master, conf=self._options.conf, slots=sum(slots.values()))
        for flow in self._flows:
            control = TopicControl(flow)
            conductor = Conductor(flow, self._place(flow, slots[str(flow.name)]), self._spark, control.discover)
            thread = threading.Thread(target=conductor.run, name=str(flow.name), daemon=True)
            self._conductors.append(conductor)
            self._threads.append(thread)
            thread.start()
        threading.Thread(target=self._await_spark, args=(self._spark,), name="await spark", daemon=True).start()

    def _await_spark(self, spark: SparkSlots) -> None:
        """Ends the flows if Spark does not start: without it they would wait for their slots for ever."""
        try:
            spark.wait()
        except EnvironmentUnfit as error:
            if not self._is_stopping:
                self._unfit = error
                self.stop()

    def _place(self, flow: FlowSettings, slots: int) -> FlowPlace:
        policy = policy_for(flow)
        is_on_source = flow.offset_syncs_topic_location == "source"
        other = flow.name.target if is_on_source else flow.name.source
        return FlowPlace(
            config_path=os.path.abspath(self._settings.path),
            config_digest=self._settings.digest,
            ledger_topic=ledger_topic(flow.name.source),
            offsets_topic=flow.offset_storage_topic,
            syncs_topic=policy.offset_syncs_topic(other),
            slots=slots,
            once=self._options.once,
            take_over=self._options.take_over,
        )

    @property
    def is_running(self) -> bool:
        """Whether any flow still runs."""
        return any(thread.is_alive() for thread in self._threads)

    def stop(self) -> None:
        """Asks every flow to drain and end."""
        self._is_stopping = True
        for conductor in self._conductors:
            conductor.stop()

    def join(self, seconds: float) -> None:
        """Waits a while for the flows to end."""
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(deadline - time.monotonic(), 0.0))

    def close(self) -> None:
        """Ends Spark."""
        if self._spark is not None:
            self._spark.stop()
            self._spark = None

    def failures(self) -> list[SparkmirrorError]:
        """What ended flows before their time."""
        found: list[SparkmirrorError] = [] if self._unfit is None else [self._unfit]
        return found + [conductor.failure for conductor in self._conductors if conductor.failure is not None]


def run_flows(settings: Settings, options: RunOptions) -> list[FlowStatus]:
    """Runs every flow to its end and returns how they stood; raises the first thing that ended one before its time."""
    mirror = Mirror(settings, options)
    mirror.check()
    mirror.start()
    try:
        while mirror.is_running:
            mirror.join(JOIN_S)
    finally:
        mirror.stop()
        while mirror.is_running:
            mirror.join(JOIN_S)
        mirror.close()
    for failure in mirror.failures():
        raise failure
    return mirror.statuses


def _copy(status: FlowStatus) -> FlowStatus:
    # list(dict.values()) runs without giving up the interpreter lock, so no other thread changes the dict meanwhile.
    partitions = {p.partition: replace(p) for p in list(status.partitions.values())}
    return replace(
        status, partitions=partitions, stopped_topics=dict(status.stopped_topics), notes=list(status.notes)
    )


def check_reachable(flows: Collection[FlowSettings]) -> None:
    """Raises for a cluster of which no broker answers; asks all of them at the same time."""
    clusters = {f.alias: f for flow in flows for f in (flow.source, flow.target)}
    answers: queue.SimpleQueue[tuple[str, SparkmirrorError | None]] = queue.SimpleQueue()
    for settings in clusters.values():
        threading.Thread(target=_look, args=(settings, answers), name=f"look {settings.alias}", daemon=True).start()
    deadline = time.monotonic() + REACH_S
    silent = dict(clusters)
    while silent:
        try:
            alias, error = answers.get(timeout=max(deadline - time.monotonic(), 0.0))
        except queue.Empty:
            raise _unreachable(next(iter(silent.values())), f"no answer within {REACH_S:g} s") from None
        if error is not None:
            raise error
        del silent[alias]


def _look(settings: ClusterSettings, answers: queue.SimpleQueue[tuple[str, SparkmirrorError | None]]) -> None:
    client = ClusterClient(settings)
    error: SparkmirrorError | None = None
    try:
        client.view(())
    except SparkmirrorError as found:
        error = found
    except Exception as found:  # noqa: BLE001  border of a thread: a host name that cannot be encoded, for one
        error = _unreachable(settings, str(found) or type(found).__name__)
    finally:
        client.close()
    answers.put((settings.alias, error))


def _unreachable(settings: ClusterSettings, reason: str) -> ClusterUnreachable:
    addresses = ", ".join(f"{host}:{port}" for host, port in settings.bootstrap_servers)
    return ClusterUnreachable(
        f"cluster {settings.alias} is unreachable at {addresses}: {reason}",
        hint=f"check {settings.alias}.bootstrap.servers and that a broker listens there",
    )


def slots_per_flow(flows: Collection[FlowSettings]) -> dict[str, int]:
    """`tasks.max` where it is set, else the machine's cores shared by the flows."""
    cores = os.cpu_count() or 1
    share = max(cores // max(len(flows), 1), 1)
    return {str(flow.name): flow.tasks_max if flow.tasks_max is not None else share for flow in flows}
