"""The target: partitions with a leader, followers that lag, producer state that can be forgotten, and a coordinator.

Rules by number are those of protocol.md, section 0.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from simulation.events import Clock, Process
from sparkmirror.ledger import Attempt, Ends
from sparkmirror.wire import BatchView, Producer, Record, build_batch, build_sparse_batch, read_batches, read_records

__all__ = ["Coordinator", "Lane", "Request", "Stored", "TargetPartition"]

MODULUS = 1 << 31
NOT_LEADER, TIMED_OUT, OUT_OF_ORDER, OLD_EPOCH, FENCED = 6, 7, 45, 47, 90
Reply = Callable[[int, int], None]


@dataclass(slots=True)
class Request:
    """One batch on its way, and whose it is (which no broker knows)."""

    raw: bytes
    producer: Producer
    count: int
    attempt: Attempt
    upstreams: tuple[int, ...]
    sender: str
    size: int = 0


@dataclass(slots=True)
class Stored:
    """One batch in the log."""

    base: int
    count: int
    raw: bytes
    producer: Producer
    control: bool
    leader_epoch: int
    attempt: Attempt | None
    upstreams: tuple[int, ...]  # what each record is a copy of, for the judge
    old: bool = False  # its timestamps are older than the expiry of producer state

    @property
    def end(self) -> int:
        return self.base + self.count


@dataclass(slots=True)
class ProducerState:
    """What a leader remembers of one producer id."""

    epoch: int
    batches: deque[tuple[int, int, int]] = field(default_factory=lambda: deque(maxlen=5))
    old: bool = False

    @property
    def next_sequence(self) -> int:
        return (self.batches[-1][1] + 1) % MODULUS if self.batches else 0


def _placed(raw: bytes, base: int, leader_epoch: int) -> bytes:
    """The batch as a broker stores it: base offset and leader epoch lie outside its checksum."""
    return struct.pack(">q", base) + raw[8:12] + struct.pack(">i", leader_epoch) + raw[16:]


class TargetPartition:
    """One partition of the target, seen through its leader."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.log: list[Stored] = []
        self.high_watermark = 0
        self.log_start = 0
        self.leader_epoch = 0
        self.has_leader = True
        self.stalled = False  # a follower is slow: the high watermark stands still
        self.follower_s = 0.02
        self.refusals = 0.0  # chance of a retriable refusal, base −1 (R6)
        self.size_max = 1 << 20
        self.old_data = False
        self.producers: dict[int, ProducerState] = {}
        self.on_append: Callable[[TargetPartition, Stored, Request], None] = lambda *_: None
        self.on_crash: Callable[[], None] = lambda: None  # its connections break
        self.unclean = 0
        self.forgotten = 0
        self._owed: list[tuple[int, int, Reply]] = []

    @property
    def log_end(self) -> int:
        return self.log[-1].end if self.log else self.log_start

    # --- writing -------------------------------------------------------------------------------------------------

    def produce(self, request: Request, reply: Reply) -> None:
        """One batch of a client; `reply` gets error and base offset once all replicas have it."""
        error = self._judge(request)
        if error is not None:
            self.clock.note(f"{self.name} refuses {error} {self._say(request)}")
            reply(error, -1)
            return
        repeated = self._repeated(request.producer, request.count)
        if repeated is not None:
            self.clock.note(f"{self.name} knows {self._say(request)} at {repeated}")
            self._owe(repeated, request.count, reply)
            return
        stored = Stored(
            self.log_end,
            request.count,
            _placed(request.raw, self.log_end, self.leader_epoch),
            request.producer,
            False,
            self.leader_epoch,
            request.attempt,
            request.upstreams,
            self.old_data,
        )
        self._append(stored)
        if self.clock.trace is not None:
            self.clock.note(f"{self.name} appends {self._say(request)} at {stored.base}")
        self._owe(stored.base, stored.count, reply)
        self.on_append(self, stored, request)

    def _say(self, request: Request) -> str:
        p, up = request.producer, request.upstreams
        return f"id {p.producer_id}/{p.producer_epoch} seq {p.base_sequence}+{request.count} up {up[0]}..{up[-1]} of {request.sender}"  # noqa: E501

    def _judge(self, request: Request) -> int | None:
        if not self.has_leader:
            return NOT_LEADER
        if len(request.raw) > self.size_max:
            return 10
        if self.refusals and self.clock.rng.random() < self.refusals:
            return self.clock.rng.choice((3, 5, NOT_LEADER, 13, 19, 56))
        producer, state = request.producer, self.producers.get(request.producer.producer_id)
        if state is None:
            return None  # R4: whoever is unknown may start anywhere
        if producer.producer_epoch < state.epoch:
            return OLD_EPOCH
        if producer.producer_epoch > state.epoch:
            return None if producer.base_sequence == 0 else OUT_OF_ORDER
        if self._repeated(producer, request.count) is not None:
            return None
        return None if producer.base_sequence == state.next_sequence else OUT_OF_ORDER

    def _repeated(self, producer: Producer, count: int) -> int | None:
        """R5: the base offset of the same sequences among the last five batches."""
        state = self.producers.get(producer.producer_id)
        if state is None or state.epoch != producer.producer_epoch:
            return None
        last = (producer.base_sequence + count - 1) % MODULUS
        for first_sequence, last_sequence, base in state.batches:
            if (first_sequence, last_sequence) == (producer.base_sequence, last):
                return base
        return None

    def marker(self, producer_id: int, producer_epoch: int) -> bool:
        """A control batch that ends an empty transaction: the fence (R9)."""
        if not self.has_leader:
            return False
        state = self.producers.get(producer_id)
        if state is not None and producer_epoch < state.epoch:
            return True  # the coordinator's own late retry, refused
        producer = Producer(producer_id, producer_epoch, -1)
        raw = build_batch([Record(0, 0, b"\x00\x00\x00\x01", b"\x00" * 6)], producer=producer, attributes=0x30)
        self._append(
            Stored(self.log_end, 1, _placed(raw, self.log_end, self.leader_epoch), producer, True, self.leader_epoch, None, ())  # noqa: E501
        )
        self.clock.note(f"{self.name} marker of {producer_id}/{producer_epoch} at {self.log[-1].base}")
        return True

    def _append(self, stored: Stored) -> None:
        self.log.append(stored)
        self._remember(stored)
        epoch = self.leader_epoch
        self.clock.later(self.follower_s * (0.5 + self.clock.rng.random()), lambda: self._replicated(stored.end, epoch))

    def _remember(self, stored: Stored) -> None:
        producer = stored.producer
        state = self.producers.get(producer.producer_id)
        if state is None or state.epoch != producer.producer_epoch:
            state = self.producers[producer.producer_id] = ProducerState(producer.producer_epoch)
        state.old = stored.old
        if not stored.control:
            last = (producer.base_sequence + stored.count - 1) % MODULUS
            state.batches.append((producer.base_sequence, last, stored.base))

    def _owe(self, base: int, count: int, reply: Reply) -> None:
        self._owed.append((base, count, reply))
        self._pay()

    def _replicated(self, end: int, leader_epoch: int) -> None:
        if self.leader_epoch == leader_epoch and not self.stalled and self.has_leader:
            self.high_watermark = max(self.high_watermark, min(end, self.log_end))
            self._pay()

    def catch_up(self) -> None:
        """The followers have everything."""
        self.stalled = False
        if self.has_leader:
            self.high_watermark = self.log_end
            self._pay()

    def _pay(self) -> None:
        owed, self._owed = self._owed, []
        for base, count, reply in owed:
            if base + count <= self.high_watermark:
                reply(0, base)
            else:
                self._owed.append((base, count, reply))

    def preload(self, count: int) -> None:
        """Records that were there before us, by a MirrorMaker 2 without idempotence."""
        raw = build_batch([Record(i, i, b"old", b"old%d" % i) for i in range(count)])
        producer = Producer(-1, -1, -1)
        raw = _placed(raw, self.log_end, 0)
        self.log.append(Stored(self.log_end, count, raw, producer, False, 0, None, ()))
        self.high_watermark = self.log_end

    def time_out(self) -> None:
        """R6: what waits for replication is answered with an error and its base: appended, unproven."""
        owed, self._owed = self._owed, []
        for base, _, reply in owed:
            reply(self.clock.rng.choice((TIMED_OUT, 20)), base)

    # --- what happens to a log -----------------------------------------------------------------------------------

    def lose_leader(self, *, keep: int | None = None) -> None:
        """The leader is gone; the next one has everything below `keep`, by default some point at or above the HW."""
        rng = self.clock.rng
        owed, self._owed = self._owed, []
        if rng.random() < 0.6:
            for base, _, reply in owed:
                reply(NOT_LEADER, base)  # R6
        else:
            self.on_crash()
        borders = [s.base for s in self.log if s.base >= self.high_watermark] + [self.log_end]
        cut = rng.choice(borders) if keep is None else keep
        if cut < self.high_watermark:
            self.unclean += 1
        self.clock.note(f"{self.name} loses its leader, keeps {cut} of {self.log_end}, high watermark {self.high_watermark}")
        self.log = [s for s in self.log if s.end <= cut]
        self.high_watermark = min(self.high_watermark, self.log_end)
        self.has_leader = False
        self._rebuild()

    def new_leader(self) -> None:
        """The next leader serves."""
        self.leader_epoch += 1
        self.has_leader = True
        if not self.stalled:
            self.clock.later(self.follower_s, self.catch_up)

    def _rebuild(self) -> None:
        known = set(self.producers)
        self.producers = {}
        for stored in self.log:
            if stored.producer.producer_id in known:
                self._remember(stored)

    def forget(self) -> None:
        """R2: state whose last batch has old timestamps is dropped."""
        for producer_id in [i for i, state in self.producers.items() if state.old]:
            del self.producers[producer_id]
            self.forgotten += 1
            self.clock.note(f"{self.name} forgets id {producer_id}")

    def compact(self, limit: int) -> None:
        """The cleaner: of every key below `limit` only the last record below `limit` is left; offsets stay (R14)."""
        views = {s.base: read_batches(memoryview(s.raw), 0, len(s.raw))[0] for s in self.log if s.end <= limit and s.raw}
        last: dict[bytes | None, int] = {}
        for view in views.values():
            if not view.is_control:
                last.update((record.key, record.offset) for record in read_records(view))
        for stored in self.log[:-1]:
            view = views.get(stored.base)
            if view is None or stored.control:
                continue
            kept = [r for r in read_records(view) if last[r.key] == r.offset]
            if len(kept) < view.count:
                stored.raw = _sparse(view, kept)

    def delete_until(self, offset: int) -> None:
        """Retention or DeleteRecords (R3): whole batches go, the state stays."""
        keep = [s for s in self.log if s.end > offset]
        self.log_start = max(self.log_start, keep[0].base if keep else self.log_end)
        self.log = keep

    # --- reading -------------------------------------------------------------------------------------------------

    def ends(self) -> Ends | None:
        """What ListOffsets says (R1); None without a leader."""
        if not self.has_leader:
            return None
        return Ends(self.high_watermark, self.log_end, self.leader_epoch, self.log_start)

    def fetch(self, offset: int, batches_max: int) -> list[BatchView] | None:
        """Batches up to the high watermark from the one that holds `offset`; None without a leader."""
        if not self.has_leader:
            return None
        if not self.log_start <= offset <= self.log_end:
            return []
        found = [s.raw for s in self.log if s.end > offset and s.end <= self.high_watermark and s.raw][:batches_max]
        joined = b"".join(found)
        return read_batches(memoryview(joined), 0, len(joined))

    def copies(self) -> Iterable[tuple[int, int]]:
        """(downstream, upstream) of every record that was written and not lost, compacted or not."""
        for stored in self.log:
            yield from ((stored.base + at, upstream) for at, upstream in enumerate(stored.upstreams))


