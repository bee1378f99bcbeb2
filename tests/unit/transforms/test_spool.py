import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.config import SentSettings
from sparkmirror.errors import InternalError, RecordTooLarge
from sparkmirror.model import TopicPartition
from sparkmirror.transforms import spool as spool_module
from sparkmirror.transforms.orders import Change, QueryOrder, range_files_folder, remove_left_folders
from sparkmirror.transforms.packing import Packing, pack_columns, pack_rows, pack_whole, rows_at
from sparkmirror.transforms.spool import Spool, lay_down
from sparkmirror.wire import (
    BatchView,
    Columns,
    Producer,
    Record,
    build_sparse_batch,
    read_batches,
    read_columns,
    read_records,
)

HOME, OTHER = TopicPartition("home", 0), TopicPartition("other", 3)
OURS = Producer(7, 2, 40)
LIMIT = 1 << 20


def order_of(name: str) -> QueryOrder:
    return QueryOrder("file", "digest", "A", "B", "ledger", "folder", name, "lane", 1, 1)


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> QueryOrder:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = order_of("spool")
    range_files_folder(found).mkdir(parents=True)
    return found


def record_at(offset: int) -> Record:
    """Each record tells its offset in every part; with nulls and headers of all kinds."""
    return Record(
        offset,
        1000 + offset * 7 % 11,
        None if offset % 3 == 0 else b"k%d" % offset,
        None if offset % 7 == 0 else b"v%d" % offset * (offset % 50),
        () if offset % 2 else ((b"h\xff", None), (b"o", b"%d" % offset)),
    )


def batch_of(offsets: list[int], codec: int = 0, attributes: int = 0) -> BatchView:
    raw = memoryview(build_sparse_batch([record_at(offset) for offset in offsets], codec=codec, attributes=attributes))
    return read_batches(raw, 0, len(raw))[0]


def batches_of(offsets: list[int], size: int, codec: int = 0) -> list[BatchView]:
    return [batch_of(offsets[at : at + size], codec) for at in range(0, len(offsets), size)]


def told(packing: Packing, target: TopicPartition) -> list[tuple[int, Record]]:
    """Upstream offsets and the records that a target would be sent, read from the batches themselves."""
    if target not in packing.sendings:
        return []
    sending = packing.sendings[target]
    upstream = [start + at for start, length in sending.ranges for at in range(length)]
    found: list[Record] = []
    sequence = OURS.base_sequence
    for ready in sending.batches:
        raw = memoryview(ready.made(OURS._replace(base_sequence=sequence)))
        (view,) = read_batches(raw, 0, len(raw))  # its checksum too
        assert (view.base_offset, view.count, view.last_offset_delta) == (0, ready.count, ready.count - 1)
        assert (view.producer_id, view.producer_epoch, view.base_sequence) == (7, 2, sequence)
        assert not view.attributes & ~0x07
        found += read_records(view)
        sequence += ready.count
    assert sending.newest == max(record.timestamp for record in found)
    assert sending.count == len(found)
    return list(zip(upstream, found, strict=True))


def is_same(found: list[tuple[int, Record]], wanted: list[int]) -> bool:
    expected = [record_at(offset) for offset in wanted]
    return [offset for offset, _ in found] == wanted and [
        (r.timestamp, r.key, r.value, tuple(r.headers)) for _, r in found
    ] == [(r.timestamp, r.key, r.value, r.headers) for r in expected]


gaps = st.lists(st.integers(1, 4), min_size=1, max_size=80) | st.integers(1, 120).map(lambda count: [1] * count)


