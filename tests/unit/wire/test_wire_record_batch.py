"""The gate and the batch writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_builders import NOW, a_batch, a_marker, a_record, an_emptied_batch, codecs, mended, records, views_of

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire import (
    Producer,
    Record,
    build_batch,
    build_sparse_batch,
    control_type,
    first_batch_size,
    read_batches,
    read_records,
)


@given(st.lists(records, min_size=1, max_size=8), codecs, st.integers(0, 1 << 40))
def test_batch_reads_back_the_records_it_was_built_from(rows: list[Record], codec: int, base: int) -> None:
    batch = build_batch(rows, codec=codec, base_offset=base, producer=Producer(5, 6, 7))
    [view] = views_of(batch)
    expected = [Record(base + step, r.timestamp, r.key, r.value, r.headers) for step, r in enumerate(rows)]
    assert list(read_records(view)) == expected
    assert (view.base_offset, view.last_offset, view.count) == (base, base + len(rows) - 1, len(rows))
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.leader_epoch) == (5, 6, 7, -1)
    assert view.codec == codec and view.size == len(batch) and view.raw == batch and view.is_dense
    assert view.max_timestamp == max(row.timestamp for row in rows)


def test_sparse_batch_keeps_each_record_at_its_own_offset() -> None:
    rows = [a_record(10), a_record(13), a_record(500)]
    [view] = views_of(build_sparse_batch(rows))
    assert list(read_records(view)) == rows
    assert not view.is_dense and view.last_offset == 500


def test_raw_of_a_writable_buffer_writes_through() -> None:
    buffer = bytearray(a_batch(0))
    [view] = read_batches(memoryview(buffer), 0, len(buffer))
    view.raw[0] = 0x7F
    assert buffer[0] == 0x7F


def test_batches_are_read_between_the_two_positions_only() -> None:
    one, two, three = a_batch(1), a_batch(2), a_batch(3)
    buffer = memoryview(b"junk" + one + two + three)
    views = read_batches(buffer, 4, 4 + len(one) + len(two))
    assert [view.base_offset for view in views] == [1, 2]


@pytest.mark.parametrize("kept", [0, 5, 11, 12, 16, 17, 60, 61])
def test_cut_off_tail_ends_the_list(kept: int) -> None:
    whole, cut = a_batch(1, 2), a_batch(3, 4)[:kept]
    assert [view.base_offset for view in views_of(whole, cut)] == [1]
    assert views_of(cut) == []


def test_cut_off_first_batch_tells_the_size_it_needs() -> None:
    batch = a_batch(1, 2)
    assert first_batch_size(memoryview(batch), 0, 30) == len(batch)
    assert first_batch_size(memoryview(batch), 0, 11) is None


def test_emptied_batch_is_legal_and_accounts_for_its_offsets() -> None:
    [view] = views_of(an_emptied_batch(10, 5))
    assert (view.base_offset, view.last_offset, view.count, view.is_dense) == (10, 14, 0, False)
    assert list(read_records(view)) == []


def test_damage_after_good_batches_ends_the_list_and_as_the_first_raises() -> None:
    bad = a_batch(3)
    bad[-1] ^= 1
    assert [view.base_offset for view in views_of(a_batch(1), a_batch(2), bad, a_batch(4))] == [1, 2]
    with pytest.raises(CorruptBatch, match="checksum") as caught:
        views_of(bad)
    assert caught.value.offset == 3


def test_checksum_is_not_looked_at_when_not_asked_for() -> None:
    bad = a_batch(3)
    bad[-1] ^= 1
    assert len(read_batches(memoryview(bad), 0, len(bad), verify_crc=False)) == 1


def test_log_append_time_gives_every_record_the_max_timestamp() -> None:
    batch = mended(a_batch(0, 1, 2), attributes=0x08, max_timestamp=NOW + 99)
    [view] = views_of(batch)
    assert view.is_log_append_time
    assert {record.timestamp for record in read_records(view)} == {NOW + 99}


def test_deltas_count_from_the_base_timestamp_also_when_it_is_a_delete_horizon() -> None:
    [view] = views_of(mended(a_batch(0, 1), attributes=0x40, base_timestamp=NOW + 1000))
    assert [record.timestamp for record in read_records(view)] == [NOW + 1000, NOW + 1001]


def test_markers_tell_how_their_transaction_ended() -> None:
    views = views_of(a_marker(1, 9, "commit"), a_marker(2, 9, "abort"), a_batch(3), an_emptied_batch(4, 1))
    assert [control_type(view) for view in views] == ["commit", "abort", None, None]
    assert views[0].is_control and views[0].is_transactional and not views[2].is_control


def test_timestamps_at_both_ends_of_time_survive() -> None:
    rows = [a_record(0, timestamp=-(1 << 63)), a_record(1, timestamp=(1 << 63) - 1), a_record(2, timestamp=-1)]
    [view] = views_of(build_batch(rows))
    assert [record.timestamp for record in read_records(view)] == [row.timestamp for row in rows]
