"""Topics of one flow: found on the source, created and extended on the target, and handed to the conductor."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import replace

from sparkmirror.clusters import (
    ClusterClient,
    ClusterView,
    NewTopic,
    TopicView,
    create_topics,
    describe_topic_configs,
    extend_topics,
    factor_hint,
    is_right_missing,
    refusal,
)
from sparkmirror.config import FlowSettings
from sparkmirror.control.loops import KnownFlows, LoopGuard, LoopWatch
from sparkmirror.model import ConfigEntry
from sparkmirror.status import Discovery, MirroredTopic
from sparkmirror.topology import (
    Action,
    ConfigRules,
    TopicChange,
    TopicDecision,
    creation_configs,
    plan_topics,
    policy_for,
    select_topics,
)

METADATA_WAIT_S = 15.0


class TopicPlan:
    """What was seen on both clusters and what follows from it; nothing is changed by it."""

    def __init__(
        self, flow: FlowSettings, source: ClusterView, target: ClusterView, only: Collection[str] | None = None
    ) -> None:
        self.source, self.target = source, target
        names = [
            t.name
            for t in source.topics.values()
            if not t.is_internal and t.error == 0 and (only is None or t.name in only)
        ]
        self.decisions: list[TopicDecision] = select_topics(flow, policy_for(flow), names)
        self.changes: list[TopicChange] = plan_topics(
            self.decisions,
            {t.name: t.partitions for t in source.topics.values()},
            {t.name: t.partitions for t in target.topics.values() if t.error == 0},
        )

    def leave_out(self, topics: Collection[str]) -> None:
        """Plans nothing for these topics."""
        self.changes = [change for change in self.changes if change.topic not in topics]


class TopicControl:
    """Keeps the target's topics in step with the source's; `only` these if some are named, and then nothing is copied.

    `known` is what the flows of this process know of other flows.
    """

    def __init__(
        self, flow: FlowSettings, only: Collection[str] | None = None, known: KnownFlows | None = None
    ) -> None:
        self._flow, self._only = flow, only
        self._rules = ConfigRules.of(flow)
        self._seen: object = None
        self._last = Discovery((), {})
        self._loops = LoopGuard(LoopWatch(flow, known if known is not None else KnownFlows([flow])))

    def renew(self, flow: FlowSettings) -> None:
        """Goes on with other settings of the flow; for the thread that discovers."""
        self._flow, self._rules, self._seen = flow, ConfigRules.of(flow), None
        self._loops.renew(flow)

    def discover(
        self, source: ClusterClient, target: ClusterClient, while_waiting: Callable[[], None] = lambda: None
    ) -> Discovery:
        """One look at both clusters; creates and extends what is missing. Cheap while nothing changed.

        `while_waiting` is called now and then by what takes long.
        """
        plan = TopicPlan(self._flow, source.view(None), target.view(None), self._only)
        looping: dict[str, str] = {}
        unread: tuple[str, ...] = ()
        if self._only is None:
            topics = {change.topic: change.remote for change in plan.changes}
            seen_by_us = (source, plan.source), (target, plan.target)
            left_out, looping, unread = self._loops.judge(topics, *seen_by_us, while_waiting)
            plan.leave_out({*left_out, *looping})
        seen = [self._fingerprint(plan), looping]
        if seen != self._seen or self._last.stopped:
            stopped = self._reconcile(plan, source, target) | looping
            present = self._await(target, {c.remote: c.partitions for c in plan.changes if c.topic not in stopped})
            self._last = self._describe(plan, present, stopped, source, target)
            # Of exactly what was looked at: a topic that came up meanwhile must still count as new.
            again = TopicPlan(self._flow, plan.source, present, self._only)
            again.leave_out({c.topic for c in again.changes} - {c.topic for c in plan.changes})
            self._seen = [self._fingerprint(again), looping]
        return replace(self._last, unread=unread)

    def _fingerprint(self, plan: TopicPlan) -> object:
        target = plan.target.topics
        return [
            (c.topic, c.partitions, c.found, plan.source.topics[c.topic].topic_id, _id(target, c.remote))
            for c in plan.changes
        ]

    def _reconcile(self, plan: TopicPlan, source: ClusterClient, target: ClusterClient) -> dict[str, str]:
        stopped = {c.topic: c.reason for c in plan.changes if c.action is Action.STOP}
        by_remote = {c.remote: c.topic for c in plan.changes}
        create = [c for c in plan.changes if c.action is Action.CREATE]
        configs = describe_topic_configs(source, [c.topic for c in create])
        factor = self._flow.replication_factor
        new = [
            NewTopic(c.remote, c.partitions, factor, creation_configs(self._rules, configs.get(c.topic, []))) for c in create
        ]
        results = create_topics(target, new)
        results |= extend_topics(target, {c.remote: c.partitions for c in plan.changes if c.action is Action.EXTEND})
        for remote, refused in results.items():
            if refused is not None:
                stopped[by_remote[remote]] = topic_refused(target.alias, remote, refused, len(plan.target.brokers))
        return stopped

    def _describe(
        self,
        plan: TopicPlan,
        present: ClusterView,
        stopped: dict[str, str],
        source: ClusterClient,
        target: ClusterClient,
    ) -> Discovery:
        wanted = [c for c in plan.changes if c.topic not in stopped]
        source_configs = describe_topic_configs(source, [c.topic for c in wanted])
        target_configs = describe_topic_configs(target, [c.remote for c in wanted])
        known = {(t.topic, t.source_topic_id, t.target_topic_id): t for t in self._last.topics}
        topics = []
        for change in wanted:
            found = present.topics.get(change.remote)
            if found is None or found.error or found.partitions < change.partitions:
                stopped[change.topic] = _unseen(change.remote, found, target)
                continue
            hidden = next((
                settings_hidden(client.alias, client.who, name)
                for client, name, configs in (
                    (source, change.topic, source_configs), (target, change.remote, target_configs)
                )
                if name not in configs
            ), "")  # fmt: skip
            if hidden:
                before = known.get((change.topic, plan.source.topics[change.topic].topic_id.hex(), found.topic_id.hex()))
                if before is None:
                    stopped[change.topic] = hidden
                else:
                    topics.append(replace(before, partitions=change.partitions))  # it is being copied as it was
                continue
            ours, theirs = _values(source_configs, change.topic), _values(target_configs, change.remote)
            topics.append(
                MirroredTopic(
                    topic=change.topic,
                    remote=change.remote,
                    partitions=change.partitions,
                    source_topic_id=plan.source.topics[change.topic].topic_id.hex(),
                    target_topic_id=found.topic_id.hex(),
                    source_compacts="compact" in ours.get("cleanup.policy", ""),
                    target_compacts="compact" in theirs.get("cleanup.policy", ""),
                    target_log_append_time=theirs.get("message.timestamp.type") == "LogAppendTime",
                )
            )
        return Discovery(tuple(topics), stopped)

    def _await(self, target: ClusterClient, wanted: dict[str, int]) -> ClusterView:
        """Metadata spreads within a moment of a topic's creation."""
        deadline = time.monotonic() + METADATA_WAIT_S
        while True:
            view = target.view(list(wanted))
            is_there = all(
                name in view.topics
                and not view.topics[name].error
                and view.topics[name].partitions >= count
                and all(leader.node >= 0 for leader in view.topics[name].leaders.values())
                for name, count in wanted.items()
            )
            is_forbidden = any(is_right_missing(topic.error) for topic in view.topics.values())
            if is_there or is_forbidden or time.monotonic() > deadline:
                return view
            time.sleep(0.05)


def _id(topics: object, name: str) -> bytes:
    found = topics.get(name)  # type: ignore[attr-defined]
    return found.topic_id if found is not None else b""


def _unseen(remote: str, found: TopicView | None, target: ClusterClient) -> str:
    """Why a topic that was created is not there."""
    if found is not None and is_right_missing(found.error):
        text = refusal(found.error, target.who, f"Read and Write on topic {remote}")
        return f"cluster {target.alias}: topic {remote}: {text}"
    return f"topic {remote} does not appear on {target.alias}"


def topic_refused(alias: str, remote: str, refused: str, brokers: int) -> str:
    """Why a topic that the target does not create is not copied."""
    hint = factor_hint(refused, "replication.factor", brokers)
    return f"target {alias} refuses topic {remote}: {refused}" + (f" ({hint})" if hint else "")


def settings_hidden(alias: str, who: str, topic: str) -> str:
    """Why a topic whose settings may not be read is not copied: whether it is compacted decides how."""
    return f"cluster {alias}: settings cannot be read: {who} needs DescribeConfigs on topic {topic}"


def _values(configs: dict[str, list[ConfigEntry]], topic: str) -> dict[str, str]:
    return {entry.name: entry.value or "" for entry in configs.get(topic, [])}
