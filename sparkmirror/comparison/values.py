"""What is compared and what came of it: ranges, differences, and offsets whose absence is explained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol

from sparkmirror.ledger import Run
from sparkmirror.model import TopicPartition
from sparkmirror.wire import BatchView

# Of one range: more of them do not say more, and a copy that is wrong throughout must not fill the memory.
DIFFERENCES_KEPT = 20
DIFFERENCES_MAX = 50_000  # then the rest of the range is not read


class DifferenceKind(StrEnum):
    """What a difference is."""

    MISSING = "missing"  # the source has the record, the target does not
    EXTRA = "extra"  # the target has a record that the source does not have there
    DOUBLED = "doubled"  # the target holds a record a second time
    SWAPPED = "swapped"  # two neighbours in the other order
    CHANGED = "changed"  # the record is there, with another key, value, header or timestamp


class Why(StrEnum):
    """Why a record is on one side only, or an offset holds none."""

    CONTROL = "control records"
    ABORTED = "aborted transactions"
    SOURCE_COMPACTED = "compacted on the source"
    TARGET_COMPACTED = "compacted on the target"
    SOURCE_DELETED = "deleted on the source"
    TARGET_DELETED = "deleted on the target"
    ACCEPTED_GAP = "accepted gap"
    COPIED_AGAIN = "copied again after a move"
    PASSED_OVER = "written by others and passed over by a move"
    BEFORE_COPY = "before the copy began"


class Piece(NamedTuple):
    """A batch as it lies in a log, and whether it holds records that a reader gets."""

    kind: Literal["data", "control", "aborted"]
    batch: BatchView


Entry = tuple[int, int | None, bytes]  # offset, timestamp (None: not compared), the record's other bytes
Earlier = Callable[[], "Sequence[Entry]"]  # the source's records right before a range; read only if something differs


def nothing() -> Sequence[Entry]:
    """No record lies before."""
    return ()


class Stream(Protocol):
    """The batches of a range in order. `first` is the log's first offset, which may move while it is read."""

    first: int

    def __iter__(self) -> Iterator[Piece]: ...


@dataclass(frozen=True, slots=True)
class ComparedRange:
    """Offsets of a source partition and those of the target that belong to them; the ends are not included.

    With `runs` the place of each record is known. Without them records are matched by what they hold: `is_anchored` says
    that the first of both sides belong together, `lag_from` is the upstream offset up to which they must have been copied.
    """

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    target_start: int
    target_end: int
    runs: Sequence[Run] | None = None
    gaps: tuple[tuple[int, int], ...] = ()  # upstream, accepted
    replaced: tuple[tuple[int, int], ...] = ()  # downstream, older copies of what was copied again
    passed: tuple[tuple[int, int], ...] = ()  # downstream, written by others before the copy went on behind it
    source_compacts: bool = False
    target_compacts: bool = False
    is_anchored: bool = True
    lag_from: int = 0
    is_tail: bool = False  # nothing of the copy follows on the target

    @property
    def records_max(self) -> int:
        """How many records it may hold."""
        return max(self.end - self.start, self.target_end - self.target_start)

    def __str__(self) -> str:
        return f"{self.source} [{self.start}, {self.end})"


@dataclass(frozen=True, slots=True)
class Difference:
    """One record that is not the same on both sides; an offset is None where a side has no record for it."""

    kind: DifferenceKind
    upstream: int | None
    downstream: int | None
    fields: tuple[str, ...] = ()  # of a changed one: key, value, headers, timestamp
    detail: str = ""


@dataclass(slots=True)
class Findings:
    """What comparing a range found, as it goes."""

    records: int = 0  # equal on both sides
    timestamps_left_out: int = 0  # of records that the target stamped itself
    kinds: Counter[DifferenceKind] = field(default_factory=Counter)
    first: list[Difference] = field(default_factory=list)
    explained: Counter[Why] = field(default_factory=Counter)
    unsettled: list[tuple[int, int, bytes]] = field(default_factory=list)  # (upstream, downstream, digest of the key)
    lag: int = 0  # records of the source that were not copied yet
    verified_to: tuple[int, int] | None = None  # behind the last records that were found on both sides, without a map
    reason: str = ""  # why comparing ended early
    digest: str = ""

    @property
    def differences(self) -> int:
        """How many there are."""
        return self.kinds.total()

    @property
    def is_full(self) -> bool:
        """Whether more differences would say nothing more."""
        return self.differences >= DIFFERENCES_MAX

    def differs(self, found: Difference) -> None:
        """One more difference."""
        self.kinds[found.kind] += 1
        if len(self.first) < DIFFERENCES_KEPT:
            self.first.append(found)

    def explain(self, why: Why, count: int = 1) -> None:
        """Offsets whose absence is explained."""
        if count > 0:
            self.explained[why] += count
