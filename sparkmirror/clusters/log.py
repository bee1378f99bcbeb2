"""Reading and appending whole records of a topic from the driver: the ledger, positions, offset syncs, recovery."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sparkmirror.clusters import clock
from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.fetch import (
    FETCH_API,
    FETCH_BY_NAME,
    FetchedPartition,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    parse_fetch,
)
from sparkmirror.clusters.offsets import partition_ends
from sparkmirror.clusters.produce import PRODUCE_API, PRODUCE_BY_NAME, encode_produce, parse_produce
from sparkmirror.clusters.rights import is_right_missing
from sparkmirror.errors import (
    BrokerRefused,
    ClusterError,
    ClusterUnreachable,
    ConnectionLost,
    FlowOwnedByAnother,
    InternalError,
    RequestRefused,
    SourceOffsetLost,
    SourceTruncated,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire import AbortedTransactions, BatchView, Producer, Record, build_batch, read_batches, read_records
from sparkmirror.wire.codecs import GZIP, NONE
from sparkmirror.wire.error_codes import (
    DUPLICATE_SEQUENCE_NUMBER,
    INVALID_PRODUCER_EPOCH,
    OFFSET_OUT_OF_RANGE,
    THROTTLING_QUOTA_EXCEEDED,
)

T = TypeVar("T")

READ_BYTES = 4 << 20
SETTLE_PAUSE_S = 0.02
# A replica that does not follow leaves the in-sync ones after 30 s (replica.lag.time.max.ms); then the high watermark rises.
SETTLE_S_MAX = 60.0
# An open transaction hides what lies behind it until it ends, at the latest after transaction.max.timeout.ms (15 min).
STALL_S_MAX = 960.0
IDLE_S_MAX = 10.0  # for who reads what is there: a log that should hold more and brings nothing for so long is not available
APPEND_BATCH_BYTES = 512 << 10
APPEND_PLAIN_BYTES = 64 << 10  # a larger batch that must be whole is compressed: JSON shrinks to a tenth
REQUEST_TIMEOUT_S = 30.0
APPEND_TIMEOUT_S = 20.0  # what is appended here is small, and a failure must be reported within 30 s
FOLLOW_TIMEOUT_S = 10.0  # a follower's answer is small, and its reader must soon know that none comes


@dataclass(slots=True)
class RawRead:
    """Batches as they lie in the log, with what the answer said about the partition."""

    batches: list[BatchView]
    aborted: list[tuple[int, int]] | None
    log_start: int
    high_watermark: int
    last_stable: int


def _fetch(
    connection: Connection,
    partition: TopicPartition,
    offset: int,
    limits: FetchLimits,
    timeout_s: float = REQUEST_TIMEOUT_S,
) -> tuple[bytearray, FetchedPartition]:
    body = encode_fetch({partition.topic: [FetchFrom(partition.partition, offset)]}, limits)
    frame, at = connection.exchange(FETCH_API, FETCH_BY_NAME, [body], timeout_s=timeout_s + limits.wait_ms / 1000)
    try:
        answer = parse_fetch(frame, at, by_id=False)
    except (ValueError, IndexError) as error:
        raise ConnectionLost(f"{connection.alias}: unreadable fetch answer: {error}") from error
    if not answer.partitions:  # a broker whose quota is used up answers with nothing at all
        what = f"cluster {connection.alias}: fetch of {partition} held back by a quota"
        raise BrokerRefused(what, error_code=THROTTLING_QUOTA_EXCEEDED)
    return frame, answer.partitions[0]


def _at_leader(
    client: ClusterClient, partition: TopicPartition, action: Callable[[Connection], T], what: str, needs: str
) -> T:
    """Runs `action` at the leader. Who may not even know it lacks the right for the action, which brings the other along."""
    try:
        return client.talk(client.leader_node(partition), action)
    except BrokerRefused as error:
        if is_right_missing(error.error_code):
            client.check(error.error_code, what, needs)
        raise


def read_raw(
    client: ClusterClient,
    partition: TopicPartition,
    offset: int,
    *,
    read_committed: bool = False,
    bytes_max: int = READ_BYTES,
) -> RawRead:
    """Batches from `offset` on, control batches included; waits through elections. A larger first batch comes whole."""

    def look(size: int) -> tuple[bytearray, FetchedPartition]:
        limits = FetchLimits(0, 0, size, size, int(read_committed))
        what, needs = f"fetch of {partition} at {offset}", f"Read on topic {partition.topic}"
        frame, part = _at_leader(client, partition, lambda c: _fetch(c, partition, offset, limits), what, needs)
        if part.error != OFFSET_OUT_OF_RANGE:  # then the caller looks where the log begins and ends
            client.check(part.error, what, needs)
        return frame, part

    frame, part = client.retry(lambda: look(bytes_max))
    batches = read_batches(memoryview(frame), part.start, part.end)
    wanted = [batch for batch in batches if batch.last_offset >= offset]
    return RawRead(wanted, part.aborted, part.log_start, part.high_watermark, part.last_stable)


def read_timestamp(client: ClusterClient, node: int, partition: TopicPartition, offset: int) -> int:
    """The timestamp of the record at `offset`, by its batch's header; −1 if the leader has none there. Asked once."""
    limits = FetchLimits(0, 0, 1, 1, 0)  # the first batch comes whole
    frame, part = client.talk(node, lambda c: _fetch(c, partition, offset, limits, FOLLOW_TIMEOUT_S))
    if part.error:
        return -1
    batches = read_batches(memoryview(frame), part.start, part.end, verify_crc=False)  # damage is what may stop a copy
    found = next((batch for batch in batches if batch.last_offset >= offset), None)
    if found is None:
        return -1
    return found.max_timestamp if found.is_log_append_time else found.base_timestamp


