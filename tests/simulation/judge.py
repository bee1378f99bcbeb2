"""The promises, checked at every step that could break one, and at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulation.events import Violation
from simulation.target import MODULUS, Request, Stored, TargetPartition
from sparkmirror.ledger import Attempt, Closed, Gap, LedgerRecord, Open, PartitionCopy, Receipt, Started
from sparkmirror.model import TopicPartition

if TYPE_CHECKING:
    from simulation.slots import SlotActor
    from simulation.world import World

__all__ = ["Judge"]


class Judge:
    """Sees everything, changes nothing."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.opened: dict[TopicPartition, dict[Attempt, Open]] = {}
        self.started: dict[tuple[TopicPartition, Attempt], str] = {}
        self.closed: set[tuple[TopicPartition, Attempt]] = set()
        self.damaged: dict[TopicPartition, str] = {}
        self.gapped: set[TopicPartition] = set()
        self._closing: set[tuple[TopicPartition, Attempt]] = set()
        self.sent_batches = 0
        world.book.on_append = self._ledger
        for partition in world.targets:
            self.watch(partition)

    def watch(self, partition: TopicPartition) -> None:
        """Looks at every append to a partition of the target."""
        self.world.targets[partition].on_append = lambda target, stored, request: self._appended(
            partition, target, stored, request
        )

    def _ledger(self, record: LedgerRecord, writer: str) -> None:
        match record:
            case Open():
                self.opened.setdefault(record.partition, {})[record.attempt] = record
            case Started():
                self.started[record.partition, record.attempt] = record.process
            case Closed() if ".slot" in writer:  # a driver's closed proves nothing without its fence
                self.closed.add((record.partition, record.attempt))
            case Gap():
                self.gapped.add(record.partition)
            case Closed() if self.opened[record.partition][record.attempt].is_move:
                pass  # nobody was ever given it
            case Closed():
                self._check_recoverer(record, writer)
            case _:
                pass

    def _check_recoverer(self, record: Closed, writer: str) -> None:
        """A driver says where an attempt ended only if its own fence is later than the attempt."""
        for driver in self.world.drivers:
            if driver.name == writer and driver.ownership is not None:
                owner = driver.ownership.owner
                if record.attempt[:2] >= (owner.generation, owner.producer_epoch):
                    raise Violation(f"invariant 2: {writer} closes {record.attempt}, which it has not fenced")

    # --- at every step -------------------------------------------------------------------------------------------

    def sent(self, slot: SlotActor, order: Open, request: Request) -> None:
        """A slot hands a batch to its connection."""
        self.sent_batches += 1
        place = (order.partition, order.attempt)
        if order.attempt not in self.opened.get(order.partition, {}) or place not in self.started:
            raise Violation(f"invariant 1: {slot.name} sends before open and started of {place} are in the ledger")
        if place in self._closing:
            raise Violation(f"invariant 8: {slot.name} sends after it wrote closed of {place}")
        if slot.ended or slot.attempts.get(order.partition) != order.attempt:
            raise Violation(f"invariant 9: {slot.name} sends for {place} after it left")

    def closing(self, slot: SlotActor, partition: TopicPartition, attempt: Attempt) -> None:
        """A slot is about to write closed."""
        self._closing.add((partition, attempt))
        target = self.world.targets[partition]
        known = {u for _, u in target.copies()}
        for lane in self.world.lanes:
            for request in lane.flying:
                if lane.partition is target and request.attempt == attempt and not known.issuperset(request.upstreams):
                    raise Violation(f"invariant 8: {slot.name} closes {partition} while {request.upstreams} are unknown")

    def receipt(self, receipt: Receipt, copy: PartitionCopy) -> None:
        """A slot is about to write a receipt."""
        partition, order = receipt.partition, copy.order
        target = self.world.targets[partition]
        written = (receipt.position.sequence - order.position.sequence) % MODULUS
        if receipt.records != written and not self.world.target_compacts[partition]:
            raise Violation(f"invariant 7: {receipt} counts {receipt.records}, its sequences {written}")
        if target.unclean or target.forgotten:
            return
        if receipt.position.downstream > target.high_watermark:
            raise Violation(f"invariant 6: {receipt} covers what is not replicated, {target.high_watermark}")
        there = dict(target.copies())
        for run in receipt.runs:
            for at in range(run.length):
                if there.get(run.downstream + at) != run.upstream + at:
                    raise Violation(f"invariant 6: {receipt} is wrong at {run}+{at}: {there.get(run.downstream + at)}")

    def _appended(self, partition: TopicPartition, target: TargetPartition, stored: Stored, request: Request) -> None:
        self._check_line(partition, target, request)
        last = max((s.upstreams[-1] for s in target.log[:-1] if s.upstreams), default=-1)
        if stored.upstreams[0] <= last:
            self._damage(partition, f"twice or out of order: {stored.upstreams} by {request.sender} after {last}")
        first = self.world.starts[partition].upstream if partition in self.world.starts else 0
        source = self.world.sources[partition]
        if not source.compacts:
            wanted = source.wanted(self.world.read_committed)
            given_up = self.given_up(partition)
            expected = next((u for u in wanted if u > last and u >= first and u not in given_up), None)
            if stored.upstreams[0] != expected:
                self._damage(partition, f"a hole: {stored.upstreams} by {request.sender} after {last}, {expected} expected")

    def _check_line(self, partition: TopicPartition, target: TargetPartition, request: Request) -> None:
        """Invariant 2: before a batch of this attempt every earlier one is closed, or fenced in the log."""
        if target.forgotten or target.unclean:
            return
        for attempt in self.opened[partition]:
            if attempt >= request.attempt or (partition, attempt) in self.closed:
                continue
            order = self.opened[partition][attempt]
            if order.producer_id != request.producer.producer_id:
                continue  # no fence is possible: the lease has passed
            fences = (s.producer for s in target.log if s.control)
            if any(f.producer_id == order.producer_id and f.producer_epoch > order.producer_epoch for f in fences):
                continue
            if not any(s.attempt == attempt for s in target.log) and not self._can_still_write(partition, attempt):
                continue
            raise Violation(f"invariant 2: {partition}: {request.attempt} writes while {attempt} has no end")

    def _can_still_write(self, partition: TopicPartition, attempt: Attempt) -> bool:
        target = self.world.targets[partition]
        if any(r.attempt == attempt for lane in self.world.lanes if lane.partition is target for r in lane.flying):
            return True
        for slot in self.world.slot_actors:
            relay = slot.relays.get(partition)
            if slot.alive and not slot.ended and relay is not None and relay.copy.order.attempt == attempt:
                return True
        return False

    def _damage(self, partition: TopicPartition, what: str) -> None:
        self.world.clock.note(f"DAMAGE {partition}: {what}")
        target = self.world.targets[partition]
        if not target.unclean and not target.forgotten:
            raise Violation(f"{partition}: {what}")
        self.damaged.setdefault(partition, what)

    # --- at the end ----------------------------------------------------------------------------------------------

    def final(self) -> None:
        """Everything is copied once, in order, or the partition is stopped with a reason that is allowed."""
        for partition in self.world.targets:
            told = self.world.is_told(partition)
            if told:
                self._check_told(partition, told)
            else:
                self._check_copy(partition)
                self._check_map(partition)

    def given_up(self, partition: TopicPartition) -> set[int]:
        """What need not be copied, by the ledger's word."""
        if partition not in self.gapped:
            return set()
        gaps = self.world.book.view().of(partition).accepted_gaps()
        return {at for gap in gaps for at in range(gap.upstream, gap.until)}

    def _check_told(self, partition: TopicPartition, told: str) -> None:
        target = self.world.targets[partition]
        if not target.unclean and not target.forgotten:
            raise Violation(f"{partition}: stopped with {told} for no reason")
        copied = [u for _, u in target.copies()]
        is_seen = not self.world.sources[partition].compacts  # else a hole is no damage that one could see
        if is_seen and partition not in self.damaged and not target.unclean:
            raise Violation(f"{partition}: stopped with {told}, but the copy is sound: {copied}")

    def _check_copy(self, partition: TopicPartition) -> None:
        world = self.world
        source, target = world.sources[partition], world.targets[partition]
        first = world.starts[partition].upstream if partition in world.starts else 0
        copied = [u for _, u in target.copies()]
        wanted = [u for u in source.wanted(world.read_committed) if u >= first]
        if copied != sorted(set(copied)):
            raise Violation(f"{partition}: twice or out of order: {copied}")
        must = [u for u in source.survivors(world.read_committed) if u >= first]
        missing = sorted(set(must) - set(copied) - self.given_up(partition))
        if missing:
            raise Violation(f"{partition}: missing {missing} at the end; damage: {self.damaged.get(partition)}")
        if not set(copied) <= set(wanted):
            raise Violation(f"{partition}: copied what is not wanted: {sorted(set(copied) - set(wanted))}")
        if not world.is_drained():
            raise Violation(f"{partition}: the flow does not come to rest")

    def _check_map(self, partition: TopicPartition) -> None:
        """The offset map is true, and whole where nothing was compacted."""
        world = self.world
        target, source = world.targets[partition], world.sources[partition]
        there = dict(target.copies())
        covered: set[int] = set()
        history = world.book.view().of(partition)
        if partition in self.damaged:
            return
        position = history.position()
        for run in history.runs():
            for at in range(run.length):
                if there.get(run.downstream + at) != run.upstream + at and run.downstream + at >= target.log_start:
                    found = there.get(run.downstream + at)
                    raise Violation(f"{partition}: map is false at {run}+{at}: {found} is there")
                covered.add(run.upstream + at)
        if covered & self.given_up(partition):
            raise Violation(f"{partition}: the map covers {sorted(covered & self.given_up(partition))}, which was given up")
        if position is None or source.compacts or world.target_compacts[partition]:
            return
        uncovered = [u for u in there.values() if u not in covered and u < position.upstream]
        if uncovered:
            raise Violation(f"{partition}: the map says nothing of {uncovered}")