def _sparse(view: BatchView, kept: list[Record]) -> bytes:
    """The batch with fewer records: base offset, last offset and base sequence stay as they were (R14)."""
    if not kept:
        return b""
    producer = Producer(view.producer_id, view.producer_epoch, view.base_sequence)
    first = Record(view.base_offset, kept[0].timestamp, None, None)
    raw = bytearray(build_sparse_batch(kept, producer=producer))
    if kept[0].offset != first.offset or kept[-1].offset != view.last_offset:
        raw = _respan(view, kept, producer)
    struct.pack_into(">i", raw, 12, view.leader_epoch)
    return bytes(raw)


def _respan(view: BatchView, kept: list[Record], producer: Producer) -> bytearray:
    from sparkmirror.wire import record_batch

    deltas = [record.offset - view.base_offset for record in kept]
    raw = record_batch._build(kept, deltas, view.base_offset, view.attributes, producer)
    struct.pack_into(">i", raw, 23, view.last_offset_delta)
    struct.pack_into(">I", raw, record_batch.CRC_AT, record_batch.crc32c(memoryview(raw)[record_batch.CRC_FROM :]))
    return raw


class Coordinator:
    """The transaction coordinator for the flow's one transactional id."""

    def __init__(self, clock: Clock, partitions: Iterable[TargetPartition]) -> None:
        self.clock = clock
        self.partitions = list(partitions)
        self.producer_id, self.epoch = 7, -1
        self.double_markers = 0.0
        self._before: tuple[int, int] | None = None
        self._open: set[str] = set()

    def init_producer(self, held: tuple[int, int] | None) -> tuple[int, int] | int:
        """InitProducerId: unconditional it always succeeds (R10), conditional it may say 90."""
        now = (self.producer_id, self.epoch)
        if held is not None and held != now:
            return now if held == self._before else FENCED
        if self._open:  # a fence that was never ended is aborted under a higher epoch first
            self.epoch += 1
            self._end()
        self._before = held
        self.epoch += 1
        self.clock.note(f"coordinator: epoch {self.producer_id}/{self.epoch}")
        return self.producer_id, self.epoch

    def expire(self) -> None:
        """R11: the transactional id is forgotten; the next one asks and gets a new id."""
        self.producer_id, self.epoch, self._before = self.producer_id + 1, -1, None
        self._open.clear()
        self.clock.note(f"coordinator: the flow's id expired, next is {self.producer_id}")

    def describe(self) -> tuple[int, int]:
        """DescribeTransactions (R16)."""
        return self.producer_id, self.epoch

    def add(self, producer: tuple[int, int], names: Iterable[str]) -> int:
        """AddPartitionsToTxn."""
        if producer != (self.producer_id, self.epoch):
            return FENCED
        self._open |= set(names)
        return 0

    def end(self, producer: tuple[int, int]) -> int:
        """EndTxn v4."""
        if producer != (self.producer_id, self.epoch):
            return FENCED
        self._end()
        return 0

    def _end(self) -> None:
        names, self._open = self._open, set()
        for partition in self.partitions:
            if partition.name in names:
                self._write(partition, self.producer_id, self.epoch)
                if self.clock.rng.random() < self.double_markers:  # O13
                    self._write(partition, self.producer_id, self.epoch)

    def _write(self, partition: TargetPartition, producer_id: int, epoch: int) -> None:
        """WriteTxnMarkers, acked by all: written again while the leader that took it died with it."""

        def write() -> None:
            if not partition.marker(producer_id, epoch):
                self.clock.later(0.2, write)
                return
            end, leader_epoch = partition.log_end, partition.leader_epoch
            self.clock.later(0.3, lambda: check(end, leader_epoch))

        def check(end: int, leader_epoch: int) -> None:
            if partition.high_watermark >= end and partition.leader_epoch == leader_epoch:
                return
            if partition.leader_epoch == leader_epoch:
                self.clock.later(0.3, lambda: check(end, leader_epoch))
            else:
                write()

        self.clock.later(self.clock.latency(), write)


