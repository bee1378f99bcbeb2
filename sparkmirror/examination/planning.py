"""What a run would do, found out without changing anything: gather (reads both clusters), then judge (pure).

The order of starting points is that of `driver/starting.py`: the ledger's word, else MirrorMaker 2's position, else
`auto.offset.reset`; MirrorMaker 2 wins over the ledger where it wrote after it. What the run would stop or wait at is found
by `plan_findings.py`.
"""

from __future__ import annotations

from collections.abc import Collection

from sparkmirror.config import Settings, require_enabled_flow
from sparkmirror.control.loops import KnownFlows, report_loops
from sparkmirror.driver.topic_transforms import TopicTransforms
from sparkmirror.errors import SourceTopicRecreated, TargetTopicRecreated
from sparkmirror.examination.plan_facts import PlanFacts, changes_of, decisions_of, gather, internal_topics, starting_point
from sparkmirror.examination.plan_findings import copy_error, find_all
from sparkmirror.examination.plan_values import AcceptedGap, FlowPlan, PartitionStart, Plan, PlannedTopic
from sparkmirror.model import TopicPartition
from sparkmirror.state import Part
from sparkmirror.state.gathering import file_words_of
from sparkmirror.topology import (
    Action,
    ConfigRules,
    TopicChange,
    TopicDecision,
    creation_configs,
    require_custom_classes,
)


def make_plan(settings: Settings, targets: Collection[str] | None = None) -> Plan:
    """Reads the clusters and says what a run would do. Writes nothing; an unreachable cluster is reported."""
    require_enabled_flow(settings, targets)
    require_custom_classes(settings, targets)
    found = [gather(flow, file_words_of(settings, flow)) for flow in settings.enabled_flows(targets)]
    reached = [one.flow for one in found if one.source is not None and one.target is not None]
    loops = report_loops(reached, KnownFlows(settings.enabled_flows(None)))
    for one in found:
        one.loop = loops.refused.get(one.flow.name)
        one.unreachable += loops.unread.get(one.flow.name, ())
    return Plan(settings.path, settings.warnings, tuple(map(judge, found)))


def judge(found: PlanFacts) -> FlowPlan:
    """What follows from what was read."""
    flow = found.flow
    changes = {change.topic: change for change in changes_of(found)}
    transforms = TopicTransforms(found.flow)
    decisions = decisions_of(found)
    is_ledger_known = found.target is not None and Part.LEDGER not in found.unknown
    is_mm2_known = found.target is not None and Part.POSITIONS not in found.unknown
    return FlowPlan(
        source=flow.name.source,
        target=flow.name.target,
        unreachable=tuple(found.unreachable),
        ledger_found=found.ledger is not None if is_ledger_known else None,
        owner=found.owner,
        mm2_positions=len(found.positions) if is_mm2_known else None,
        internal_topics=internal_topics(found),
        topics=tuple(_planned(found, decision, changes.get(decision.topic), transforms) for decision in decisions),
        findings=tuple(find_all(found, decisions)),
    )


def _planned(
    found: PlanFacts, decision: TopicDecision, change: TopicChange | None, transforms: TopicTransforms
) -> PlannedTopic:
    is_new = change is not None and change.action is Action.CREATE
    action = "" if not decision.replicated else change.action.value if change is not None else "unknown"
    indexes = _partitions(found, decision.topic)
    return PlannedTopic(
        topic=decision.topic,
        replicated=decision.replicated,
        reason=decision.reason,
        remote=decision.remote,
        action=action,
        action_reason=change.reason if change is not None else "",
        partitions=len(indexes),
        found_partitions=change.found if change is not None else None,
        replication_factor=found.flow.replication_factor if is_new else None,
        configs=creation_configs(ConfigRules.of(found.flow), found.configs.get(decision.topic, [])) if is_new else {},
        starts=tuple(_start(found, decision, index) for index in indexes) if decision.replicated else (),
        transforms=transforms.names(decision.topic) if decision.replicated else (),
    )


def _partitions(found: PlanFacts, topic: str) -> list[int]:
    """Those of the source; by the ledger if the source does not answer."""
    if found.source is not None:
        return list(range(found.source.topics[topic].partitions))
    known = found.ledger.partitions if found.ledger is not None else ()
    return sorted(partition.partition for partition in known if partition.topic == topic)


def _start(found: PlanFacts, decision: TopicDecision, index: int) -> PartitionStart:
    partition = TopicPartition(decision.topic, index)
    offset, basis = starting_point(found, decision, partition)
    begin, end, as_of_ms = _source_log(found, partition)
    # A position of another topic counts for nothing: everything that the topic holds now is not copied.
    is_another = isinstance(copy_error(found, decision, partition), (SourceTopicRecreated, TargetTopicRecreated))
    reached = begin if is_another else offset
    behind = None if reached is None or end is None else max(end - max(reached, begin or 0), 0)
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    gaps = () if history is None else history.accepted_gaps()
    text = tuple(AcceptedGap(gap.upstream, gap.until - 1, gap.reason, gap.time_ms) for gap in gaps)
    return PartitionStart(index, offset, basis, behind, text, as_of_ms)


def _source_log(found: PlanFacts, partition: TopicPartition) -> tuple[int | None, int | None, int | None]:
    """Where the source's log starts and ends, and since when only the ledger tells (None: the source does)."""
    if found.source is not None:
        return found.log_starts.get(partition), found.log_ends.get(partition), None
    seen = found.ledger.source_ends.get(partition) if found.ledger is not None else None
    if seen is None:
        return None, None, found.ledger_times.get(partition)
    return None, seen.end, max(seen.time_ms, found.ledger.source_seen_ms if found.ledger is not None else -1)
