"""Keeps what somebody paused or stopped closed, and opens it again when it is resumed. The ledger says what that is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from sparkmirror.driver.flow_context import FlowContext, is_ended
from sparkmirror.driver.placing import Placing
from sparkmirror.ledger import STOPPED, TRANSFORM_QUERY, Attempt, Release, Wish
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import PartitionStatus
from sparkmirror.status.wishes import CODES, in_order, wish_reason

PAUSED = "paused"


def learn_wishes(context: FlowContext) -> None:
    """Shows what the ledger says, as far as it was read."""
    status = context.status
    status.wishes, status.are_wishes_known = tuple(in_order(context.ledger.view.wishes.values())), True


@dataclass(slots=True)
class Pausing:
    """The wishes of one flow, as its owner keeps them."""

    context: FlowContext
    placing: Placing
    _paused: set[TopicPartition] = field(default_factory=set)
    _released: dict[TopicPartition, Attempt] = field(default_factory=dict)

    def begin(self) -> None:
        """Says what a former owner was asked for."""
        learn_wishes(self.context)
        self.context.status.notes += [self._reason(wish) for wish in self.context.status.wishes]

    def tend(self) -> None:
        """One turn: closes what is open and must not be, opens what need not be closed any more."""
        context = self.context
        learn_wishes(context)
        if not context.status.wishes and not self._paused:
            return
        wished = {p: wish for p in self._partitions() if (wish := context.ledger.view.wish_on(p)) is not None}
        self._resume(sorted(self._paused - wished.keys()))
        free = {p: wish for p, wish in wished.items() if p not in context.stopped and p not in context.held}
        self._release(p for p in free if not is_ended(context, p))
        for partition, wish in free.items():
            if is_ended(context, partition):
                self._show(partition, wish)

    def _partitions(self) -> Iterator[TopicPartition]:
        for topic in self.context.topics.values():
            yield from (TopicPartition(topic.topic, index) for index in range(topic.partitions))

    def _release(self, partitions: Iterable[TopicPartition]) -> None:
        """Asks for each attempt once; those of the transform query leave it by themselves."""
        context = self.context
        orders = [order for p in partitions if (order := context.placed.get(p)) is not None]
        due = [o for o in orders if o.slot != TRANSFORM_QUERY and self._released.get(o.partition) != o.attempt]
        context.ledger.append([Release(order.partition, order.attempt) for order in due])
        self._released |= {order.partition: order.attempt for order in due}

    def _show(self, partition: TopicPartition, wish: Wish) -> None:
        context = self.context
        self._paused.add(partition)
        shown = context.status.partitions.setdefault(partition, PartitionStatus(partition))
        if wish.state == STOPPED:
            shown.slot = None
        code, reason = CODES[wish.state], self._reason(wish)
        if (shown.state, shown.code, shown.reason) != (PAUSED, code, reason):
            context.trials.pop(partition, None)
            context.show(partition, PAUSED, code, reason)

    def _reason(self, wish: Wish) -> str:
        return wish_reason(wish, self.context.place.file_words)

    def _resume(self, partitions: list[TopicPartition]) -> None:
        """Again in each turn until a slot lives to copy them."""
        context = self.context
        for partition in partitions:
            context.placed.pop(partition, None)
            is_gone = partition.topic not in context.topics
            context.show(partition, "closed" if is_gone else "opening")
        self.placing.open(partitions)
        for partition in partitions:
            is_over = partition in context.stopped or context.status.partitions[partition].state == "closed"
            if partition in context.placed or is_over:
                self._paused.discard(partition)
