"""MirrorMaker 2's internal topics folded record by record into tables, with the time and the place of each. Pure.

A record that is none of its topic's is told by its offset and not used: somebody else's bytes in an internal topic say
nothing about any partition or group.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from sparkmirror.groups import SyncHistories
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.wire import (
    MalformedInternalRecord,
    Record,
    decode_checkpoint,
    decode_checkpoint_key,
    decode_connect_offset,
    decode_offset_sync,
    decode_source_key,
    source_key,
    write_order,
)

__all__ = [
    "CheckpointTable",
    "KnownPosition",
    "MalformedRecord",
    "PositionTable",
    "StoredPosition",
    "SyncTable",
    "TimedCheckpoint",
    "TimedSync",
]

CONNECTOR = "MirrorSourceConnector"
_PACKED = struct.Struct(">qqqq")


@dataclass(frozen=True, slots=True)
class MalformedRecord:
    """A record that its topic should not hold."""

    place: TopicPartition
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """One key of the Connect offsets topic: the *last* source offset copied, or None if a tombstone took it back.

    `place` and `offset` are where the newest record with this very key lies, `time_ms` when it was written. A key whose
    bytes are not those that MM2 itself writes (`is_canonical`) is one that no task of it ever reads.
    """

    key: bytes
    connector: str
    partition: TopicPartition
    last_offset: int | None
    place: TopicPartition
    offset: int
    time_ms: int
    is_canonical: bool


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """A stored position that counts."""

    last_offset: int
    time_ms: int
    place: TopicPartition
    connector: str


class PositionTable:
    """The Connect offsets topic as the source connector of one source cluster reads it."""

    def __init__(self, source_alias: str, connector: str = CONNECTOR) -> None:
        self._alias, self._connector = source_alias, connector
        self._found: dict[bytes, dict[int, StoredPosition]] = {}  # by key, then by partition of the topic

    def take(self, place: TopicPartition, record: Record) -> MalformedRecord | None:
        """The next record of the topic; keys of other connectors and clusters are passed over."""
        try:
            if record.key is None:
                raise MalformedInternalRecord("a position without a key")
            key = decode_source_key(record.key)
            if key is None or key.cluster != self._alias:
                return None
            stored = StoredPosition(
                key=record.key,
                connector=key.connector,
                partition=key.partition,
                last_offset=decode_connect_offset(record.value),
                place=place,
                offset=record.offset,
                time_ms=record.timestamp,
                is_canonical=record.key == source_key(key.connector, key.cluster, key.partition),
            )
        except MalformedInternalRecord as error:
            return MalformedRecord(place, record.offset, error.message)
        self._found.setdefault(record.key, {})[place.partition] = stored
        return None

    def of(self, partition: TopicPartition) -> KnownPosition | None:
        """The position that MM2 goes on from; None if it has none."""
        found = self._found.get(source_key(self._connector, self._alias, partition), {})
        newest = max(found.values(), key=lambda stored: write_order(stored.time_ms, stored.place), default=None)
        if newest is None or newest.last_offset is None or newest.last_offset < 0:
            return None
        return KnownPosition(newest.last_offset, newest.time_ms, newest.place, newest.connector)

    def has_key_of(self, partition: TopicPartition) -> bool:
        """Whether a position was ever stored, also one that was taken back since."""
        return source_key(self._connector, self._alias, partition) in self._found

    def all(self) -> Iterator[StoredPosition]:
        """Every key with its newest record in each partition of the topic, tombstones and foreign connectors too."""
        return (stored for places in self._found.values() for stored in places.values())


@dataclass(frozen=True, slots=True)
class TimedSync:
    """The newest sync of a partition, and when and where it was written."""

    sync: OffsetSync
    time_ms: int
    offset: int


class SyncTable:
    """The offset-syncs topic: the newest pair of each source partition, and MM2's memory of the older ones."""

    def __init__(self) -> None:
        self.histories = SyncHistories(only_newest=False)
        self.histories.is_read_to_end = True
        self.newest: dict[TopicPartition, TimedSync] = {}
        self.tombstones = 0

    def take(self, place: TopicPartition, record: Record) -> MalformedRecord | None:
        """The next record of the topic. A tombstone is no sync, and MM2 stumbles over it."""
        if record.key is not None and record.value is None:
            self.tombstones += 1
            return MalformedRecord(place, record.offset, "a tombstone, which MirrorMaker 2 cannot read here")
        try:
            if record.key is None or record.value is None:
                raise MalformedInternalRecord("an offset sync without a key")
            sync = decode_offset_sync(record.key, record.value)
        except MalformedInternalRecord as error:
            return MalformedRecord(place, record.offset, error.message)
        if sync.upstream_offset < 0:  # sparkmirror's word that a partition begins anew
            self.newest.pop(sync.partition, None)
            self.histories.take(sync)
            return None
        self.newest[sync.partition] = TimedSync(sync, record.timestamp, record.offset)
        self.histories.take(sync)
        return None


@dataclass(frozen=True, slots=True)
class TimedCheckpoint:
    """The newest checkpoint of a group and partition; both offsets are the next to read."""

    upstream_offset: int
    downstream_offset: int
    time_ms: int
    offset: int


class CheckpointTable:
    """The checkpoints topic. Values are kept as 32 bytes each: a cluster may hold half a million of them."""

    def __init__(self) -> None:
        self.newest_ms = -1
        self._groups: dict[str, dict[TopicPartition, bytes]] = {}
        self._places: dict[TopicPartition, TopicPartition] = {}

    def take(self, place: TopicPartition, record: Record) -> MalformedRecord | None:
        """The next record of the topic; a tombstone takes a checkpoint away."""
        try:
            if record.key is None:
                raise MalformedInternalRecord("a checkpoint without a key")
            if record.value is None:
                group, partition = decode_checkpoint_key(record.key)
                self._groups.get(group, {}).pop(partition, None)
                return None
            checkpoint = decode_checkpoint(record.key, record.value)
            if checkpoint.downstream_offset < 0:
                raise MalformedInternalRecord(f"a checkpoint at offset {checkpoint.downstream_offset}")
        except MalformedInternalRecord as error:
            return MalformedRecord(place, record.offset, error.message)
        self._keep(checkpoint, record)
        return None

    def _keep(self, checkpoint: Checkpoint, record: Record) -> None:
        partition = self._places.setdefault(checkpoint.partition, checkpoint.partition)
        packed = _PACKED.pack(
            checkpoint.upstream_offset, checkpoint.downstream_offset, record.timestamp, record.offset
        )
        self._groups.setdefault(checkpoint.group, {})[partition] = packed
        self.newest_ms = max(self.newest_ms, record.timestamp)

    def of(self, group: str, partition: TopicPartition) -> TimedCheckpoint | None:
        """The newest checkpoint of a group for a remote partition."""
        packed = self._groups.get(group, {}).get(partition)
        return None if packed is None else TimedCheckpoint(*_PACKED.unpack(packed))

    def of_group(self, group: str) -> dict[TopicPartition, TimedCheckpoint]:
        """All checkpoints of a group."""
        return {place: TimedCheckpoint(*_PACKED.unpack(packed)) for place, packed in self._groups.get(group, {}).items()}

    def has_group(self, group: str) -> bool:
        """Whether a group has any checkpoint."""
        return bool(self._groups.get(group))

    def groups(self) -> Iterator[str]:
        """Every group that has a checkpoint."""
        return (group for group, places in self._groups.items() if places)
