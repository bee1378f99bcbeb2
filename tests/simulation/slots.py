"""A slot: what `slot/slot.py`, `opening.py` and `relay.py` do, without their I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from simulation.events import LOST, Procedure, Process
from simulation.target import Lane, Request
from sparkmirror.errors import ReplicationError
from sparkmirror.ledger import (
    AskEnds,
    AskPause,
    AskSource,
    AskTarget,
    Attempt,
    Baseline,
    Closed,
    Ends,
    Expect,
    Found,
    LedgerRecord,
    Open,
    Owner,
    PartitionCopy,
    Phase,
    Receipt,
    Release,
    SlotBeat,
    SlotStop,
    Started,
    State,
    find_out,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire import OutgoingBatch, PackLimits, Producer, pack, stamp

if TYPE_CHECKING:
    from simulation.world import World

__all__ = ["Relay", "SlotActor", "SlotName", "finding_out"]

TICK_S = 1.5
LEASE_S = 60.0
POLL_S = 0.4


@dataclass(frozen=True, slots=True)
class SlotName:
    """What a slot is told at its start."""

    slot: int
    incarnation: int
    owner: str
    generation: int
    producer_id: int
    epoch: int


@dataclass(slots=True, eq=False)
class Relay:
    """One attempt's queue and connection."""

    copy: PartitionCopy
    size_max: int
    queue: deque[OutgoingBatch] = field(default_factory=deque)
    fetching: bool = False
    fetch_after: float = 0.0
    lane: Lane | None = None
    stop_reason: ReplicationError | None = None
    settling: bool = False
    closing: bool = False

    @property
    def partition(self) -> TopicPartition:
        return self.copy.order.partition


def finding_out(
    process: Process, world: World, order: Open, asking: Generator[Any, Any, Any]
) -> Procedure:
    """Answers what the recovery generators ask."""
    target, source = world.targets[order.partition], world.sources[order.partition]
    answer: Any = None
    while True:
        try:
            ask = asking.send(answer)
        except StopIteration as end:
            return end.value
        while True:
            match ask:
                case AskPause(seconds):
                    yield process.sleep(seconds)
                    answer = None
                    break
                case AskEnds():
                    answer = yield from _ends(process, world, order.partition)
                case AskTarget(offset):
                    answer = yield process.call(lambda offset=offset: target.fetch(offset, 3))
                case AskSource(offset):
                    answer = yield process.call(
                        lambda offset=offset: source.fetch(
                            offset, read_committed=order.read_committed, batches_max=3
                        )
                    )
            if answer is not LOST and answer is not None:
                break
            yield process.sleep(0.1)


def _ends(process: Process, world: World, partition: TopicPartition) -> Procedure:
    """The log end first, then the rest, in two requests, as `read_ends` asks."""
    target = world.targets[partition]
    first = yield process.call(target.ends)
    second = yield process.call(target.ends)
    if not isinstance(first, Ends) or not isinstance(second, Ends):
        return LOST
    log_end = first.log_end if world.rules.settle else second.high_watermark
    return Ends(second.high_watermark, log_end, first.leader_epoch, second.log_start)


