"""Packing of random logs, compared with a naive reading of the same log."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_builders import (
    NOW,
    Content,
    a_marker,
    an_emptied_batch,
    codecs,
    content_of,
    limits,
    mended,
    opened_all,
    records,
    views_of,
)

from sparkmirror.wire import Producer, Record, build_sparse_batch, pack

TRANSACTIONAL, LOG_APPEND_TIME = 0x10, 0x08


@dataclass
class Log:
    """A partition as it was written: its batches, and what a reader of committed data must see."""

    batches: list[tuple[int, bytes]] = field(default_factory=list)  # (last offset, bytes)
    rows: list[tuple[int, Content]] = field(default_factory=list)
    undecided: dict[int, list[tuple[int, Content]]] = field(default_factory=dict)
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # (producer id, first offset, marker offset)
    end: int = 0

    def add(self, last_offset: int, batch: bytes | bytearray) -> None:
        self.batches.append((last_offset, bytes(batch)))
        self.end = last_offset + 1

    def mark(self, producer_id: int, kind: str) -> None:
        rows = self.undecided.pop(producer_id, [])
        if kind == "commit":
            self.rows += rows
        elif rows:
            self.aborted.append((producer_id, rows[0][0], self.end))
        self.add(self.end, a_marker(self.end, producer_id, kind))


@st.composite
def logs(draw: st.DrawFn) -> Log:
    log = Log()
    for _ in range(draw(st.integers(0, 12))):
        log.end += draw(st.sampled_from([0, 0, 0, 3]))
        kind = draw(st.sampled_from(["data", "data", "data", "single", "single", "transaction", "marker", "emptied"]))
        if kind == "marker":
            log.mark(draw(st.sampled_from([1, 2])), draw(st.sampled_from(["commit", "abort"])))
        elif kind == "emptied":
            span = draw(st.integers(1, 4))
            log.add(log.end + span - 1, an_emptied_batch(log.end, span))
        else:
            _add_data(draw, log, kind)
    for producer_id in list(log.undecided):
        log.mark(producer_id, draw(st.sampled_from(["commit", "abort"])))
    return log


def _add_data(draw: st.DrawFn, log: Log, kind: str) -> None:
    size = 1 if kind == "single" else draw(st.integers(1, 5))
    offset, rows = log.end, []
    for row in draw(st.lists(records, min_size=size, max_size=size)):
        rows.append(Record(offset, row.timestamp, row.key, row.value, row.headers))
        offset += draw(st.sampled_from([1, 1, 1, 2]))
    codec = 0 if kind == "single" else draw(codecs)
    producer_id = draw(st.sampled_from([1, 2])) if kind == "transaction" else -1
    attributes = TRANSACTIONAL if kind == "transaction" else 0
    batch = build_sparse_batch(rows, codec=codec, attributes=attributes, producer=Producer(producer_id, 0, 0))
    if kind == "data" and draw(st.booleans()):
        batch = mended(batch, attributes=codec | LOG_APPEND_TIME, max_timestamp=NOW)
        rows = [Record(row.offset, NOW, row.key, row.value, row.headers) for row in rows]
    last_offset = rows[-1].offset + draw(st.sampled_from([0, 0, 2]))
    batch = mended(batch, last_offset_delta=last_offset - rows[0].offset)
    contents = [(row.offset, content_of(row)) for row in rows]
    if kind == "transaction":
        log.undecided.setdefault(producer_id, []).extend(contents)
    else:
        log.rows += contents
    log.add(last_offset, batch)


pack_limits = st.builds(
    lambda below, to, most: limits(merge_below_bytes=below, merge_to_bytes=to, batch_bytes_max=most),
    st.sampled_from([0, 120, 1 << 16]),
    st.sampled_from([1, 300, 1 << 16]),
    st.sampled_from([400, 1 << 20]),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(logs(), pack_limits, st.data())
def test_outgoing_batches_hold_exactly_the_wanted_records_of_any_log(log: Log, limit: object, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, log.end), label="start")
    until = data.draw(st.none() | st.integers(start, log.end + 3), label="until")
    # A response begins with the batch that holds the start, and names the aborted transactions that reach into it.
    fetched = [batch for last_offset, batch in log.batches if last_offset >= start]
    aborted = [(producer_id, first) for producer_id, first, marker in log.aborted if marker >= start]

    result = pack(views_of(*fetched), from_offset=start, until_offset=until, aborted=aborted, limits=limit)  # type: ignore[arg-type]  # built above

    end = log.end + 1000 if until is None else until
    assert result.stopped is None
    positions = [outgoing.next_upstream for outgoing in result.outgoing_batches]
    assert positions == sorted(positions) and all(position <= result.next_upstream for position in positions)
    assert all(len(outgoing.buffer) <= limit.batch_bytes_max for outgoing in result.outgoing_batches)  # type: ignore[attr-defined]  # built above
    assert opened_all(result.outgoing_batches) == sorted(row for row in log.rows if start <= row[0] < end)
    covered = log.batches[-1][0] + 1 if log.batches else start
    assert result.next_upstream == max(start, min(end, covered))


@settings(max_examples=25, deadline=None)
@given(logs(), pack_limits)
def test_packing_in_two_halves_gives_the_same_records_as_in_one(log: Log, limit: object) -> None:
    views = views_of(*[batch for _, batch in log.batches])
    half = len(views) // 2
    aborted = [(producer_id, first) for producer_id, first, _ in log.aborted]
    first = pack(views[:half], from_offset=0, until_offset=None, aborted=None, limits=limit)  # type: ignore[arg-type]  # built above
    second = pack(views[half:], from_offset=first.next_upstream, until_offset=None, aborted=None, limits=limit)  # type: ignore[arg-type]  # built above
    halves = opened_all(first.outgoing_batches) + opened_all(second.outgoing_batches)
    whole_views = views_of(*[batch for _, batch in log.batches])
    whole = pack(whole_views, from_offset=0, until_offset=None, aborted=None, limits=limit)  # type: ignore[arg-type]  # built above
    assert halves == opened_all(whole.outgoing_batches)
    committed = {offset for offset, _ in log.rows}
    assert aborted or {offset for offset, _ in halves} == committed
