"""Lanes: what is patched, merged, rebuilt, dropped, and what stops."""

from __future__ import annotations

import pytest
from wire_builders import (
    NOW,
    a_batch,
    a_marker,
    a_record,
    an_emptied_batch,
    content_of,
    limits,
    mended,
    opened,
    opened_all,
    views_of,
)

from sparkmirror.errors import CorruptBatch, RecordTooLarge, TargetRefusedRecords
from sparkmirror.wire import (
    BatchView,
    Packed,
    PackLimits,
    Record,
    build_batch,
    build_sparse_batch,
    pack,
    read_batches,
    stamp,
)

MERGE = limits(merge_below_bytes=1000)


def packed(
    views: list[BatchView],
    *,
    start: int = 0,
    until: int | None = None,
    aborted: list[tuple[int, int]] | None = None,
    limits: PackLimits = limits(),  # noqa: B008  # frozen
) -> Packed:
    return pack(views, from_offset=start, until_offset=until, aborted=aborted, limits=limits)


def upstream(result: Packed) -> list[int]:
    return [offset for offset, _ in opened_all(result.outgoing_batches)]


def test_dense_wanted_batch_is_patched_without_a_copy() -> None:
    buffer = bytearray(a_batch(5, 6, 7))
    views = read_batches(memoryview(buffer), 0, len(buffer))
    result = packed(views, start=5)
    [outgoing] = result.outgoing_batches
    assert isinstance(outgoing.buffer, memoryview) and outgoing.buffer.obj is buffer
    assert (outgoing.pieces, outgoing.next_upstream, result.next_upstream) == (((5, 3),), 8, 8)
    assert upstream(result) == [5, 6, 7]
    assert buffer[:8] == bytes(8)


def test_read_only_batch_is_copied_before_it_is_stamped() -> None:
    data = bytes(a_batch(5))
    result = packed(read_batches(memoryview(data), 0, len(data)))
    stamp(result.outgoing_batches[0].buffer, 1, 2, 3)
    assert data == bytes(a_batch(5))


@pytest.mark.parametrize("bits", [0x10, 0x40, 0x80, 0x100])
def test_stamp_keeps_only_the_codec_bits(bits: int) -> None:
    result = packed(views_of(a_batch(0, 1, codec=4, attributes=bits)))
    stamp(result.outgoing_batches[0].buffer, 1, 2, 3)
    [view] = views_of(result.outgoing_batches[0].buffer)
    assert view.attributes == 4


def test_small_neighbours_of_one_codec_become_one_batch() -> None:
    for codec in range(5):
        batches = [a_batch(step, codec=codec) for step in range(20)]
        result = packed(views_of(*batches), limits=MERGE)
        [outgoing] = result.outgoing_batches
        assert outgoing.pieces == ((0, 20),)
        assert [content for _, content in opened(outgoing)] == [content_of(a_record(i, value=b"v")) for i in range(20)]
        assert outgoing.buffer[22] == codec


def test_small_batch_that_stays_alone_is_patched() -> None:
    for codec in (0, 3):
        views = views_of(a_batch(0, codec=codec), a_batch(1, 2, codec=1), a_batch(3, codec=codec))
        result = packed(views, limits=MERGE)
        assert [type(outgoing.buffer) for outgoing in result.outgoing_batches] == [memoryview] * 3
        assert upstream(result) == [0, 1, 2, 3]


def test_merged_batches_stay_within_the_merge_size() -> None:
    views = views_of(*[a_batch(step, value=bytes(200)) for step in range(50)])
    result = packed(views, limits=limits(merge_below_bytes=1000, merge_to_bytes=2000))
    assert len(result.outgoing_batches) > 5 and all(len(outgoing.buffer) <= 2000 for outgoing in result.outgoing_batches)
    assert upstream(result) == list(range(50))


def test_merge_goes_over_offset_gaps_between_and_within_batches() -> None:
    result = packed(views_of(a_batch(0), a_batch(2, 5), a_batch(6), an_emptied_batch(7, 3), a_batch(10)), limits=MERGE)
    [outgoing] = result.outgoing_batches
    assert outgoing.pieces == ((0, 1), (2, 1), (5, 2), (10, 1))
    assert outgoing.next_upstream == result.next_upstream == 11


