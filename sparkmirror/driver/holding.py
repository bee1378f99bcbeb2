"""Closes all partitions of a flow for a while, and opens them again where they ended."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.placing import Placing
from sparkmirror.driver.transform_topics import TransformTopics
from sparkmirror.ledger import TRANSFORM_QUERY, Release
from sparkmirror.model import TopicPartition
from sparkmirror.status.state_code import StateCode

REASON = "MirrorMaker 2 may have begun to copy this flow: nothing is copied until that is known"


@dataclass(slots=True)
class Holding:
    """Which partitions are held; while one is, nothing of the flow may be opened."""

    context: FlowContext
    placing: Placing
    transforms: TransformTopics
    is_on: bool = False
    _held: set[TopicPartition] = field(default_factory=set)

    def hold(self) -> None:
        """Asks every slot to close what it copies, and the transform query to end."""
        context = self.context
        self.transforms.hold()
        running = [
            order
            for partition, order in context.placed.items()
            if partition not in context.stopped and not context.ledger.view.of(partition).is_closed
        ]
        for order in running:
            context.show(order.partition, "waiting", StateCode.OTHER_WRITER, REASON)
        of_slots = [order for order in running if order.slot != TRANSFORM_QUERY]
        self._held |= {order.partition for order in of_slots}
        context.ledger.append([Release(order.partition, order.attempt) for order in of_slots])
        self.is_on = True

    def let_go(self) -> None:
        """Nothing speaks against copying: opens what has closed, and the rest as soon as it has."""
        context, self.is_on, self.transforms.is_held = self.context, False, False
        for partition in sorted(self._held):
            if context.ledger.view.of(partition).is_closed:
                self._held.discard(partition)
                if partition not in context.stopped:
                    self.placing.reopen(partition)

    def has_closed(self, partition: TopicPartition) -> bool:
        """Whether a partition that closed was held; it is opened again now or later."""
        if partition not in self._held:
            return False
        if not self.is_on:
            self._held.discard(partition)
            self.placing.reopen(partition)
        return True