class Lane:
    """One connection: requests arrive in order, answers come in order, and when it breaks nobody knows what arrived."""

    def __init__(self, clock: Clock, owner: Process, partition: TargetPartition) -> None:
        self.clock, self.owner, self.partition = clock, owner, partition
        self.broken = False
        self.on_break: Callable[[], None] = lambda: None
        self.flying: list[Request] = []  # sent, not arrived
        self._arrives = self._returns = 0.0
        self._answers: deque[list[Any]] = deque()
        self._fate = "whole"
        self._late_s = 0.0

    def send(self, request: Request, on_answer: Reply) -> None:
        """Puts a request on its way."""
        self.flying.append(request)
        self._arrives = max(self._arrives, self.clock.now + self.clock.latency())
        self.clock.later(self._arrives - self.clock.now, lambda: self._arrive(request, on_answer))

    def cut(self) -> None:
        """The connection breaks; what is on its way arrives, arrives late, or only its beginning arrives."""
        if self.broken:
            return
        self.broken = True
        rng = self.clock.rng
        self._fate = rng.choice(("whole", "late", "late", "nothing"))
        self._late_s = rng.choice((0.05, 0.5, 3.0, 9.0)) * (0.5 + rng.random())
        self.clock.note(f"lane of {self.owner.name} to {self.partition.name} breaks, {len(self.flying)} on the way: {self._fate}")  # noqa: E501
        self._answers.clear()
        self.owner.after(self.clock.latency(), self.on_break)

    def _arrive(self, request: Request, on_answer: Reply) -> None:
        if self.broken and self._fate == "nothing":
            self.flying.remove(request)
        elif self.broken and self._fate == "late":
            self.clock.later(self._late_s, lambda: self._serve(request, on_answer))
        else:
            self._serve(request, on_answer)

    def _serve(self, request: Request, on_answer: Reply) -> None:
        self.flying.remove(request)
        place: list[Any] = [None, on_answer]
        self._answers.append(place)

        def reply(error: int, base: int) -> None:
            place[0] = (error, base)
            self._flush()

        self.partition.produce(request, reply)

    def _flush(self) -> None:
        while self._answers and self._answers[0][0] is not None:
            (error, base), on_answer = self._answers.popleft()
            if self.broken:
                continue
            self._returns = max(self._returns, self.clock.now + self.clock.latency())
            self.clock.later(self._returns - self.clock.now, self._deliver(on_answer, error, base))

    def _deliver(self, on_answer: Reply, error: int, base: int) -> Callable[[], None]:
        def hand_over() -> None:
            if not self.broken:
                on_answer(error, base)

        return lambda: self.owner.do(hand_over)