def test_batch_with_gaps_is_rebuilt_dense() -> None:
    [outgoing] = packed(views_of(a_batch(10, 12, 13, codec=2))).outgoing_batches
    assert outgoing.pieces == ((10, 1), (12, 2)) and outgoing.buffer[22] == 2
    assert [offset for offset, _ in opened(outgoing)] == [10, 12, 13]


@pytest.mark.parametrize("limit", [limits(), MERGE])
def test_only_the_wanted_part_of_a_batch_is_copied(limit: PackLimits) -> None:
    views = views_of(a_batch(*range(10)), a_batch(*range(10, 20)), a_batch(*range(20, 30)))
    result = packed(views, start=4, until=25, limits=limit)
    assert upstream(result) == list(range(4, 25))
    assert result.next_upstream == result.outgoing_batches[-1].next_upstream == 25


def test_batch_that_begins_at_the_end_of_the_window_ends_the_packing_there() -> None:
    result = packed(views_of(a_batch(0), a_batch(30)), until=20)
    assert upstream(result) == [0] and result.next_upstream == 20


def test_batches_wholly_below_the_start_are_passed_over() -> None:
    result = packed(views_of(a_batch(0), a_batch(1), a_batch(2)), start=2, limits=MERGE)
    assert upstream(result) == [2]
    assert packed(views_of(a_batch(0)), start=2).next_upstream == 2


def test_log_append_time_becomes_create_time() -> None:
    [outgoing] = packed(views_of(mended(a_batch(0, 1), attributes=0x08, max_timestamp=NOW + 77))).outgoing_batches
    assert [content[0] for _, content in opened(outgoing)] == [NOW + 77, NOW + 77]


@pytest.mark.parametrize("codec", range(5))
def test_batch_too_large_for_the_target_is_split(codec: int) -> None:
    rows = [a_record(step, value=bytes((step * 7 + at * at) % 251 for at in range(100))) for step in range(40)]
    result = packed(views_of(build_batch(rows, codec=codec)), limits=limits(batch_bytes_max=450))
    assert all(len(outgoing.buffer) <= 450 for outgoing in result.outgoing_batches) and len(result.outgoing_batches) > 1
    assert [content for _, content in opened_all(result.outgoing_batches)] == [content_of(row) for row in rows]
    assert result.outgoing_batches[-1].next_upstream == 40


