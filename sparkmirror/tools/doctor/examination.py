"""One examination: every flow is gathered, judged, and where something moves looked at twice."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sparkmirror.config import FlowSettings, Settings, require_enabled_flow
from sparkmirror.errors import ConfigError
from sparkmirror.state import now_ms
from sparkmirror.tools.doctor.checks import RULES, judge
from sparkmirror.tools.doctor.facts import Facts
from sparkmirror.tools.doctor.findings import Finding, Open, Severity
from sparkmirror.tools.doctor.gathering import GatherOptions, gather
from sparkmirror.tools.doctor.samples import Sample, load_samples, save_samples
from sparkmirror.topology import require_custom_classes

__all__ = ["Examination", "FlowReport", "FlowUnknown", "Report", "examine", "sample_of", "wanted_ids"]

FINE, USAGE, INCOMPLETE, WARNINGS, ERRORS = 0, 1, 2, 3, 4
RECORD_RULES = ("C01", "C02")  # the proof of every group is made for these alone


class FlowUnknown(ConfigError):
    """The file has no such flow."""

    code, exit_status = "FLOW_UNKNOWN", USAGE


@dataclass(frozen=True, slots=True)
class Examination:
    """What is to be examined and how: flows by name (None: all), ids (None: all), and the file of earlier looks."""

    flows: Collection[str] | None = None
    ids: Collection[str] | None = None
    baseline: str | None = None
    wait_s: float = 3.0  # between two looks at a flow in which something moves
    gather: GatherOptions = field(default_factory=GatherOptions)


@dataclass(frozen=True, slots=True)
class FlowReport:
    """One flow: what was read, what follows, and what could not be asked."""

    facts: Facts
    findings: tuple[Finding, ...]
    opens: tuple[Open, ...]

    @property
    def lag(self) -> int:
        """Records that are not copied, as far as can be told."""
        return sum(copy.lag or 0 for copy in self.facts.copies.values())

    def group_counts(self) -> dict[str, int]:
        """Groups by the worst that the record proof says of them."""
        ranks = ("ahead", "unproven", "moving", "behind", "exact")
        worst: dict[str, str] = {}
        for proof in self.facts.proofs:
            known = worst.get(proof.group, "exact")
            worst[proof.group] = min(known, proof.verdict, key=ranks.index)
        counts = dict.fromkeys(ranks, 0)
        for verdict in worst.values():
            counts[verdict] += 1
        return {rank: count for rank, count in counts.items() if count}


@dataclass(frozen=True, slots=True)
class Report:
    """Everything that one examination says."""

    path: str
    warnings: tuple[str, ...]
    began_ms: int
    ended_ms: int
    flows: tuple[FlowReport, ...]

    @property
    def findings(self) -> list[Finding]:
        """All findings, worst first."""
        return sorted((f for flow in self.flows for f in flow.findings), key=_rank)

    @property
    def opens(self) -> list[Open]:
        """All questions that stayed open."""
        return [question for flow in self.flows for question in flow.opens]

    @property
    def status(self) -> int:
        """4 errors, 2 incomplete, 3 warnings, 0 none of these: what is not known may be worse than a warning."""
        found = {finding.severity for finding in self.findings}
        if Severity.ERROR in found:
            return ERRORS
        if self.opens:
            return INCOMPLETE
        return WARNINGS if Severity.WARNING in found else FINE


def _rank(finding: Finding) -> tuple[object, ...]:
    subject = finding.subject
    place = (subject.topic, -1 if subject.partition is None else subject.partition, subject.group)
    return finding.severity.rank, finding.certainty.rank, list(RULES).index(finding.id), finding.flow, finding.cause, place


def wanted_ids(only: Sequence[str], skip: Sequence[str]) -> set[str] | None:
    """The ids that are left; None if nobody chose."""
    if not only and not skip:
        return None
    return (set(only) if only else set(RULES)) - set(skip)


def examine(settings: Settings, wanted: Examination) -> Report:
    """Examines the flows of a file. Changes nothing on any cluster; raises only for the file and the options."""
    require_enabled_flow(settings, None)
    require_custom_classes(settings, None)
    began = now_ms()
    known = load_samples(wanted.baseline) if wanted.baseline is not None else {}
    flows = tuple(_examine(settings, flow, wanted, known.get(str(flow.name), ())) for flow in _flows(settings, wanted.flows))
    if wanted.baseline is not None:
        looks = {
            report.facts.name: (*known.get(report.facts.name, ()), sample_of(report.facts))
            for report in flows
            if not {"source topics", "target topics"} & report.facts.missing.keys()
        }
        save_samples(wanted.baseline, known | looks)
    return Report(settings.path, settings.warnings, began, now_ms(), flows)


def _flows(settings: Settings, names: Collection[str] | None) -> list[FlowSettings]:
    flows = {str(flow.name): flow for flow in settings.enabled_flows(None)}
    if names is None:
        return list(flows.values())
    for name in names:
        if name not in flows:
            raise FlowUnknown(
                f"{settings.path}: no enabled flow is called {name}",
                hint="give " + " or ".join(f"--flow '{known}'" for known in flows),
            )
    return [flow for name, flow in flows.items() if name in names]


def _examine(settings: Settings, flow: FlowSettings, wanted: Examination, past: tuple[Sample, ...]) -> FlowReport:
    options = wanted.gather
    if wanted.ids is not None and not set(RECORD_RULES) & set(wanted.ids):
        options = GatherOptions(options.records, False, options.limits)
    facts, opens = gather(settings, flow, options, past)
    if wanted.wait_s > 0 and _moves(facts):
        time.sleep(wanted.wait_s)
        facts, opens = gather(settings, flow, options, (*past, sample_of(facts)))
    told = list(judge(facts, wanted.ids))
    findings = tuple(found for found in told if isinstance(found, Finding))
    asked = tuple(o for o in opens if wanted.ids is None or "V1" in wanted.ids)
    return FlowReport(facts, findings, (*(o for o in told if isinstance(o, Open)), *asked))


def _moves(facts: Facts) -> bool:
    """Whether a second look says more: something is to be copied, and somebody copies."""
    return facts.runner.is_running and any(copy.lag for copy in facts.copies.values())


def sample_of(facts: Facts) -> Sample:
    """What of this look is worth to be compared with the next."""
    copies = facts.copies.values()
    groups = facts.groups.values()
    return Sample(
        time_ms=facts.now_ms,
        source_ids={d.topic: facts.source.topic_id(d.topic) for d in facts.decisions if d.replicated},
        target_ids={d.remote: i for d in facts.decisions if d.replicated and (i := facts.target.topic_id(d.remote))},
        source_ends={c.partition: c.source_ends[1] for c in copies if c.source_ends is not None},
        target_ends={c.remote: c.target_ends[1] for c in copies if c.target_ends is not None},
        next_upstream={c.partition: c.next_upstream for c in copies if c.next_upstream is not None},
        syncs={c.partition: c.sync.downstream for c in copies if c.sync is not None},
        commits={(g.name, p): offset for g in groups for p, offset in g.source.items()},
        target_commits={(g.name, p): offset for g in groups for p, offset in g.target.items()},
        checkpoints={(g.name, p): point.downstream for g in groups for p, point in g.checkpoints.items()},
    )
