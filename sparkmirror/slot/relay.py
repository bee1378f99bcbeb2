"""The hot path of a slot: fetch → gate → patch | merge | rebuild → produce → proven. Nothing here works per record.

A partition's batches wait in its queue until they may be sent; every produce request takes one batch from each waiting
partition of a connection. Order: a partition is bound to one produce connection, sequence numbers prove it. Fetches and
produces are pipelined; what limits them is bytes.
"""

from __future__ import annotations

import struct
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkmirror import failpoints
from sparkmirror.clusters import (
    FETCH_API,
    FETCH_BY_ID,
    FETCH_BY_NAME,
    PRODUCE_API,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    Buffer,
    FetchedPartition,
    FetchFrom,
    FetchLimits,
    PipelinedConnection,
    encode_fetch,
    encode_produce,
    parse_fetch,
    parse_produce,
)
from sparkmirror.errors import CorruptBatch, ReplicationError
from sparkmirror.ledger import PartitionCopy, Phase, Sent
from sparkmirror.model import TopicPartition
from sparkmirror.slot.loop import Loop
from sparkmirror.slot.side import ClusterSide
from sparkmirror.wire import OutgoingBatch, Packed, PackLimits, first_batch_size, pack, read_batches, stamp

# A partition with much to read must not wait behind a long poll for idle ones: it takes the other connection.
FETCH_CONNECTIONS = 2
# acks=all is answered one request at a time per connection (R7): partitions that wait for replicas are spread over a few.
# Without replicas nothing waits, and one connection makes fuller requests: a request costs a broker some 120 µs.
PRODUCE_CONNECTIONS = 2
# Fetched and not yet proven, per partition and per slot. 32 MiB cover 320 MB/s at a round trip of 100 ms.
PARTITION_BYTES_MAX = 32 << 20
SLOT_BYTES_MAX = 160 << 20
# Queued and not yet sent, per partition: one more fetch is on its way while the last one is being sent.
QUEUE_BYTES_MAX = 4 << 20
# Large enough that a request's cost does not show, small enough that a broker's request handler is not held up.
REQUEST_BYTES_MAX = 4 << 20
FETCH_RETRY_S = 0.2
NO_ID = bytes(16)


@dataclass(slots=True, eq=False)
class PartitionRelay:
    """One attempt's I/O: what is queued, where it is fetched, over which connection it goes out."""

    copy: PartitionCopy
    target: TopicPartition
    source_id: bytes
    target_id: bytes
    limits: Callable[[], PackLimits]
    queue: deque[OutgoingBatch] = field(default_factory=deque)
    queue_bytes: int = 0
    is_fetching: bool = False
    fetch_after: float = 0.0
    send_after: float = 0.0
    partition_bytes_max: int = 0
    stop_reason: ReplicationError | None = None
    pipelined: PipelinedConnection | None = None
    leader_epoch: int = -1
    last_epoch: int = -1  # of the batch that was fetched last: whether the source's log still holds it
    trouble: str = ""  # why the partition waits, for its state record
    trouble_since: float = 0.0
    held_at: int = -1  # where an open transaction holds back what comes behind it; -1: nowhere
    held_since: float = 0.0
    forbidden: str = ""  # which right on the target is missing, so that nothing is sent before `send_after`
    moved_to: int = -1  # where the copy was proven to, and when it got there or had nothing under way
    moved_at: float = 0.0

    @property
    def source(self) -> TopicPartition:
        """The source partition."""
        return self.copy.order.partition

    def drop_queue(self) -> None:
        """Forgets what was fetched and not sent; it is fetched again if needed."""
        self.queue.clear()
        self.queue_bytes = 0

    def note_stable(self, last_stable: int, high_watermark: int, now: float) -> None:
        """What the source reports about its open transactions, where only committed records are read."""
        if last_stable >= high_watermark:
            self.held_at = -1
        elif last_stable != self.held_at:
            self.held_at, self.held_since = last_stable, now

    def stands_since(self, now: float) -> float:
        """How many seconds what was sent has been without proof; 0 if nothing is under way. To be asked every second."""
        copy = self.copy
        if copy.proven.upstream != self.moved_to or not (copy.window or copy.doubt):
            self.moved_to, self.moved_at = copy.proven.upstream, now
        return now - self.moved_at

    def is_at_end(self) -> bool:
        """Whether everything up to `until` was read."""
        until = self.copy.order.until
        return until is not None and self.copy.read_from >= until

    def wants_fetch(self, now: float) -> bool:
        """Whether more should be fetched now."""
        copy = self.copy
        return (
            copy.phase is Phase.FLOWING
            and not self.is_fetching
            and not copy.closing
            and self.stop_reason is None
            and now >= self.fetch_after
            and self.queue_bytes < QUEUE_BYTES_MAX
            and self.queue_bytes + copy.window_bytes < PARTITION_BYTES_MAX
            and not self.is_at_end()
        )


