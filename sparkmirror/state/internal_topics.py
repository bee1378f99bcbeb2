"""The internal topics of a flow, folded record by record into tables with the time and place of each record. Pure.

| topic                  | table              | written by                        |
|------------------------|--------------------|-----------------------------------|
| Connect offsets        | `PositionTable`    | MirrorMaker 2, `driver/recorder`  |
| offset syncs           | `SyncTable`        | both                              |
| checkpoints            | `CheckpointTable`  | both                              |
| ledger                 | `LedgerTable`      | sparkmirror                       |

A foreign record, one that its topic should not hold, is reported with its offset and not used: somebody else's bytes in an
internal topic say nothing about any partition or group.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from sparkmirror.ledger import (
    Attempt,
    CopiedTopic,
    Failover,
    LedgerRecord,
    LedgerView,
    Open,
    Owner,
    OwnerAnswer,
    OwnerRequest,
    PartitionHistory,
    Receipt,
    RunSettings,
    SlotBeat,
    SlotStop,
    SourceEnd,
    SourceEnds,
    StoredPositions,
    Wish,
    decode,
    decode_flow_key,
)
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.offsets import Checkpoints, Copied, OffsetMap, SyncHistories, Translation, translate
from sparkmirror.wire import (
    MalformedInternalRecord,
    Record,
    SourcePosition,
    connect_partition,
    decode_checkpoint,
    decode_checkpoint_key,
    decode_connect_offset,
    decode_offset_sync,
    decode_source_key,
    source_key,
)

SOURCE_CONNECTOR = "MirrorSourceConnector"
HOLES_MAX = 3  # of one partition, the newest
_NO_MAP = OffsetMap(())


@dataclass(frozen=True, slots=True)
class ForeignRecord:
    """A record that its topic should not hold."""

    place: TopicPartition
    offset: int
    reason: str


class Table(Protocol):
    """What the records of an internal topic add up to."""

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic; one that does not belong there is returned and not used."""


class ForeignRecords:
    """Counts the foreign records that were skipped, and keeps the place of the first."""

    def __init__(self) -> None:
        self.total = 0
        self._count, self._first = 0, ""

    def add(self, found: ForeignRecord | None) -> None:
        """One more, if it is one."""
        if found is not None:
            self.total += 1
            self._count += 1
            self._first = self._first or f"{found.place} at offset {found.offset}"

    def report(self) -> list[str]:
        """One sentence if there are some; the next report is about those that come after."""
        count, first = self._count, self._first
        self._count, self._first = 0, ""
        if not count:
            return []
        return [f"{first}: skipped {'a foreign record' if count == 1 else f'{count} foreign records'}"]


class RecordList:
    """A small topic as it is, for whoever knows its records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic."""
        self.records.append(record)
        return None


