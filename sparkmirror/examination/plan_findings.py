"""What a run would stop or wait at, found before it. Each finder looks for one kind of thing; all are pure.

Where the run itself makes the error, the same function makes it here; what the doctor knows of settings and rights comes
from its rules (`diagnose/rules/`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from sparkmirror.clusters import refusal
from sparkmirror.clusters.error_codes import name_of
from sparkmirror.config.parsing import parse_reset
from sparkmirror.control.topics import settings_hidden, topic_refused
from sparkmirror.diagnose import Finding, Severity
from sparkmirror.diagnose.rules import judge as judge_by_rules
from sparkmirror.driver.flow_ledger import OFFSETS_FACTOR_KEY, internal_topic_refused
from sparkmirror.driver.mm2_watch import HINT
from sparkmirror.driver.starting import no_starting_point
from sparkmirror.errors import (
    BrokerRefused,
    FlowFailedOver,
    FlowOwnedByAnother,
    PositionRemoved,
    RecordTooLarge,
    SourceOffsetLost,
    SparkmirrorError,
    TargetRefusedTimestamp,
)
from sparkmirror.examination.plan_facts import (
    PlanFacts,
    changes_of,
    internal_topics,
    is_restarted,
    restart_of,
    starting_point,
)
from sparkmirror.examination.plan_values import OMITS, REFUSES, RISKS, STOPS, WAITS, PlanFinding
from sparkmirror.ledger import SOURCE, Open, State, owned_by_another
from sparkmirror.model import TopicPartition
from sparkmirror.status import MirroredTopic
from sparkmirror.status.failed_over import failover_hint, failover_words
from sparkmirror.status.remedies import Remedies
from sparkmirror.status.wishes import CODES, in_order, resume_command, wish_words
from sparkmirror.topology import Action, TopicDecision, accepts_gap

Decisions = Sequence[TopicDecision]
Found = Iterator[PlanFinding]
TOPIC = "TOPIC"  # the code of a topic that is stopped as a whole, as the views of a run show it
UNKNOWN_ID = bytes(16).hex()  # of topics on brokers that tell no ids
FOR_EVER_MS = 1 << 62
# Rules of the doctor whose findings say what a run would stop at: internal topics, rights, limits.
RULES = {"C18": BrokerRefused.code, "V3": "RIGHTS", "C15": "LIMITS"}


def find_all(found: PlanFacts, decisions: Decisions) -> Found:
    """Everything that is found, what concerns the whole flow first."""
    seen = [one for finder in FINDERS for one in finder(found, decisions)]
    yield from sorted(seen, key=lambda one: (one.topic, -1 if one.partition is None else one.partition, -one.severity))


# --- the flow --------------------------------------------------------------------------------------------------


def _owner(found: PlanFacts, _: Decisions) -> Found:
    if found.owner.state == "alive":
        yield _raised(REFUSES, owned_by_another(found.owner.name))


def _mirror_maker(found: PlanFacts, _: Decisions) -> Found:
    if found.mm2.reason:
        yield PlanFinding(REFUSES, FlowOwnedByAnother.code, found.mm2.reason, HINT)
    elif found.mm2.is_undecided or found.mm2_unseen:
        why = found.mm2_unseen or "its workers have not read their settings yet"
        text = f"it cannot be seen whether MirrorMaker 2 runs this flow: {why}"
        yield PlanFinding(RISKS, FlowOwnedByAnother.code, text, HINT)


def _loop(found: PlanFacts, _: Decisions) -> Found:
    if found.loop is not None:
        yield _raised(REFUSES, found.loop)


def _internal_topics(found: PlanFacts, _: Decisions) -> Found:
    for topic in internal_topics(found):
        refused = found.refused.get((topic.cluster, topic.name))
        if refused is not None:
            view = found.source if topic.cluster == found.flow.name.source else found.target
            assert view is not None
            # Without the ledger nothing starts; of the others the run says so and goes on without them.
            effect = REFUSES if topic.key == OFFSETS_FACTOR_KEY or "offset-syncs" in topic.key else WAITS
            error = internal_topic_refused(topic.cluster, topic.name, refused, topic.key, len(view.brokers))
            yield _raised(effect, error)


def _failed_over(found: PlanFacts, _: Decisions) -> Found:
    """No run starts a flow whose applications moved to the target."""
    known = found.ledger.failover if found.ledger is not None else None
    if known is not None:
        words = failover_words(str(found.flow.name), known)
        yield PlanFinding(REFUSES, FlowFailedOver.code, words, failover_hint(found.file_words))


def _wishes(found: PlanFacts, _: Decisions) -> Found:
    """What somebody paused or stopped stays so in the next run."""
    for wish in in_order(found.ledger.wishes.values()) if found.ledger is not None else ():
        place = (wish.topic, None if wish.partition < 0 else wish.partition)
        hint = f"to resume: {resume_command(wish, found.file_words)}"
        yield PlanFinding(WAITS if wish.connector == SOURCE else OMITS, CODES[wish.state], wish_words(wish), hint, *place)


# --- topics ----------------------------------------------------------------------------------------------------


def _topics(found: PlanFacts, _: Decisions) -> Found:
    for change in changes_of(found):
        refused = found.refused.get((found.flow.name.target, change.remote))
        if change.action is Action.STOP:
            yield PlanFinding(STOPS, TOPIC, change.reason, topic=change.topic)
        elif refused is not None and found.target is not None:
            text = topic_refused(found.flow.name.target, change.remote, refused, len(found.target.brokers))
            yield PlanFinding(STOPS, TOPIC, text, topic=change.topic)


def _hidden_settings(found: PlanFacts, decisions: Decisions) -> Found:
    if found.facts is None:
        return
    for decision in decisions:
        if not decision.replicated:
            continue
        for cluster, topic in ((found.facts.source, decision.topic), (found.facts.target, decision.remote)):
            if cluster.has(topic) and topic not in cluster.configs:
                text = settings_hidden(cluster.alias, cluster.user or "the user of this file", topic)
                yield PlanFinding(STOPS, TOPIC, text, topic=decision.topic)
                break


# --- partitions ------------------------------------------------------------------------------------------------


def copy_error(found: PlanFacts, decision: TopicDecision, partition: TopicPartition) -> SparkmirrorError | None:
    """What stops a partition that was copied before: one of its topics is another one, or the source has lost something."""
    order = _newest(found, partition)
    if order is None or found.source is None or is_restarted(found, partition):
        return None
    remedies = Remedies(found.file_words)
    another = remedies.recreated(order, _topic_now(found, decision, order))
    if another is not None:
        return another
    begin, end = found.log_starts.get(partition), found.log_ends.get(partition)
    wanted, basis = starting_point(found, decision, partition)
    if wanted is None or begin is None or end is None or not basis.startswith("ledger"):
        return None  # after MirrorMaker 2, the run compares both logs, and may find that more was copied
    if wanted < begin:
        return remedies.lost(partition, wanted, begin)
    return remedies.truncated(partition, wanted, end) if wanted > end and not found.flow.reads_committed else None


def _newest(found: PlanFacts, partition: TopicPartition) -> Open | None:
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    return history.newest if history is not None else None


def _topic_now(found: PlanFacts, decision: TopicDecision, order: Open) -> MirroredTopic:
    """The topic as it is; an id that is not known counts as unchanged."""
    assert found.source is not None
    source = found.source.topics[decision.topic].topic_id.hex()
    there = found.target.topics.get(decision.remote) if found.target is not None else None
    target = there.topic_id.hex() if there is not None and not there.error else ""
    return MirroredTopic(
        topic=decision.topic,
        remote=decision.remote,
        partitions=0,
        source_topic_id=order.source_topic_id if source == UNKNOWN_ID else source,
        target_topic_id=order.target_topic_id if target == UNKNOWN_ID or found.target is None else target,
        source_compacts=False,
        target_compacts=False,
        target_log_append_time=False,
    )


def _partitions(found: PlanFacts, decisions: Decisions) -> Found:
    for decision in decisions:
        if not decision.replicated or found.source is None:
            continue
        for index in sorted(found.source.topics[decision.topic].leaders):
            partition = TopicPartition(decision.topic, index)
            error = copy_error(found, decision, partition) or _no_start(found, partition)
            if error is None:
                if not is_restarted(found, partition):
                    yield from _stopped_before(found, decision, partition)
                yield from _removed(found, partition)
                yield from _leaderless(found, partition)
            elif isinstance(error, SourceOffsetLost) and accepts_gap(found.flow, decision.topic):
                text = f"{error.message}; the run skips them (on.source.gap)"
                yield PlanFinding(RISKS, error.code, text, "", *partition)
            else:
                yield _raised(STOPS, error, partition)


def _removed(found: PlanFacts, partition: TopicPartition) -> Found:
    """What the run does about a position that somebody removed, and what would be copied twice."""
    flow, topic = found.flow, found.flow.offset_storage_topic
    start, again, is_exact = restart_of(found, partition)
    if partition not in found.removal.removed or flow.on_positions_removed == "ignore" or (is_exact and not again):
        return
    text = f"{'' if is_exact else 'at most '}{'?' if again is None else again} copied offsets"
    if parse_reset(flow.consumer.get("auto.offset.reset", "earliest")) == "none":
        yield _raised(STOPS, no_starting_point(partition, flow.name.source), partition)
    elif flow.on_positions_removed == "stop":
        yield _raised(STOPS, Remedies(found.file_words).position_removed(partition, topic, start or 0, text), partition)
    else:
        yield PlanFinding(
            RISKS, PositionRemoved.code,
            f"{partition}: its position was removed from {topic} while the flow was stopped; the run restarts it at "
            f"upstream offset {'?' if start is None else start} and copies {text} again, after what the target holds",
            "to continue where the copy ended: on.positions.removed = ignore", *partition,
        )  # fmt: skip


def _no_start(found: PlanFacts, partition: TopicPartition) -> SparkmirrorError | None:
    is_known = _newest(found, partition) is not None or partition in found.positions or partition in found.syncs
    if is_known or not found.is_target_known:
        return None
    reset = parse_reset(found.flow.consumer.get("auto.offset.reset", "earliest"))
    return no_starting_point(partition, found.flow.name.source) if reset == "none" else None


def _leaderless(found: PlanFacts, partition: TopicPartition) -> Found:
    code = found.errors.get(partition)
    if code is not None:
        alias, user = found.flow.name.source, found.facts.source.user if found.facts is not None else ""
        text = refusal(code, user or "the user of this file", f"Describe on topic {partition.topic}")
        text = f"{partition}: its ends on {alias} cannot be read: {text}"
        yield PlanFinding(WAITS, name_of(code).split()[0], text, "", *partition)


def _stopped_before(found: PlanFacts, decision: TopicDecision, partition: TopicPartition) -> Found:
    """A partition whose last attempt stopped: the next one stops at the same record, unless its limit was raised since."""
    history = found.ledger.partitions.get(partition) if found.ledger is not None else None
    newest = history.newest if history is not None else None
    state = history.states.get(newest.attempt) if history is not None and newest is not None else None
    if state is None or state.state != "stopped" or _is_mended(found, decision, state):
        return
    yield PlanFinding(STOPS, state.code, state.reason, state.hint, *partition)


def _is_mended(found: PlanFacts, decision: TopicDecision, state: State) -> bool:
    """Whether the target takes now whatever the source may hold."""
    if found.facts is None:
        return False
    source, target, remote = found.facts.source, found.facts.target, decision.remote
    if state.code == RecordTooLarge.code:
        taken, may_exist = target.number(remote, "max.message.bytes"), source.number(decision.topic, "max.message.bytes")
        return taken is not None and may_exist is not None and taken >= may_exist
    if state.code == TargetRefusedTimestamp.code and state.detail == TargetRefusedTimestamp.detail:
        limits = (target.number(remote, f"message.timestamp.{side}.max.ms") for side in ("before", "after"))
        is_open = all(limit is not None and limit >= FOR_EVER_MS for limit in limits)
        return is_open or target.setting(remote, "message.timestamp.type") == "LogAppendTime"
    return False


# --- the doctor's rules ----------------------------------------------------------------------------------------


def _rules(found: PlanFacts, _: Decisions) -> Found:
    if found.facts is None:
        return
    for one in judge_by_rules(found.facts, RULES):
        if isinstance(one, Finding):
            effect = RISKS if one.severity is not Severity.ERROR else WAITS if one.id == "V3" else REFUSES
            hint = f"{one.mend}: {one.command}" if one.command else one.mend
            yield PlanFinding(effect, RULES[one.id], one.message, hint, one.subject.topic, one.subject.partition)


def _raised(effect: str, error: SparkmirrorError, partition: TopicPartition | None = None) -> PlanFinding:
    place = ("", None) if partition is None else (partition.topic, partition.partition)
    return PlanFinding(effect, error.code, error.message, error.hint, *place)


Finder = Callable[[PlanFacts, Decisions], Found]
FINDERS: tuple[Finder, ...] = (
    _failed_over, _owner, _mirror_maker, _loop, _wishes, _internal_topics, _topics, _hidden_settings, _partitions, _rules,
)  # fmt: skip
