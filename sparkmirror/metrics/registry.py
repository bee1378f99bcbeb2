"""From snapshots of the flows to metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from sparkmirror.metrics.boards import board_metrics
from sparkmirror.metrics.names import (
    CERTIFICATE_OWN,
    CHECKPOINT_ATTRIBUTES,
    FLOW_OWN,
    PARTITION_OWN,
    SOURCE_ATTRIBUTES,
    Metric,
)
from sparkmirror.metrics.windows import Spread, Window
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import (
    CheckpointKey,
    FlowStatus,
    PartitionStatus,
    flow_lag,
    flow_state,
    partition_lag,
    partition_lag_ms,
    paused_partitions,
    stopped_partitions,
)

SOURCE_TYPE, CHECKPOINT_TYPE, COUNT_TYPE, OWN_TYPE = (
    "MirrorSourceConnector", "MirrorCheckpointConnector", "kafka-metrics-count", "sparkmirror",
)  # fmt: skip
Tags = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _PartitionMeter:
    """One partition; counters never go back while the process lives (MirrorMaker 2's do: L49)."""

    records: int = 0
    record_bytes: int = 0
    proven_ms: int = -1
    record_rate: Window = field(default_factory=Window)
    byte_rate: Window = field(default_factory=Window)
    age: Spread = field(default_factory=Spread)
    latency: Spread = field(default_factory=Spread)

    def take(self, status: PartitionStatus, now: float) -> None:
        if status.proven_ms != self.proven_ms and status.newest_timestamp >= 0:
            self.latency.note(max(status.proven_ms - status.newest_timestamp, 0), now)  # clocks differ; it is never negative
            if status.read_ms >= 0:
                self.age.note(max(status.read_ms - status.newest_timestamp, 0), now)
        self.proven_ms = status.proven_ms
        if status.records > self.records:
            self.record_rate.note(status.records - self.records, now)
            self.byte_rate.note(status.record_bytes - self.record_bytes, now)
            self.records, self.record_bytes = status.records, status.record_bytes

    def values(self, now: float) -> tuple[float, ...]:
        """In the order of SOURCE_ATTRIBUTES. A record's age is that when it is read, its latency ends with the proof."""
        records = (float(self.records), self.record_rate.rate(now))
        own_bytes = (float(self.record_bytes), self.byte_rate.rate(now))
        return (*records, *self.age.values(now), *own_bytes, *self.latency.values(now))


class MirrorMetrics:
    """Every figure of one process; `take` is called with each snapshot of the flows."""

    def __init__(self) -> None:
        self._flows: list[FlowStatus] = []
        self._partitions: dict[tuple[FlowName, TopicPartition], _PartitionMeter] = {}
        self._checkpoints: dict[tuple[FlowName, CheckpointKey], tuple[int, Spread]] = {}

    def take(self, flows: Sequence[FlowStatus], now: float) -> None:
        """One snapshot; `now` is a clock that never goes back, in seconds."""
        self._flows = list(flows)
        for flow in flows:
            for partition, status in flow.partitions.items():
                self._partitions.setdefault((flow.name, partition), _PartitionMeter()).take(status, now)
            for key, (written_ms, latency_ms) in flow.checkpoints.items():
                before, spread = self._checkpoints.get((flow.name, key), (-1, Spread()))
                if written_ms != before:
                    spread.note(latency_ms, now)
                    self._checkpoints[flow.name, key] = (written_ms, spread)

    def metrics(self, now: float) -> Iterator[Metric]:
        """Everything known now: partitions that are no longer copied are left out, their counters are kept."""
        for flow in self._flows:
            ends = (("source", flow.name.source), ("target", flow.name.target))
            yield from _metrics(OWN_TYPE, tuple(FLOW_OWN), ends, _of_flow(flow))
            yield from self._of_partitions(flow, ends, now)
            for key in sorted(flow.checkpoints):
                tags = (*ends, ("group", key.group), ("topic", key.topic), ("partition", str(key.partition)))
                _, spread = self._checkpoints[flow.name, key]
                yield from _metrics(CHECKPOINT_TYPE, CHECKPOINT_ATTRIBUTES, tags, spread.values(now))
            for seen in flow.certificates:
                of_owner = (*ends, ("cluster", seen.cluster), ("whose", seen.whose))
                yield from _metrics(OWN_TYPE, tuple(CERTIFICATE_OWN), of_owner, (seen.ends_ms / 1000,))
        yield Metric(COUNT_TYPE, "count", (), 1.0 + self._count())
        yield from board_metrics(self._flows)

    def _of_partitions(self, flow: FlowStatus, ends: Tags, now: float) -> Iterator[Metric]:
        for partition, status in sorted(flow.partitions.items()):
            remote = flow.remote(partition.topic)
            tags = (*ends, ("topic", remote), ("partition", str(partition.partition)))
            meter = self._partitions[flow.name, partition]
            yield from _metrics(SOURCE_TYPE, SOURCE_ATTRIBUTES, tags, meter.values(now))
            age_ms = partition_lag_ms(flow, status)
            lags = (_known(partition_lag(flow, status)), _known(None if age_ms is None else age_ms / 1000))
            own = (*lags, float(status.state == "copying"), float(status.gap_offsets))
            yield from _metrics(OWN_TYPE, tuple(PARTITION_OWN), tags, own)

    def _count(self) -> int:
        """MirrorMaker 2's own figures, which its bean `kafka-metrics-count` counts with itself."""
        partitions = sum(len(flow.partitions) for flow in self._flows)
        checkpoints = sum(len(flow.checkpoints) for flow in self._flows)
        return partitions * len(SOURCE_ATTRIBUTES) + checkpoints * len(CHECKPOINT_ATTRIBUTES)


def _of_flow(flow: FlowStatus) -> tuple[float, ...]:
    """In the order of FLOW_OWN."""
    lag, state = flow_lag(flow), flow_state(flow)
    return (
        float(state in ("running", "degraded")),
        float(state == "paused"),
        float(paused_partitions(flow)),
        float(stopped_partitions(flow)),
        _known(lag.records),
        _known(lag.seconds),
        float(lag.unknown),
        float(not flow.settings.is_whole),
        _known(flow.settings.applied_ms / 1000 if flow.settings.applied_ms >= 0 else None),
        _known(lag.as_of_ms / 1000 if lag.as_of_ms >= 0 else None),
        _known(None if flow.groups is None else flow.groups.ready),
        _known(None if flow.groups is None else flow.groups.unsynced),
        _known((flow.taken_ms - flow.heartbeat_ms) / 1000 if flow.heartbeat_ms >= 0 else None),
        float(sum(status.gap_offsets for status in flow.partitions.values())),
    )


def _known(value: float | None) -> float:
    return math.nan if value is None else float(value)


def _metrics(kind: str, attributes: Sequence[str], tags: Tags, values: Sequence[float]) -> Iterator[Metric]:
    for attribute, value in zip(attributes, values, strict=True):
        yield Metric(kind, attribute, tags, value)