# --- MirrorMaker 2's positions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The newest record of one key in one partition of a Connect offsets topic; a null value is a tombstone.

    `source` is what the key of a source connector names. `last_offset` is the *last* source offset copied, None for a
    tombstone and where the value cannot be read.
    """

    place: TopicPartition
    offset: int
    key: bytes
    value: bytes | None
    time_ms: int
    source: SourcePosition | None = None
    last_offset: int | None = None
    is_readable: bool = True

    @property
    def is_canonical(self) -> bool:
        """Whether the key has the bytes that MirrorMaker 2 writes: no task of it ever reads another one."""
        source = self.source
        return source is not None and self.key == source_key(source.connector, source.cluster, source.partition)


def stored_offset(value: bytes | None) -> int:
    """The last source offset copied by the value of a stored position, −1 if it says none."""
    try:
        found = decode_connect_offset(value)
    except MalformedInternalRecord:
        return -1
    return -1 if found is None else found


class PositionTable:
    """Connect offsets topics as the source connector of one source cluster reads them.

    Connect reads every partition of the topic into one map: the last record read of a key wins, a tombstone takes the key
    away. Order holds only inside a partition, so a key that lies in two partitions has two answers: whoever changes it
    changes it in both, in the very bytes. Here the newest by time counts, of equal times the one in the highest partition.

    `sizes` are the partition counts of the topics, `ends` where each partition ended; filled by who needs them.
    """

    def __init__(self, source_alias: str, connector: str = SOURCE_CONNECTOR) -> None:
        self.source_alias, self.connector = source_alias, connector
        self.records: dict[bytes, dict[TopicPartition, StoredRecord]] = {}  # by key, then by partition of the topic
        self.sizes: dict[str, int] = {}
        self.ends: dict[TopicPartition, int] = {}

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic, kept whatever its key is; one that Connect cannot read is a foreign record."""
        if record.key is None:
            return ForeignRecord(place, record.offset, "a position without a key")
        stored, reason = StoredRecord(place, record.offset, record.key, record.value, record.timestamp), ""
        try:
            source = decode_source_key(record.key)
            if source is not None:
                stored = replace(stored, source=source, is_readable=False)
                last = decode_connect_offset(record.value)
                if last is not None and last < 0:
                    raise MalformedInternalRecord(f"a position of {last}")
                stored = replace(stored, last_offset=last, is_readable=True)
        except MalformedInternalRecord as error:
            reason = error.message
        self.records.setdefault(record.key, {})[place] = stored
        return ForeignRecord(place, record.offset, reason) if reason else None

    def key_of(self, partition: TopicPartition) -> bytes:
        """The key of a source partition, in MirrorMaker 2's own bytes."""
        return source_key(self.connector, self.source_alias, partition)

    def records_of(self, partition: TopicPartition) -> list[StoredRecord]:
        """What every partition of the topic that holds a source partition's key says of it; the first one counts."""
        found = self.records.get(self.key_of(partition), {}).values()
        return sorted(found, key=lambda stored: (stored.time_ms, stored.place), reverse=True)

    def of(self, partition: TopicPartition) -> StoredRecord | None:
        """The position from which MirrorMaker 2 resumes; None if it has none."""
        found = next((stored for stored in self.records_of(partition) if stored.is_readable), None)
        return found if found is not None and found.last_offset is not None else None

    def last_offset(self, partition: TopicPartition) -> int | None:
        """The last source offset copied, by MirrorMaker 2's position."""
        found = self.of(partition)
        return None if found is None else found.last_offset

    def partitions(self) -> list[TopicPartition]:
        """Every source partition of which a position is stored or was taken back."""
        own = (stored.source for stored in self.own() if stored.is_canonical and stored.source is not None)
        return sorted({source.partition for source in own if source.connector == self.connector})

    def own(self) -> Iterator[StoredRecord]:
        """Every key of this source cluster, whatever its connector is called, tombstones too."""
        return (s for s in self.all() if s.source is not None and s.source.cluster == self.source_alias)

    def all(self) -> Iterator[StoredRecord]:
        """The newest record of each key in each partition."""
        return (stored for places in self.records.values() for stored in places.values())

    def foreign_keys(self) -> list[StoredRecord]:
        """Records that look like ours and are not: no task reads a key in these bytes."""
        own = (s for s in self.own() if s.source is not None and s.source.connector == self.connector)
        return [stored for stored in own if not stored.is_canonical]

    def other_connectors(self) -> list[tuple[str, str]]:
        """Connectors and clusters, other than ours, whose source positions lie here too."""
        found = {(s.source.connector, s.source.cluster) for s in self.all() if s.source is not None}
        return sorted(found - {(self.connector, self.source_alias)})


def tombstones(positions: PositionTable) -> frozenset[TopicPartition]:
    """Source partitions of whose key the newest record is a tombstone; one that cannot be read is none."""
    found = ((partition, positions.records_of(partition)) for partition in positions.partitions())
    return frozenset(partition for partition, records in found if records and records[0].value is None)


def places_for(positions: PositionTable, partition: TopicPartition) -> list[TopicPartition]:
    """Where a new record of the key belongs: every partition that holds it, else where Connect's producer puts it."""
    key = positions.key_of(partition)
    held = sorted(positions.records.get(key, {}))
    return held or [TopicPartition(topic, connect_partition(key, size)) for topic, size in sorted(positions.sizes.items())]


# --- offset syncs ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SyncPair:
    """An offset sync with its time: the record at `upstream` is the one at `downstream`."""

    upstream: int
    downstream: int
    time_ms: int


def offset_sync_of(record: Record) -> OffsetSync:
    """The offset sync in a record; raises MalformedInternalRecord if it holds none."""
    if record.key is None:
        raise MalformedInternalRecord("an offset sync without a key")
    if record.value is None:
        raise MalformedInternalRecord("a tombstone, which MirrorMaker 2 cannot read here")
    sync = decode_offset_sync(record.key, record.value)
    if min(sync.upstream_offset, sync.downstream_offset) < -1:  # −1 lies before every record
        raise MalformedInternalRecord(f"an offset sync of {sync.upstream_offset} and {sync.downstream_offset}")
    return sync