class SlotActor(Process):
    """One long task."""

    def __init__(self, world: World, name: SlotName, process: str) -> None:
        super().__init__(world.clock, process)
        self.world, self.order = world, name
        self.epoch = name.epoch
        self.relays: dict[TopicPartition, Relay] = {}
        self.attempts: dict[TopicPartition, Attempt] = {}
        self.ended = ""
        self._offset = len(world.book.entries)
        self._beat = 0
        self._lease = self.clock.now
        self._stopping = False
        self._released: set[TopicPartition] = set()
        self._woken = False
        self._newest: dict[TopicPartition, Attempt] = {}
        world.book.readers.append(self._wake)
        self.after(self.clock.latency(), lambda: self.spawn(self._tick()))

    # --- the ledger ----------------------------------------------------------------------------------------------

    def _wake(self) -> None:
        if not self._woken and not self.ended:
            self._woken = True
            self.after(self.clock.latency(), self._read)

    def _read(self) -> None:
        self._woken = False
        if self.ended:
            return
        book = self.world.book
        end = len(book.entries)
        if self.clock.rng.random() < 0.2:
            end = self.clock.rng.randint(self._offset, end)  # a prefix; the rest comes with the next answer
        records, self._offset = book.read(self._offset, end)
        if self._offset < len(book.entries):
            self._wake()
        opens: list[Open] = []
        for record in records:
            self._take(record, opens)
        if opens and not self.ended:
            self.spawn(self._start(opens))

    def _append(self, records: list[LedgerRecord], may: Any) -> Procedure:
        acked = yield from self.insist(lambda: self.world.book.append(records, self.name), may)
        return acked is not LOST

    def _take(self, record: LedgerRecord, opens: list[Open]) -> None:
        me = (self.order.slot, self.order.incarnation)
        match record:
            case Owner():
                self._take_owner(record)
            case Open():
                self._take_open(record, opens)
            case Started() if self.attempts.get(record.partition) == record.attempt:
                if record.process != self.name:
                    self._leave(record.partition)
            case Release() if self.attempts.get(record.partition) == record.attempt:
                self._release(record.partition)
            case SlotBeat() if (record.slot, record.incarnation) == me and record.process != self.name:
                self.leave_all("another process runs this slot")
            case SlotStop() if (record.slot, record.incarnation) == me:
                self._stopping = True
                for partition in list(self.attempts):
                    self._release(partition)
            case _:
                pass

    def _take_owner(self, record: Owner) -> None:
        if record.name == self.order.owner:
            self.epoch = max(self.epoch, record.producer_epoch)
            self._lease = self.clock.now
        elif (record.generation, record.producer_epoch) > (self.order.generation, self.epoch):
            self.leave_all(f"flow owned by {record.name}")

    def _take_open(self, record: Open, opens: list[Open]) -> None:
        known = self.attempts.get(record.partition)
        newest = self._newest.get(record.partition) if self.world.rules.slots_know_newest_open else known
        if newest is not None and record.attempt <= newest:
            return
        self._newest[record.partition] = record.attempt
        if known is not None:
            self._leave(record.partition)
        if (record.slot, record.incarnation) == (self.order.slot, self.order.incarnation):
            self.attempts[record.partition] = record.attempt
            opens.append(record)

    def is_mine(self, attempt: Attempt, partition: TopicPartition) -> bool:
        """Whether the attempt is still this slot's."""
        return not self.ended and self.attempts.get(partition) == attempt

    def leave_all(self, reason: str) -> None:
        """Ends the slot."""
        if self.ended:
            return
        for relay in self.relays.values():
            relay.copy.end(Phase.LEFT)
        self.ended = reason
        self.clock.note(f"{self.name} ends: {reason}")
        self.world.book.readers.remove(self._wake)
        for relay in self.relays.values():
            if relay.lane is not None:
                relay.lane.cut()

    def _leave(self, partition: TopicPartition) -> None:
        relay = self.relays.pop(partition, None)
        if relay is not None:
            relay.copy.end(Phase.LEFT)
            relay.queue.clear()
        self.attempts.pop(partition, None)

    def _release(self, partition: TopicPartition) -> None:
        relay = self.relays.get(partition)
        if relay is None:
            self._released.add(partition)
            return
        relay.copy.closing = True
        relay.queue.clear()
        relay.copy.read_from = relay.copy.next.upstream
        self._attend(relay)

    # --- once a tick ---------------------------------------------------------------------------------------------

    def _tick(self) -> Procedure:
        while not self.ended:
            if self.clock.now - self._lease > LEASE_S:
                self.leave_all("lease over")
                return
            self._beat += 1
            records: list[LedgerRecord] = [SlotBeat(self.order.slot, self.order.incarnation, self._beat, self.name, 0)]
            receipts = self._receipts()
            acked = yield from self._append([*records, *receipts], lambda: not self.ended)
            if acked:
                for receipt in receipts:
                    relay = self.relays.get(receipt.partition)
                    if relay is not None and relay.copy.order.attempt == receipt.attempt:
                        relay.copy.receipt_acked(receipt, self.clock.now)
                        self._pump(relay)
            if self._stopping and not self.attempts:
                self.leave_all("stopped")
            yield self.sleep(TICK_S)

    def _receipts(self) -> list[Receipt]:
        found = []
        for relay in self.relays.values():
            if relay.closing:
                continue
            if not self.world.rules.proven_receipts:
                _believe_appended(relay.copy, self.clock.now)
            receipt = relay.copy.receipt()
            if receipt is not None:
                self.world.judge.receipt(receipt, relay.copy)
                found.append(receipt)
        return found

    # --- opening -------------------------------------------------------------------------------------------------

    def _start(self, orders: list[Open]) -> Procedure:
        started: list[LedgerRecord] = [Started(o.partition, o.attempt, self.name) for o in orders]
        for order in orders:
            self._released.discard(order.partition)
        if self.world.rules.open_first:
            acked = yield from self._append(started, lambda: any(self.is_mine(o.attempt, o.partition) for o in orders))
            if not acked:
                return
        yield from self._check_owner()
        for order in orders:
            if not self.ended:
                self.spawn(self._open(order))

    def _check_owner(self) -> Procedure:
        rules = self.world.rules
        while rules.check_owner and not self.ended:
            shown = yield from self.insist(self.world.coordinator.describe)
            is_same = shown[0] == self.order.producer_id or not rules.owner_is_id_and_epoch
            if is_same and shown[1] <= self.epoch:
                return
            yield self.sleep(0.3)

    def _open(self, order: Open) -> Procedure:
        try:
            found = yield from self._find(order, PartitionCopy(order, self.clock.now))
        except ReplicationError as error:
            if self.is_mine(order.attempt, order.partition):
                yield from self._refuse(order, error)
            return
        if not self.is_mine(order.attempt, order.partition):
            return
        copy = PartitionCopy(order, self.clock.now)
        relay = Relay(copy, self.world.size_max)
        if not isinstance(found, Found):
            self._forfeit(relay, "TARGET_TRUNCATED", f"ends at {found.log_end}")
            return
        copy.resume(found.position, found.runs, self.clock.now, found.source_leader_epoch)
        copy.armed = copy.armed or not self.world.rules.first_alone
        copy.closing = order.partition in self._released or self._stopping
        self.relays[order.partition] = relay
        self.clock.note(f"{self.name} opens {order.partition} {order.attempt} at {copy.next}, armed {copy.armed}")
        self._attend(relay)

    def _refuse(self, order: Open, error: ReplicationError) -> Procedure:
        state = State(order.partition, order.attempt, "stopped", error.code, str(error))
        closed = Closed(order.partition, order.attempt, order.position)
        yield from self._append([state, closed], lambda: self.is_mine(order.attempt, order.partition))
        if self.is_mine(order.attempt, order.partition):
            self._leave(order.partition)

    def _find(self, order: Open, copy: PartitionCopy) -> Procedure:
        baseline = Baseline(
            partition=order.partition,
            target=TopicPartition(order.target_topic, order.partition.partition),
            position=copy.proven,
            producer_ids=frozenset((order.producer_id,)),
            sequenced_by=(order.producer_id, order.producer_epoch),
            shared=order.shared,
            source_compacts=order.source_compacts,
            target_compacts=self.world.target_compacts[order.partition],
            compare_timestamps=True,
        )
        found = yield from finding_out(self, self.world, order, find_out(baseline))
        return found

    # --- copying -------------------------------------------------------------------------------------------------

    def _is_served(self, relay: Relay) -> bool:
        return not self.ended and self.relays.get(relay.partition) is relay

    def _attend(self, relay: Relay) -> None:
        if not self._is_served(relay):
            return
        copy = relay.copy
        if copy.phase is Phase.SETTLING:
            if not relay.settling:
                relay.settling = True
                self.spawn(self._settle(relay))
        elif copy.phase is Phase.FLOWING and not relay.closing and not relay.queue:
            is_over = relay.stop_reason is not None or copy.closing
            if is_over and not relay.fetching and (copy.is_quiet or not self.world.rules.quiet_close):
                relay.closing = True
                self.spawn(self._close(relay))
                return
        self._pump(relay)

    def _pump(self, relay: Relay) -> None:
        """Sends what may be sent, then fetches."""
        if not self._is_served(relay):
            return
        copy, now = relay.copy, self.clock.now
        while relay.queue and copy.may_send(now):
            lane = self._lane(relay)
            if lane is None:
                break
            self._send(relay, lane)
        held = copy.window_bytes + sum(len(p.buffer) for p in relay.queue)
        if (
            copy.phase is Phase.FLOWING
            and not relay.fetching
            and now >= relay.fetch_after
            and not copy.closing
            and relay.stop_reason is None
            and held < self.world.window_bytes
        ):
            relay.fetching = True
            self.spawn(self._fetch(relay))

    def _lane(self, relay: Relay) -> Lane | None:
        if relay.lane is not None and not relay.lane.broken:
            return relay.lane
        if relay.copy.window:
            return None
        lane = relay.lane = Lane(self.clock, self, self.world.targets[relay.partition])
        lane.on_break = lambda: self._lane_lost(relay, lane)
        self.world.lanes.append(lane)
        return lane

    def _lane_lost(self, relay: Relay, lane: Lane) -> None:
        if relay.lane is lane:
            relay.lane = None
        relay.copy.connection_lost("the connection broke")
        self._attend(relay)

    def _send(self, relay: Relay, lane: Lane) -> None:
        outgoing, copy = relay.queue.popleft(), relay.copy
        order, now = copy.order, self.clock.now
        size = len(outgoing.buffer)
        sent = copy.send(outgoing.count, outgoing.pieces, outgoing.next_upstream, size, 0, outgoing.max_timestamp, now)
        stamp(outgoing.buffer, order.producer_id, order.producer_epoch, sent.sequence)
        upstreams = tuple(u for first, length in outgoing.pieces for u in range(first, first + length))
        producer = Producer(order.producer_id, order.producer_epoch, sent.sequence)
        request = Request(bytes(outgoing.buffer), producer, outgoing.count, order.attempt, upstreams, self.name)
        self.world.judge.sent(self, order, request)

        def answered(error: int, base: int) -> None:
            copy.answer(sent, error=error, base_offset=base, message="", now=self.clock.now)
            self._attend(relay)

        lane.send(request, answered)

    def _fetch(self, relay: Relay) -> Procedure:
        copy = relay.copy
        asked = copy.read_from
        committed = copy.order.read_committed
        source = self.world.sources[relay.partition]
        chunk = yield self.call(lambda: source.fetch(asked, read_committed=committed, batches_max=8))
        relay.fetching = False
        if not self._is_served(relay):
            return
        if chunk is LOST or not chunk.batches:
            relay.fetch_after = self.clock.now + POLL_S
            self.after(POLL_S, lambda: self._attend(relay))
        elif copy.read_from == asked and copy.phase is Phase.FLOWING and not copy.closing:
            limits = PackLimits(
                relay.size_max, self.world.merge_below, relay.size_max, 1 << 20, splice_below_bytes=self.world.merge_below
            )
            packed = pack(chunk.batches, from_offset=asked, until_offset=None, aborted=chunk.aborted, limits=limits)
            self._enqueue(relay, packed)
        self._attend(relay)

    def _enqueue(self, relay: Relay, packed: Any) -> None:
        copy = relay.copy
        if packed.outgoing_batches:
            packed.outgoing_batches[-1].next_upstream = packed.next_upstream
            relay.queue.extend(packed.outgoing_batches)
        elif relay.queue:
            relay.queue[-1].next_upstream = packed.next_upstream
        else:
            copy.skip_to(packed.next_upstream, self.clock.now)
        copy.read_from = packed.next_upstream
        if packed.stopped is not None:
            relay.stop_reason = packed.stopped

    # --- doubt and end -------------------------------------------------------------------------------------------

    def _settle(self, relay: Relay) -> Procedure:
        copy, doubt = relay.copy, relay.copy.doubt
        assert doubt is not None
        self.clock.note(f"{self.name} doubts {relay.partition}: {doubt} at {copy.proven}")
        relay.queue.clear()
        relay.lane = None
        try:
            if doubt.expect is Expect.FENCED:
                self._forfeit(relay, "FENCED", f"error {doubt.error}")
                return
            if copy.order.source_compacts:
                self._forfeit(relay, "IN_DOUBT", doubt.message)
                return
            if doubt.expect is Expect.SPLIT:
                relay.size_max = self.world.targets[relay.partition].size_max
            if self.world.rules.read_before_resume:
                found = yield from self._find(copy.order, copy)
            else:
                found = Found(copy.proven)
                yield self.sleep(0.05)
        except ReplicationError as error:
            self._forfeit(relay, error.code, str(error))
            return
        finally:
            relay.settling = False
        if not self.is_mine(copy.order.attempt, relay.partition):
            return
        if not isinstance(found, Found):
            self._forfeit(relay, "TARGET_TRUNCATED", f"ends at {found.log_end}")
            return
        self.clock.note(f"{self.name} resumes {relay.partition} at {found.position}")
        relay.queue.clear()
        copy.resume(found.position, found.runs, self.clock.now, found.source_leader_epoch)
        copy.armed = copy.armed or not self.world.rules.first_alone
        if doubt.expect is Expect.REFUSED:
            relay.stop_reason = ReplicationError(f"error {doubt.error}")
        self._attend(relay)

    def _forfeit(self, relay: Relay, code: str, reason: str) -> None:
        order = relay.copy.order
        relay.copy.end(Phase.STOPPED)
        if self.relays.get(order.partition) is relay:
            del self.relays[order.partition]
        relay.queue.clear()
        self.spawn(self._say_lost(order, code, reason))

    def _say_lost(self, order: Open, code: str, reason: str) -> Procedure:
        state = State(order.partition, order.attempt, "lost", code, reason)
        yield from self._append([state], lambda: self.is_mine(order.attempt, order.partition))
        if self.is_mine(order.attempt, order.partition):
            self._leave(order.partition)

    def _close(self, relay: Relay) -> Procedure:
        copy, attempt = relay.copy, relay.copy.order.attempt
        position = copy.close_position if self.world.rules.quiet_close else copy.next
        assert position is not None
        copy.closing = True
        records: list[LedgerRecord] = []
        receipt = copy.receipt()
        if receipt is not None:
            self.world.judge.receipt(receipt, copy)
            records.append(receipt)
        if relay.stop_reason is not None:
            reason = relay.stop_reason
            records.append(State(relay.partition, attempt, "stopped", reason.code, str(reason)))
        records.append(Closed(relay.partition, attempt, position))
        self.world.judge.closing(self, relay.partition, attempt)
        acked = yield from self._append(records, lambda: self.is_mine(attempt, relay.partition))
        relay.closing = False
        if acked:
            copy.end(Phase.CLOSED)
            if self.relays.get(relay.partition) is relay:
                del self.relays[relay.partition]
            if self.attempts.get(relay.partition) == attempt or not self.world.rules.closing_ends_own_attempt:
                self.attempts.pop(relay.partition, None)


def _believe_appended(copy: PartitionCopy, now: float) -> None:
    """The broken rule of L5: an error with a base offset counts as written."""
    while copy.window and copy.window[0].appended:
        copy._prove_through(copy.window[0], now)