def read_to_end(client: ClusterClient, partition: TopicPartition, offset: int = 0) -> Iterator[Record]:
    """Every record from `offset` to the settled end, which is the log end as soon as the high watermark has reached it.

    Records that are deleted before they are read are left out, as those that were deleted earlier.
    """
    log_end, log_start = _settled_end(client, partition)
    at = max(offset, log_start)
    while at < log_end:
        try:
            for batch in read_range(client, partition, at, log_end, read_committed=False):
                yield from (record for record in read_records(batch) if record.offset >= at)
                at = batch.last_offset + 1
            return
        except SourceOffsetLost:
            at = max(at + 1, partition_ends(client, partition)[3])


def _settled_end(client: ClusterClient, partition: TopicPartition) -> tuple[int, int]:
    """Log end, with everything before it committed, and log start."""
    deadline = clock.now() + SETTLE_S_MAX
    while True:
        high_watermark, log_end, _, log_start = partition_ends(client, partition)
        if high_watermark >= log_end:
            return log_end, log_start
        if clock.now() > deadline:
            raise ClusterUnreachable(
                f"cluster {client.alias}: {partition}: the high watermark has been below the log end for "
                f"{SETTLE_S_MAX:g} s, now {high_watermark} and {log_end}: replicas do not follow"
            )
        clock.pause(SETTLE_PAUSE_S)


def read_range(
    client: ClusterClient,
    partition: TopicPartition,
    start: int,
    end: int,
    *,
    read_committed: bool,
    is_whole: bool = True,
    includes_markers: bool = False,
    deadline: float = math.inf,
) -> Iterator[BatchView]:
    """Batches with offsets from `start` up to `end`: no markers unless asked for, nothing aborted if `read_committed`.

    The first and the last may hold records outside the range. A log that no longer holds the whole range raises
    SourceOffsetLost or SourceTruncated; with `is_whole` false, what is left of it is read. Ends early at `deadline`.
    """
    at, heard_at = start, clock.now()
    while at < end and clock.now() < deadline:
        read = read_raw(client, partition, at, read_committed=read_committed)
        aborted = AbortedTransactions((read.aborted or []) if read_committed else [])
        for batch in read.batches:
            is_dropped = aborted.drops(batch)
            if batch.base_offset >= end:
                return
            at = batch.last_offset + 1
            if not is_dropped and (includes_markers or not batch.is_control):
                yield batch
        if read.batches:
            heard_at = clock.now()
            continue
        _, log_end, _, log_start = partition_ends(client, partition)
        if is_whole:
            _require_within(client, partition, (at, end), (log_start, log_end))
        at, end = max(at, log_start), min(end, log_end)
        limit_s = STALL_S_MAX if is_whole else IDLE_S_MAX
        if clock.now() - heard_at > limit_s:
            raise ClusterUnreachable(f"cluster {client.alias}: {partition} gave nothing at {at} for {limit_s:g} s")
        clock.pause(SETTLE_PAUSE_S)


