"""MirrorMaker 2's positions as Connect reads them, and where each of them lies.

Connect reads every partition of its offsets topic into one map: the last record read of a key wins, a null value takes the
key away. Order holds only inside a partition. So a key that lies in two partitions has two answers, and whoever changes it
must change it in both, in the very bytes: another field order or a blank is another key, which no task reads.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from sparkmirror.clusters import (
    EARLIEST,
    LATEST,
    ClusterClient,
    TopicView,
    describe_topic_configs,
    list_offsets,
    read_raw,
)
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.wire import (
    AbortedTransactions,
    MalformedInternalRecord,
    Record,
    SourcePosition,
    connect_partition,
    decode_connect_offset,
    decode_source_key,
    read_records,
    source_key,
    write_order,
)

__all__ = ["StoredPositions", "StoredRecord", "committed_ends", "present_topics", "read_stored", "require_compacted"]

UNKNOWN_TOPIC, OFFSET_NOT_AVAILABLE = 3, 78
PAUSE_S, IDLE_MAX = 0.02, 100


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The newest record of a key in one partition of an offsets topic; a null value is a tombstone."""

    place: TopicPartition
    offset: int
    key: bytes
    value: bytes | None
    time_ms: int


@dataclass(slots=True)
class StoredPositions:
    """Offsets topics, read to their ends. `sizes` are their partition counts, `ends` where each partition ended."""

    connector: str
    alias: str
    records: dict[bytes, dict[TopicPartition, StoredRecord]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)

    def key_of(self, partition: TopicPartition) -> bytes:
        """The key of a source partition, in MirrorMaker 2's own bytes."""
        return source_key(self.connector, self.alias, partition)

    def of(self, partition: TopicPartition) -> list[StoredRecord]:
        """What every partition that holds a source partition's key says of it, the one that counts first."""
        found = self.records.get(self.key_of(partition), {}).values()
        return sorted(found, key=lambda record: write_order(record.time_ms, record.place), reverse=True)

    def last_offset(self, partition: TopicPartition) -> int | None:
        """The last copied offset by the record that counts, of those that can be read; None if it is a tombstone."""
        for record in self.of(partition):
            try:
                last = decode_connect_offset(record.value)
            except MalformedInternalRecord:
                continue
            return last if last is not None and last >= 0 else None
        return None

    def partitions(self) -> list[TopicPartition]:
        """Every source partition of which a position is known or was taken back."""
        keys = ((key, _position(key)) for key in self.records)
        mine = (p.partition for k, p in keys if p is not None and k == self.key_of(p.partition))
        return sorted(mine)

    def others(self) -> list[tuple[str, str]]:
        """Connectors and clusters, other than ours, whose source positions lie here too."""
        found = {(p.connector, p.cluster) for key in self.records if (p := _position(key)) is not None}
        return sorted(found - {(self.connector, self.alias)})

    def strays(self) -> list[StoredRecord]:
        """Records that look like ours and are not: the key's bytes are not those that MirrorMaker 2 writes and reads."""
        return [
            record
            for key, places in self.records.items()
            if (p := _position(key)) is not None
            and (p.connector, p.cluster) == (self.connector, self.alias)
            and key != self.key_of(p.partition)
            for record in places.values()
        ]

    def places_for(self, partition: TopicPartition) -> list[TopicPartition]:
        """Where a new record of the key belongs: every partition that holds it, else where Connect's producer puts it."""
        held = sorted(self.records.get(self.key_of(partition), {}))
        if held:
            return held
        key = self.key_of(partition)
        return [TopicPartition(topic, connect_partition(key, size)) for topic, size in sorted(self.sizes.items())]


def read_stored(client: ClusterClient, topics: Collection[str], *, connector: str, alias: str) -> StoredPositions:
    """The newest record of every key in every partition; raises MoveRefused for a topic that is not there."""
    found = StoredPositions(connector, alias)
    present = present_topics(client, topics)
    for topic in topics:
        there = present.get(topic)
        if there is None:
            raise MoveRefused(
                f"cluster {client.alias} has no topic {topic}, where MirrorMaker 2 would keep its positions",
                hint="give --offsets-topic, the worker's offset.storage.topic",
            )
        found.sizes[topic] = there.partitions
    places = [TopicPartition(topic, index) for topic, size in found.sizes.items() for index in range(size)]
    firsts = list_offsets(client, places, timestamp=EARLIEST)
    found.ends = committed_ends(client, places)
    for place in places:
        _read_partition(client, place, firsts[place][0], found)
    return found


def present_topics(client: ClusterClient, topics: Collection[str]) -> dict[str, TopicView]:
    """Those of these topics that exist; raises BrokerRefused for one that cannot be described, since it may exist."""

    def look() -> dict[str, TopicView]:
        found = client.view(topics).topics
        for name, topic in found.items():
            if topic.error != UNKNOWN_TOPIC:
                client.check(topic.error, f"topic {name}", f"Describe on topic {name}")
        return {name: topic for name, topic in found.items() if not topic.error}

    return client.retry(look)


def committed_ends(client: ClusterClient, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the finished records of each partition end."""
    return {p: end for p, (end, _) in list_offsets(client, places, timestamp=LATEST, read_committed=True).items()}


def require_compacted(client: ClusterClient, topics: Collection[str]) -> None:
    """Raises MoveRefused unless the topics are compacted and nothing else: workers refuse to start on others."""
    for topic, entries in describe_topic_configs(client, topics).items():
        policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)
        if policy != "compact":
            raise MoveRefused(
                f"topic {topic} on {client.alias} has cleanup.policy={policy}, expected compact: "
                "positions in it do not stay, and Connect workers do not start on it",
                hint=f"kafka-configs --alter --topic {topic} --add-config cleanup.policy=compact",
            )


def _read_partition(client: ClusterClient, place: TopicPartition, first: int, found: StoredPositions) -> None:
    for record in _finished_records(client, place, first, found.ends[place]):
        if record.key is not None:
            stored = StoredRecord(place, record.offset, record.key, record.value, record.timestamp)
            found.records.setdefault(record.key, {})[place] = stored


def _finished_records(client: ClusterClient, place: TopicPartition, first: int, end: int) -> Iterator[Record]:
    """Every record of finished transactions and of none: workers with exactly-once support write in transactions.

    What is deleted at the log's start meanwhile is passed over; a log that ends before `end` raises BrokerRefused.
    """
    at, idle = first, 0
    while at < end:
        read = read_raw(client, place, at, read_committed=True)
        idle = 0 if read.batches else idle + 1
        if idle > IDLE_MAX:
            client.check(OFFSET_NOT_AVAILABLE, f"{place} at offset {at}")
        if idle:
            time.sleep(PAUSE_S)
            at = max(at, list_offsets(client, [place], timestamp=EARLIEST)[place][0])
        aborted = AbortedTransactions(read.aborted or [])
        for batch in read.batches:
            if not aborted.drops(batch) and not batch.is_control:
                yield from (record for record in read_records(batch) if at <= record.offset < end)
            at = batch.last_offset + 1


def _position(key: bytes) -> SourcePosition | None:
    try:
        return decode_source_key(key)
    except MalformedInternalRecord:
        return None

