"""What was verified before, kept in a compacted topic on the target: one record per source partition.

Key `["verified",topic,partition]`; the value has the ids of both topics, the ranges (upstream from and to, downstream from
and to) in order, and when the newest of them was read. A range of a topic that was created again since counts for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.driver import ensure_compacted_topic
from sparkmirror.model import TopicPartition
from sparkmirror.state import ForeignRecord
from sparkmirror.wire import Record

VERSION = 1
RANGES_MAX = 10_000  # of one partition; with samples there may be many, and the oldest are then read again

Stretch = tuple[int, int, int, int]  # upstream from and to, downstream from and to


def verified_topic(source: str) -> str:
    """The topic on the target that keeps what was verified of flows from this source."""
    return f"mm2-verified.{source}.internal"


@dataclass(frozen=True, slots=True)
class Verified:
    """What is known to be equal of one partition."""

    source_topic_id: str
    target_topic_id: str
    ranges: tuple[Stretch, ...]
    time_ms: int

    def with_ranges(self, more: Iterable[Stretch], time_ms: int) -> Verified:
        """The same with more ranges, joined where they touch."""
        joined: list[Stretch] = []
        for stretch in sorted({*self.ranges, *more}):
            last = joined[-1] if joined else None
            if last is None or stretch[0] > last[1] or stretch[2] > last[3]:
                joined.append(stretch)
            elif stretch[1] >= last[1] and stretch[3] >= last[3]:
                joined[-1] = (last[0], stretch[1], last[2], stretch[3])
        return Verified(self.source_topic_id, self.target_topic_id, tuple(joined[-RANGES_MAX:]), time_ms)


class VerifiedTable:
    """The topic, folded."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, Verified] = {}

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic."""
        try:
            kind, topic, partition = json.loads(record.key or b"")
            if kind != "verified" or not isinstance(topic, str) or not isinstance(partition, int):
                raise ValueError(kind)
            known = TopicPartition(topic, partition)
            if record.value is None:
                self.partitions.pop(known, None)
                return None
            self.partitions[known] = _decoded(json.loads(record.value))
        except (ValueError, TypeError, KeyError):
            return ForeignRecord(place, record.offset, "not a record of what was verified")
        return None


def _decoded(value: Mapping[str, object]) -> Verified:
    ranges, time_ms = value["ranges"], value["time"]
    if value["version"] != VERSION or not isinstance(ranges, list) or not isinstance(time_ms, int):
        raise ValueError(value["version"])
    stretches = tuple((int(a), int(b), int(c), int(d)) for a, b, c, d in ranges)
    if any(a > b or c > d for a, b, c, d in stretches):
        raise ValueError("a range that ends before it begins")
    return Verified(str(value["source id"]), str(value["target id"]), stretches, time_ms)


def remember(client: ClusterClient, topic: str, replication_factor: int, found: Mapping[TopicPartition, Verified]) -> None:
    """Writes what is verified now; of two who do so at once the last one counts, and the other's ranges are read again."""
    if not found:
        return
    ensure_compacted_topic(client, topic, 1, replication_factor)
    entries: list[tuple[bytes, bytes | None]] = []
    for partition, known in found.items():
        key = json.dumps(["verified", *partition], separators=(",", ":")).encode()
        value = {
            "version": VERSION,
            "source id": known.source_topic_id,
            "target id": known.target_topic_id,
            "ranges": known.ranges,
            "time": known.time_ms,
        }
        entries.append((key, json.dumps(value, separators=(",", ":")).encode()))
    append_records(client, TopicPartition(topic, 0), entries, max(known.time_ms for known in found.values()))
