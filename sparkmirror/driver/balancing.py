"""Which partitions move to another slot while a flow runs: asked to close, then opened there."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping

from sparkmirror.driver.assignment import worthwhile_moves
from sparkmirror.driver.copy_rates import CopyRates
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.slot_watch import SlotWatch
from sparkmirror.ledger import TRANSFORM_QUERY, Release
from sparkmirror.model import TopicPartition

# A partition counts with what it copies in so many seconds, beside what it is behind.
WORK_S = 5.0


class Balancing:
    """The moves under way. `bytes_of` a partition and its lag are the bytes that it is behind."""

    def __init__(self, context: FlowContext, slots: SlotWatch, bytes_of: Callable[[TopicPartition, int], int]) -> None:
        self._context, self._slots, self._bytes_of = context, slots, bytes_of
        self._rates = CopyRates()
        self._moving: dict[TopicPartition, int] = {}
        self.closed: set[TopicPartition] = set()  # those of them that can be opened again

    def look(self) -> None:
        """Asks partitions to close that can go on in idler slots."""
        context, slots = self._context, self._slots.alive
        statuses = context.status.partitions
        rates = self._rates.take(statuses.values(), time.monotonic())
        self._moving = {p: slot for p, slot in self._moving.items() if p not in context.stopped}
        if self._moving or len(slots) < 2:
            return
        copying = {
            p: order.slot
            for p, order in context.placed.items()
            if order.slot != TRANSFORM_QUERY and statuses[p].state == "copying" and p not in context.held
        }
        work = {p: self._bytes_of(p, statuses[p].lag or 0) + int(rates.get(p, 0.0) * WORK_S) for p in copying}
        self._moving = worthwhile_moves(work, copying, slots)
        if self._moving:
            context.ledger.append([Release(p, context.placed[p].attempt) for p in self._moving])

    def take_closed(self, partition: TopicPartition) -> bool:
        """Whether it closed because it was asked to move: then it is opened again, together with others."""
        if partition in self._moving:
            self.closed.add(partition)
        return partition in self._moving

    def bound_for(self, partitions: Collection[TopicPartition], slots: Collection[int]) -> dict[TopicPartition, int]:
        """Where partitions were to move, if that slot has not ended meanwhile."""
        return {p: slot for p, slot in self._moving.items() if p in partitions and slot in slots}

    def has_opened(self, partitions: Mapping[TopicPartition, int]) -> None:
        """They have a slot again, that one or another."""
        self._moving = {p: slot for p, slot in self._moving.items() if p not in partitions}

    def forget_closed(self) -> None:
        """What could be opened again, was."""
        self._moving = {p: slot for p, slot in self._moving.items() if p not in self.closed}
        self.closed.clear()
