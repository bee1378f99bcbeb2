"""How fast each partition is copied: what a slot has to do with it even while nothing is behind."""

from __future__ import annotations

from collections.abc import Iterable

from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import PartitionStatus


class CopyRates:
    """Bytes per second of each partition, between two looks."""

    def __init__(self) -> None:
        self._bytes: dict[TopicPartition, int] = {}
        self._looked: float | None = None

    def take(self, statuses: Iterable[PartitionStatus], now: float) -> dict[TopicPartition, float]:
        """The rates since the last look; none of partitions that copied nothing, and none at the first look."""
        counted = {status.partition: status.record_bytes for status in statuses}
        before, since = self._bytes, self._looked
        self._bytes, self._looked = counted, now
        if since is None or now <= since:
            return {}
        grown = {p: count - before.get(p, count) for p, count in counted.items()}
        return {p: count / (now - since) for p, count in grown.items() if count > 0}
