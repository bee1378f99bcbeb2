"""Records of the ledger that concern a flow or a topic: requests and answers, ends, stored positions, copied topics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple

import msgspec

# `decode` checks these: a number that is none would stop whoever reckons with it much later.
Whole = Annotated[int, msgspec.Meta(ge=0)]
WholeOrUnknown = Annotated[int, msgspec.Meta(ge=-1)]


@dataclass(frozen=True, slots=True)
class OwnerRequest:
    """What somebody outside asks of the owner: which verb, for what (no topic: the whole flow), by whom and until when.

    The owner carries requests out in the order of the ledger, each once; the same id again changes nothing.
    """

    id: str
    verb: str
    who: str
    time_ms: Whole
    expires_ms: Whole
    topic: str = ""
    partition: WholeOrUnknown = -1  # −1: all partitions
    arguments: dict[str, Any] = field(default_factory=dict)
    command: str = ""  # as it was typed


@dataclass(frozen=True, slots=True)
class OwnerAnswer:
    """What became of a request: "done", "refused" or "expired", by which owner, in words and, for programs, as fields.

    It is appended under the flow's producer, which the next owner fences in the ledger before it reads it: what a paused
    former owner would write late is refused by the broker, the answer and what stands beside it. Of two answers to one
    request the newer owner's counts nevertheless: a producer id that expired is not fenced.
    """

    id: str
    state: str
    owner: str
    generation: Whole
    producer_epoch: Whole
    time_ms: Whole
    text: str
    detail: dict[str, Any] = field(default_factory=dict)


class WishKey(NamedTuple):
    """What a wish is about; no topic: the whole flow, partition −1: all of them."""

    connector: str
    topic: str = ""
    partition: int = -1

    def covers(self, other: WishKey) -> bool:
        """Whether all of the other is in it, too."""
        is_topic = self.topic in ("", other.topic)
        return self.connector == other.connector and is_topic and self.partition in (-1, other.partition)


class PartitionEnd(NamedTuple):
    """Where a source partition ended, and the newest timestamp in it (−1: unknown)."""

    partition: Whole
    end: Whole
    newest_timestamp: WholeOrUnknown


@dataclass(frozen=True, slots=True)
class SourceEnds:
    """The ends of all partitions of a source topic from `chunk` × CHUNK on, up to CHUNK of them, as seen at `time_ms`."""

    topic: str
    chunk: Whole
    time_ms: Whole
    source_topic_id: str
    ends: tuple[PartitionEnd, ...]


@dataclass(frozen=True, slots=True)
class StoredPositions:
    """Which of up to CHUNK partitions of a source topic have a position in the offsets topic that has this id.

    Written after the position, and before a position is taken back: a partition that is named had a record there. The
    record without a topic says which offsets topic counts, and where its partitions ended: see stored.py.
    """

    topic: str
    chunk: Whole
    offsets_topic_id: str
    partitions: tuple[Whole, ...]
    ends: tuple[Whole, ...] = ()


@dataclass(frozen=True, slots=True)
class CopiedTopic:
    """A topic of the source that the owner copies, and its name on the target; removed when it no longer does.

    Written before the first attempt at the topic, by flows whose remote topics do not name the source: others look here
    whether what they copy would come back.
    """

    topic: str
    target_topic: str


@dataclass(frozen=True, slots=True)
class Wish:
    """Somebody wants a connector's part of the flow "paused" or "stopped": all of it, a topic or a partition.

    Written beside the answer to the request that asked for it; removed when it is resumed.
    """

    connector: str  # "source", "checkpoint" or "heartbeat"
    state: str
    who: str
    time_ms: Whole
    request_id: str
    topic: str = ""
    partition: WholeOrUnknown = -1

    @property
    def key(self) -> WishKey:
        """What it is about: one wish for each."""
        return WishKey(self.connector, self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What the owner runs with since `time_ms`: keys and texts of its file as it took them, and the names of secret ones.

    Its slots take them from here. `error` and `refused` (key, old text, new text, reason) say what of the file as it is now
    the owner does not run with. Never written unless the file changed.
    """

    owner: str
    time_ms: Whole
    texts: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]
    changed_ms: WholeOrUnknown = -1
    error: str = ""
    refused: tuple[tuple[str, str, str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Failover:
    """The flow was failed over: nobody copies it until this record is removed.

    `kind`: "planned" or "unplanned". `state`: "begun" from when the flow is stopped for it, "done" when all steps are.
    """

    request_id: str
    kind: str
    state: str
    who: str
    time_ms: Whole
    command: str = ""  # as it was typed
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def is_done(self) -> bool:
        """Whether every step was carried out."""
        return self.state == "done"
