"""Whether the groups could fail over now: the inspector's rows, summed by group and by topic. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from sparkmirror.diagnose.findings import Severity
from sparkmirror.diagnose.group_position import OWN_POSITIONS
from sparkmirror.examination import FlowTally, InspectedRow

GROUPS_OF_TOPIC_MAX = 200  # shown in one row; the inspector lists all of them
PLACES_MAX = 50_000  # groups × topics that are kept
_UNPROVEN = ("unproven", "beyond end", "moving")


@dataclass(slots=True)
class GroupAtTopic:
    """One group in one topic: its lag on the source, and what a failover would cost it there; None if not known."""

    group: str
    state: str
    partitions: int = 0
    lag: int | None = 0
    again: int = 0
    skipped: int = 0
    unknown: int = 0
    severity: Severity = Severity.FINE
    words: str = ""

    def take(self, row: InspectedRow) -> None:
        """One more partition."""
        facts, proof, found = row.facts, row.proof, row.finding
        self.partitions += 1
        ends, offset = facts.source_ends, facts.source_offset
        is_known = ends is not None and offset is not None and self.lag is not None
        self.lag = (self.lag or 0) + max(ends.end - offset, 0) if is_known else None  # type: ignore[union-attr, operator]
        if found is None or found.cause.id not in OWN_POSITIONS:
            if proof is not None and proof.result in _UNPROVEN:
                self.unknown += 1
            elif proof is not None:
                self.again += (proof.records or 0) if proof.result == "behind" else 0
                self.skipped += (proof.records or 0) if proof.result == "ahead" else 0
        if found is not None and (not self.words or found.severity > self.severity):
            self.severity, self.words = found.severity, found.cause.title


@dataclass(slots=True)
class Readiness:
    """One inspection of a flow."""

    tally: FlowTally = field(default_factory=FlowTally)
    topics: dict[str, dict[str, GroupAtTopic]] = field(default_factory=dict)
    worst: dict[str, Severity] = field(default_factory=dict)  # by group
    is_cut: bool = False  # not all of `topics` were kept
    _places: int = 0

    def take(self, row: InspectedRow) -> None:
        """One more row."""
        self.tally.take(row)
        group, topic = row.facts.group, row.facts.source.topic
        severity = row.finding.severity if row.finding is not None else Severity.FINE
        self.worst[group] = max(severity, self.worst.get(group, Severity.FINE))
        groups = self.topics.setdefault(topic, {})
        if group not in groups:
            if self._places >= PLACES_MAX or len(groups) >= GROUPS_OF_TOPIC_MAX:
                self.is_cut = True
                return
            self._places += 1
            groups[group] = GroupAtTopic(group, row.facts.source_state)
        groups[group].take(row)

    def finish(self) -> None:
        """No more rows come."""
        self.tally.finish()

    @property
    def groups(self) -> int:
        """How many groups were inspected."""
        return len(self.worst)

    @property
    def ready(self) -> int:
        """Groups of which nothing is wrong that a failover would show."""
        return sum(severity < Severity.WARNING for severity in self.worst.values())


def readiness_of(rows: Iterable[InspectedRow]) -> Readiness:
    """All rows of a flow."""
    found = Readiness()
    for row in rows:
        found.take(row)
    found.finish()
    return found