class SyncTable:
    """The offset syncs topic: the newest pair of each source partition, and what MirrorMaker 2 remembers of the older ones.

    In the order of the topic it also shows where offsets are missing between two syncs (`holes`), where syncs went back
    upstream (`rewinds`), and the oldest sync since either side restarted (`firsts`).
    """

    def __init__(self) -> None:
        self.histories = SyncHistories(only_newest=False)
        self.histories.is_read_to_end = True
        self.newest: dict[TopicPartition, SyncPair] = {}
        self.holes: dict[TopicPartition, list[tuple[SyncPair, SyncPair]]] = {}
        self.rewinds: dict[TopicPartition, tuple[SyncPair, SyncPair]] = {}
        self.firsts: dict[TopicPartition, SyncPair] = {}

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic. A tombstone is no sync: MirrorMaker 2 fails on it."""
        try:
            sync = offset_sync_of(record)
        except MalformedInternalRecord as error:
            return ForeignRecord(place, record.offset, error.message)
        self.histories.take(sync)
        if sync.upstream_offset < 0:  # sparkmirror's mark that a partition restarts
            for known in (self.newest, self.holes, self.rewinds, self.firsts):
                known.pop(sync.partition, None)
        else:
            self._compare(sync.partition, SyncPair(sync.upstream_offset, sync.downstream_offset, record.timestamp))
        return None

    def _compare(self, place: TopicPartition, new: SyncPair) -> None:
        before, self.newest[place] = self.newest.get(place), new
        if before is None:
            self.firsts[place] = new
            return
        upstream, downstream = new.upstream - before.upstream, new.downstream - before.downstream
        if upstream < 0 or downstream < 0:
            self.firsts[place] = new
            self.holes.pop(place, None)
            if downstream > 0:
                self.rewinds[place] = (before, new)
        elif upstream > downstream:
            self.holes[place] = [*self.holes.get(place, []), (before, new)][-HOLES_MAX:]

    def sync_of(self, partition: TopicPartition) -> OffsetSync | None:
        """The newest sync of a source partition, as MirrorMaker 2 wrote it."""
        found = self.newest.get(partition)
        return None if found is None else OffsetSync(partition, found.upstream, found.downstream)


# --- checkpoints -------------------------------------------------------------------------------------------------


def checkpoint_of(record: Record) -> tuple[str, TopicPartition, Checkpoint | None]:
    """The group and partition of a record, and its checkpoint, None for a tombstone; raises MalformedInternalRecord."""
    if record.key is None:
        raise MalformedInternalRecord("a checkpoint without a key")
    if record.value is None:
        return *decode_checkpoint_key(record.key), None
    found = decode_checkpoint(record.key, record.value)
    if min(found.upstream_offset, found.downstream_offset) < 0:
        raise MalformedInternalRecord(f"a checkpoint at {found.upstream_offset} and {found.downstream_offset}")
    return found.group, found.partition, found


class CheckpointTable:
    """The checkpoints topic: the last checkpoint of a group and remote partition counts, a tombstone takes it away."""

    def __init__(self) -> None:
        self.last = Checkpoints()

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the topic."""
        try:
            group, partition, checkpoint = checkpoint_of(record)
        except MalformedInternalRecord as error:
            return ForeignRecord(place, record.offset, error.message)
        if checkpoint is None:
            self.last.forget(group, partition)
        else:
            self.last.take(checkpoint, record.timestamp)
        return None


# --- the ledger --------------------------------------------------------------------------------------------------


