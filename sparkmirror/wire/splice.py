"""Small uncompressed batches spliced into a larger one: the only loop of the copying path that runs once per record.

A target's broker spends some 75 µs on a batch of its own, whatever it holds; moving a record costs us under 1 µs. So
batches of few records are spliced. Of a record only its beginning changes: length, timestamp delta, offset delta.

Invariant A: an outgoing batch holds records in strictly ascending upstream order, and its pieces name exactly those.
Invariant B: a spliced batch is never larger than the room it was given: every record counts with all that it may grow by.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sparkmirror.wire.codecs import NONE
from sparkmirror.wire.record_batch import HEADER_BYTES, BatchView, Row
from sparkmirror.wire.rewrite import HEADER_SPACE, REACH_MS, TABLE, TIMED, OutgoingBatch, join_batch, record_head
from sparkmirror.wire.varint import ZIGZAG, encode_varint

# Up to here every offset delta of the source batch is one byte.
RECORDS_MAX = 64
_EVEN = range(0, 2 * RECORDS_MAX, 2)  # their zigzag forms
_EVEN_BYTES = bytes(_EVEN)

# Length, timestamp delta and offset delta of one or two bytes each become three at most, the timestamp's too.
_GROWTH = 5
# The head of a record that the general way writes: length 5, attributes 1, timestamp delta 10, offset delta 5.
_HEAD_BYTES_MAX = 21
_LENGTH_MIN = 49
# A zigzag form that has any of these bits is negative, or longer than two bytes.
_ODD = -(1 << 14) | 1
_RECORD_MIN = 12  # the zigzag form of the shortest length: attributes, two deltas, null key, null value, no headers
_STRIDE_MIN = 7  # the shortest record and its length
# Bytes copied out of the fetch buffer at a time: slices of `bytes` cost half of what slices of a memoryview do.
_WINDOW_BYTES = 256 * 1024


def _single_head(body_bytes: int) -> bytes:
    """How a batch of one record must begin after its header, if length, deltas and attributes are the ordinary ones."""
    for width in (1, 2, 3):
        length = encode_varint(body_bytes - width)
        if len(length) == width and body_bytes - width > 3:
            return length + b"\x00\x00\x00"
    return _NO_HEAD


_NO_HEAD = b"\xff\xff\xff\xff"  # no record begins so: the general reader decides
_SINGLE_HEADS: tuple[bytes, ...] = tuple(_single_head(body_bytes) for body_bytes in range(TABLE))
_SINGLE_LENGTH_END = _LENGTH_MIN + TABLE - _GROWTH  # a length that grows must still be in the table


def _move_equal(window: bytes, start: int, stop: int, records: int, shift: int, count: int) -> list[bytes] | None:
    """The records between two places as heads and tails for their new batch, None if they are not all of one length.

    If the first record's length says that it ends where the next equal share of the bytes begins, and every share begins
    with that length, then the shares are the records: no record needs to be looked at alone.
    """
    stride, rest = divmod(stop - start, records)
    if rest or stride < _STRIDE_MIN:
        return None
    size, width = window[start], 1
    if size > 0x7F:
        size, width = size + (window[start + 1] << 7) - 0x80, 2
    if size < _RECORD_MIN or size & _ODD or (size >> 1) + width != stride:
        return None
    lengths = window[start:stop:stride]
    if lengths.count(lengths[0]) != records:
        return None
    if width == 2:
        lengths = window[start + 1 : stop : stride]
        if lengths.count(lengths[0]) != records:
            return None
    times = window[start + width + 1 : stop : stride]
    if window[start + width + 2 : stop : stride] != _EVEN_BYTES[:records] or not times.isascii():
        return None
    places = ZIGZAG[count : count + records]
    if len(places[0]) != len(places[-1]):
        return None
    tail_from = start + width + 3
    tail_bytes = stride - width - 3
    heads: dict[int, bytes] = {}
    for time in set(times):
        if time & 1:
            return None
        timed = TIMED[(time >> 1) + shift]
        heads[time] = ZIGZAG[len(timed) + len(places[0]) + tail_bytes] + timed
    moved: list[bytes] = [b""] * (2 * records)
    moved[::2] = [heads[time] + place for time, place in zip(times, places, strict=True)]
    moved[1::2] = [window[at : at + tail_bytes] for at in range(tail_from, stop, stride)]
    return moved


def _move_each(window: bytes, start: int, stop: int, records: int, shift: int, count: int) -> list[bytes] | None:
    """The same for records of any length up to 8 191 bytes, one by one; None if they are not ordinary."""
    moved: list[bytes] = []
    append, timed, zigzag = moved.append, TIMED, ZIGZAG
    at = start
    try:
        for expected in _EVEN[:records]:
            size = window[at]
            if size > 0x7F:
                size += (window[at + 1] << 7) - 0x80
                at += 1
            after = at + 1 + (size >> 1)
            time = window[at + 2]
            if time > 0x7F:
                time += (window[at + 3] << 7) - 0x80
                at += 1
            if window[at + 3] != expected or size < _RECORD_MIN or (size | time) & _ODD:
                return None
            tail = window[at + 4 : after]
            head = timed[(time >> 1) + shift] + zigzag[count]
            append(zigzag[len(head) + len(tail)] + head)
            append(tail)
            count += 1
            at = after
    except IndexError:  # a length that lies
        return None
    return moved if at == stop else None


class Bounds(NamedTuple):
    """What the fast way takes: batches without these attributes, shorter, not newer, and ending before an offset."""

    attributes_refused: int
    length_end: int
    timestamp_max: int
    until: int


class Taken(NamedTuple):
    """What one call took: where it stopped, the last batch it took, how many; `is_full`: the next one needs a new batch."""

    at: int
    last: BatchView | None
    batches: int
    is_full: bool


class Splicer:
    """One larger batch at a time, filled from the batches of one partition of one fetch answer."""

    __slots__ = (
        "_base_timestamp",
        "_bounds",
        "_end",
        "_first",
        "_newest",
        "_parts",
        "_pieces",
        "_room",
        "_room_whole",
        "_window",
        "count",
    )

    def __init__(self, bounds: Bounds, batch_bytes_max: int) -> None:
        self._bounds = bounds
        self._room_whole = batch_bytes_max - HEADER_BYTES
        self._window: tuple[bytes, memoryview | None, int] = (b"", None, 0)  # a copy, of what, from where
        self._begin()

    def _begin(self) -> None:
        self._parts: list[bytes] = [HEADER_SPACE]
        self._pieces: list[tuple[int, int]] = []
        self._first = self._end = 0  # the last piece, which may still grow
        self._room = self._room_whole
        self._base_timestamp = self._newest = 0
        self.count = 0

    def _begin_piece(self, offset: int) -> None:
        if self._end > self._first:
            self._pieces.append((self._first, self._end - self._first))
        self._first = self._end = offset

    def take(self, views: Sequence[BatchView], at: int, lowest: int) -> Taken:
        """Adds the leading ordinary batches of `views[at:]` that lie at or above offset `lowest`."""
        attributes_refused, length_end, timestamp_max, until = self._bounds
        window, window_of, window_at = self._window
        window_bytes = len(window)
        parts, room, count = self._parts, self._room, self.count
        base_timestamp, newest_of_all = self._base_timestamp, self._newest
        append, timed, zigzag, heads = parts.append, TIMED, ZIGZAG, _SINGLE_HEADS
        first, is_full, last = at, False, None
        for at in range(first, len(views)):  # where the loop ends is the result
            view = views[at]
            base, length, _, _, _, attributes, delta, timestamp, newest, _, _, _, records, buffer, start = view
            if (
                records != delta + 1
                or records > RECORDS_MAX
                or attributes & attributes_refused
                or length >= length_end
                or newest > timestamp_max
                or base < lowest
                or base + delta >= until
            ):
                break
            if not count:
                base_timestamp = newest_of_all = timestamp
            need = length - _LENGTH_MIN + _GROWTH * records
            shift = timestamp - base_timestamp
            if need > room or count + records > TABLE:
                is_full = count > 0
                break
            if not -REACH_MS <= shift < REACH_MS:
                break
            place = start - window_at
            whole = length + 12
            if buffer is not window_of or place < 0 or place + whole > window_bytes:
                ours = views[-1].start + views[-1].size if views[-1].buffer is buffer else 0
                window = bytes(buffer[start : max(start + whole, min(start + _WINDOW_BYTES, ours))])
                window_of, window_at, window_bytes, place = buffer, start, len(window), 0
            if records == 1:
                head = heads[length - _LENGTH_MIN] if length < _SINGLE_LENGTH_END else _NO_HEAD
                if not window.startswith(head, place + HEADER_BYTES):
                    break
                tail = window[place + HEADER_BYTES + len(head) : place + whole]
                moved = timed[shift] + zigzag[count]
                append(zigzag[len(moved) + len(tail)] + moved)
                append(tail)
                count += 1
            else:
                added = _move_equal(window, place + HEADER_BYTES, place + whole, records, shift, count)
                if not added:
                    added = _move_each(window, place + HEADER_BYTES, place + whole, records, shift, count)
                if not added:
                    break
                parts += added
                count += records
            room -= need
            if newest > newest_of_all:
                newest_of_all = newest
            if base != self._end:
                self._begin_piece(base)
            self._end = lowest = base + records
            last = view
        else:
            at = max(first, len(views))
        self._window = (window, window_of, window_at)
        self._room, self.count = room, count
        self._base_timestamp, self._newest = base_timestamp, newest_of_all
        return Taken(at, last, at - first, is_full)

    def add(self, rows: Sequence[Row]) -> bool:
        """Adds records by the general way; False and nothing added when they may not fit."""
        if not rows:
            return True
        need = sum(len(tail) for _, _, tail in rows) + _HEAD_BYTES_MAX * len(rows)
        if need > self._room:
            return False
        if not self.count:
            self._base_timestamp = self._newest = rows[0][1]
        for offset, timestamp, tail in rows:
            self._parts += (record_head(timestamp - self._base_timestamp, self.count, len(tail)), tail)
            self._newest = max(self._newest, timestamp)
            self.count += 1
            if offset != self._end:
                self._begin_piece(offset)
            self._end = offset + 1
        self._room -= need
        return True

    def finish(self, next_upstream: int) -> OutgoingBatch:
        """The batch so far; the next one starts empty."""
        count, newest = self.count, self._newest
        batch = join_batch(self._parts, NONE, count, self._base_timestamp, newest)
        self._begin_piece(0)
        outgoing = OutgoingBatch(batch, count, tuple(self._pieces), next_upstream, newest)
        self._begin()
        return outgoing

    def drop(self) -> None:
        """Restarts without returning anything."""
        self._begin()
