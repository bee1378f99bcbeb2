"""The result of a diagnosis: findings and incomplete checks of each flow, in order, and the exit status."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.diagnose.exit_status import status_of
from sparkmirror.diagnose.findings import Finding, Severity
from sparkmirror.diagnose.rules import RULES
from sparkmirror.state.facts import Facts, OpenQuestion
from sparkmirror.state.parts import Part

FIRST = ("V1", "C27")


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One flow: the facts, the findings, and what could not be read."""

    facts: Facts
    findings: tuple[Finding, ...]
    opens: tuple[OpenQuestion, ...]

    @property
    def outage(self) -> str:
        """Which cluster cannot be read, so that nobody knows how the flow is; empty if both can be."""
        outages = self.facts.outages.items()
        return ", ".join(f"{side} {'refuses the login' if out.is_login else 'unreachable'}" for side, out in outages)

    @property
    def are_groups_unknown(self) -> bool:
        """Whether the source's groups could not be listed: what is known of them is what the target remembers."""
        return Part.SOURCE_GROUPS in self.facts.missing

    def group_counts(self) -> dict[str, int]:
        """Groups by their worst record proof."""
        ranks = ("ahead", "unproven", "moving", "behind", "exact")
        worst: dict[str, str] = {}
        for proof in self.facts.proofs:
            result = "moving" if proof.found.result == "beyond end" else proof.found.result  # C07 says that
            worst[proof.group] = min(worst.get(proof.group, "exact"), result, key=ranks.index)
        counts = dict.fromkeys(ranks, 0)
        for verdict in worst.values():
            counts[verdict] += 1
        return {rank: count for rank, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class Report:
    """The result of one examination."""

    path: str
    warnings: tuple[str, ...]
    began_ms: int
    ended_ms: int
    flows: tuple[FlowReport, ...]

    @property
    def findings(self) -> list[Finding]:
        """All findings, worst first."""
        return sorted((f for flow in self.flows for f in flow.findings), key=rank)

    @property
    def opens(self) -> list[OpenQuestion]:
        """All checks that are incomplete."""
        return [question for flow in self.flows for question in flow.opens]

    @property
    def status(self) -> int:
        """By the worst finding and by whether a check is incomplete."""
        worst = max((finding.severity for finding in self.findings), default=Severity.FINE)
        return status_of(worst, is_complete=not self.opens)


def rank(finding: Finding) -> tuple[object, ...]:
    """A cluster that cannot be read comes before everything, then what a failover costs, then the worst."""
    subject = finding.subject
    place = (subject.topic, -1 if subject.partition is None else subject.partition, subject.group)
    first = FIRST.index(finding.id) if finding.id in FIRST else len(FIRST)
    worst = -finding.severity, finding.certainty.rank
    return first, *worst, list(RULES).index(finding.id), finding.flow, finding.cause, place
