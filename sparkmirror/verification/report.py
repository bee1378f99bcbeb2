"""What a verification says: per partition what is equal, what differs and what was not compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from sparkmirror.comparison import ComparedRange, Difference, DifferenceKind, Why
from sparkmirror.comparison.values import DIFFERENCES_KEPT
from sparkmirror.diagnose.exit_status import ERRORS, FINE, INCOMPLETE, INTERRUPTED, WARNINGS
from sparkmirror.model import FlowName
from sparkmirror.verification.memory import Stretch
from sparkmirror.verification.planning import LeftOut
from sparkmirror.verification.spans import PartitionPlan
from sparkmirror.verification.task import RangeOutcome


@dataclass(slots=True)
class VerifiedPartition:
    """One partition: its plan, and what came of its ranges."""

    plan: PartitionPlan
    outcomes: list[tuple[ComparedRange, RangeOutcome]] = field(default_factory=list)
    settled: list[tuple[Difference, ...]] = field(default_factory=list)  # records that compaction does not explain
    troubles: list[str] = field(default_factory=list)

    @property
    def records(self) -> int:
        """Records that are equal on both sides, in this run."""
        return sum(outcome.findings.records for _, outcome in self.outcomes)

    @property
    def verified_before(self) -> int:
        """Upstream offsets that earlier runs verified."""
        return sum(last - first for first, last, _, _ in self.plan.known)

    @property
    def explained(self) -> Counter[Why]:
        """Records and offsets whose absence is explained."""
        found = Counter(self.plan.explained)
        for _, outcome in self.outcomes:
            found += outcome.findings.explained
        return +found

    @property
    def kinds(self) -> Counter[DifferenceKind]:
        """How many differences of each kind."""
        found: Counter[DifferenceKind] = Counter()
        for _, outcome in self.outcomes:
            found += outcome.findings.kinds
        return found

    @property
    def differences(self) -> int:
        """How many differences."""
        return self.kinds.total()

    @property
    def first(self) -> list[Difference]:
        """The first of them, in order."""
        found = [difference for _, outcome in self.outcomes for difference in outcome.findings.first]
        return sorted(found, key=_place)[:DIFFERENCES_KEPT]

    @property
    def lag(self) -> int:
        """Records of the source that were not copied yet, as far as that was seen."""
        return sum(outcome.findings.lag for _, outcome in self.outcomes)

    @property
    def uncompared(self) -> list[str]:
        """What of it was not compared, and why."""
        found = list(self.plan.unread)
        found += [f"{one}: {o.findings.reason}" for one, o in self.outcomes if o.findings.reason]
        return found

    def verified(self) -> Iterator[Stretch]:
        """The ranges that are equal."""
        for one, outcome in self.outcomes:
            findings = outcome.findings
            if outcome.trouble or findings.differences or findings.reason or findings.unsettled:
                continue
            upstream, downstream = one.end, one.target_end
            if one.is_tail and findings.verified_to is not None:
                upstream, downstream = findings.verified_to
            if upstream > one.start or downstream > one.target_start:
                yield one.start, upstream, one.target_start, downstream


def _place(found: Difference) -> tuple[int, int]:
    return (
        found.upstream if found.upstream is not None else 1 << 62,
        found.downstream if found.downstream is not None else 1 << 62,
    )


@dataclass(slots=True)
class VerifiedFlow:
    """One flow; `trouble` says why nothing of it was compared."""

    name: FlowName
    partitions: list[VerifiedPartition] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    trouble: str = ""
    hint: str = ""

    @property
    def records(self) -> int:
        """Records that are equal on both sides, in this run."""
        return sum(partition.records for partition in self.partitions)

    @property
    def differences(self) -> int:
        """How many differences."""
        return sum(partition.differences for partition in self.partitions)

    @property
    def is_lost(self) -> bool:
        """Whether a whole topic or partition that was copied is not there."""
        return any(out.is_lost for out in self.left_out) or any(p.plan.is_lost for p in self.partitions)

    @property
    def is_whole(self) -> bool:
        """Whether everything was compared that was asked for."""
        return all(out.is_expected for out in self.left_out) and not any(p.uncompared for p in self.partitions)

    @property
    def has_trouble(self) -> bool:
        """Whether something could not be read."""
        return bool(self.trouble) or any(partition.troubles for partition in self.partitions)


@dataclass(slots=True)
class VerifyReport:
    """All flows of a file."""

    path: str
    began_ms: int
    ended_ms: int = 0
    flows: list[VerifiedFlow] = field(default_factory=list)
    is_interrupted: bool = False

    @property
    def status(self) -> int:
        """The exit status: the worst of what stands below."""
        if any(flow.differences or flow.is_lost for flow in self.flows):
            return ERRORS
        if any(flow.has_trouble for flow in self.flows):
            return INCOMPLETE
        if self.is_interrupted:
            return INTERRUPTED
        return FINE if all(flow.is_whole for flow in self.flows) else WARNINGS
