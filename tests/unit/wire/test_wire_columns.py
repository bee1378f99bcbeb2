"""Batches as columns and back."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from wire_builders import NOW, a_batch, a_record, codecs, mended, records, views_of

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire import Columns, Producer, Record, build_batch, build_column_batch, read_columns, read_records

EVERYTHING = {"start": 0, "end": 1 << 62}


def columns_of(rows: list[Record]) -> Columns:
    return Columns(
        [row.offset for row in rows],
        [row.timestamp for row in rows],
        [row.key for row in rows],
        [row.value for row in rows],
        [row.headers for row in rows],
    )


def records_of(columns: Columns) -> list[Record]:
    rows = zip(columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers, strict=True)
    return [Record(offset, time, key, value, tuple(headers)) for offset, time, key, value, headers in rows]


@given(st.lists(records, min_size=1, max_size=8), codecs, st.integers(0, 1 << 40))
def test_columns_hold_what_the_records_hold(rows: list[Record], codec: int, base: int) -> None:
    [view] = views_of(build_batch(rows, codec=codec, base_offset=base))
    columns = Columns()
    read_columns(view, columns, **EVERYTHING)
    assert records_of(columns) == list(read_records(view))


@given(st.lists(records, min_size=1, max_size=8), codecs)
@example([a_record(value=b"x" * size) for size in (0, 63, 64, 4090, 4095, 4096, 8191, 8192, 70_000)], 0)
@example([a_record(timestamp=NOW + lapse) for lapse in (0, -1, -2, 1, 4094, 4095, 4096, 1 << 40)], 0)
def test_a_batch_of_columns_is_the_batch_of_the_records(rows: list[Record], codec: int) -> None:
    built = build_column_batch(columns_of(rows), 0, len(rows), codec=codec, producer=Producer(5, 6, 7))
    assert bytes(built) == bytes(build_batch(rows, codec=codec, producer=Producer(5, 6, 7)))


def test_some_rows_of_the_columns_make_a_batch() -> None:
    rows = [a_record(at) for at in range(10)]
    assert build_column_batch(columns_of(rows), 3, 6) == build_batch(rows[3:6])


def test_only_offsets_of_the_range_are_taken() -> None:
    [view] = views_of(a_batch(10, 11, 15, 16, 20))
    columns = Columns()
    read_columns(view, columns, start=11, end=16)
    assert columns.offsets == [11, 15]


@pytest.mark.parametrize("at", range(61, 83))
def test_damage_in_a_record_is_told_with_its_offset(at: int) -> None:
    """Whatever byte is wild: the same is told as by the reader of records, or the same is read."""
    batch = build_batch([Record(7, NOW, b"key", b"value", ((b"name", b"x"),))], base_offset=7)
    batch[at] ^= 0x81
    [view] = views_of(mended(batch))
    columns = Columns()
    try:
        wanted = list(read_records(view))
    except CorruptBatch as error:
        with pytest.raises(CorruptBatch) as caught:
            read_columns(view, columns, **EVERYTHING)
        assert caught.value.offset == error.offset == 7
    else:
        read_columns(view, columns, **EVERYTHING)
        assert records_of(columns) == wanted


@given(
    st.lists(st.tuples(st.none() | st.binary(max_size=90), st.none() | st.binary(max_size=300)), min_size=1, max_size=80),
    st.data(),
)
def test_one_wrong_byte_is_read_as_the_careful_reader_reads_it(rows: list, data: st.DataObject) -> None:
    batch = build_batch([Record(at, NOW + at, key, value, ()) for at, (key, value) in enumerate(rows)])
    at = data.draw(st.integers(61, len(batch) - 1))
    batch[at] = data.draw(st.integers(0, 255))
    [view] = views_of(mended(batch))
    outcomes = []
    for read in (_quickly, lambda v: list(read_records(v))):
        try:
            outcomes.append(read(view))
        except CorruptBatch:
            outcomes.append("damaged")
    assert outcomes[0] == outcomes[1]


def _quickly(view) -> list[Record]:
    columns = Columns()
    read_columns(view, columns, start=0, end=1 << 62)
    return records_of(columns)