class Relay:
    """Moves batches for all partitions of one slot."""

    def __init__(
        self,
        loop: Loop,
        source: ClusterSide,
        target: ClusterSide,
        fetch_limits: FetchLimits,
        on_fetch_error: Callable[[PartitionRelay, FetchedPartition], None],
    ) -> None:
        self.relays: dict[TopicPartition, PartitionRelay] = {}
        self._loop = loop
        self._source = source
        self._target = target
        self._fetch_limits = fetch_limits
        self._on_fetch_error = on_fetch_error
        self._by_source: dict[tuple[bytes | str, int], PartitionRelay] = {}
        self._busy: set[PipelinedConnection] = set()

    # --- who is served -----------------------------------------------------------------------------------------

    def add(self, relay: PartitionRelay) -> None:
        """Serves a partition from now on."""
        relay.partition_bytes_max = self._fetch_limits.partition_bytes_max
        self.relays[relay.source] = relay
        self._by_source[relay.source_id, relay.source.partition] = relay
        self._by_source[relay.source.topic, relay.source.partition] = relay

    def remove(self, relay: PartitionRelay) -> None:
        """Serves it no more; answers still owed find nothing to change."""
        if self.relays.get(relay.source) is relay:
            del self.relays[relay.source]
            self._by_source.pop((relay.source_id, relay.source.partition), None)
            self._by_source.pop((relay.source.topic, relay.source.partition), None)
        relay.drop_queue()

    # --- fetching ----------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Sends a fetch on every free connection that has a partition waiting for more."""
        now = self._loop.now
        held = sum(r.queue_bytes + r.copy.window_bytes for r in self.relays.values())
        if held > SLOT_BYTES_MAX:
            return
        wanted: dict[int, list[PartitionRelay]] = {}
        for relay in self.relays.values():
            if relay.wants_fetch(now):
                leader = self._source.leader(relay.source)
                if leader is None:
                    relay.fetch_after = now + FETCH_RETRY_S
                    self._source.refresh()
                    continue
                relay.leader_epoch = leader.leader_epoch
                wanted.setdefault(leader.node, []).append(relay)
        for node, relays in wanted.items():
            pipelined = self._free_fetch_connection(node)
            if pipelined is not None:
                self._send_fetch(pipelined, relays)

    def _free_fetch_connection(self, node: int) -> PipelinedConnection | None:
        for index in range(FETCH_CONNECTIONS):
            pipelined = self._source.open_pipelined(node, f"fetch {index}")
            if pipelined is None:
                return None
            if pipelined not in self._busy:
                return pipelined
        return None

    def _send_fetch(self, pipelined: PipelinedConnection, relays: list[PartitionRelay]) -> None:
        by_id = pipelined.connection.supports(FETCH_API, FETCH_BY_ID) and all(r.source_id != NO_ID for r in relays)
        topics: dict[bytes | str, list[FetchFrom]] = {}
        limits = self._fetch_limits
        for relay in relays:
            relay.is_fetching = True
            key = relay.source_id if by_id else relay.source.topic
            topics.setdefault(key, []).append(
                FetchFrom(relay.source.partition, relay.copy.read_from, relay.leader_epoch, relay.last_epoch)
            )
            if relay.partition_bytes_max > limits.partition_bytes_max:
                limits = FetchLimits(
                    limits.wait_ms, limits.bytes_min, limits.bytes_max, relay.partition_bytes_max, limits.isolation
                )
        asked = {relay: relay.copy.read_from for relay in relays}
        self._busy.add(pipelined)
        pipelined.send(
            FETCH_API,
            FETCH_BY_ID if by_id else FETCH_BY_NAME,
            [encode_fetch(topics, limits)],
            lambda frame, at: self._fetched(pipelined, asked, by_id, frame, at),
            self._loop.now,
        )
        self._loop.sent(pipelined)

    def _fetched(
        self, pipelined: PipelinedConnection, asked: dict[PartitionRelay, int], by_id: bool, frame: bytearray | None, at: int
    ) -> None:
        self._busy.discard(pipelined)
        for relay in asked:
            relay.is_fetching = False
        if frame is None:
            self._source.refresh()
            return
        try:
            answer = parse_fetch(frame, at, by_id=by_id)
        except (ValueError, IndexError, struct.error) as error:
            pipelined.broken = f"unreadable fetch answer: {error}"
            return
        view = memoryview(frame)
        for part in answer.partitions:
            served = self._by_source.get((part.topic, part.partition))
            # A partition may have been stopped, set back, or come into doubt while its fetch was under way: what was
            # fetched then is fetched again. Queued in doubt, it would follow a gap after the resumption.
            if (
                served is not None
                and asked.get(served) == served.copy.read_from
                and served.copy.phase is Phase.FLOWING
                and not served.copy.closing
            ):
                self._take(served, part, view)
        self.send()
        self.fetch()

    def _take(self, relay: PartitionRelay, part: FetchedPartition, view: memoryview) -> None:
        if part.error or part.diverging:
            self._on_fetch_error(relay, part)
            return
        copy = relay.copy
        copy.source_end = part.high_watermark
        if copy.order.read_committed:
            copy.source_end = part.last_stable
            relay.note_stable(part.last_stable, part.high_watermark, self._loop.now)
        relay.trouble = ""
        if part.start == part.end:
            return
        try:
            batches = read_batches(view, part.start, part.end)
            if not batches:
                # The first batch alone is larger than what we asked for: ask for as much as it needs.
                size = first_batch_size(view, part.start, part.end)
                relay.partition_bytes_max = max(size or 0, relay.partition_bytes_max * 2)
                return
            last_epoch = batches[-1].leader_epoch
            packed = pack(
                batches,
                from_offset=copy.read_from,
                until_offset=copy.order.until,
                aborted=(part.aborted or []) if copy.order.read_committed else None,
                limits=relay.limits(),
            )
        except CorruptBatch as error:
            relay.stop_reason = error
            return
        relay.last_epoch = last_epoch
        self._enqueue(relay, packed)

    def _enqueue(self, relay: PartitionRelay, packed: Packed) -> None:
        copy = relay.copy
        expected = relay.queue[-1].next_upstream if relay.queue else copy.next.upstream
        assert copy.read_from == expected, f"{relay.source}: read at {copy.read_from}, but {expected} comes next"
        if packed.outgoing_batches:
            packed.outgoing_batches[-1].next_upstream = packed.next_upstream
            relay.queue.extend(packed.outgoing_batches)
            relay.queue_bytes += sum(len(outgoing.buffer) for outgoing in packed.outgoing_batches)
        elif relay.queue:
            relay.queue[-1].next_upstream = packed.next_upstream
        else:
            copy.skip_to(packed.next_upstream, self._loop.now)
        copy.read_from = packed.next_upstream
        if packed.stopped is not None:
            relay.stop_reason = packed.stopped

    # --- producing ---------------------------------------------------------------------------------------------

    def renew(self, fetch_limits: FetchLimits) -> None:
        """Fetches within these limits from now on."""
        if fetch_limits != self._fetch_limits:
            self._fetch_limits = fetch_limits
            for relay in self.relays.values():
                relay.partition_bytes_max = fetch_limits.partition_bytes_max

    def send(self) -> None:
        """Sends whatever may be sent, one batch per partition per request, until nothing more may."""
        now = self._loop.now
        pipelined_connections: dict[PipelinedConnection, list[PartitionRelay]] = {}
        for relay in self.relays.values():
            if relay.queue and now >= relay.send_after and relay.copy.may_send(now):
                pipelined = self._produce_connection(relay)
                if pipelined is not None:
                    pipelined_connections.setdefault(pipelined, []).append(relay)
        for pipelined, relays in pipelined_connections.items():
            while relays:
                if failpoints.ARMED:
                    failpoints.point("relay.before_produce")
                self._send_request(pipelined, relays)
                relays = [relay for relay in relays if relay.queue and relay.copy.may_send(now)]
            self._loop.sent(pipelined)
            if failpoints.ARMED:
                failpoints.point("relay.sent_no_ack")

    def _produce_connection(self, relay: PartitionRelay) -> PipelinedConnection | None:
        """The connection the partition is bound to; a new one only when nothing of it is in flight."""
        pipelined = relay.pipelined
        if pipelined is not None and self._loop.is_open(pipelined):
            return pipelined
        if relay.copy.window:
            return None
        leader = self._target.leader(relay.target)
        if leader is None:
            self._target.refresh()
            return None
        index = (hash(relay.target.topic) + relay.target.partition) % PRODUCE_CONNECTIONS if leader.replicas > 1 else 0
        relay.pipelined = self._target.open_pipelined(leader.node, f"produce {index}")
        return relay.pipelined

    def _send_request(self, pipelined: PipelinedConnection, relays: list[PartitionRelay]) -> None:
        """One batch of each partition, as far as one request holds."""
        now, read_ms = self._loop.now, int(time.time() * 1000)
        by_id = pipelined.connection.supports(PRODUCE_API, PRODUCE_BY_ID)
        topics: dict[bytes | str, list[tuple[int, Buffer]]] = {}
        owed: dict[tuple[bytes | str, int], tuple[PartitionRelay, Sent]] = {}
        room = REQUEST_BYTES_MAX
        for relay in relays:
            outgoing = relay.queue.popleft()
            buffer, copy, order = outgoing.buffer, relay.copy, relay.copy.order
            size = len(buffer)
            relay.queue_bytes -= size
            sent = copy.send(
                outgoing.count,
                outgoing.pieces,
                outgoing.next_upstream,
                size,
                relay.leader_epoch,
                outgoing.max_timestamp,
                now,
                read_ms,
            )
            stamp(buffer, order.producer_id, order.producer_epoch, sent.sequence)
            topic: bytes | str = relay.target_id if by_id else relay.target.topic
            index = relay.target.partition
            topics.setdefault(topic, []).append((index, buffer))
            owed[topic, index] = (relay, sent)
            room -= size
            if room <= 0:
                break
        pipelined.send(
            PRODUCE_API,
            PRODUCE_BY_ID if by_id else PRODUCE_BY_NAME,
            encode_produce(topics),
            lambda frame, at: self._produced(pipelined, owed, by_id, frame, at),
            now,
        )

    def _produced(
        self,
        pipelined: PipelinedConnection,
        owed: dict[tuple[bytes | str, int], tuple[PartitionRelay, Sent]],
        by_id: bool,
        frame: bytearray | None,
        at: int,
    ) -> None:
        if frame is None:
            for relay, _ in owed.values():
                self._connection_lost(relay, pipelined)
            return
        try:
            verdicts = parse_produce(frame, at, by_id=by_id)
        except (ValueError, IndexError, struct.error) as error:
            pipelined.broken = f"unreadable produce answer: {error}"
            for relay, _ in owed.values():
                self._connection_lost(relay, pipelined)
            return
        now = self._loop.now
        is_hungry = False
        for verdict in verdicts:
            found = owed.pop((verdict.topic, verdict.partition), None)
            if found is not None:
                relay, sent = found
                if verdict.error == 0:
                    relay.forbidden = ""
                relay.copy.answer(
                    sent, error=verdict.error, base_offset=verdict.base_offset, message=verdict.message, now=now
                )
                is_hungry = is_hungry or bool(relay.queue) or not relay.is_fetching
        for relay, _ in owed.values():
            self._connection_lost(relay, pipelined)  # the broker did not say: unknown
        if failpoints.ARMED:
            failpoints.point("relay.acked_no_receipt")
        if is_hungry:
            self.send()
            self.fetch()

    def _connection_lost(self, relay: PartitionRelay, pipelined: PipelinedConnection) -> None:
        if relay.pipelined is pipelined:
            relay.pipelined = None
        relay.copy.connection_lost(pipelined.broken or "the connection was closed")
        self._target.refresh()
