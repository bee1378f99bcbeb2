"""Which partitions are opened, where they start, and on which slot."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from sparkmirror import failpoints
from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, list_offsets
from sparkmirror.driver.assignment import IDLE_BYTES, assign
from sparkmirror.driver.balancing import Balancing
from sparkmirror.driver.flow_context import FlowContext, is_ended
from sparkmirror.driver.moves.removed_positions import RemovedPositions
from sparkmirror.driver.slot_watch import SlotWatch
from sparkmirror.driver.starting import StartingPoints
from sparkmirror.errors import TransformMissing
from sparkmirror.ledger import (
    NOBODY,
    TRANSFORM_QUERY,
    CopyState,
    Move,
    Open,
    Ready,
    Receipt,
    Release,
    compact,
    covered_from,
    skip,
)
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import Discovery, PartitionStatus

RECORD_BYTES_GUESS = 500
# A look that takes longer waited for another flow's owner.
LOOK_S_MAX = 2.0
# Given what is to be called now and then while it waits.
Discover = Callable[[ClusterClient, ClusterClient, Callable[[], None]], Discovery]


class Placing:
    """Opens partitions, each on a slot."""

    def __init__(
        self, context: FlowContext, slots: SlotWatch, discover: Discover
    ) -> None:
        self._context, self._slots, self._discover = context, slots, discover
        self.removed: RemovedPositions | None = None  # from the time on when this process owns the flow
        self._starting: StartingPoints | None = None
        self.balancing = Balancing(context, slots, self._bytes)
        self._waiting: set[TopicPartition] = set()  # to be opened when a slot has a core
        self._until: dict[TopicPartition, int] | None = None

    # --- topics ------------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Looks at both clusters' topics; creates what the target lacks."""
        began = time.monotonic()
        discovery = self._discover(self._context.source, self._context.target, self._context.beat)
        if time.monotonic() - began > LOOK_S_MAX:
            self._slots.excuse()  # nobody read their beats meanwhile
        self._context.status.notes += [note for note in discovery.unread if note not in self._context.status.notes]
        leaving = {partition.topic for partition in self._context.leaving}
        kept = {name: topic for name, topic in self._context.topics.items() if name in leaving}
        self._context.topics = kept | {topic.topic: topic for topic in discovery.topics}
        self._context.status.remotes = {topic.topic: topic.remote for topic in discovery.topics}
        self._context.status.stopped_topics = discovery.stopped

    def open_new(self) -> None:
        """Opens every partition that is not open and not stopped."""
        context = self._context
        if self.removed is not None:
            self.removed.apply()
        new = [
            partition
            for topic in context.topics.values()
            for partition in (TopicPartition(topic.topic, index) for index in range(topic.partitions))
            if partition not in context.placed and partition not in context.stopped
        ]
        if context.place.once and self._until is None:
            self._until = self._source_ends(new)
        self.open(new)

    def refresh(self) -> None:
        """Looks, stops what is not the same any more, and opens what is new."""
        self.look()
        self._stop_recreated()
        self.open_new()

    def _stop_recreated(self) -> None:
        """An idle partition does not notice by itself that its target was deleted: nothing is sent there."""
        context = self._context
        for partition, order in context.placed.items():
            topic = context.topics.get(partition.topic)
            if topic is None or order.topic_incarnation == (topic.source_topic_id, topic.target_topic_id):
                continue
            is_over = partition in context.stopped or context.ledger.view.of(partition).is_closed
            if not is_over and not self._is_same_incarnation(partition) and order.slot != TRANSFORM_QUERY:
                context.ledger.append([Release(partition, order.attempt)])

    def _source_ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        context = self._context
        found = list_offsets(
            context.source, list(partitions), timestamp=LATEST, read_committed=context.read_committed
        )
        return {partition: offset for partition, (offset, _) in found.items()}

    # --- opening -----------------------------------------------------------------------------------------------

    def open(self, partitions: Iterable[TopicPartition]) -> None:
        """Writes opens, the largest partition first to the slot with the least to do."""
        context = self._context
        unheld = (p for p in partitions if p not in context.held and context.ledger.view.wish_on(p) is None)
        free = [p for p in unheld if p.topic in context.topics]
        left_out = self.removed.apply(free) if self.removed is not None else ()
        wanted = [p for p in free if p not in left_out and is_ended(context, p) and self._is_same_incarnation(p)]
        if not wanted:
            return
        points = self._points(wanted)
        ends = self._source_ends(points)
        due = {p: ready for p, ready in points.items() if not self._is_finished(p, ready, ends.get(p, -1))}
        if not due:
            return
        as_records = {p: ready for p, ready in due.items() if context.transforms.are_for(p.topic)}
        orders = [self._order(p, ready, TRANSFORM_QUERY) for p, ready in as_records.items()]
        rest = {p: ready for p, ready in due.items() if p not in as_records and not self._is_torn(p, ready)}
        orders += self._slot_orders(rest, ends)
        if not orders:
            return
        compacted = [compact(context.ledger.view.of(order.partition), order) for order in orders]
        kept = [receipt for order in orders for receipt in self._landed_before(order)]
        context.ledger.append([*orders, *(receipt for receipts, _ in compacted for receipt in receipts), *kept])
        if failpoints.ARMED:
            failpoints.point("attempt.opened")
        context.ledger.remove([key for _, tombstones in compacted for key in tombstones])
        for receipt in kept:
            context.ledger.view.apply(receipt)
        for order in orders:
            context.ledger.view.apply(order)
            context.placed[order.partition] = order
            context.ready.pop(order.partition, None)
            status = context.status.partitions[order.partition]
            status.slot = order.slot if order.slot != TRANSFORM_QUERY else None
            context.show(order.partition, "opening")

    def _slot_orders(self, due: Mapping[TopicPartition, Ready], ends: Mapping[TopicPartition, int]) -> list[Open]:
        """Orders to slots; none while no slot lives: an open must name a life of a slot that will read it."""
        if due:
            self._slots.start()
        slots = self._slots.alive
        if not due or not slots:
            self._waiting |= due.keys()
            return []
        self._waiting -= due.keys()
        behind = {p: self._bytes(p, ends.get(p, 0) - ready.position.upstream) for p, ready in due.items()}
        chosen = assign(behind, self._loads(slots)) | self.balancing.bound_for(due.keys(), slots)
        self.balancing.has_opened(chosen)
        return [self._order(p, ready, chosen[p]) for p, ready in due.items()]

    def open_waiting(self) -> None:
        """Opens what had no slot, and what has closed to move."""
        closed = self.balancing.closed
        wanted = (self._waiting if self._slots.alive else set()) | closed
        if not wanted:
            return
        self.open(wanted - self._context.stopped)
        for partition in closed:
            if is_ended(self._context, partition):
                self._context.placed.pop(partition, None)  # to be opened like a new one, later
        self.balancing.forget_closed()
        self._waiting -= self._context.stopped

    def _is_torn(self, partition: TopicPartition, ready: Ready) -> bool:
        """Whether transforms, which the file no longer has, were killed with a part of a stretch sent; it stops then."""
        history, upstream = self._context.ledger.view.of(partition), ready.position.upstream
        if history.newest is None or history.newest.slot != TRANSFORM_QUERY or not covered_from(history, upstream):
            return False
        count = sum(length for _, length in covered_from(history, upstream))
        error = TransformMissing(
            f"{partition}: copied up to upstream offset {upstream}; {count} records behind it were sent by transforms that "
            "were killed then, and that the file no longer has",
            hint="put them back and let the flow copy once (`run --once`); then take them away",
        )
        self._context.stop_partition(partition, error)
        return True

    def _landed_before(self, order: Open) -> list[Receipt]:
        """What lies behind the new attempt's beginning already: records of one stretch land in several places, not at once.

        They would not count for an attempt that begins before them, so it states them as its own.
        """
        start = order.position.upstream
        if order.slot != TRANSFORM_QUERY:
            return []
        runs = [run for run in self._context.ledger.view.of(order.partition).runs() if run.upstream >= start]
        return [Receipt(order.partition, order.attempt, order.position, -1, 0, 0, tuple(runs))] if runs else []

    def _is_finished(self, partition: TopicPartition, ready: Ready, end: int) -> bool:
        """Whether there is nothing to copy up to the end that was seen at the start (`--once`)."""
        status = self._context.status.partitions.setdefault(partition, PartitionStatus(partition))
        status.next_upstream, status.source_end = ready.position.upstream, end
        status.end_seen_ms = int(time.time() * 1000)
        gaps = self._context.ledger.view.of(partition).accepted_gaps()
        status.gaps, status.gap_offsets = len(gaps), sum(gap.length for gap in gaps)
        until = self._until.get(partition) if self._until is not None else None
        if until is not None and ready.position.upstream >= until:
            status.state, status.next_downstream = "closed", ready.position.downstream
            return True
        return False

    def _is_same_incarnation(self, partition: TopicPartition) -> bool:
        """Whether both topics are still the ones that were copied; else the partition stops."""
        context = self._context
        newest = context.ledger.view.of(partition).newest
        error = None if newest is None else context.remedies.recreated(newest, context.topics[partition.topic])
        if error is not None:
            context.stop_partition(partition, error)
        return error is None

    def _points(self, wanted: list[TopicPartition]) -> dict[TopicPartition, Ready]:
        context = self._context
        points = {p: context.ready[p] for p in wanted if p in context.ready}
        rest = [p for p in wanted if p not in points]
        known = {p: ready for p in rest if (ready := self._known(p)) is not None}
        points.update(known)
        first = [p for p in rest if p not in context.placed and not self._is_ours(p)]
        if first:
            found, notes = self._starting_points().find(first, known)
            points.update(found)
            context.status.notes += notes
        return points

    def _is_ours(self, partition: TopicPartition) -> bool:
        """Whether this process opened or moved it last: what MirrorMaker 2 stored was read before that."""
        newest, owner = self._context.ledger.view.of(partition).newest, self._context.owned.owner
        return newest is not None and newest.attempt[:2] >= (owner.generation, owner.first_epoch)

    def _starting_points(self) -> StartingPoints:
        if self._starting is None:
            assert self.removed is not None, "positions are read once the flow is owned"
            self._starting = StartingPoints(self._context, self.removed.table)
        return self._starting

    def stored_position(self, partition: TopicPartition) -> int | None:
        """Where MirrorMaker 2 would go on with a partition that this process never opened, None if it never had it."""
        last = self._starting_points().stored(partition)
        return None if last is None else last + 1

    def _known(self, partition: TopicPartition) -> Ready | None:
        context = self._context
        history = context.ledger.view.of(partition)
        newest, position = history.newest, history.position()
        if newest is None or position is None:
            return None
        # Same owner and epoch: the sequence goes on. A new epoch begins at 0, and its first batch goes alone.
        is_same = (newest.producer_id, newest.producer_epoch) == context.owned.producer
        return Ready(position if is_same else position._replace(sequence=0), newest.attempt, False, 0)

    def _order(self, partition: TopicPartition, ready: Ready, slot: int) -> Open:
        until = self._until.get(partition) if self._until is not None else None
        incarnation = self._slots.incarnation(slot) if slot != TRANSFORM_QUERY else NOBODY
        return self._context.order(partition, ready, slot=slot, incarnation=incarnation, until=until)

    # --- gaps --------------------------------------------------------------------------------------------------

    def pass_over(self, partition: TopicPartition, offset: int, why: str) -> Move | None:
        """Goes on behind a record that cannot be copied, with it as a named gap; the last attempt is closed."""
        context = self._context
        context.ready.pop(partition, None)
        ready, newest = self._known(partition), context.ledger.view.of(partition).newest
        if ready is None or newest is None or not self._is_same_incarnation(partition):
            return None
        at = ready.position
        topics = newest.topic_incarnation
        copy_state = CopyState(partition, at, topics, topics, 0, offset + 1, at.downstream)
        move = skip(copy_state, offset + 1)
        if move is not None:
            context.move([move], why)
        self.reopen(partition)
        return move

    def pass_gap(self, partition: TopicPartition) -> Move | None:
        """Goes on at the source's log start, with what lies before it as a named gap; the last attempt is closed."""
        context = self._context
        context.ready.pop(partition, None)
        ready, newest = self._known(partition), context.ledger.view.of(partition).newest
        if ready is None or newest is None or not self._is_same_incarnation(partition):
            return None
        start = list_offsets(context.source, [partition], timestamp=EARLIEST)[partition][0]
        at = ready.position
        # The copy ends where its last attempt closed; what the source holds above its log start is of no interest here.
        topics = newest.topic_incarnation
        copy_state = CopyState(partition, at, topics, topics, start, max(start, at.upstream), at.downstream)
        move = skip(copy_state, None)
        if move is not None:
            move = replace(move, new=move.new._replace(sequence=at.sequence))
            context.move([move], "deleted by the source before it was copied; on.source.gap = skip")
            context.status.notes.append(
                f"{partition}: the source deleted upstream offsets {at.upstream} to {start - 1} before they were copied; "
                f"{start - at.upstream} offsets are skipped (on.source.gap)"
            )
        self.reopen(partition)
        return move

    def reopen(self, partition: TopicPartition) -> None:
        """Opens a partition whose attempt is closed; like a new one later, if no slot lives just now."""
        context = self._context
        before = context.placed.get(partition)
        self.open([partition])
        if context.placed.get(partition) is before:
            context.placed.pop(partition, None)

    # --- loads ---------------------------------------------------------------------------------------

    def _bytes(self, partition: TopicPartition, lag: int) -> int:
        status = self._context.status.partitions.get(partition)
        each = status.record_bytes / status.records if status is not None and status.records else RECORD_BYTES_GUESS
        return int(max(lag, 0) * each)

    def _loads(self, slots: Iterable[int]) -> dict[int, int]:
        context = self._context
        loads = dict.fromkeys(slots, 0)
        for partition, order in context.placed.items():
            status = context.status.partitions[partition]
            if order.slot in loads and status.state not in ("closed", "stopped", "paused"):
                loads[order.slot] += self._bytes(partition, status.lag or 0) + IDLE_BYTES
        return loads
