"""All flows of one process: one conductor each, one Spark for all."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings, require_enabled_flow
from sparkmirror.control.topics import TopicControl
from sparkmirror.errors import ReplicationError, SparkmirrorError
from sparkmirror.pipeline import Conductor, FlowPlace, FlowStatus, SparkSlots
from sparkmirror.topology import ledger_topic, policy_for

__all__ = ["Mirror", "RunOptions"]


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

    @property
    def statuses(self) -> list[FlowStatus]:
        """One per flow."""
        return [conductor.status for conductor in self._conductors]

    def start(self) -> None:
        """Checks that every cluster answers, then starts Spark and the flows."""
        slots = slots_per_flow(self._flows)
        # Spark takes seconds to start: it does so while the clusters are looked at.
        self._spark = SparkSlots(master=self._options.master, conf=self._options.conf, slots=sum(slots.values()))
        try:
            check_reachable(self._flows)
        except SparkmirrorError:
            self._spark.stop()
            self._spark = None
            raise
        for flow in self._flows:
            control = TopicControl(flow)
            conductor = Conductor(flow, self._place(flow, slots[str(flow.name)]), self._spark, control.discover)
            thread = threading.Thread(target=conductor.run, name=str(flow.name), daemon=True)
            self._conductors.append(conductor)
            self._threads.append(thread)
            thread.start()

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
        """What ended flows, and what stopped partitions in a run that was to finish."""
        found = [c.failure for c in self._conductors if c.failure is not None]
        for conductor in self._conductors:
            for partition in conductor.status.partitions.values():
                if partition.state == "stopped":
                    found.append(ReplicationError(partition.reason))
            for reason in conductor.status.stopped_topics.values():
                found.append(ReplicationError(reason))
        return found


def check_reachable(flows: Collection[FlowSettings]) -> None:
    """Raises for the first cluster of which no broker answers."""
    for settings in {f.alias: f for flow in flows for f in (flow.source, flow.target)}.values():
        client = ClusterClient(settings)
        try:
            client.view(())
        finally:
            client.close()


def slots_per_flow(flows: Collection[FlowSettings]) -> dict[str, int]:
    """`tasks.max` where it is set, else the machine's cores shared by the flows."""
    cores = os.cpu_count() or 1
    share = max(cores // max(len(flows), 1), 1)
    return {str(flow.name): flow.tasks_max if flow.tasks_max is not None else share for flow in flows}
