"""What a flow copies and why, and what must be done on the target for it. Pure: snapshots in, decisions out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from sparkmirror.config import FlowSettings
from sparkmirror.topology.cycles import is_cycle
from sparkmirror.topology.filters import NameFilter, topic_filter
from sparkmirror.topology.policy import ReplicationPolicy

# The brokers' own limit for names of topics.
TOPIC_CHARACTERS_MAX = 249
_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")


@dataclass(frozen=True, slots=True)
class TopicDecision:
    """Whether one source topic is copied, why or why not, and its name on the target."""

    topic: str
    replicated: bool
    reason: str
    remote: str


class Action(Enum):
    """What a copied topic needs on the target."""

    CREATE = "create"
    EXTEND = "extend"
    NOTHING = "nothing"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class TopicChange:
    """What one copied topic needs: `partitions` wanted, `found` on the target (none if the topic is missing)."""

    topic: str
    remote: str
    action: Action
    partitions: int
    found: int | None
    reason: str


def select_topics(
    flow: FlowSettings,
    policy: ReplicationPolicy,
    topics: Iterable[str],
    *,
    claimed: Mapping[str, str] | None = None,
) -> list[TopicDecision]:
    """One decision for each source topic, by name. `claimed` says which target topics other flows write, and who."""
    names = topic_filter(flow)
    taken = dict(claimed or {})
    decisions = []
    for topic in sorted(set(topics)):
        remote = policy.format_remote_topic(flow.name.source, topic)
        refusal = _refusal(flow, policy, names, topic) or _name_refusal(remote, taken)
        if refusal is None:
            taken[remote] = f"topic {topic}"
        reason = refusal or _reason(flow, policy, names, topic)
        decisions.append(TopicDecision(topic, refusal is None, reason, remote))
    return decisions


def plan_topics(
    decisions: Sequence[TopicDecision],
    source: Mapping[str, int],
    target: Mapping[str, int],
    *,
    may_change: bool = True,
) -> list[TopicChange]:
    """What each copied topic needs, by partition counts; `may_change` says whether the target may be changed."""
    alike = {name.replace(".", "_"): name for name in target}
    changes = []
    for decision in decisions:
        if decision.replicated and decision.topic in source:
            wanted, found = source[decision.topic], target.get(decision.remote)
            twin = alike.get(decision.remote.replace(".", "_")) if found is None else None
            action, reason = _action(wanted, found, twin, may_change)
            changes.append(TopicChange(decision.topic, decision.remote, action, wanted, found, reason))
    return changes


def _refusal(flow: FlowSettings, policy: ReplicationPolicy, names: NameFilter, topic: str) -> str | None:
    if policy.is_internal_topic(topic):
        return "internal topic"
    if is_cycle(policy, topic, flow.name.target):
        return f"would be a cycle: its name says it went through {flow.name.target}"
    if flow.heartbeats_replication_enabled and policy.is_heartbeats_topic(topic):
        return None
    return names.refusal(topic)


def _name_refusal(remote: str, taken: Mapping[str, str]) -> str | None:
    if not _LEGAL_NAME.match(remote) or remote in (".", ".."):
        return f"remote name {remote[:TOPIC_CHARACTERS_MAX]!r} is no name of a topic: letters, digits, `.`, `_` and `-` are"
    if len(remote) > TOPIC_CHARACTERS_MAX:
        return f"remote name has {len(remote)} characters, more than {TOPIC_CHARACTERS_MAX}"
    if remote in taken:
        return f"remote name {remote} is already written by {taken[remote]}"
    return None


def _reason(flow: FlowSettings, policy: ReplicationPolicy, names: NameFilter, topic: str) -> str:
    if names.wants(topic):
        return f"wanted by {flow.topic_filter_class}" if ":" in flow.topic_filter_class else "matched by an include pattern"
    return "heartbeats topic, copied whatever the patterns say"


def _action(wanted: int, found: int | None, twin: str | None, may_change: bool) -> tuple[Action, str]:
    if found is None:
        if twin is not None:
            return Action.STOP, f"the brokers refuse it beside {twin}: `.` and `_` count as equal in names"
        if not may_change:
            return Action.STOP, "missing on the target, which may not be changed"
        return Action.CREATE, f"missing on the target; {wanted} partitions"
    if found < wanted:
        short = f"{found} partitions on the target, {wanted} on the source"
        return (Action.EXTEND, short) if may_change else (Action.STOP, f"{short}; the target may not be changed")
    if found > wanted:
        return Action.NOTHING, f"{found} partitions on the target, {wanted} on the source; the others stay empty"
    return Action.NOTHING, "as on the source"
