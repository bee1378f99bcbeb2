"""New settings of a running flow: taken on the flow's own thread, and nothing ends but what they end.

A topic that they name no more is closed as a slot closes any partition, and forgotten; its position stays in the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_context import FlowContext, FlowPlace
from sparkmirror.driver.healing import Healing
from sparkmirror.driver.placing import Placing
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.topic_transforms import TopicTransforms
from sparkmirror.driver.transform_topics import TransformTopics
from sparkmirror.ledger import TRANSFORM_QUERY, Release, RunSettings
from sparkmirror.model import TopicPartition
from sparkmirror.status.reloads import ReloadResult
from sparkmirror.topology import policy_for, select_topics


@dataclass(frozen=True, slots=True)
class NewSettings:
    """What a flow is to run with from now on; `apply` does on the flow's thread what its driver does not see."""

    flow: FlowSettings
    place: FlowPlace
    result: ReloadResult
    apply: Callable[[], None]


@dataclass(slots=True)
class Renewal:
    """Takes new settings into one running flow."""

    context: FlowContext
    placing: Placing
    healing: Healing
    transforms: TransformTopics
    _taken: FlowSettings | None = None  # as a whole; None: those of the start

    def take(self, new: NewSettings, recorder: Recorder) -> None:
        """Takes them, and says so in the ledger, where the slots read it. Whatever fails here is done again."""
        context = self.context
        self._taken = old = self._taken or context.flow
        context.flow, context.place = new.flow, new.place
        new.apply()
        if old != new.flow:
            context.transforms = TopicTransforms(new.flow)
            recorder.renew(context)
            if _concerns_query(old, new.flow):
                self.transforms.renew()
            self._leave()
            self.refresh()
        self.tell(new.result)
        self._taken = new.flow

    def tell(self, result: ReloadResult) -> None:
        """Writes to the ledger what the flow runs with, and what of its file it does not take."""
        sent = self.context.place.settings
        refused = tuple((change.key, change.old, change.new, change.reason) for change in result.refused)
        owner = self.context.owned.owner.name
        record = RunSettings(owner, result.applied_ms, sent.texts, sent.secrets, result.changed_ms, result.error, refused)
        self.context.ledger.append([record])
        self.context.ledger.view.apply(record)

    def refresh(self) -> None:
        """Looks for topics, and takes up what was left before its attempt had an end."""
        context = self.context
        before = context.topics.keys()
        self.placing.look()
        new = {
            TopicPartition(topic.topic, index)
            for name, topic in context.topics.items() if name not in before
            for index in range(topic.partitions)
        }  # fmt: skip
        unended = {p for p in new - context.placed.keys() if not self._has_ended(p)}
        for partition in unended:
            context.stopped.add(partition)
            context.show(partition, "recovering")
        self.healing.retry(unended)
        self.placing.refresh()

    def tend(self) -> None:
        """Forgets topics whose partitions have all closed. One that is named again by then is opened anew."""
        context = self.context
        if not context.leaving:
            return
        context.held |= context.leaving
        topics = {p.topic for p in context.leaving}
        topics -= {p.topic for p in context.leaving if not self._has_ended(p) and p not in context.stopped}
        closed = {p for p in context.leaving if p.topic in topics}
        if closed:
            self._forget(closed)
            self.refresh()

    def _leave(self) -> None:
        """Has everything closed that the settings do not name."""
        context = self.context
        known = {*context.placed, *context.status.partitions, *context.stopped}
        topics = sorted({partition.topic for partition in known})
        wanted = {d.topic for d in select_topics(context.flow, policy_for(context.flow), topics) if d.replicated}
        leaving = {p for p in known if p.topic not in wanted} - context.leaving
        open_orders = [context.ledger.view.of(p).newest for p in leaving if p in context.placed and not self._has_ended(p)]
        of_slots = [order for order in open_orders if order is not None and order.slot != TRANSFORM_QUERY]
        self.transforms.resume([order for order in open_orders if order is not None and order.slot == TRANSFORM_QUERY])
        context.ledger.append([Release(order.partition, order.attempt) for order in of_slots])
        context.leaving |= leaving
        context.held |= leaving

    def _forget(self, partitions: Iterable[TopicPartition]) -> None:
        context = self.context
        self.transforms.forget(partitions)
        for partition in partitions:
            for known in (context.placed, context.status.partitions, context.ready, context.trials, context.forbidden):
                known.pop(partition, None)
            for marked in (context.leaving, context.held, context.stopped, context.gapped):
                marked.discard(partition)

    def _has_ended(self, partition: TopicPartition) -> bool:
        history = self.context.ledger.view.of(partition)
        return history.newest is None or history.is_closed


def _concerns_query(old: FlowSettings, new: FlowSettings) -> bool:
    """Whether tasks of the transform query read what changed; they are told when their query begins."""
    before, now = ((f.source, f.target, f.consumer, f.producer, f.replication_factor) for f in (old, new))
    return before != now