def _require_within(
    client: ClusterClient, partition: TopicPartition, wanted: tuple[int, int], held: tuple[int, int]
) -> None:
    (offset, end), (log_start, log_end) = wanted, held
    if log_end < end:
        raise SourceTruncated(f"cluster {client.alias}: {partition} ends at {log_end}, before offset {end}")
    if offset < log_start:
        raise SourceOffsetLost(
            f"cluster {client.alias}: {partition}: offsets {offset} to {log_start - 1} are deleted, "
            f"the log starts at {log_start}"
        )


class LogReader:
    """Follows one partition. Its long poll holds nobody up: a connection serves one caller at a time."""

    def __init__(self, client: ClusterClient, partition: TopicPartition, offset: int) -> None:
        self.partition = partition
        self.offset = offset
        self._client = client

    def poll(self, wait_ms: int) -> list[Record]:
        """Records that arrived, waiting up to `wait_ms` for the first."""
        client, partition = self._client, self.partition
        limits = FetchLimits(wait_ms, 1, READ_BYTES, READ_BYTES, 0)
        try:
            node = client.leaders.of(partition)
            frame, part = client.talk(node, lambda c: _fetch(c, partition, self.offset, limits, FOLLOW_TIMEOUT_S))
            client.check(part.error, f"fetch of {partition}", f"Read on topic {partition.topic}")
        except ClusterError:
            client.leaders.forget()
            raise
        records: list[Record] = []
        for batch in read_batches(memoryview(frame), part.start, part.end):
            if not batch.is_control:
                records.extend(record for record in read_records(batch) if record.offset >= self.offset)
            self.offset = max(self.offset, batch.last_offset + 1)
        return records


def append_records(
    client: ClusterClient, partition: TopicPartition, entries: Sequence[tuple[bytes, bytes | None]], timestamp_ms: int
) -> None:
    """Appends records, acked by all; may repeat them after a lost answer, so they must be harmless twice."""
    chunk: list[Record] = []
    size = 0
    for key, value in entries:
        chunk.append(Record(len(chunk), timestamp_ms, key, value, ()))
        size += len(key) + len(value or b"") + 32
        if size > APPEND_BATCH_BYTES:
            _append(client, partition, build_batch(chunk))
            chunk, size = [], 0
    if chunk:
        _append(client, partition, build_batch(chunk))


def whole_batch(
    partition: TopicPartition,
    entries: Sequence[tuple[bytes, bytes | None]],
    timestamp_ms: int,
    producer: tuple[int, int],
) -> bytearray:
    """All records in one batch, the first of this producer (id, epoch) in the partition; raises RequestRefused."""
    records = [Record(at, timestamp_ms, key, value, ()) for at, (key, value) in enumerate(entries)]
    size = sum(len(key) + len(value or b"") + 32 for key, value in entries)
    codec = GZIP if size > APPEND_PLAIN_BYTES else NONE
    batch = build_batch(records, codec=codec, producer=Producer(*producer, 0))
    if len(batch) > APPEND_BATCH_BYTES:
        raise RequestRefused(
            f"{len(records)} records must be appended to {partition} at once and have {len(batch)} bytes, the limit is "
            f"{APPEND_BATCH_BYTES}",
            hint="ask for one topic or partition after another: --topic, --partition",
        )
    return batch


def append_whole(client: ClusterClient, partition: TopicPartition, batch: bytearray) -> None:
    """Appends a batch of `whole_batch`, acked by all: it is in the log as a whole or not at all.

    Once a newer epoch of its producer was fenced there it is refused (FlowOwnedByAnother), however late it arrives. The
    broker finds out a repeated batch.
    """
    _append(client, partition, batch)


def _append(client: ClusterClient, partition: TopicPartition, batch: bytearray) -> None:
    parts = encode_produce({partition.topic: [(partition.partition, batch)]})

    what, needs = f"append to {partition}", f"Write on topic {partition.topic}"

    def send() -> None:
        frame, at = _at_leader(
            client,
            partition,
            lambda c: c.exchange(PRODUCE_API, PRODUCE_BY_NAME, parts, timeout_s=APPEND_TIMEOUT_S),
            what,
            needs,
        )
        verdicts = parse_produce(frame, at, by_id=False)
        if len(verdicts) != 1:
            raise InternalError(f"{partition}: one batch sent, {len(verdicts)} verdicts")
        if verdicts[0].error == INVALID_PRODUCER_EPOCH:
            raise FlowOwnedByAnother(f"cluster {client.alias}: {what}: another owner has raised the epoch since")
        if verdicts[0].error == DUPLICATE_SEQUENCE_NUMBER:
            return  # it landed when its answer was lost
        client.check(verdicts[0].error, what, needs)

    client.retry(send)
