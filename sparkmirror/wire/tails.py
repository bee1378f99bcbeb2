"""A record's tail, the part that does not depend on the batch around it: key, value and headers, read and written.

Varint key length, key | varint value length, value | varint header count, (name, value)… ; length -1 = null.
"""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.errors import CorruptBatch
from sparkmirror.wire.varint import encode_varint, read_varint

Headers = Sequence[tuple[bytes, bytes | None]]

_NO_HEADERS: Headers = ()
# Lengths up to some KB, -1 and small deltas are most of what is written: looked up, not computed.
_VARINTS = [encode_varint(number) for number in range(-1, 4096)]
_VARINTS_MAX = len(_VARINTS) - 2
_NULL = _VARINTS[0]


def quick_varint(number: int) -> bytes:
    """A 32-bit number from -1 on, zigzag coded."""
    return _VARINTS[number + 1] if number <= _VARINTS_MAX else encode_varint(number)


def read_tail(tail: bytes) -> tuple[bytes | None, bytes | None, Headers]:
    """Key, value and headers; raises CorruptBatch if it is damaged."""
    try:
        key, at = _read_field(tail, 0)
        value, at = _read_field(tail, at)
        # A record without headers ends here with one zero byte.
        return key, value, _NO_HEADERS if tail[at] == 0 and at + 1 == len(tail) else _read_headers(tail, at)
    except IndexError as error:
        raise CorruptBatch("the record is cut off") from error


def _read_field(tail: bytes, at: int) -> tuple[bytes | None, int]:
    # Nearly all lengths are one or two bytes long and read in place; the bounded reader is for the others.
    number = tail[at]
    if number < 0x80:
        size, at = number >> 1 ^ -(number & 1), at + 1
    elif (following := tail[at + 1]) < 0x80:
        number = number & 0x7F | following << 7
        size, at = number >> 1 ^ -(number & 1), at + 2
    else:
        size, at = read_varint(tail, at, len(tail))
    if size == -1:
        return None, at
    if size < 0 or size > len(tail) - at:
        raise CorruptBatch(f"a field claims {size} of {len(tail) - at} bytes")
    return tail[at : at + size], at + size


def _read_headers(tail: bytes, at: int) -> Headers:
    count, at = read_varint(tail, at, len(tail))
    # Each header takes two bytes at least, so a wild count is seen before it is counted.
    if count < 0 or count > len(tail) - at:
        raise CorruptBatch(f"{count} headers in {len(tail) - at} bytes")
    headers = []
    for _ in range(count):
        name, at = _read_field(tail, at)
        if name is None:
            raise CorruptBatch("a header has no name")
        value, at = _read_field(tail, at)
        headers.append((name, value))
    if at != len(tail):
        raise CorruptBatch(f"{len(tail) - at} bytes follow the headers")
    return tuple(headers)


def tail_parts(key: bytes | None, value: bytes | None, headers: Headers) -> tuple[bytes, ...]:
    """The bytes of a tail, in pieces."""
    return (
        *((_NULL,) if key is None else (quick_varint(len(key)), key)),
        *((_NULL,) if value is None else (quick_varint(len(value)), value)),
        _header_bytes(headers) if headers else b"\0",
    )


def _header_bytes(headers: Headers) -> bytes:
    parts = [quick_varint(len(headers))]
    for name, value in headers:
        parts += (quick_varint(len(name)), name)
        parts += (_NULL,) if value is None else (quick_varint(len(value)), value)
    return b"".join(parts)
