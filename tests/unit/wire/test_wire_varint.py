"""Variable-length integers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import CorruptBatch, InternalError
from sparkmirror.wire.varint import (
    ZIGZAG,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
    read_unsigned_varint,
    read_varint,
    read_varlong,
    wrap_int64,
)

INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(INT32)
def test_varint_reads_back_what_was_written(number: int) -> None:
    data = encode_varint(number)
    assert len(data) <= 5
    assert read_varint(b"x" + data + b"y", 1, len(data) + 1) == (number, len(data) + 1)


@given(INT64)
def test_varlong_reads_back_what_was_written(number: int) -> None:
    data = encode_varlong(number)
    assert len(data) <= 10
    assert read_varlong(data, 0, len(data)) == (number, len(data))


@given(st.integers(0, (1 << 32) - 1))
def test_unsigned_varint_reads_back_what_was_written(number: int) -> None:
    data = encode_unsigned_varint(number)
    assert read_unsigned_varint(data, 0, len(data)) == (number, len(data))


@pytest.mark.parametrize(
    ("number", "data"), [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")]
)
def test_varint_has_the_bytes_of_the_zigzag_coding(number: int, data: str) -> None:
    assert encode_varint(number).hex() == data


def test_table_holds_the_same_bytes_as_the_encoder() -> None:
    assert all(ZIGZAG[number] == encode_varint(number) for number in (0, 1, 63, 64, 8191, 8192, len(ZIGZAG) - 1))


@pytest.mark.parametrize("data", ["", "80", "ffff", "8080808080", "808080808000", "ffffffff7f", "ffffffffff01"])
def test_varint_that_is_cut_off_or_too_long_is_refused(data: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(bytes.fromhex(data), 0, len(data) // 2)


@pytest.mark.parametrize("data", ["80" * 10, "80" * 10 + "00", "ff" * 9 + "02", "ff" * 11])
def test_varlong_that_is_cut_off_or_too_long_is_refused(data: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex(data), 0, len(data) // 2)


def test_varint_is_not_read_beyond_the_given_end() -> None:
    with pytest.raises(CorruptBatch):
        read_varint(b"\x80\x01", 0, 1)


@pytest.mark.parametrize(
    ("encode", "number"), [(encode_varint, 1 << 31), (encode_varlong, 1 << 63), (encode_unsigned_varint, -1)]
)
def test_number_that_does_not_fit_is_our_own_fault(encode: object, number: int) -> None:
    with pytest.raises(InternalError):
        encode(number)  # type: ignore[operator]  # one of three functions of the same shape


@given(INT64, INT64)
def test_wrapped_difference_added_back_gives_the_number(first: int, second: int) -> None:
    assert wrap_int64(second + wrap_int64(first - second)) == first
