"""One examination: every flow is gathered and judged; a flow with lag is read twice."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from sparkmirror.config import FlowSettings, Settings, choose_flows
from sparkmirror.diagnose.findings import Finding
from sparkmirror.diagnose.report import FlowReport, Report, rank
from sparkmirror.diagnose.rules import RULES, judge
from sparkmirror.state import now_ms
from sparkmirror.state.facts import Facts, OpenQuestion
from sparkmirror.state.gathering import GatherOptions, gather
from sparkmirror.state.samples import Sample, load_samples, save_samples
from sparkmirror.topology import require_custom_classes

RECORD_RULES = ("C01", "C02", "C06", "C09")  # the proof of every group is made for these alone


@dataclass(frozen=True, slots=True)
class Examination:
    """What is to be examined and how: flows by name (None: all), ids (None: all), and the file of earlier samples."""

    flows: Collection[str] | None = None
    ids: Collection[str] | None = None
    baseline: str | None = None
    wait_s: float = 3.0  # between two reads of a flow with lag
    gather: GatherOptions = field(default_factory=GatherOptions)


def wanted_ids(only: Sequence[str], skip: Sequence[str]) -> set[str] | None:
    """The selected ids; None if none were given."""
    if not only and not skip:
        return None
    return (set(only) if only else set(RULES)) - set(skip)


def examine(settings: Settings, wanted: Examination) -> Report:
    """Examines the flows of a file. Changes nothing on any cluster; raises only for the file and the options."""
    chosen = choose_flows(settings, wanted.flows)
    require_custom_classes(settings, None)
    began = now_ms()
    known = load_samples(wanted.baseline) if wanted.baseline is not None else {}
    flows = tuple(_examine(settings, flow, wanted, known.get(str(flow.name), ())) for flow in chosen)
    if wanted.baseline is not None:
        looks = {
            report.facts.name: (*known.get(report.facts.name, ()), sample_of(report.facts))
            for report in flows
            if not {"source topics", "target topics"} & report.facts.missing.keys()
        }
        save_samples(wanted.baseline, known | looks)
    return Report(settings.path, settings.warnings, began, now_ms(), flows)


def _examine(settings: Settings, flow: FlowSettings, wanted: Examination, past: tuple[Sample, ...]) -> FlowReport:
    options = wanted.gather
    if wanted.ids is not None and not set(RECORD_RULES) & set(wanted.ids):
        options = GatherOptions(options.records, False, options.limits)
    facts, opens = gather(settings, flow, options, past)
    if wanted.wait_s > 0 and _moves(facts):
        time.sleep(wanted.wait_s)
        facts, opens = gather(settings, flow, options, (*past, sample_of(facts)))
    judged = list(judge(facts, wanted.ids))
    findings = tuple(sorted((found for found in judged if isinstance(found, Finding)), key=rank))
    asked = tuple(o for o in opens if wanted.ids is None or "V1" in wanted.ids)
    return FlowReport(facts, findings, (*(o for o in judged if isinstance(o, OpenQuestion)), *asked))


def _moves(facts: Facts) -> bool:
    """Whether a second read helps: the flow has lag, and a process copies it."""
    return facts.runner.is_running and any(copy.lag for copy in facts.copies.values())


def sample_of(facts: Facts) -> Sample:
    """The part of this read that the next one is compared with."""
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