class LedgerTable:
    """sparkmirror's ledger: what it says, when each partition was last written, and the exact offset maps."""

    def __init__(self) -> None:
        self.view = LedgerView()
        self.times: dict[TopicPartition, int] = {}  # of the last record of each partition
        self._receipt_times: dict[TopicPartition, int] = {}
        self.newest_ms, self.next_offset = -1, 0
        # A map is made when it is first asked for, and stays until the ledger says something new of its partition.
        self._maps: dict[TopicPartition, OffsetMap] = {}

    @property
    def owner(self) -> Owner | None:
        """The newest owner."""
        return self.view.owner

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the ledger."""
        found = self.fold(place, record)
        return found if isinstance(found, ForeignRecord) else None

    def fold(self, place: TopicPartition, record: Record) -> LedgerRecord | ForeignRecord | None:
        """The next record of the ledger, decoded; None for a tombstone."""
        before, self.next_offset = self.view.malformed, record.offset + 1
        decoded = self.view.read(record.key or b"", record.value)
        if self.view.malformed > before:
            return ForeignRecord(place, record.offset, "not a ledger record")
        self.newest_ms = max(self.newest_ms, record.timestamp)
        match decoded:
            case None:
                self._maps.clear()  # a tombstone does not say whose map it changes
            case (
                Owner() | SlotBeat() | SlotStop() | OwnerRequest() | OwnerAnswer() | SourceEnds() | StoredPositions()
                | CopiedTopic() | Wish() | RunSettings() | Failover()
            ):  # fmt: skip
                pass  # they say nothing of one partition's copy
            case _:
                if isinstance(decoded, Receipt):
                    self._receipt_times[decoded.partition] = record.timestamp
                self.times[decoded.partition] = record.timestamp
                self._maps.pop(decoded.partition, None)
        return decoded

    def source_ends(self) -> dict[TopicPartition, SourceEnd]:
        """Where the source's partitions ended, each with the time until which that is known to hold.

        By the owner's own records, which say what changed until it last saw the source; a receipt may know of more.
        """
        seen_ms = self.view.source_seen_ms
        found = {p: replace(end, time_ms=max(end.time_ms, seen_ms)) for p, end in self.view.source_ends.items()}
        for partition, history in self.view.partitions.items():
            newest = history.newest
            receipt = history.receipts.get(newest.attempt) if newest is not None else None
            if newest is None or receipt is None or receipt.source_end < 0:
                continue
            known, time_ms = found.get(partition), self._receipt_times.get(partition, -1)
            is_older = known is not None and known.source_topic_id != newest.source_topic_id and known.time_ms > time_ms
            if known is None or (receipt.source_end > known.end and not is_older):
                found[partition] = SourceEnd(receipt.source_end, -1, time_ms, newest.source_topic_id)
        return found

    def history(self, partition: TopicPartition) -> PartitionHistory | None:
        """Everything the ledger says of a source partition."""
        return self.view.partitions.get(partition)

    def offset_map(self, partition: TopicPartition, target_topic: str | None = None) -> OffsetMap | None:
        """The exact map of a source partition; None if the ledger has none, or none to this target topic."""
        history = self.history(partition)
        newest = history.newest if history is not None else None
        if history is None or newest is None or target_topic not in (None, newest.target_topic):
            return None
        found = self._maps.get(partition)
        if found is None:
            found = self._maps[partition] = OffsetMap.of_blocks(history.run_blocks())
        return found

    def copied(
        self, partition: TopicPartition, syncs: SyncTable | None = None, target_topic: str | None = None
    ) -> Copied:
        """What is known of the copy of a source partition; an empty map if the ledger knows nothing of it."""
        offset_map, history = self.offset_map(partition, target_topic), self.history(partition)
        end = history.position() if history is not None and offset_map is not None else None
        known = syncs.histories.of(partition) if syncs is not None else None
        return Copied(end, _NO_MAP if offset_map is None else offset_map, known)

    def translate(
        self, partition: TopicPartition, offset: int, syncs: SyncTable | None = None, target_topic: str | None = None
    ) -> Translation | None:
        """Where a reader at this source offset resumes on the target; None if neither ledger nor syncs reach back to it."""
        return translate(offset, self.copied(partition, syncs, target_topic))


class RouteTable:
    """What a ledger says of who copies what to where; the rest of it, which may be much, is not decoded.

    Owners that write which topics they copy say so before the first attempt; of others the attempts tell.
    """

    _KINDS = (b'["owner"', b'["open"', b'["topic"')

    def __init__(self) -> None:
        self.next_offset = 0
        self._owners: dict[tuple[int, int], Owner] = {}
        self._announced: dict[str, str] = {}
        self._opened: dict[str, tuple[Attempt, str]] = {}

    @property
    def owner(self) -> Owner | None:
        """The newest owner."""
        return max(self._owners.values(), key=lambda o: (o.generation, o.producer_epoch), default=None)

    @property
    def announced(self) -> Mapping[str, str]:
        """The topics that the owner said it copies, and their names on the target."""
        return self._announced

    @property
    def routes(self) -> dict[str, str]:
        """The topics that are copied, and their names on the target."""
        return dict(self._announced) or {topic: target for topic, (_, target) in self._opened.items()}

    def take(self, place: TopicPartition, record: Record) -> ForeignRecord | None:
        """The next record of the ledger."""
        self.next_offset = record.offset + 1
        key = record.key or b""
        if not key.startswith(self._KINDS):
            return None
        try:
            if record.value is None:
                found = decode_flow_key(key)
                if found is not None and found[0] == "topic":
                    self._announced.pop(str(found[1][0]), None)
                return None
            decoded = decode(key, record.value)
        except ValueError:
            return ForeignRecord(place, record.offset, "not a ledger record")
        match decoded:
            case Owner():
                self._owners[decoded.generation, decoded.first_epoch] = decoded
            case CopiedTopic():
                self._announced[decoded.topic] = decoded.target_topic
            case Open():
                known = self._opened.get(decoded.partition.topic)
                if known is None or decoded.attempt > known[0]:
                    self._opened[decoded.partition.topic] = decoded.attempt, decoded.target_topic
        return None
