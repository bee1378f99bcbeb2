"""The slots of one flow as its driver sees them: started, beating, silent, ended, started again."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror import failpoints
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.errors import SparkTaskFailed
from sparkmirror.ledger import SlotBeat, SlotStop
from sparkmirror.session.mending import mend_of
from sparkmirror.session.spark_slots import DIED, SparkSlots
from sparkmirror.slot.slot import SlotOrder
from sparkmirror.slot.task import UNFIT

# Three missed beats of a slot, and slack for a busy machine: then it is treated as dead (the fence makes that safe).
SILENCE_S = 10.0
# Spark needs some seconds to start; on a cluster with busy cores a slot may wait longer.
START_S = 120.0
# A slot that dies at once is started again more and more slowly.
SPARK = "spark"  # the name of the chore under which it is reported
LATE = (
    "; no executor has a free core and enough memory, or none can be started: "
    "check the master, spark.executor.memory and spark.cores.max"
)
RESTART_FIRST_S, RESTART_MAX_S = 0.1, 30.0
SETTLED_S = 30.0
# Producer epochs are 16 bits; so many incarnations of one slot under one owner would take more than a day of dying at once.
# So many tasks in a row that end alike before their first heartbeat are not mended by another one.
EQUAL_FAILURES = 3
# A slot without a core is reported after this time, and what may be the reason when it is late.
WAIT_SHOWN_S = 30.0
LATE_S = 30.0
# The first slot that has a core waits so long for the others, or it would be given all partitions.
JOIN_S = 1.0
EPOCHS, INCARNATIONS = 1 << 16, 1 << 12


@dataclass(slots=True)
class _Seen:
    order: SlotOrder
    started_at: float
    beat_at: float
    beat: int = -1
    is_alive: bool = True
    restart_at: float | None = None
    failures: int = 0
    cause: str = ""
    equal_failures: int = 0  # so many incarnations in a row, this one included, ended with this cause before any beat


class SlotWatch:
    """Launches slots and tells which partitions lost theirs."""

    def __init__(self, context: FlowContext, spark: SparkSlots) -> None:
        self._context, self._spark = context, spark
        self._seen: dict[int, _Seen] = {}
        self._ended: queue.SimpleQueue[tuple[SlotOrder, str]] = queue.SimpleQueue()
        self._first_beat_at: float | None = None
        self.has_joined = False  # whether a slot has got its core since somebody looked

    def start(self) -> None:
        """Starts every slot of the flow, once."""
        if not self._seen:
            owner = self._context.owned.owner
            # A slot of a former owner may still read the ledger: no slot incarnation is used twice.
            first = (owner.generation * EPOCHS + owner.first_epoch) * INCARNATIONS
            for slot in range(self._context.place.slots):
                self._launch(slot, first, 0)

    @property
    def alive(self) -> list[int]:
        """Slots that may be given partitions: those that have a core."""
        found = [slot for slot, seen in self._seen.items() if seen.is_alive and self._has_core(seen)]
        is_early = self._first_beat_at is not None and time.monotonic() - self._first_beat_at < JOIN_S
        return [] if is_early and len(found) < len(self._seen) else found

    def _has_core(self, seen: _Seen) -> bool:
        return seen.beat >= 0 or self._spark.has_core_for_each

    def incarnation(self, slot: int) -> int:
        """Which slot incarnation an open must name."""
        return self._seen[slot].order.incarnation

    def _launch(self, slot: int, incarnation: int, failures: int) -> None:
        context = self._context
        owner, place, name = context.owned.owner, context.place, context.flow.name
        order = SlotOrder(
            settings=place.settings,
            source=name.source,
            target=name.target,
            slot=slot,
            incarnation=incarnation,
            owner_name=owner.name,
            owner_generation=owner.generation,
            owner_epoch=owner.producer_epoch,
            transactional_id=context.transactional_id,
            ledger_topic=place.ledger_topic,
            ledger_offset=context.ledger.offset,
            file_words=place.file_words,
        )
        now = time.monotonic()
        self._seen[slot] = _Seen(order, now, now + START_S, failures=failures)
        self._spark.launch(order, lambda o, reason: self._ended.put((o, reason)))

    def take(self, beat: SlotBeat) -> None:
        """A sign of life from the ledger."""
        seen = self._seen.get(beat.slot)
        if seen is not None and seen.order.incarnation == beat.incarnation and seen.beat != beat.beat:
            if seen.beat < 0:
                self.has_joined = True
                self._first_beat_at = self._first_beat_at or time.monotonic()
            seen.beat, seen.beat_at = beat.beat, time.monotonic()

    def check(self, lost: Callable[[int, int, str], None], *, restart: bool) -> None:
        """Reports slots that ended or fell silent as `lost(slot, incarnation, why)`, and starts them again."""
        now = time.monotonic()
        while not self._ended.empty():
            order, reason = self._ended.get()
            seen = self._seen.get(order.slot)
            if seen is not None and seen.order == order:
                # Also one that had fallen silent: it may have been given partitions since.
                seen.is_alive = False
                lost(order.slot, order.incarnation, reason)
                self._count(seen, reason)
                seen.failures = 0 if now - seen.started_at > SETTLED_S else seen.failures + 1
                seen.restart_at = now + min(RESTART_FIRST_S * 2**seen.failures, RESTART_MAX_S)
        for slot, seen in list(self._seen.items()):
            if seen.is_alive and self._has_core(seen) and now - seen.beat_at > SILENCE_S:
                if failpoints.ARMED:
                    failpoints.point("slots.silent")
                self._lose(seen, f"sent no heartbeat for {SILENCE_S:g} s", lost)
                self._spark.cancel(seen.order)
            elif restart and seen.restart_at is not None and now >= seen.restart_at:
                before = seen
                self._launch(slot, seen.order.incarnation + 1, seen.failures)
                self._seen[slot].cause, self._seen[slot].equal_failures = before.cause, before.equal_failures
        if restart:
            self._report(now)

    def _count(self, seen: _Seen, reason: str) -> None:
        """Raises if Spark cannot start tasks: none can run where one did, or the last ones of a slot failed alike, and no
        other slot works.
        """
        is_start_failure = seen.beat < 0 and reason.startswith(DIED)
        seen.equal_failures = 0 if not is_start_failure else seen.equal_failures + 1 if reason == seen.cause else 1
        seen.cause = reason
        if any(s.is_alive and s.beat >= 0 for s in self._seen.values()):
            return
        flow = self._context.flow.name
        if reason.startswith(UNFIT) and self._first_beat_at is None:
            raise SparkTaskFailed(f"{flow}: an executor is not fit: {reason.removeprefix(UNFIT)}", hint=mend_of(reason))
        if seen.equal_failures >= EQUAL_FAILURES:
            raise SparkTaskFailed(
                f"{flow}: Spark cannot start its tasks, {EQUAL_FAILURES} in a row failed: {reason.removeprefix(DIED)}",
                hint=f"{mend_of(reason)}; {self._spark.keep_log()}",
            )

    def _report(self, now: float) -> None:
        """How many slots have a core; without a free one, or without memory for an executor, Spark waits for ever."""
        status, chores = self._context.status, self._context.status.chores
        waiting = [seen for seen in self._seen.values() if seen.is_alive and seen.beat < 0]
        status.slots = len(self._seen)
        status.slots_started = sum(seen.is_alive and seen.beat >= 0 for seen in self._seen.values())
        waited = max((now - seen.started_at for seen in waiting), default=0.0)
        if waited > WAIT_SHOWN_S or (chores.get(SPARK) and status.waits_for_spark):
            chores[SPARK] = status.waits_for_spark + (LATE if waited > LATE_S else "")
        elif SPARK in chores:
            chores[SPARK] = ""

    def excuse(self) -> None:
        """The ledger could not be read: the silence was not the slots' fault."""
        now = time.monotonic()
        for seen in self._seen.values():
            seen.beat_at = max(seen.beat_at, now)

    def _lose(self, seen: _Seen, reason: str, lost: Callable[[int, int, str], None]) -> None:
        if seen.is_alive:
            seen.is_alive = False
            lost(seen.order.slot, seen.order.incarnation, reason)

    def ask_to_stop(self) -> None:
        """Every slot is to drain and end."""
        self._context.ledger.append([SlotStop(s.order.slot, s.order.incarnation) for s in self._seen.values()])

    def cancel(self) -> None:
        """Kills the slots that did not end."""
        for seen in self._seen.values():
            if seen.is_alive:
                self._spark.cancel(seen.order)
