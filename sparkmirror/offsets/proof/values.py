"""Values of the record proof: what is asked of the logs, what they answer, and what follows for a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sparkmirror.model import TopicPartition

Result = Literal["exact", "behind", "ahead", "beyond end", "unproven", "moving"]
Side = Literal["source", "target"]
RECORD_BYTES_MEAN = 2_000  # 10 000 records are 20 MB


class Seen(NamedTuple):
    """A record as it is compared: where it lies, its time, and a 128-bit fingerprint of key, value and headers.

    `is_append_time` says that the log itself stamped it, so that its time does not show where it comes from.
    """

    offset: int
    timestamp: int
    fingerprint: bytes
    is_append_time: bool = False


@dataclass(frozen=True, slots=True)
class RecordAsk:
    """Wants up to `count` visible records of one side from `offset` on. A walk is charged to the partition's budget.

    With `timestamp` it wants only the first offset that is not older (ms), as `next_offset` of the answer.
    """

    side: Side
    offset: int
    count: int
    is_walk: bool = False
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class RecordRange:
    """Visible records from the asked offset on; everything before `next_offset` is in it.

    `is_end` says that nothing follows, `has_holes` that offsets without a record were seen around (markers, compaction).
    `trouble` says why there is no answer; then there are no records.
    """

    records: tuple[Seen, ...]
    next_offset: int
    is_end: bool = False
    has_holes: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """How far one may walk along the logs of a partition to find a record."""

    records: int = 10_000

    @property
    def record_bytes(self) -> int:
        """The same in bytes."""
        return self.records * RECORD_BYTES_MEAN


class Budget:
    """What is left for walks along one partition, whoever walks."""

    __slots__ = ("bytes", "records")

    def __init__(self, limits: WalkLimits) -> None:
        self.records, self.bytes = limits.records, limits.record_bytes

    @property
    def is_spent(self) -> bool:
        """Whether nothing is left."""
        return self.records <= 0 or self.bytes <= 0

    def charge(self, records: int, record_bytes: int) -> None:
        """Takes away what a walk read."""
        self.records -= records
        self.bytes -= record_bytes


class OffsetBounds(NamedTuple):
    """Where on the source the record of a downstream offset should lie: at `guess`, not before `low`, before `high`."""

    low: int
    guess: int
    high: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two positions that should mean the same record, and what is known of the way between them.

    Both are the next offset to read. `bounds` says where a downstream offset comes from, by the ledger's map or by MM2's
    syncs; None where neither knows. `is_compacted`: one of the logs is, so that other records may follow on each side.
    """

    source: TopicPartition
    target: TopicPartition
    upstream: int
    downstream: int
    source_first: int
    source_end: int
    target_first: int
    target_end: int
    bounds: Callable[[int], OffsetBounds | None]
    is_compacted: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether neither log holds anything, with both positions at their ends."""
        is_at_end = (self.upstream, self.downstream) == (self.source_end, self.target_end)
        return is_at_end and (self.source_first, self.target_first) == (self.source_end, self.target_end)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """The verdict on a target position.

    | result     | means                                                                                   |
    |------------|-----------------------------------------------------------------------------------------|
    | exact      | the next record is the same on both sides                                               |
    | behind     | `records` are read again after a failover; nothing is skipped                           |
    | ahead      | `records` are never read after a failover                                               |
    | beyond end | the position lies `records` past the target's end: a reader is set by its own policy    |
    | unproven   | `reason` says why                                                                       |
    | moving     | one of the positions moved while it was looked at, twice                                |

    `basis` says by what: the records themselves, sparkmirror's ledger without reading records, or an estimate from the
    stored position, in which case the truth lies between `records_min` and `records`. A count with `is_counted` false is
    a difference of offsets. `is_certain` is false where so many records are alike that another place would look the same.
    `means` is the upstream offset that the downstream position is, `wanted` the downstream offset that the upstream one is;
    each None where it was not seen.
    """

    result: Result
    upstream: int
    downstream: int
    records: int | None = None
    records_min: int | None = None
    is_counted: bool = True
    is_certain: bool = True
    basis: Literal["records", "ledger", "estimate"] = "records"
    reason: str = ""
    means: int | None = None
    wanted: int | None = None