@given(
    gaps, st.integers(1, 20), st.integers(1, 3), st.integers(1, 30), st.sampled_from([1, 1000, 16 << 20]),
    st.sampled_from([0, 1, 3, 4]), st.sampled_from([0.0, 0.3]), st.randoms(),
)  # fmt: skip
def test_every_row_finds_its_record_whatever_was_left_out_and_however_rows_are_grouped(
    steps, size, laid, asked, limit, codec, left_out, random
):
    offsets = [sum(steps[: at + 1]) for at in range(len(steps))]
    wanted = [offset for offset in offsets if random.random() >= left_out]
    batches = batches_of(offsets, size, codec)
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setattr(spool_module, "BYTES_MAX", limit)
        order = order_of("spool")
        range_files_folder(order).mkdir(parents=True)
        for number, start in enumerate(range(0, len(batches), laid)):
            lay_down(order, 5, number, batches[start : start + laid])
        spool = Spool(order, 5)
        start = 0
        while start < len(wanted):
            views, count = spool.pick_up(wanted[start : start + asked])
            some = wanted[start : start + count]
            assert 0 < count <= asked
            start += count
            rows_of: dict[TopicPartition, list[int]] = {}
            for row, offset in enumerate(some):
                rows_of.setdefault(HOME if offset % 5 else OTHER, []).append(row)
            by_rows = pack_rows(rows_at(views, some), rows_of, codec, lambda _: LIMIT)
            assert by_rows.stop is None
            for target, rows in rows_of.items():
                assert is_same(told(by_rows, target), [some[row] for row in rows])
            columns = Columns()
            for view in views:
                read_columns(view, columns, start=some[0], end=some[-1] + 1)
            by_columns = pack_columns(columns, columns.offsets, {HOME: range(len(columns))}, codec, lambda _: LIMIT)
            inside = {offset for view in views for offset in range(view.base_offset, view.last_offset + 1)}
            present = [offset for offset in offsets if some[0] <= offset <= some[-1] and offset in inside]
            assert is_same(told(by_columns, HOME), present)
            whole = pack_whole(views, some, HOME, LIMIT)  # last: it takes the batches themselves
            assert (whole is not None) == (present == some)
            if whole is not None:
                assert whole.stop is None
                assert is_same(told(whole, HOME), some)
        spool.clear()
        assert list(range_files_folder(order).iterdir()) == []


@pytest.mark.parametrize("asked", [[1], [3], [2, 5], [2, 3, 6], [9]])
def test_a_row_at_an_offset_that_was_not_read_is_refused(order: QueryOrder, asked: list[int]) -> None:
    lay_down(order, 1, 0, [batch_of([2, 4, 6])])
    spool = Spool(order, 1)
    with pytest.raises(InternalError, match="not read"):
        rows_at(spool.pick_up(asked)[0], asked)


def test_records_with_the_time_of_their_append_keep_it() -> None:
    view = batch_of([1, 2, 3], attributes=0x08)
    packing = pack_whole([view], [1, 2, 3], HOME, LIMIT)
    assert packing is not None
    assert [record.timestamp for _, record in told(packing, HOME)] == [view.max_timestamp] * 3


def test_what_is_too_large_for_one_target_stops_all_of_them_at_its_offset() -> None:
    records = [Record(offset, 5, b"k", b"v" * (5000 if offset == 14 else 10)) for offset in range(10, 20)]
    raw = memoryview(build_sparse_batch(records))
    views = read_batches(raw, 0, len(raw))
    offsets = list(range(10, 20))
    rows_of = {OTHER: [0, 4, 9], HOME: [1, 2, 3, 5, 6, 7, 8]}
    columns = Columns()
    read_columns(views[0], columns, start=10, end=20)

    def limit(target: TopicPartition) -> int:
        return 1000 if target == OTHER else LIMIT

    for packing in (
        pack_rows(rows_at(views, offsets), rows_of, 0, limit),
        pack_columns(columns, offsets, rows_of, 0, limit),
    ):
        assert packing.stop is not None
        assert (packing.stop.upstream, packing.stop.target) == (14, OTHER)
        assert isinstance(packing.stop.error, RecordTooLarge)
        assert packing.stop.error.limit == 1000
        assert [offset for offset, _ in told(packing, OTHER)] == [10]
        assert [offset for offset, _ in told(packing, HOME)] == [11, 12, 13]
    whole = pack_whole(views, offsets, OTHER, 1000)
    assert whole is not None
    assert whole.stop is not None
    assert whole.stop.upstream == 14
    assert [offset for offset, _ in told(whole, OTHER)] == [10, 11, 12, 13]


def test_an_order_is_the_same_when_it_was_read_from_its_text() -> None:
    change = Change("value", "value", (("json_mask", "$.a"), ("json_set", "$.b", "1")))
    sent = SentSettings("/etc/mm2.properties", (("A->B.topics", "t"),), ("A.sasl.jaas.config",), 4)
    order = QueryOrder(sent, "A", "B", "l", "f", "n", "i", 1, 2, True, 3, ("offset",), ("key", "value"), ((), (change,)))
    assert QueryOrder.of(order.text()) == order
    assert order.has_spool


def test_what_a_lost_query_laid_down_on_a_machine_without_its_driver_is_removed_after_an_hour(order: QueryOrder) -> None:
    lay_down(order, 1, 0, [batch_of([1, 2])])
    remove_left_folders()
    assert range_files_folder(order).exists()
    long_ago = time.time() - 3700
    os.utime(range_files_folder(order), (long_ago, long_ago))
    remove_left_folders()
    assert not range_files_folder(order).parent.exists()
