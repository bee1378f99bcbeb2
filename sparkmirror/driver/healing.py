"""Takes stopped partitions up again: by itself where the cause may be gone, and any of them on request.

A new attempt continues at the position where the last one ended, so it can neither lose nor double a record. Until it has
copied something, its partition is still shown as stopped: an attempt that stops at once again changes nothing that is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from sparkmirror.clusters import describe_topic_configs
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.placing import Placing
from sparkmirror.driver.transform_topics import TransformTopics
from sparkmirror.ledger import TRANSFORM_QUERY, Open
from sparkmirror.model import TopicPartition
from sparkmirror.status.resuming import Resumption, resumption

# What is mended resumes within a minute: one look finds it, and the next one if it was mended in the middle of a try.
LOOK_S = 20.0
# New attempts of one look where nothing is seen to have changed; each is a few ledger records and one fetch.
TRIES_MAX = 20
RETRY_S = 40.0
# A failed try of a transformed partition ends the query, and with it the batches of the others.
QUERY_RETRY_S_MAX = 600.0
# An attempt that has not stopped again by then has nothing to copy, or waits for something else.
TRIAL_S = 30.0

Settings = Mapping[str, Mapping[str, str | None]]


@dataclass(slots=True)
class _Stop:
    """A stopped partition as it was when it was tried last; not tried yet: no settings."""

    settings: Settings | None = None
    tried_at: float = 0.0
    tries: int = 0


@dataclass(slots=True)
class Healing:
    """Looks at the stopped partitions and topics of one flow from time to time."""

    context: FlowContext
    placing: Placing
    transforms: TransformTopics
    recover: Callable[[Iterable[TopicPartition]], None]  # has their last attempts fenced and closed, then opens them
    _stops: dict[TopicPartition, _Stop] = field(default_factory=dict)

    def look(self) -> None:
        """Takes up again what the world may have mended, and what somebody moved."""
        context = self.context
        if context.place.once:
            return
        if context.status.stopped_topics and context.flow.refresh_topics_enabled:
            self.placing.refresh()
        self._end_trials()
        self._stops = {p: self._stops.get(p, _Stop()) for p in context.stopped | context.trials.keys()}
        self.retry(p for p in self._stops if self._is_moved(p))
        free = (p for p in self._stops if p in context.stopped and context.ledger.view.wish_on(p) is None)
        stopped = [p for p in free if p.topic in context.topics]
        waiting = {p: kind for p in stopped if (kind := self._kind(p)) in _TRIED}
        if not waiting:
            return
        due = self._due(waiting)
        context.trials |= dict.fromkeys(due, time.monotonic())
        for partition in self.retry(due):
            context.trials.pop(partition, None)

    def retry(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Resumes stopped partitions where their copy ended, whatever stopped them, or where a move says.

        A move under the producer epoch of the last attempt must go on with its sequence number, as `pass_gap` does.
        Returns those that cannot be taken up now, because no slot lives or nobody copies their topic; they stay stopped.
        """
        context = self.context
        wanted = {p for p in partitions if p in context.stopped}
        found = {p for p in wanted if p.topic in context.topics}
        before = {p: context.placed.get(p) for p in found}
        as_records, lost, closed = self._sorted(found)
        context.stopped -= found
        self.transforms.resume(as_records)
        self.recover(lost)
        try:
            self.placing.open(closed)
        finally:
            shown = context.status.partitions
            idle = {p for p in closed if context.placed.get(p) is before[p] and shown[p].state != "closed"}
            context.stopped |= idle
        return wanted & context.stopped

    def copied(self, partition: TopicPartition) -> None:
        """A partition has copied something since it was opened; if it had been stopped, it no longer is."""
        context = self.context
        if partition in context.trials:
            code = context.status.partitions[partition].code
            del context.trials[partition]
            context.show(partition, "copying")
            context.status.notes.append(f"{partition} resumed: {code} is no longer there")

    def _sorted(
        self, partitions: Iterable[TopicPartition]
    ) -> tuple[list[Open], list[TopicPartition], list[TopicPartition]]:
        """Those of the transform query, those whose last attempt has no end yet, and the rest."""
        context = self.context
        as_records: list[Open] = []
        lost, closed = [], []
        for partition in sorted(partitions):
            history = context.ledger.view.of(partition)
            newest, ready = history.newest, context.ready.get(partition)
            is_ready = newest is not None and ready is not None and ready.previous == newest.attempt
            if ready is not None and not is_ready:
                del context.ready[partition]  # it was moved since
            if newest is not None and newest.slot == TRANSFORM_QUERY and (is_ready or not history.is_closed):
                as_records.append(newest)
            elif newest is not None and not (is_ready or history.is_closed):
                lost.append(partition)
            else:
                closed.append(partition)
        return as_records, lost, closed

    def _kind(self, partition: TopicPartition) -> Resumption:
        return resumption(self.context.status.partitions[partition].code)

    def _is_moved(self, partition: TopicPartition) -> bool:
        """Whether a move was written since the partition was opened last."""
        placed, history = self.context.placed.get(partition), self.context.ledger.view.of(partition)
        newest = history.newest
        is_new = newest is not None and (placed is None or newest.attempt > placed.attempt)
        return is_new and newest is not None and newest.is_move and history.is_closed

    def _due(self, waiting: Mapping[TopicPartition, Resumption]) -> list[TopicPartition]:
        """Everything whose target topics have other settings than at the last try, and a few others."""
        now, settings = time.monotonic(), self._settings(waiting)
        changed, others = [], []
        for partition, kind in waiting.items():
            stop = self._stops[partition]
            if stop.settings is not None and stop.settings != settings[partition]:
                changed.append(partition)
            elif stop.settings is None or (kind is Resumption.RETRY and now - stop.tried_at >= self._pause(partition, stop)):
                others.append(partition)
        others.sort(key=lambda p: self._stops[p].tried_at)
        due = changed + others[:TRIES_MAX]
        for partition in due:
            tries = 0 if partition in changed else self._stops[partition].tries
            self._stops[partition] = _Stop(settings[partition], now, tries + 1)
        return due

    def _pause(self, partition: TopicPartition, stop: _Stop) -> float:
        if not self.context.transforms.are_for(partition.topic):
            return RETRY_S
        return min(RETRY_S * 2.0 ** (stop.tries - 1), QUERY_RETRY_S_MAX)

    def _settings(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Settings]:
        """The settings of the topics that the partitions are copied to, as far as they may be read."""
        context = self.context
        topics = {p: self._target_topics(p) for p in partitions}
        found = describe_topic_configs(context.target, sorted(set().union(*topics.values())))
        values = {topic: {entry.name: entry.value for entry in entries} for topic, entries in found.items()}
        return {p: {topic: values.get(topic, {}) for topic in names} for p, names in topics.items()}

    def _target_topics(self, partition: TopicPartition) -> set[str]:
        """Its remote topic, and where a transform has sent its records to."""
        context = self.context
        elsewhere = context.ledger.view.of(partition).routed_runs()
        return {context.topics[partition.topic].remote, *(target.topic for target in elsewhere)}

    def _end_trials(self) -> None:
        """Attempts that neither copied nor stopped show themselves as they are."""
        context, now = self.context, time.monotonic()
        for partition, since in list(context.trials.items()):
            if partition in context.stopped or now - since > TRIAL_S:
                del context.trials[partition]
                if partition not in context.stopped:
                    order = context.placed.get(partition)
                    state = context.ledger.view.of(partition).states.get(order.attempt) if order is not None else None
                    shown = (state.state, state.code, state.text) if state is not None else ("opening", "", "")
                    context.show(partition, *shown)


_TRIED = (Resumption.SETTINGS, Resumption.RETRY)
