"""Sums of rows: the original's summary, causes with a few examples each, and what a failover now would cost. Pure.

Bounded however many rows there are: a cause keeps some examples, and only the groups with most to read again are named.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkmirror.diagnose.exit_status import status_of
from sparkmirror.diagnose.findings import Severity
from sparkmirror.diagnose.group_position import OWN_POSITIONS, Cause
from sparkmirror.diagnose.inspector_verdicts import Verdict
from sparkmirror.examination.inspecting import FlowHealth, InspectedRow

EXAMPLES_MAX = 5
GROUPS_NAMED_MAX = 5


@dataclass(slots=True)
class CauseTally:
    """One cause in one flow: how many rows and groups it has, how many records, and some of the rows, the worst first."""

    cause: Cause
    severity: Severity
    rows: int = 0
    groups: int = 0
    records: int = 0
    examples: list[InspectedRow] = field(default_factory=list)
    _last_group: str | None = None

    def take(self, row: InspectedRow) -> None:
        """One more row; rows of a group come one after the other."""
        self.rows += 1
        if row.facts.group != self._last_group:
            self.groups += 1
            self._last_group = row.facts.group
        self.records += _records(row)
        self.examples.append(row)
        self.examples.sort(key=lambda example: -_records(example))
        del self.examples[EXAMPLES_MAX:]


@dataclass(slots=True)
class GroupCost:
    """What one group would read again and skip if it failed over now; `unknown` counts unknown positions."""

    group: str
    again: int = 0
    skipped: int = 0
    unknown: int = 0


class FlowTally:
    """Everything that is kept of a flow's rows."""

    def __init__(self) -> None:
        self.positions = 0
        self.results: Counter[str] = Counter()  # by what the positions are worth
        self.verdicts: Counter[int] = Counter()
        self.again, self.skipped, self.unknown = 0, 0, 0
        self.groups_again, self.groups_skipping = 0, 0
        self._causes: dict[tuple[str, Severity], CauseTally] = {}
        self._cost: GroupCost | None = None
        self._costs: list[tuple[int, int, int, str, GroupCost]] = []

    def take(self, row: InspectedRow) -> None:
        """One more row."""
        self.positions += 1
        self.verdicts[row.verdict.number] += 1
        self.results[_result(row)] += 1
        found = row.finding
        if found is not None:
            key = (found.cause.id, found.severity)
            if key not in self._causes:
                self._causes[key] = CauseTally(found.cause, found.severity)
            self._causes[key].take(row)
        self._add_cost(row)

    def _add_cost(self, row: InspectedRow) -> None:
        if self._cost is None or self._cost.group != row.facts.group:
            self._close_cost()
            self._cost = GroupCost(row.facts.group)
        proof = None if row.finding is not None and row.finding.cause.id in OWN_POSITIONS else row.proof
        if proof is None or proof.result in ("unproven", "beyond end", "moving"):
            self._cost.unknown += proof is not None
        elif proof.result == "behind":
            self._cost.again += proof.records or 0
        elif proof.result == "ahead":
            self._cost.skipped += proof.records or 0

    def _close_cost(self) -> None:
        cost, self._cost = self._cost, None
        if cost is None:
            return
        self.again, self.skipped, self.unknown = (
            self.again + cost.again, self.skipped + cost.skipped, self.unknown + cost.unknown,
        )  # fmt: skip
        self.groups_again += cost.again > 0
        self.groups_skipping += cost.skipped > 0
        if cost.again or cost.skipped:
            heapq.heappush(self._costs, (cost.skipped, cost.again, -len(self._costs), cost.group, cost))
            if len(self._costs) > GROUPS_NAMED_MAX:
                heapq.heappop(self._costs)

    def finish(self) -> None:
        """No more rows come."""
        self._close_cost()

    @property
    def costs(self) -> list[GroupCost]:
        """The groups with most to skip, then with most to read again."""
        return [entry[-1] for entry in sorted(self._costs, key=lambda entry: entry[:2], reverse=True)]

    @property
    def causes(self) -> list[CauseTally]:
        """Every cause, the worst first, then the one with most rows."""
        return sorted(self._causes.values(), key=lambda tally: (-tally.severity, -tally.rows, tally.cause.id))

    @property
    def worst(self) -> Severity:
        """The worst of all rows; without causes an error is a verdict that is not OK."""
        if self._causes:
            return max(severity for _, severity in self._causes)
        return Severity.ERROR if self.verdicts[6] or self.verdicts[7] else Severity.FINE


@dataclass(frozen=True, slots=True)
class InspectedFlow:
    """One flow when all of it was read; `skipped` says why it was not read."""

    flow: str
    tally: FlowTally
    health: FlowHealth | None = None
    is_complete: bool = True
    skipped: str = ""


def exit_status(reports: Iterable[InspectedFlow]) -> int:
    """By the worst cause and by whether something could not be read."""
    found = list(reports)
    worst = max((report.tally.worst for report in found), default=Severity.FINE)
    return status_of(worst, is_complete=all(report.is_complete for report in found))


class Summary:
    """The original's counts of printed rows, over all flows."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[bool | None, str, bool | None, str, Verdict]] = Counter()

    def take(self, row: InspectedRow, *, target_state: str) -> None:
        """One printed row."""
        facts = row.facts
        has_target_data: bool | None = facts.target_ends is not None and not facts.target_ends.is_empty
        has_target_data = None if facts.is_known is None else has_target_data
        has_data = None if facts.source_ends is None else not facts.source_ends.is_empty
        key = (has_data, facts.source_state or "Unknown", has_target_data, target_state, row.verdict)
        self._counts[key] += 1

    def lines(self) -> Iterator[str]:
        """One line for each combination. The original's order is a hash map's; here it is that of first sight."""
        for (has_data, state, has_target_data, target_state, verdict), count in self._counts.items():
            is_ok = verdict.is_ok if verdict.is_known else None
            yield (
                f"{count} partitions in state: Source has data: {_truth(has_data)}, Source group: {state}, "
                f"Target has data: {_truth(has_target_data)}, Target group: {target_state}, ok: {_truth(is_ok)}, "
                f"Blocking component: {verdict.blocking or 'null'}, Message: {verdict.text}"
            )


def _records(row: InspectedRow) -> int:
    return (row.proof.records or 0) if row.proof is not None else 0


def _result(row: InspectedRow) -> str:
    """What a position is worth in one word: as proven, else whether there is one at all."""
    if row.finding is not None and row.finding.cause.id in OWN_POSITIONS:
        return "the target's own"
    if not row.verdict.is_known:
        return "unknown"
    if row.facts.target_offset is None:
        return "empty" if row.verdict.number in (2, 3) else "too old" if row.verdict.number in (4, 5) else "not synced"
    return "synced" if row.proof is None else row.proof.result


def _truth(value: bool | None) -> str:
    return "unknown" if value is None else "true" if value else "false"
