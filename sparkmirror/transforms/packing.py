"""Batches of transformed records: built from columns where a transform changed them, else from their own bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.datasource.writer import row_sizes, selected
from sparkmirror.errors import InternalError, RecordTooLarge, ReplicationError
from sparkmirror.ledger import ranges_of
from sparkmirror.model import TopicPartition
from sparkmirror.slot.target_topics import MERGE_BELOW_BYTES, SPLICE_BELOW_BYTES
from sparkmirror.wire import (
    DECOMPRESSED_BYTES_MAX,
    BatchView,
    Columns,
    OutgoingBatch,
    PackLimits,
    Producer,
    Row,
    assemble,
    build_column_batch,
    pack,
    read_rows,
    stamp,
)

BATCH_BYTES = 768 << 10
BATCH_OVERHEAD_BYTES = 61

Buffer = bytes | bytearray | memoryview
Limit = Callable[[TopicPartition], int]  # the largest batch that a partition takes
RowsOf = Mapping[TopicPartition, Sequence[int]]


@dataclass(frozen=True, slots=True)
class ReadyBatch:
    """One batch but for its producer: how many records it holds, and how it is made."""

    count: int
    made: Callable[[Producer], Buffer]


@dataclass(frozen=True, slots=True)
class Sending:
    """What goes to one partition of the target: upstream offsets in order, and the batches that hold these records."""

    ranges: tuple[tuple[int, int], ...]
    batches: Sequence[ReadyBatch]
    newest: int

    @property
    def count(self) -> int:
        """Records in all of them."""
        return sum(batch.count for batch in self.batches)


class PackingStop(NamedTuple):
    """A record that cannot be sent: its upstream offset, where it was to go, and why it cannot."""

    upstream: int
    target: TopicPartition
    error: ReplicationError


@dataclass(frozen=True, slots=True)
class Packing:
    """What can be sent, by target, and what everything before has to stop at."""

    sendings: Mapping[TopicPartition, Sending]
    stop: PackingStop | None = None


# --- nothing of the records was changed -----------------------------------------------------------------------------


def pack_whole(batches: Sequence[BatchView], offsets: Sequence[int], target: TopicPartition, limit: int) -> Packing | None:
    """All records of these batches between the first and the last offset; None if some of them are not to be sent."""
    first, end = offsets[0], offsets[-1] + 1
    if end - first != len(offsets) and _records_between(batches, first, end) != len(offsets):
        return None
    merging = min(MERGE_BELOW_BYTES, limit), min(BATCH_BYTES, limit)
    limits = PackLimits(limit, *merging, DECOMPRESSED_BYTES_MAX, splice_below_bytes=SPLICE_BELOW_BYTES)
    packed = pack(batches, from_offset=first, until_offset=end, aborted=None, limits=limits)
    sending = _of_outgoing(packed.outgoing_batches)
    stop = PackingStop(packed.next_upstream, target, packed.stopped) if packed.stopped is not None else None
    return Packing({target: sending} if sending is not None else {}, stop)


def _records_between(batches: Sequence[BatchView], first: int, end: int) -> int:
    return sum(
        batch.count
        if first <= batch.base_offset and batch.last_offset < end
        else sum(first <= offset < end for offset, _, _ in read_rows(batch))
        for batch in batches
    )


def rows_at(batches: Sequence[BatchView], offsets: Sequence[int]) -> list[Row]:
    """The records at these offsets."""
    wanted = set(offsets)
    rows = [row for batch in batches for row in read_rows(batch) if row[0] in wanted]
    if len(rows) != len(offsets):
        raise InternalError("transform query: rows arrived at offsets that were not read")
    return rows


def pack_rows(rows: Sequence[Row], rows_of: RowsOf, codec: int, limit: Limit) -> Packing:
    """Each row where it belongs, up to the first that its target does not take."""
    stop: PackingStop | None = None
    while True:
        sendings: dict[TopicPartition, Sending] = {}
        earliest = stop
        for target, places in rows_of.items():
            chosen = [rows[place] for place in places if stop is None or rows[place][0] < stop.upstream]
            largest = max((len(tail) for _, _, tail in chosen), default=0)
            bytes_max = limit(target) if largest > BATCH_BYTES // 2 else min(BATCH_BYTES, limit(target))
            done = assemble(chosen, codec, batch_bytes_max=bytes_max, next_upstream=0)
            if done.stopped is not None and (earliest is None or done.stopped.offset < earliest.upstream):
                earliest = PackingStop(done.stopped.offset, target, done.stopped)
            sending = _of_outgoing(done.outgoing_batches)
            if sending is not None:
                sendings[target] = sending
        if earliest is stop:
            return Packing(sendings, stop)
        stop = earliest


def _of_outgoing(outgoing_batches: Sequence[OutgoingBatch]) -> Sending | None:
    if not outgoing_batches:
        return None
    ranges: list[tuple[int, int]] = []
    for start, length in (piece for outgoing in outgoing_batches for piece in outgoing.pieces):
        if ranges and sum(ranges[-1]) == start:
            ranges[-1] = (ranges[-1][0], ranges[-1][1] + length)
        else:
            ranges.append((start, length))
    return Sending(tuple(ranges), [_ready(p) for p in outgoing_batches], max(p.max_timestamp for p in outgoing_batches))


def _ready(outgoing: OutgoingBatch) -> ReadyBatch:
    def made(producer: Producer) -> Buffer:
        stamp(outgoing.buffer, *producer)
        return outgoing.buffer

    return ReadyBatch(outgoing.count, made)


# --- records that were changed --------------------------------------------------------------------------------------


def pack_columns(columns: Columns, offsets: Sequence[int], rows_of: RowsOf, codec: int, limit: Limit) -> Packing:
    """Rows of the columns, each where it belongs, up to the first that its target does not take."""
    stop: PackingStop | None = None
    chosen: dict[TopicPartition, tuple[Sequence[int], Columns, list[tuple[int, int]]]] = {}
    for target, rows in rows_of.items():
        bytes_max = limit(target) - BATCH_OVERHEAD_BYTES
        picked = selected(columns, rows)
        bounds, wrong = _bounds(picked, min(BATCH_BYTES, bytes_max), bytes_max)
        chosen[target] = rows, picked, bounds
        if wrong is not None and (stop is None or offsets[rows[wrong[0]]] < stop.upstream):
            stop = PackingStop(offsets[rows[wrong[0]]], target, _too_large(offsets[rows[wrong[0]]], wrong[1], limit(target)))
    sendings = {}
    for target, (rows, picked, bounds) in chosen.items():
        if stop is not None:
            kept = sum(offsets[row] < stop.upstream for row in rows)
            rows, bounds = rows[:kept], [(start, min(end, kept)) for start, end in bounds if start < kept]
        if rows:
            batches = [_of_columns(picked, start, end, codec) for start, end in bounds]
            ranges = ranges_of(offsets[row] for row in rows)
            sendings[target] = Sending(ranges, batches, max(picked.timestamps[: len(rows)]))
    return Packing(sendings, stop)


def _of_columns(columns: Columns, start: int, end: int, codec: int) -> ReadyBatch:
    return ReadyBatch(end - start, lambda producer: build_column_batch(columns, start, end, codec=codec, producer=producer))


def _too_large(upstream: int, size: int, limit: int) -> RecordTooLarge:
    return RecordTooLarge(f"{size} bytes", offset=upstream, size=size, limit=limit)


def _bounds(columns: Columns, bytes_wanted: int, bytes_max: int) -> tuple[list[tuple[int, int]], tuple[int, int] | None]:
    """Rows of each batch, and the first row that is larger than any batch may be, with its size."""
    bounds: list[tuple[int, int]] = []
    start, size = 0, 0
    for row, more in enumerate(row_sizes(columns)):
        if more > bytes_max:
            return ([*bounds, (start, row)] if row > start else bounds), (row, more)
        if size + more > bytes_wanted and row > start:
            bounds.append((start, row))
            start, size = row, 0
        size += more
    return [*bounds, (start, len(columns))], None

