"""From fetched batches to outgoing batches: which path each batch takes, what is dropped, and where copying must stop.

| path    | when                                                                                              |
|---------|---------------------------------------------------------------------------------------------------|
| patch   | dense, wholly wanted, create time, fits the target, not small: its own bytes, no copy             |
| merge   | small neighbours of one codec become one batch; a small one that stays alone is patched           |
|         | (uncompressed ones are spliced, compressed ones opened and compressed again)                      |
| rebuild | offset gaps, partly wanted, log append time, too large for the target: record by record           |
| drop    | control batches, aborted transactions under read_committed, batches that compaction has emptied   |

Invariant A: no record below `from_offset` or at or above `until_offset` is in any outgoing batch, and offsets only ascend.
Invariant B: when the packing stops, the outgoing batches before it are complete, and `next_upstream` is where it stopped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.errors import CorruptBatch, InternalError, ReplicationError, TargetRefusedRecords, TargetRefusedTimestamp
from sparkmirror.wire.codecs import NONE
from sparkmirror.wire.record_batch import (
    ATTRIBUTE_CODEC,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    BatchView,
    Row,
    control_type,
    read_rows,
)
from sparkmirror.wire.rewrite import OutgoingBatch, assemble, patch
from sparkmirror.wire.splice import RECORDS_MAX, Bounds, Splicer

_OFFSET_END = 1 << 63
_NO_TIMESTAMP = -1
_NOT_PATCHABLE = ATTRIBUTE_CONTROL | ATTRIBUTE_LOG_APPEND_TIME
# Opening and compressing a record costs some 3 µs: above this many, a batch of its own costs the target less.
_MERGE_RECORDS_MAX = 24
_NULL_KEY = 1  # the zigzag form of length -1, the first byte of a record's tail


@dataclass(frozen=True, slots=True)
class PackLimits:
    """What the target accepts, and when to merge. Timestamps are absolute ms, None = the target does not check.

    Batches of few records below a size are merged: `merge_below_bytes` for compressed, `splice_below_bytes` for plain.
    """

    batch_bytes_max: int
    merge_below_bytes: int
    merge_to_bytes: int
    decompressed_bytes_max: int
    refuse_null_keys: bool = False
    timestamp_after_max: int | None = None
    timestamp_before_min: int | None = None
    splice_below_bytes: int = 0

    def is_small(self, view: BatchView) -> bool:
        """Whether a batch had better be merged with its neighbours."""
        if view.attributes & ATTRIBUTE_CODEC:
            return view.size < self.merge_below_bytes and view.count <= _MERGE_RECORDS_MAX
        return view.size < self.splice_below_bytes and view.count <= RECORDS_MAX


@dataclass(frozen=True, slots=True)
class Packed:
    """The outgoing batches in order, the first upstream offset not accounted for, and what stopped the packing there."""

    outgoing_batches: list[OutgoingBatch]
    next_upstream: int
    stopped: ReplicationError | None = None


def pack(
    batches: Sequence[BatchView],
    *,
    from_offset: int,
    until_offset: int | None,
    aborted: Sequence[tuple[int, int]] | None,
    limits: PackLimits,
) -> Packed:
    """Turn the batches of one partition of one fetch response into outgoing batches.

    `aborted` is the response's own list of (producer id, first offset), None under read_uncommitted. A batch or record
    that cannot be copied does not raise: it is in `stopped`, and `next_upstream` is its offset.
    """
    until = _OFFSET_END if until_offset is None else until_offset
    patched = [] if aborted else _patch_leading(batches, from_offset, until, limits)
    if patched:
        from_offset, batches = patched[-1].next_upstream, batches[len(patched) :]
        if not batches:
            return Packed(patched, from_offset)
    packer = _Packer(from_offset, until, aborted or (), limits)
    packer.lowest = from_offset if patched else 0
    packer.run(batches)
    _assert_window(packer.outgoing_batches, from_offset)
    return Packed(patched + packer.outgoing_batches, packer.next_upstream, packer.stopped)


def _patch_leading(batches: Sequence[BatchView], start: int, until: int, limits: PackLimits) -> list[OutgoingBatch]:
    """The leading batches that need nothing but a new header: nearly always all of them, so this is the short way."""
    if limits.refuse_null_keys or limits.timestamp_before_min is not None:
        return []
    newest = _OFFSET_END if limits.timestamp_after_max is None else limits.timestamp_after_max
    largest, is_alone = limits.batch_bytes_max, len(batches) == 1
    outgoing_batches: list[OutgoingBatch] = []
    for view in batches:
        base, count, delta = view[0], view[12], view[6]
        if (
            view[5] & _NOT_PATCHABLE
            or count != delta + 1
            or view[1] + 12 > largest
            or base < start
            or base + delta >= until
            or view[8] > newest
            or (not is_alone and limits.is_small(view))
        ):
            break
        outgoing_batches.append(patch(view))
        start = base + count
    return outgoing_batches


def _assert_window(outgoing_batches: list[OutgoingBatch], from_offset: int) -> None:
    position = from_offset
    for outgoing in outgoing_batches:
        first = outgoing.pieces[0][0]
        if first < position:
            raise InternalError(f"invariant A: an outgoing batch begins at upstream {first}, {position} or later expected")
        position = outgoing.next_upstream


class AbortedTransactions:
    """Which producer ids are inside an aborted transaction, as one fetch response lists them.

    The state must not outlive the response: the next response's list names again whatever is still open, and an id
    that aborted once may commit later.
    """

    __slots__ = ("_coming", "_open")

    def __init__(self, aborted: Sequence[tuple[int, int]]) -> None:
        self._coming = sorted(aborted, key=lambda entry: entry[1], reverse=True)
        self._open: set[int] = set()

    def drops(self, view: BatchView) -> bool:
        """Whether the batch is aborted data; must see every transactional and control batch, in order."""
        while self._coming and self._coming[-1][1] <= view.last_offset:
            self._open.add(self._coming.pop()[0])
        if view.is_control:
            if self._open and control_type(view) == "abort":
                self._open.discard(view.producer_id)
            return False
        return view.is_transactional and view.producer_id in self._open


class _Group:
    """Small neighbours of one codec, waiting to become one batch: plain ones in the splicer, compressed ones as rows."""

    __slots__ = ("body_bytes", "codec", "is_read", "lone", "next_upstream", "rows", "size", "sources")

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.codec = NONE
        self.sources = 0
        self.size = 0
        self.body_bytes = 0
        self.next_upstream = 0
        # The only batch so far, while it may still be patched, and whether its records are in the group already.
        self.lone: BatchView | None = None
        self.is_read = False


class _Packer:
    """One run of `pack`."""

    __slots__ = (
        "_aborted",
        "_finished",
        "_from",
        "_group",
        "_limits",
        "_splicer",
        "_until",
        "lowest",
        "next_upstream",
        "outgoing_batches",
        "stopped",
    )

    def __init__(self, start: int, until: int, aborted: Sequence[tuple[int, int]], limits: PackLimits) -> None:
        self._from, self._until, self._limits = start, until, limits
        self.lowest = 0  # the least base offset that the next batch may have
        self._aborted = AbortedTransactions(aborted)
        self._splicer = Splicer(
            _splice_bounds(until, bool(aborted), limits), min(limits.merge_to_bytes, limits.batch_bytes_max)
        )
        self._group = _Group()
        self._finished = False
        self.outgoing_batches: list[OutgoingBatch] = []
        self.next_upstream = start
        self.stopped: ReplicationError | None = None

    def run(self, batches: Sequence[BatchView]) -> None:
        """Take all batches, as far as nothing stops it."""
        at, end = 0, len(batches)
        while at < end and not self._finished:
            spliced = self._splice(batches, at)
            if spliced == at:
                self._take(batches[at])
                spliced += 1
            at = spliced
        if self.stopped is None:
            self._close_group()

    def _splice(self, batches: Sequence[BatchView], at: int) -> int:
        """Take ordinary plain batches the fast way; returns how far it came."""
        is_full = True
        while is_full:
            group = self._group
            if group.sources and (group.codec != NONE or not group.is_read):
                return at
            at, last, count, is_full = self._splicer.take(batches, at, max(self.lowest, self._from))
            if last is not None:
                group.lone = last if not group.sources and count == 1 else None
                group.codec, group.is_read = NONE, True
                group.sources += count
                self._advance(last, last.last_offset + 1)
                group.next_upstream = self.next_upstream
            if is_full:
                self._close_group()
        return at

    def _take(self, view: BatchView) -> None:
        """One batch by the general way."""
        if view.base_offset < self.lowest:
            reason = f"batch at offset {view.base_offset} lies below offset {self.lowest}, which was already read"
            self._stop(CorruptBatch(reason, offset=view.base_offset), self.next_upstream)
        elif view.base_offset >= self._until:
            self.next_upstream, self._finished = max(self.next_upstream, self._until), True
        else:
            try:
                self._take_wanted(view)
            except CorruptBatch as error:
                self._stop(error, view.base_offset if error.offset is None else error.offset)

    def _take_wanted(self, view: BatchView) -> None:
        end = min(view.last_offset + 1, self._until)
        if self._aborted.drops(view) or view.is_control or not view.count or view.last_offset < self._from:
            self._advance(view, end)
            return
        whole = view.base_offset >= self._from and view.last_offset < self._until
        fits = view.size <= self._limits.batch_bytes_max
        piece = _WantedRecords(view, whole and fits and view.is_dense and not view.is_log_append_time, end)
        if not piece.patchable or _is_suspect(view, self._limits):
            piece.rows = self._wanted_rows(view)
            piece.cut_at_refused(self._limits)
        if self._limits.is_small(view):
            self._join_group(piece)
        else:
            self._send_alone(piece)
        if piece.refusal is not None:
            self._stop(piece.refusal, piece.next_upstream)

    def _wanted_rows(self, view: BatchView) -> list[Row]:
        rows = read_rows(view, limit=self._limits.decompressed_bytes_max)
        if view.base_offset >= self._from and view.last_offset < self._until:
            return rows
        return [row for row in rows if self._from <= row[0] < self._until]

    def _join_group(self, piece: _WantedRecords) -> None:
        group, view = self._group, piece.view
        limits = self._limits
        # The splicer knows by itself when it is full.
        full = view.codec != NONE and group.size + view.size > limits.merge_to_bytes
        if group.sources and (full or group.codec != view.codec or group.body_bytes > limits.decompressed_bytes_max):
            self._close_group()
            group = self._group
        self._read_lone()
        if self._finished:
            return
        group = self._group
        if group.sources or not piece.patchable:
            self._read_into_group(piece.rows if piece.rows is not None else self._wanted_rows(view), view.codec)
            if self._finished:
                return
            group = self._group
            group.is_read = True
        else:
            group.lone = view  # not opened before it has company
        group.codec = view.codec
        group.sources += 1
        group.size += view.size
        self._advance(view, piece.next_upstream)
        group.next_upstream = self.next_upstream

    def _read_into_group(self, rows: list[Row], codec: int) -> None:
        if codec != NONE:
            self._group.rows += rows
            self._group.body_bytes += sum(len(tail) for _, _, tail in rows)
        elif not self._splicer.add(rows):
            self._close_group()
            if not self._finished and not self._splicer.add(rows):
                self._assemble(rows, codec, rows[-1][0] + 1)

    def _read_lone(self) -> None:
        """Open the batch that waited alone, now that it has company."""
        group, lone = self._group, self._group.lone
        group.lone = None
        if lone is not None and not group.is_read:
            # Damaged, it must not be patched through either: the group is given up before the reading.
            self._group = _Group()
            rows = self._wanted_rows(lone)
            self._group = group
            self._read_into_group(rows, lone.codec)
            group.is_read = True

    def _send_alone(self, piece: _WantedRecords) -> None:
        self._close_group()
        if self._finished:
            return
        self._advance(piece.view, piece.next_upstream)
        if piece.patchable:
            self.outgoing_batches.append(patch(piece.view))
        else:
            self._assemble(piece.rows or [], piece.view.codec, piece.next_upstream)

    def _close_group(self) -> None:
        group, self._group = self._group, _Group()
        if group.lone is not None:
            self._splicer.drop()
            self.outgoing_batches.append(patch(group.lone))
        elif self._splicer.count:
            self.outgoing_batches.append(self._splicer.finish(group.next_upstream))
        else:
            self._assemble(group.rows, group.codec, group.next_upstream)

    def _assemble(self, rows: list[Row], codec: int, end: int) -> None:
        done = assemble(rows, codec, batch_bytes_max=self._limits.batch_bytes_max, next_upstream=end)
        self.outgoing_batches += done.outgoing_batches
        if done.stopped is not None:
            self._finish(done.stopped, done.stopped.offset)

    def _advance(self, view: BatchView, end: int) -> None:
        self.lowest = view.last_offset + 1
        self.next_upstream = max(self.next_upstream, end)

    def _stop(self, error: ReplicationError, offset: int) -> None:
        """Give out what waits, then stop; what waits may itself stop earlier, and then that stop is returned."""
        self._close_group()
        if not self._finished:
            self._finish(error, offset)

    def _finish(self, error: ReplicationError, offset: int) -> None:
        self.stopped, self.next_upstream, self._finished = error, max(self._from, offset), True


class _WantedRecords:
    """One batch with something to copy: how far it is accounted for, and its rows once they were needed."""

    __slots__ = ("next_upstream", "patchable", "refusal", "rows", "view")

    def __init__(self, view: BatchView, patchable: bool, next_upstream: int) -> None:
        self.view = view
        self.patchable = patchable
        self.next_upstream = next_upstream
        self.rows: list[Row] | None = None
        self.refusal: TargetRefusedRecords | None = None

    def cut_at_refused(self, limits: PackLimits) -> None:
        """Keep the rows before the first one that the target would refuse."""
        if self.rows is None or not _is_suspect(self.view, limits):
            return
        for index, row in enumerate(self.rows):
            self.refusal = _refusal(row, limits)
            if self.refusal is not None:
                self.rows, self.next_upstream, self.patchable = self.rows[:index], row[0], False
                return


def _splice_bounds(until: int, has_aborted: bool, limits: PackLimits) -> Bounds:
    refused = ATTRIBUTE_CODEC | ATTRIBUTE_LOG_APPEND_TIME | ATTRIBUTE_CONTROL
    if has_aborted:
        refused |= ATTRIBUTE_TRANSACTIONAL
    newest = _OFFSET_END if limits.timestamp_after_max is None else limits.timestamp_after_max
    if _checks_every_record(limits):
        newest = -_OFFSET_END - 1  # below every timestamp: the fast way takes nothing
    return Bounds(refused, min(limits.splice_below_bytes, limits.batch_bytes_max + 1) - 12, newest, until)


def _checks_every_record(limits: PackLimits) -> bool:
    # The header has the newest timestamp but not the oldest: the base timestamp is only the first record's.
    return limits.refuse_null_keys or limits.timestamp_before_min is not None


def _is_suspect(view: BatchView, limits: PackLimits) -> bool:
    """Whether the batch may hold a record that the target refuses by its content."""
    after = limits.timestamp_after_max
    return _checks_every_record(limits) or (after is not None and view.max_timestamp > after)


def _refusal(row: Row, limits: PackLimits) -> TargetRefusedRecords | None:
    """Why the target would refuse this record, None when it would not."""
    offset, timestamp, tail = row
    where = f"record at upstream offset {offset}"
    if limits.refuse_null_keys and tail[0] == _NULL_KEY:
        return TargetRefusedRecords(
            f"{where} has no key, and the target topic is compacted",
            hint="set cleanup.policy=delete on the target topic, or write keys",
        )
    if timestamp == _NO_TIMESTAMP:
        return None  # brokers do not judge a record without a time
    after, before = limits.timestamp_after_max, limits.timestamp_before_min
    if after is not None and timestamp > after:
        return TargetRefusedTimestamp(
            f"{where} has timestamp {timestamp}, the target accepts none after {after}",
            hint="raise message.timestamp.after.max.ms of the target topic",
        )
    if before is not None and timestamp < before:
        return TargetRefusedTimestamp(
            f"{where} has timestamp {timestamp}, the target accepts none before {before}",
            hint="raise message.timestamp.before.max.ms of the target topic",
        )
    return None
