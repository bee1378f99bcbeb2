"""One side of a range while it is compared: its batches, opened only where that is needed."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b

from sparkmirror.comparison.contents import Cell
from sparkmirror.comparison.values import Earlier, Entry, Findings, Stream, Why, nothing
from sparkmirror.wire import BatchView, read_rows
from sparkmirror.wire.record_batch import ATTRIBUTE_CODEC, HEADER_BYTES

_SHAPE = 0x40 | 0x08 | ATTRIBUTE_CODEC  # attributes that say how the records of a batch are to be read
_APPEND_TIME = 0x08
EARLIER_MAX = 256
_HEAD = struct.Struct(">iqqii")
_ROW = struct.Struct(">qq")


class Side:
    """Data batches of one side in order, with offsets from `start` up to `end`; what is no data is counted."""

    def __init__(self, stream: Stream, start: int, end: int, findings: Findings | None = None) -> None:
        self._stream, self._pieces = stream, iter(stream)
        self._start, self._end, self._findings = start, end, findings
        self._next: BatchView | None = None
        self._is_over = False

    @property
    def first(self) -> int:
        """The first offset that the log still holds."""
        return self._stream.first

    def peek(self) -> BatchView | None:
        """The next data batch, which stays the next one; None at the end."""
        while self._next is None and not self._is_over:
            piece = next(self._pieces, None)
            if piece is None:
                self._is_over = True
            elif piece.kind == "data":
                self._next = piece.batch
            elif self._findings is not None:
                lost = min(piece.batch.last_offset + 1, self._end) - max(piece.batch.base_offset, self._start)
                self._findings.explain(Why.CONTROL if piece.kind == "control" else Why.ABORTED, lost)
        return self._next

    def take(self) -> BatchView | None:
        """The next data batch; None at the end."""
        found, self._next = self.peek(), None
        return found

    def is_whole(self, batch: BatchView) -> bool:
        """Whether all of a batch belongs to the range."""
        return batch.base_offset >= self._start and batch.last_offset < self._end

    def entries(self, batch: BatchView) -> list[Entry]:
        """The records of a batch that belong to the range."""
        rows = read_rows(batch)
        if self.is_whole(batch):
            return rows  # type: ignore[return-value]  # a list of narrower tuples that nobody changes
        return [row for row in rows if self._start <= row[0] < self._end]


def have_equal_bytes(source: BatchView, target: BatchView) -> bool:
    """Whether two batches hold the same records at the same distances, without opening them."""
    if target.attributes & _APPEND_TIME:  # the broker writes its time into the header; the deltas are the producer's
        alike = (source.attributes ^ target.attributes) & ATTRIBUTE_CODEC == 0
    else:
        alike = (source.attributes ^ target.attributes) & _SHAPE == 0 and source.base_timestamp == target.base_timestamp
        alike = alike and (not source.is_log_append_time or source.max_timestamp == target.max_timestamp)
    return (
        alike
        and source.count == target.count
        and source.last_offset_delta == target.last_offset_delta
        and source.raw[HEADER_BYTES:] == target.raw[HEADER_BYTES:]
    )


class ContentDigest:
    """The digest of what the source holds of a range: keys, values, headers, timestamps and their order.

    Whole batches go in as they are, so the digest changes if the source's compaction rewrites them.
    """

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)

    def add(self, batch: BatchView) -> None:
        """One batch of which every record counts."""
        times = batch.base_timestamp, batch.max_timestamp
        self._hash.update(_HEAD.pack(batch.attributes & _SHAPE, *times, batch.count, batch.last_offset_delta))
        self._hash.update(batch.raw[HEADER_BYTES:])

    def add_entries(self, entries: list[Entry]) -> None:
        """Records of a batch that lies across the border of the range."""
        for _, timestamp, tail in entries:
            self._hash.update(_ROW.pack(-1 if timestamp is None else timestamp, len(tail)))
            self._hash.update(tail)

    def hex(self) -> str:
        """Sixteen bytes."""
        return self._hash.hexdigest()


class Recent:
    """The source records compared last: who looks for a record that was written twice finds it here."""

    def __init__(self, earlier: Earlier = nothing) -> None:
        self._earlier = earlier
        self._before: BatchView | Sequence[Entry] = ()
        self._last: BatchView | Sequence[Entry] = ()

    def add(self, chunk: BatchView | Sequence[Entry]) -> None:
        """What is compared next."""
        if isinstance(chunk, BatchView) or len(chunk) >= EARLIER_MAX:
            if self._before:
                self._earlier = nothing
            self._before, self._last = self._last, chunk
        else:  # records come a few at a time
            self._last = [*_opened(self._before)[-EARLIER_MAX:], *_opened(self._last)][-EARLIER_MAX:] + list(chunk)
            self._before = ()

    def before(self, upstream: int | None) -> list[Cell]:
        """Those that lie before an upstream offset."""
        entries = [*self._earlier(), *_opened(self._before), *_opened(self._last)]
        return [Cell(*entry) for entry in entries if upstream is None or entry[0] < upstream]


def _opened(chunk: BatchView | Sequence[Entry]) -> Sequence[Entry]:
    return read_rows(chunk) if isinstance(chunk, BatchView) else chunk
