"""MirrorMaker 2's positions that somebody removed: how a removed position is told from one that never was. Pure.

With the flow stopped, an operator resets it as MirrorMaker 2 is reset: by deleting the offsets topic, or with a tombstone
for a partition's key. A missing position alone proves nothing: positions are flushed every few seconds, empty partitions
have none, our own moves write tombstones, and compaction removes tombstones. So the ledger names each partition that has
a position in the offsets topic (`StoredPositions`), and the record without a topic (the *anchor*) says which offsets
topic, by its id, and where its partitions ended. Order of writes:

- a position, then its name; the name is taken away, then the tombstone is written. A crash in between leaves a position
  without its name, and nothing looks removed.
- a new offsets topic that is no reset: the anchor, then positions, then names under the new id. Names under another id than
  the anchor's do not count.
- a new offsets topic that is a reset: names under the new id, then the anchor. Until then the same is found again.

| found                                                    | a named partition without a position …                      |
|----------------------------------------------------------|-------------------------------------------------------------|
| another offsets topic than the anchor's, and any name    | is removed, and so is every other partition that was copied |
| the newest record of its key is a tombstone              | is removed; without a name too, if it was never copied here |
| no record of its key                                     | is removed (a tombstone, compacted away), unless …          |
| … the offsets topic begins above 0, or is shorter        | … retention or a lost disk took records: nobody removed it  |
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.ledger.flow_records import StoredPositions
from sparkmirror.ledger.records import CHUNK
from sparkmirror.model import TopicPartition

Chunk = tuple[str, int]
ANCHOR: Chunk = ("", 0)


@dataclass(frozen=True, slots=True)
class OffsetsTopic:
    """The offsets topic as it was read: its id, the range of each partition, and whose newest record is what."""

    topic_id: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]
    stored: frozenset[TopicPartition]
    tombstones: frozenset[TopicPartition]


@dataclass(frozen=True, slots=True)
class Removal:
    """What somebody removed: these partitions restart; `is_whole` if the offsets topic is another one.

    `lost` have no position any more and do not restart: the offsets topic lost records.
    """

    removed: frozenset[TopicPartition] = frozenset()
    lost: frozenset[TopicPartition] = frozenset()
    is_whole: bool = False


def is_same_topic(one: str, other: str) -> bool:
    """Whether both ids may be of one topic; brokers without topic ids show zeros."""
    return one == other or not one.strip("0") or not other.strip("0")


def named_partitions(stored: Mapping[Chunk, StoredPositions]) -> frozenset[TopicPartition]:
    """The partitions that have a position in the offsets topic that counts."""
    anchor = stored.get(ANCHOR)
    if anchor is None:
        return frozenset()
    valid = (s for s in stored.values() if is_same_topic(s.offsets_topic_id, anchor.offsets_topic_id))
    return frozenset(TopicPartition(s.topic, index) for s in valid for index in s.partitions)


def find_removed(
    stored: Mapping[Chunk, StoredPositions], topic: OffsetsTopic, copied: Collection[TopicPartition]
) -> Removal:
    """Which partitions have lost their position, and how; `copied` are those that the ledger knows."""
    anchor, known = stored.get(ANCHOR), frozenset(copied)
    foreign = topic.tombstones - known  # who has never copied a partition has not written its tombstone
    if anchor is None:
        return Removal(foreign)
    if not is_same_topic(anchor.offsets_topic_id, topic.topic_id):
        names = {TopicPartition(s.topic, index) for s in stored.values() for index in s.partitions}
        return Removal((known | foreign | names) - topic.stored, is_whole=True) if names else Removal(foreign)
    gone = named_partitions(stored) - topic.stored
    is_lossy = any(topic.starts) or any(now < was for was, now in zip(anchor.ends, topic.ends, strict=False))
    lost = gone - topic.tombstones if is_lossy else frozenset[TopicPartition]()
    return Removal((gone - lost) | foreign, lost)


def name_records(
    stored: Mapping[Chunk, StoredPositions], names: Iterable[TopicPartition], topic_id: str
) -> list[StoredPositions]:
    """The records that change if just these partitions have a position in this offsets topic."""
    wanted: dict[Chunk, set[int]] = {chunk: set() for chunk in stored if chunk != ANCHOR}
    for topic, partition in names:
        wanted.setdefault((topic, partition // CHUNK), set()).add(partition)
    found = [StoredPositions(*chunk, topic_id, tuple(sorted(indexes))) for chunk, indexes in wanted.items()]
    return [record for record in found if stored.get((record.topic, record.chunk)) != record]


def anchor_record(topic_id: str, ends: Collection[int] = ()) -> StoredPositions:
    """The record that says which offsets topic counts, and where its partitions ended."""
    return StoredPositions(*ANCHOR, topic_id, (), tuple(ends))
