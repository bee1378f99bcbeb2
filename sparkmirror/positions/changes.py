"""What is written to MirrorMaker 2's offsets topic, decided without changing it.

MirrorMaker 2 stores the *last* copied offset and resumes at the next one. To resume at offset X, X − 1 is stored; to resume
at the beginning, a tombstone deletes the position, since there is no last offset before 0. After that the consumer's
`auto.offset.reset` decides: with any other value than `earliest` it would go to the end, so that is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions.alteration import ConnectorKind, alteration_problem
from sparkmirror.positions.requests import EARLIEST, Goal, MoveRequest
from sparkmirror.state import PositionTable, StoredRecord, places_for
from sparkmirror.wire import encode_connect_offset


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What the clusters say: ends of source partitions, where times begin, and what decides without a position."""

    stored: PositionTable
    ends: Mapping[TopicPartition, PartitionEnds]
    times: Mapping[TopicPartition, int]
    auto_offset_reset: str


@dataclass(frozen=True, slots=True)
class PositionChange:
    """One key: what is written where, what was there, and the effect.

    `value` None is a tombstone. `next_offset` is where copying resumes, None if the source does not have the partition.
    `copied_again` offsets were copied before; `given_up` ones never are. `is_unseen`: no record had this key.
    """

    partition: TopicPartition
    key: bytes
    value: bytes | None
    places: tuple[TopicPartition, ...]
    old: tuple[StoredRecord, ...]
    old_next_offset: int | None
    next_offset: int | None
    first: int | None
    end: int | None
    copied_again: int
    given_up: int
    is_unseen: bool


def judge_changes(request: MoveRequest, found: StoredFacts, partitions: Sequence[TopicPartition]) -> list[PositionChange]:
    """A change for each partition whose stored record is not what is wanted already. Raises MoveRefused."""
    _refuse_unseen(request, found, partitions)
    judged = [_judge(request, found, partition) for partition in partitions]
    changes = [change for change in judged if change is not None]
    _refuse_as_mm2_would(found, changes)
    return changes


def _refuse_unseen(request: MoveRequest, found: StoredFacts, partitions: Sequence[TopicPartition]) -> None:
    unseen = [partition for partition in partitions if not found.stored.records_of(partition)]
    if not unseen or request.force_unseen or request.verb == "reset":  # what was never stored need not be deleted
        return
    others = [f"{connector} (cluster {cluster})" for connector, cluster in found.stored.other_connectors()]
    text = f"; positions of {', '.join(others)} are" if others else ""
    raise MoveRefused(
        f"no position of {unseen[0]} is stored under connector {found.stored.connector} and cluster "
        f"{found.stored.source_alias}{text}",
        hint="give --connector, or --force-unseen to write a key that does not exist yet",
    )


def _judge(request: MoveRequest, found: StoredFacts, partition: TopicPartition) -> PositionChange | None:
    old = tuple(found.stored.records_of(partition))
    if not old and not request.force_unseen:
        return None
    ends = found.ends.get(partition)
    known = ends if ends is not None and ends.is_known else None
    last = found.stored.last_offset(partition)
    old_next = None if last is None else last + 1
    wanted = _wanted(request, found, partition, known, old_next)
    if wanted is None:
        return None
    value, start = _value(found, partition, known, wanted)
    if old and all(record.value == value for record in old):
        return None
    return PositionChange(
        partition=partition,
        key=found.stored.key_of(partition),
        value=value,
        places=tuple(places_for(found.stored, partition)),
        old=old,
        old_next_offset=old_next,
        next_offset=start,
        first=None if known is None else known.first,
        end=None if known is None else known.end,
        copied_again=0 if known is None or start is None else max(min(old_next or 0, known.end) - start, 0),
        given_up=_given_up(known, old_next, start),
        is_unseen=not old,
    )


def _wanted(
    request: MoveRequest, found: StoredFacts, partition: TopicPartition, ends: PartitionEnds | None, old_next: int | None
) -> Goal | None:
    """The new position of this partition; None if it stays."""
    if request.entries is not None:
        entry = request.entries[partition]
        return EARLIEST if entry is None else Goal("offset", entry)
    if request.verb == "skip":
        return _skipped(request, partition, ends, old_next)
    goal = request.to or EARLIEST
    if goal.kind == "time":
        if ends is None:
            raise _gone(partition)
        return Goal("offset", found.times.get(partition, ends.end))
    return goal


def _skipped(
    request: MoveRequest, partition: TopicPartition, ends: PartitionEnds | None, old_next: int | None
) -> Goal | None:
    if old_next is None:
        raise MoveRefused(f"{partition}: nothing was copied yet, so nothing can be skipped")
    if ends is None:
        raise _gone(partition)
    wanted = max(ends.first, old_next) if request.to is None else request.to.number
    if wanted < old_next:
        raise MoveRefused(
            f"{partition}: everything up to {old_next} was copied, so {wanted} is behind it",
            hint=f"to copy it again: `offsets set --to {wanted}`",
        )
    return None if wanted == old_next else Goal("offset", wanted)


def _value(
    found: StoredFacts, partition: TopicPartition, ends: PartitionEnds | None, goal: Goal
) -> tuple[bytes | None, int | None]:
    """What is stored, and where copying resumes because of it."""
    if ends is None:
        if goal.kind == "earliest":
            return None, None  # a topic that the source does not have any more: only its position can be deleted
        raise _gone(partition)
    start = {"earliest": ends.first, "latest": ends.end}.get(goal.kind, goal.number)
    if not ends.first <= start <= ends.end:
        raise MoveRefused(
            f"{partition}: the source begins at {ends.first} and ends at {ends.end}, found {start}",
            hint=f"give an offset from {ends.first} to {ends.end}",
        )
    is_reset_earliest = found.auto_offset_reset == "earliest"
    if start > 0 and not (goal.kind == "earliest" and is_reset_earliest):
        return encode_connect_offset(start - 1), start
    if not is_reset_earliest:
        raise MoveRefused(
            f"{partition}: to copy from offset 0 its position must be deleted, and then auto.offset.reset="
            f"{found.auto_offset_reset} decides",
            hint=f"set {found.stored.source_alias}.consumer.auto.offset.reset = earliest until MirrorMaker 2 has run once",
        )
    return None, start


def _given_up(ends: PartitionEnds | None, old_next: int | None, start: int | None) -> int:
    """Offsets that the source has and that are not copied."""
    if ends is None or start is None:
        return 0
    return max(start - max(ends.first, old_next if old_next is not None else ends.first), 0)


def _refuse_as_mm2_would(found: StoredFacts, changes: Sequence[PositionChange]) -> None:
    entries = [
        (
            {"cluster": found.stored.source_alias, "partition": change.partition.partition, "topic": change.partition.topic},
            None if change.value is None or change.next_offset is None else {"offset": change.next_offset - 1},
        )
        for change in changes
    ]
    problem = alteration_problem(ConnectorKind.SOURCE, entries)
    if problem is not None:
        raise MoveRefused(f"MirrorMaker 2 would refuse it: {problem}")


def _gone(partition: TopicPartition) -> MoveRefused:
    return MoveRefused(
        f"{partition}: the source does not have it", hint="its stored position can only be deleted: `offsets reset`"
    )
