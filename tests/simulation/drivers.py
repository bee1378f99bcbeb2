"""A driver: what `driver/conductor.py` does, without its I/O. Its calls block it, one after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from simulation.book import fold
from simulation.events import LOST, Procedure, Process
from simulation.slots import LEASE_S, SlotActor, SlotName, finding_out
from sparkmirror.errors import FlowOwnedByAnother, MoveRefused
from sparkmirror.ledger import (
    NOBODY,
    AskAppend,
    AskIsGone,
    AskLedger,
    AskProducer,
    Attempt,
    Closed,
    CopyState,
    LedgerRecord,
    LedgerView,
    Open,
    Owner,
    Ownership,
    Position,
    Ready,
    Release,
    SlotBeat,
    SlotStop,
    State,
    close_lost_attempt,
    compacting,
    lost_attempts,
    moved,
    skip,
    take_ownership,
)
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from simulation.world import World

__all__ = ["Driver", "Mover"]

TURN_S = 0.3
OWNER_BEAT_S = 5.0
SLOT_SILENCE_S = 10.0
FENCED = 90


@dataclass(slots=True)
class _SlotState:
    actor: SlotActor
    beat_at: float
    beat: int = -1
    alive: bool = True


class Driver(Process):
    """One owner of the flow, or one that would like to be it."""

    def __init__(self, world: World, name: str, *, force: bool) -> None:
        super().__init__(world.clock, name)
        self.world, self.force = world, force
        self.view = LedgerView()
        self.ended = ""
        self.stopping = False
        self.stopped: dict[TopicPartition, str] = {}
        self.ownership: Ownership | None = None
        self.slots: dict[int, _SlotState] = {}
        self._offset = 0
        self._placed: dict[TopicPartition, Open] = {}
        self._moving: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self._ready: dict[TopicPartition, Ready] = {}
        self._unseen: list[LedgerRecord] = []
        self._number = self._beat = self._launched = 0
        self._beat_at = 0.0
        self.spawn(self._life())

    def _life(self) -> Procedure:
        try:
            yield from self._start()
            while not self.stopping:
                yield from self._turn()
                yield self.sleep(TURN_S)
            yield from self._finish()
            self.ended = "stopped"
        except FlowOwnedByAnother as error:
            self.ended = str(error)
        self.clock.note(f"{self.name} ends: {self.ended}")

    # --- the ledger ----------------------------------------------------------------------------------------------

    def _read(self) -> Procedure:
        """New records, folded into the view."""
        book = self.world.book
        records, self._offset = yield from self.insist(lambda: book.read(self._offset))
        for record in records:
            fold(self.view, record)
        newest = self.view.owner
        if self.ownership is not None and newest is not None and self.world.rules.driver_sees_newer_owner:
            mine = self.ownership.owner
            if (newest.generation, newest.producer_epoch) > (mine.generation, mine.producer_epoch):
                raise FlowOwnedByAnother(f"flow owned by {newest.name}")
        return records

    def _append(self, records: list[LedgerRecord]) -> Procedure:
        if records:
            yield from self.insist(lambda: self.world.book.append(records, self.name))

    # --- ownership -----------------------------------------------------------------------------------------------

    def _own(self) -> Procedure:
        asking = take_ownership(self.name, force=self.force)
        answer: Any = None
        while True:
            try:
                ask = asking.send(answer)
            except StopIteration as end:
                return end.value[0]
            answer = None
            match ask:
                case AskLedger():
                    yield from self._read()
                    answer = self.view
                case AskIsGone(owner, watch_s):
                    answer = yield from self._is_gone(owner, watch_s)
                case AskProducer(held):
                    answer = yield from self._raise(held)
                case AskAppend(records):
                    yield from self._append(list(records))

    def _is_gone(self, owner: Owner, watch_s: float) -> Procedure:
        if self.world.sees_dead(owner.name):
            return True
        deadline = self.clock.now + watch_s
        while self.clock.now < deadline:
            yield self.sleep(1.0)
            yield from self._read()
            now = self.view.owner
            if now is not None and (now.beat != owner.beat or now.released):
                return now.released
        return True

    def _raise(self, held: tuple[int, int] | None) -> Procedure:
        coordinator = self.world.coordinator
        answer = yield from self.insist(lambda: coordinator.init_producer(held))
        if answer == FENCED:
            raise FlowOwnedByAnother("the producer was taken over")
        return answer

    def _sign(self, **changes: Any) -> Procedure:
        assert self.ownership is not None
        owner = replace(self.ownership.owner, **changes)
        self.ownership = replace(self.ownership, owner=owner)
        yield from self._append([owner])

    # --- life ----------------------------------------------------------------------------------------------------

    def _start(self) -> Procedure:
        self.ownership = yield from self._own()
        self._beat_at = self.clock.now
        for slot in range(self.world.slots):
            self._launch(slot)
        if self.ownership.is_weak:
            yield from self._wait_for_lease()
        yield from self._recover(lost_attempts(self.view), is_start=True)
        yield from self._open(p for p in self.world.targets if p not in self.stopped)

    def _wait_for_lease(self) -> Procedure:
        """A new id fences nobody (R11): whoever wrote under the old one must have left by itself."""
        if self.world.rules.weak_waits_for_lease:
            yield self.sleep(LEASE_S + 5.0)
            yield from self._read()

    def _launch(self, slot: int) -> None:
        assert self.ownership is not None
        owner, rules = self.ownership.owner, self.world.rules
        incarnation = sum(1 for state in self.world.slot_actors if state.order.owner == self.name and state.order.slot == slot)  # noqa: E501
        if rules.slots_named_by_owner:
            incarnation += 1000 * (1 + owner.first_epoch + 100 * owner.generation)
        name = SlotName(slot, incarnation, owner.name, owner.generation, owner.producer_id, owner.producer_epoch)
        self._launched += 1
        actor = SlotActor(self.world, name, f"{self.name}.slot{slot}.{self._launched}")
        actor._offset = self._offset
        self.world.slot_actors.append(actor)
        self.slots[slot] = _SlotState(actor, self.clock.now + 5.0)

    def _check_slots(self) -> None:
        for slot, state in list(self.slots.items()):
            actor = state.actor
            if state.alive and (not actor.alive or actor.ended) and self.clock.rng.random() < 0.3:  # Spark tells
                self._slot_died(state)
                if not self.stopping:
                    self._launch(slot)
            elif state.alive and self.clock.now - state.beat_at > SLOT_SILENCE_S:
                self._slot_died(state)
                if self.clock.rng.random() < 0.5:
                    actor.kill()  # cancelled; or it is out of reach and goes on
                self._launch(slot)

    def _slot_died(self, state: _SlotState) -> None:
        self.clock.note(f"{self.name} thinks {state.actor.name} is dead")
        state.alive = False
        where = (state.actor.order.slot, state.actor.order.incarnation)
        for partition, order in self._placed.items():
            if (order.slot, order.incarnation) == where and not self.view.of(partition).is_closed:
                self._lost.add(partition)

    def _turn(self) -> Procedure:
        unseen, self._unseen = self._unseen, []
        records = yield from self._read()
        for record in (*unseen, *records):
            yield from self._take(record)
        self._check_slots()
        if self._lost:
            lost, self._lost = self._lost, set()
            yield from self._recover(lost_attempts(self.view, lost), is_start=False)
            yield from self._open(lost & set(self._ready))
        if self.clock.now - self._beat_at > OWNER_BEAT_S:
            self._beat_at = self.clock.now
            self._beat += 1
            yield from self._sign(beat=self._beat)
        if self.world.moves and not self._moving and self.clock.rng.random() < self.world.moves:
            yield from self._move()

    def _move(self) -> Procedure:
        candidates = [p for p in self._placed if not self.view.of(p).is_closed and p not in self.stopped]
        if candidates:
            partition = self.clock.rng.choice(candidates)
            self._moving[partition] = self.clock.rng.randrange(self.world.slots)
            yield from self._append([Release(partition, self._placed[partition].attempt)])

    def _take(self, record: LedgerRecord) -> Procedure:
        match record:
            case SlotBeat():
                state = self.slots.get(record.slot)
                if state is not None and state.actor.order.incarnation == record.incarnation and state.beat != record.beat:
                    state.beat, state.beat_at = record.beat, self.clock.now
            case State() if self._is_current(record):
                if record.state == "lost" and record.code in ("FENCED", "IN_DOUBT", "TARGET_TRUNCATED"):
                    self._lost.add(record.partition)
                elif record.state in ("lost", "stopped"):
                    self.stopped[record.partition] = record.code
            case Closed() if self._is_current(record):
                if record.partition not in self.stopped and record.partition in self._moving:
                    yield from self._open([record.partition])
            case _:
                pass

    def _is_current(self, record: State | Closed) -> bool:
        order = self._placed.get(record.partition)
        return order is not None and order.attempt == record.attempt

    # --- opening -------------------------------------------------------------------------------------------------

    def _open(self, partitions: Iterable[TopicPartition]) -> Procedure:
        orders = []
        for partition in list(partitions):
            ready = yield from self._starting_point(partition)
            slot = self._moving.pop(partition, self.clock.rng.randrange(self.world.slots))
            orders.append(self._order(partition, ready, slot))
        with mock.patch.object(compacting, "ATTEMPTS_MAX", self.world.attempts_max):
            compacted = [compacting.compact(self.view.of(order.partition), order) for order in orders]
        yield from self._append([*orders, *(receipt for receipts, _ in compacted for receipt in receipts)])
        keys = [key for _, tombstones in compacted for key, _ in tombstones]
        if keys:
            yield from self.insist(lambda: self.world.book.remove(keys, self.name))
        for order in orders:
            self.view.apply(order)
            self._placed[order.partition] = order
            self._ready.pop(order.partition, None)

    def _starting_point(self, partition: TopicPartition) -> Procedure:
        assert self.ownership is not None
        if partition in self._ready:
            return self._ready[partition]
        history = self.view.of(partition)
        newest, position = history.newest, history.position()
        if newest is None or position is None:
            ends = None
            while ends is None or ends is LOST:
                ends = yield self.call(self.world.targets[partition].ends)
            return Ready(self.world.first_position(partition, ends.log_end), None, False, 0)
        if not self.world.rules.newest_closed_only:
            position = self.world.last_closed(partition) or position
        is_same = (newest.producer_id, newest.producer_epoch) == self.ownership.producer
        return Ready(position if is_same else position._replace(sequence=0), newest.attempt, False, 0)

    def _order(self, partition: TopicPartition, ready: Ready, slot: int) -> Open:
        assert self.ownership is not None
        producer_id, epoch = self.ownership.producer
        self._number += 1
        return Open(
            partition=partition,
            attempt=Attempt(self.ownership.owner.generation, epoch, self._number),
            previous=ready.previous,
            slot=slot,
            incarnation=self.slots[slot].actor.order.incarnation if slot != NOBODY else NOBODY,
            target_topic="mirrored",
            producer_id=producer_id,
            producer_epoch=epoch,
            position=ready.position,
            source_topic_id="",
            target_topic_id="",
            read_committed=self.world.read_committed,
            shared=False,
            fenced=ready.fenced,
            source_compacts=self.world.sources[partition].compacts,
            source_leader_epoch=self.view.of(partition).source_leader_epoch(),
        )

    # --- recovery ------------------------------------------------------------------------------------------------

    def _recover(self, orders: list[Open], *, is_start: bool) -> Procedure:
        if not orders:
            return
        assert self.ownership is not None
        if not is_start:
            held = self.ownership.producer if self.world.rules.conditional_raise else None
            producer_id, epoch = yield from self._raise(held)
            yield from self._sign_raised(producer_id, epoch)
        self.clock.note(f"{self.name} recovers {[(str(o.partition), o.attempt) for o in orders]}")
        if self.world.rules.fence:
            yield from self._fence([o.partition for o in orders])
        read = yield from self._read()
        if self.world.rules.nothing_read_is_missed:
            self._unseen += read
        records: list[LedgerRecord] = []
        stopped: dict[TopicPartition, str] = {}
        for order in orders:
            found, ready = yield from self._recover_one(order, is_start=is_start)
            self.clock.note(f"{self.name} recovered {order.partition}: {ready}")
            records += found
            if isinstance(ready, Ready):
                self._ready[order.partition] = ready
            else:
                stopped[order.partition] = ready.code
                records.append(State(order.partition, order.attempt, "stopped", ready.code, str(ready)))
        yield from self._append(records)
        self.stopped |= stopped
        for record in records:
            self.view.apply(record)

    def _sign_raised(self, producer_id: int, epoch: int) -> Procedure:
        assert self.ownership is not None
        owner = self.ownership.owner
        if producer_id != owner.producer_id and self.world.rules.new_id_new_generation:
            yield from self._sign(
                producer_id=producer_id,
                producer_epoch=epoch,
                generation=owner.generation + 1,
                first_epoch=epoch,
                producer_ids=(*owner.producer_ids, producer_id),
            )
            yield from self._wait_for_lease()
        else:
            yield from self._sign(producer_id=producer_id, producer_epoch=epoch)

    def _fence(self, partitions: list[TopicPartition]) -> Procedure:
        assert self.ownership is not None
        producer, coordinator = self.ownership.producer, self.world.coordinator
        if not self.world.rules.every_lost_is_fenced:
            partitions = [p for p in partitions if self.world.targets[p].has_leader]
        names = [self.world.targets[p].name for p in partitions]
        for serve in (lambda: coordinator.add(producer, names), lambda: coordinator.end(producer)):
            if (yield from self.insist(serve)) == FENCED:
                raise FlowOwnedByAnother("another owner raised the epoch")
        for partition in partitions:
            for _ in range(50):
                if (yield from self.insist(lambda p=partition: self._stands(p, producer))):
                    break
                yield self.sleep(0.2)
            else:
                raise FlowOwnedByAnother("the fence is not seen")  # as after too many retries: somebody starts anew

    def _stands(self, partition: TopicPartition, producer: tuple[int, int]) -> bool:
        target = self.world.targets[partition]
        state = target.producers.get(producer[0])
        return target.has_leader and state is not None and state.epoch >= producer[1]

    def _recover_one(self, order: Open, *, is_start: bool) -> Procedure:
        assert self.ownership is not None
        history = self.view.of(order.partition)
        newest = history.newest
        if self.world.rules.recovers_what_it_fenced and (newest is None or newest.attempt != order.attempt):
            raise FlowOwnedByAnother(f"{order.partition} was opened anew while it was recovered")
        if history.is_closed:
            position = history.position() or order.position
            return [], Ready(position._replace(sequence=0), order.attempt, False, 0)
        asking = close_lost_attempt(
            history,
            producer_ids=frozenset(self.ownership.owner.producer_ids),
            target_compacts=is_start or self.world.target_compacts[order.partition],
            compare_timestamps=not is_start,
        )
        return (yield from finding_out(self, self.world, order, asking))

    # --- the end -------------------------------------------------------------------------------------------------

    def _finish(self) -> Procedure:
        stops = [SlotStop(s.actor.order.slot, s.actor.order.incarnation) for s in self.slots.values()]
        yield from self._append(list(stops))
        deadline = self.clock.now + 10.0
        while self.clock.now < deadline and any(s.actor.alive and not s.actor.ended for s in self.slots.values()):
            yield from self._read()
            yield self.sleep(TURN_S)
        yield from self._sign(released=True)


class Mover(Driver):
    """What `sparkmirror offsets skip --to` does: owns the flow, ends what is open, passes over some, gives it back."""

    def _life(self) -> Procedure:
        try:
            self.ownership = yield from self._own()
            if self.ownership.is_weak:
                yield from self._wait_for_lease()
            yield from self._recover(lost_attempts(self.view), is_start=True)
            records: list[LedgerRecord] = []
            for partition in self.world.targets:
                records += yield from self._skip(partition)
            yield from self._append(records)
            yield from self._sign(released=True)
            self.ended = "moved"
        except FlowOwnedByAnother as error:
            self.ended = str(error)
        self.clock.note(f"{self.name} ends: {self.ended}")

    def _skip(self, partition: TopicPartition) -> Procedure:
        history = self.view.of(partition)
        newest, position = history.newest, history.position()
        if newest is None or position is None or not history.is_closed:
            return []
        ends = LOST
        while ends is LOST or ends is None or ends.high_watermark != ends.log_end:
            ends = yield self.call(self.world.targets[partition].ends)
        source = self.world.sources[partition]
        limit = source.limit(self.world.read_committed)
        topics = newest.topic_incarnation
        copy_state = CopyState(partition, position, topics, topics, source.log_start, limit, ends.log_end)
        try:
            move = skip(copy_state, min(position.upstream + self.clock.rng.randint(1, 6), limit))
        except MoveRefused as refused:
            self.clock.note(f"{self.name}: {refused}")
            return []
        if move is None:
            return []
        order = self._order(partition, Ready(move.new, newest.attempt, False, 0), NOBODY)
        return moved(move, order, reason="skipped", time_ms=0)


FIRST = Position(0, 0, 0)
