"""Slots on threads of this process instead of tasks of Spark: the same code, without a JVM."""

from __future__ import annotations

import threading
from collections.abc import Callable

from sparkmirror.errors import SparkmirrorError
from sparkmirror.session import SparkSlots
from sparkmirror.slot.slot import Slot, SlotOrder

__all__ = ["ThreadSlots"]


class ThreadSlots(SparkSlots):
    """What a driver asks of Spark."""

    def __init__(self) -> None:
        self._running: dict[SlotOrder, Slot] = {}

    def launch(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        """Runs a slot; `ended` hears why it ended."""
        threading.Thread(target=self._serve, args=(order, ended), name=f"slot {order.slot}", daemon=True).start()

    def _serve(self, order: SlotOrder, ended: Callable[[SlotOrder, str], None]) -> None:
        try:
            slot = Slot(order, order.flow_settings())
            self._running[order] = slot
            ended(order, slot.run())
        except SparkmirrorError as error:
            ended(order, f"failed: {error}")

    def cancel(self, order: SlotOrder) -> None:
        """Ends a slot without a word to the ledger."""
        if order in self._running:
            self._running[order]._leave_all("cancelled")
