"""What a failover finds, plans and reports. Offsets are the next to be read; times are wall time in milliseconds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from sparkmirror.ledger import Failover
from sparkmirror.model import TopicPartition

Kind = Literal["planned", "unplanned"]
PROVEN = ("proven", "ledger")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a failover cannot begin or go on, and what mends it."""

    step: str
    text: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyEnd:
    """How far one partition was copied. `source_end` is None if the source does not answer: `last_end` was seen last."""

    partition: TopicPartition
    remote: TopicPartition
    reached: int | None
    source_end: int | None = None
    last_end: int | None = None
    last_seen_ms: int | None = None

    @property
    def missing(self) -> int | None:
        """Offsets that were not copied: now, else at the last look; None if nobody knows."""
        end = self.source_end if self.source_end is not None else self.last_end
        return None if end is None else max(end - (self.reached or 0), 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPosition:
    """Where one group continues in one partition of the target.

    `sureness` is that of `translate`. `again` records are read a second time (None: unknown), `missing` offsets from
    there on were never copied. `as_of_ms` is when the group was seen at `offset` on the source; `is_current` if that is now.
    """

    origin: TopicPartition
    offset: int
    remote: TopicPartition | None
    downstream: int | None
    committed: int | None
    target_end: int | None
    sureness: str
    again: int | None = None
    missing: int = 0
    as_of_ms: int | None = None
    is_current: bool = True
    reason: str = ""

    @property
    def action(self) -> str:
        """ "place", "there" (it is committed there), "ahead" (its commit lies past it, and is kept) or "unknown"."""
        if self.remote is None or self.downstream is None:
            return "unknown"
        if self.committed == self.downstream:
            return "there"
        is_past_end = self.committed is not None and self.target_end is not None and self.committed > self.target_end
        return "ahead" if self.committed is not None and self.committed > self.downstream and not is_past_end else "place"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPlan:
    """One group: its positions, who reads with it on either side, and why it is left alone, if it is."""

    name: str
    positions: tuple[GroupPosition, ...] = ()
    source_state: str = ""
    target_state: str = ""
    left_alone: str = ""

    @property
    def again(self) -> int | None:
        """Records that it reads a second time; None if that is not known of a position."""
        counts = [None if p.action == "unknown" else p.again for p in self.positions if p.action != "ahead"]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def is_proven(self) -> bool:
        """Whether each position is exact, and that of now."""
        return all(p.sureness in PROVEN and p.is_current and not p.missing and p.action != "unknown" for p in self.positions)


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverPlan:
    """Everything that a failover of this flow would do, by what was seen when it was made."""

    flow: str
    kind: Kind
    source: str
    target: str
    target_bootstrap: str
    owner: str
    owner_state: str
    topics: dict[str, str]
    copies: tuple[CopyEnd, ...]
    groups: tuple[GroupPlan, ...]
    obstacles: tuple[Obstacle, ...] = ()
    access: tuple[str, ...] = ()  # what applications have on the source and not on the target
    notes: tuple[str, ...] = ()
    source_down: str = ""  # why the source cannot be read
    source_seen_ms: int | None = None
    recorded: Failover | None = None

    @property
    def missing(self) -> int | None:
        """Offsets that were not copied; None if that is not known of a partition."""
        counts = [copy.missing for copy in self.copies]
        return None if None in counts else sum(count for count in counts if count is not None)

    def reading(self) -> Iterator[GroupPlan]:
        """Groups that still have members on the source."""
        return (group for group in self.groups if group.source_state not in ("", "Empty", "Dead", "Unknown"))


@dataclass(slots=True, kw_only=True)
class FailoverReport:
    """What was done: the steps in order with when each ended, and the plan as it was carried out."""

    plan: FailoverPlan
    request_id: str
    began_ms: int
    ended_ms: int = 0
    steps: list[tuple[str, str, int]] = field(default_factory=list)  # name, words, when it ended
    placed: dict[str, int] = field(default_factory=dict)  # by group: how many positions were written
    refused: dict[str, str] = field(default_factory=dict)  # by group: why the cluster did not take its commits
    is_repeated: bool = False  # it had been done before

    @property
    def needs_attention(self) -> bool:
        """Whether a group is not where it should be, or something may be lost."""
        left = any(g.left_alone or not g.is_proven for g in self.plan.groups)
        return left or bool(self.refused) or bool(self.plan.missing) or self.plan.missing is None
