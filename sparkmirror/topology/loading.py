"""Every class of the user's that a file names: found, made and tried before anything starts."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import FlowName
from sparkmirror.topology.filters import config_property_filter, group_filter, topic_filter
from sparkmirror.topology.plan import select_topics
from sparkmirror.topology.policy import CustomReplicationPolicy, policy_for

_LOADERS: tuple[Callable[[FlowSettings], object], ...] = (
    policy_for,
    topic_filter,
    group_filter,
    config_property_filter,
)
_PLAIN_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")
_ANY_TOPIC = "topic"


def require_custom_classes(settings: Settings, targets: Collection[str] | None) -> None:
    """Raises `ConfigInvalid` with every problem of every class that a flow into `targets` names."""
    problems: dict[str, list[str]] = {}
    for flow in settings.selected_flows(targets):
        for load in _LOADERS:
            try:
                load(flow)
            except ConfigInvalid as invalid:
                for problem in invalid.problems:
                    problems.setdefault(problem, []).append(str(flow.name))
    text = [f"{', '.join(flows)}: {problem}" for problem, flows in problems.items()]
    text = text or list(_loops(settings.enabled_flows(targets), settings.enabled_flows(None)))
    if text:
        raise ConfigInvalid(settings.path, text)


def _loops(flows: Sequence[FlowSettings], all_flows: Sequence[FlowSettings]) -> Iterator[str]:
    """Flows whose copies the flow back would copy again, since the user's policy does not read its own names back."""
    for flow in flows:
        back = next((f for f in all_flows if f.name == FlowName(flow.name.target, flow.name.source)), None)
        policy = policy_for(flow)
        if back is None or not isinstance(policy, CustomReplicationPolicy) or flow.replication_loops_allowed:
            continue
        # A name that stands in `topics` as it is, and one for patterns: enough to show that names are not read back.
        probes = [_ANY_TOPIC, *(name for name in flow.topics if _PLAIN_NAME.match(name))]
        there = [copied.remote for copied in select_topics(flow, policy, probes) if copied.replicated]
        again = select_topics(back, policy_for(back), there)
        found = next((found for found in again if found.replicated), None)
        if found is not None:
            yield (
                f"{flow.name}: replication.policy.class: {back.name} would copy {found.topic} back as {found.remote}, and "
                f"so on for ever: topic_source of {policy.own.reference} answers {policy.topic_source(found.topic)!r}, "
                f"expected {flow.name.source!r}; mend it, use another alias, give the flows different `topics`, or write "
                "replication.loops.allowed = true"
            )