@pytest.mark.parametrize("codec", range(5))
def test_record_too_large_alone_stops_there_and_those_before_are_delivered(codec: int) -> None:
    noise = bytes((at * at * 31 + at // 7) % 256 for at in range(3000))
    rows = [a_record(0), a_record(1), a_record(2, value=noise), a_record(3)]
    result = packed(views_of(build_batch(rows, codec=codec)), limits=limits(batch_bytes_max=300))
    assert upstream(result) == [0, 1] and result.next_upstream == 2
    assert isinstance(result.stopped, RecordTooLarge)
    assert (result.stopped.offset, result.stopped.limit) == (2, 300)
    again = packed(views_of(build_batch(rows[2:3])), limits=limits(batch_bytes_max=result.stopped.size))
    assert again.stopped is None and len(again.outgoing_batches[0].buffer) == result.stopped.size


def test_record_that_its_codec_makes_larger_is_sent_plain() -> None:
    row = a_record(0, value=b"v")
    plain = len(build_batch([row]))
    batch = build_batch([row], codec=2)
    assert len(batch) > plain
    [outgoing] = packed(views_of(batch), limits=limits(batch_bytes_max=plain)).outgoing_batches
    assert outgoing.buffer[22] == 0 and len(outgoing.buffer) == plain
    opened(outgoing)


def test_control_batches_are_dropped_and_accounted_for() -> None:
    result = packed(views_of(a_batch(0), a_marker(1, 9, "commit"), a_batch(2), a_marker(3, 9, "abort")))
    assert upstream(result) == [0, 2] and result.next_upstream == 4
    assert packed(views_of(a_marker(5, 9, "abort")), start=5) == Packed([], 6)


TRANSACTIONS = [
    a_batch(0, attributes=0x10, producer_id=7),
    a_batch(1, attributes=0x10, producer_id=8),
    a_marker(2, 7, "abort"),
    a_batch(3, attributes=0x10, producer_id=7),
    a_batch(4, producer_id=7),
    a_marker(5, 7, "commit"),
    a_batch(6, attributes=0x10, producer_id=8),
    a_marker(7, 8, "abort"),
    a_batch(8, attributes=0x10, producer_id=8),
]


@pytest.mark.parametrize("limit", [limits(), MERGE])
def test_aborted_transactions_are_dropped_until_their_marker(limit: PackLimits) -> None:
    views = views_of(*TRANSACTIONS)
    assert upstream(packed(views, aborted=[(8, 1), (7, 0)], limits=limit)) == [3, 4, 8]


@pytest.mark.parametrize("aborted", [None, []])
def test_nothing_is_dropped_when_the_response_names_no_aborted_transaction(
    aborted: list[tuple[int, int]] | None,
) -> None:
    assert upstream(packed(views_of(*TRANSACTIONS), aborted=aborted, limits=MERGE)) == [0, 1, 3, 4, 6, 8]


def test_resuming_inside_an_aborted_transaction_drops_the_rest_of_it() -> None:
    batch = a_batch(4, 5, 6, attributes=0x10, producer_id=7)
    result = packed(views_of(batch, a_marker(7, 7, "abort"), a_batch(8)), start=5, aborted=[(7, 1)])
    assert upstream(result) == [8]


def test_commit_marker_of_an_aborted_id_does_not_end_the_abortion() -> None:
    views = views_of(a_marker(1, 7, "commit"), a_batch(2, attributes=0x10, producer_id=7), a_marker(3, 7, "abort"))
    assert upstream(packed(views, aborted=[(7, 1)])) == []


@pytest.mark.parametrize("limit", [limits(), MERGE])
@pytest.mark.parametrize("codec", [0, 3])
def test_timestamp_that_the_target_refuses_stops_at_its_record(limit: PackLimits, codec: int) -> None:
    batch = build_batch([a_record(0), a_record(1, timestamp=NOW + 500), a_record(2)], base_offset=10, codec=codec)
    views = views_of(a_batch(9, codec=codec), batch, a_batch(13, codec=codec))
    for bound in ({"timestamp_after_max": NOW + 499}, {"timestamp_after_max": NOW + 499, "timestamp_before_min": 0}):
        result = packed(views, start=9, limits=PackLimits(**(_fields(limit) | bound)))
        assert upstream(result) == [9, 10] and result.next_upstream == 11
        assert result.outgoing_batches[-1].next_upstream <= 11
        assert isinstance(result.stopped, TargetRefusedRecords)
        assert result.stopped.detail == "timestamp"
        assert f"offset 11 has timestamp {NOW + 500}" in str(result.stopped)
        assert "message.timestamp.after.max.ms" in str(result.stopped)


def _fields(limit: PackLimits) -> dict[str, int]:
    return {name: getattr(limit, name) for name in PackLimits.__slots__ if getattr(limit, name) is not None}


def test_timestamp_too_old_is_found_behind_a_newer_base_timestamp() -> None:
    batch = build_batch([a_record(0), a_record(1, timestamp=-1), a_record(2, timestamp=NOW - 50)])
    result = packed(views_of(batch), limits=limits(timestamp_before_min=NOW - 49))
    assert upstream(result) == [0, 1] and result.next_upstream == 2
    assert "message.timestamp.before.max.ms" in str(result.stopped)


def test_clean_batch_is_patched_also_when_records_are_looked_at() -> None:
    limit = limits(timestamp_before_min=NOW - 49, refuse_null_keys=True, timestamp_after_max=NOW + 1000)
    result = packed(views_of(a_batch(0, 1, 2, codec=4)), limits=limit)
    assert isinstance(result.outgoing_batches[0].buffer, memoryview) and result.stopped is None


def test_null_key_stops_only_where_the_target_is_compacted() -> None:
    views = views_of(build_batch([a_record(0), a_record(1, key=None), a_record(2, key=b"")]), a_batch(3))
    assert upstream(packed(views)) == [0, 1, 2, 3]
    views = views_of(build_batch([a_record(0), a_record(1, key=None), a_record(2, key=b"")]), a_batch(3))
    result = packed(views, limits=limits(refuse_null_keys=True, merge_below_bytes=1000))
    assert upstream(result) == [0] and result.next_upstream == 1
    assert isinstance(result.stopped, TargetRefusedRecords) and "compacted" in str(result.stopped)


@pytest.mark.parametrize("codec", [0, 4])
def test_records_damaged_under_a_sound_checksum_stop_there(codec: int) -> None:
    bad = a_batch(5, 6, codec=codec)
    bad = mended(bad + b"\x00", length=len(bad) - 11)
    for good in (a_batch(4, codec=codec), a_batch(3, codec=1)):
        result = packed(views_of(good, bad, a_batch(7, codec=codec)), start=3, limits=MERGE)
        assert upstream(result) == [view.base_offset for view in views_of(good)]
        assert result.next_upstream == 5
        assert isinstance(result.stopped, CorruptBatch) and result.stopped.offset == 5


def test_batch_that_unpacks_beyond_the_limit_stops_only_where_it_must_be_opened() -> None:
    batch = build_batch([a_record(0, value=bytes(100_000)), a_record(1)], codec=4)
    assert packed(views_of(batch), limits=limits(decompressed_bytes_max=1000)).stopped is None
    result = packed(views_of(batch), start=1, limits=limits(decompressed_bytes_max=1000))
    assert isinstance(result.stopped, CorruptBatch) and (result.outgoing_batches, result.next_upstream) == ([], 1)


@pytest.mark.parametrize("limit", [limits(), MERGE])
def test_batches_out_of_order_stop(limit: PackLimits) -> None:
    result = packed(views_of(a_batch(5), a_batch(6), a_batch(6), a_batch(7)), start=5, limits=limit)
    assert upstream(result) == [5, 6] and result.next_upstream == 7
    assert isinstance(result.stopped, CorruptBatch)


def test_merge_keeps_timestamps_that_run_backwards_and_far_apart() -> None:
    times = [NOW, NOW - 5, NOW + 40_000, NOW + (1 << 40), -1, (1 << 63) - 1, -(1 << 63)]
    rows = [a_record(step, timestamp=time) for step, time in enumerate(times)]
    result = packed(views_of(*[build_batch([row], base_offset=row.offset) for row in rows]), limits=MERGE)
    assert [content[0] for _, content in opened(result.outgoing_batches[0])] == times


def test_merge_of_more_records_than_the_tables_hold() -> None:
    row = a_record(0, key=None, value=None)
    batches = [build_batch([row], base_offset=step) for step in range(16_500)]
    result = packed(views_of(*batches), limits=limits(merge_below_bytes=1000, merge_to_bytes=1 << 22))
    assert [len(opened(outgoing)) for outgoing in result.outgoing_batches] == [16_384, 116]


@pytest.mark.parametrize("size", [*range(50, 70), 8180, 8190, 8200, 16_360, 16_390, 300_000])
def test_merge_of_single_records_of_every_length_class(size: int) -> None:
    rows = [a_record(step, value=bytes(size)) for step in range(3)]
    views = views_of(*[build_batch([row], base_offset=row.offset) for row in rows])
    result = packed(views, limits=limits(merge_below_bytes=1 << 19, merge_to_bytes=1 << 20))
    assert [content for _, content in opened_all(result.outgoing_batches)] == [content_of(row) for row in rows]
    assert len(result.outgoing_batches) == 1


def test_empty_response_accounts_for_nothing() -> None:
    assert packed([], start=42) == Packed([], 42)


def test_window_without_a_record_left_is_passed_over() -> None:
    batch = build_sparse_batch([Record(0, NOW, b"a", b""), Record(9, NOW, b"b", b"")])
    for limit in (limits(), MERGE):
        assert packed(views_of(batch), start=3, until=7, limits=limit) == Packed([], 7)
