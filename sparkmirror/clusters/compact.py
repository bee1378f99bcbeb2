"""The small pieces of Kafka's flexible message encoding (KIP-482) that the hot path reads and writes itself."""

from __future__ import annotations

UVARINT_BYTES_MAX = 5


def uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < 0x80:
        return bytes((value,))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: bytes | bytearray, at: int) -> tuple[int, int]:
    """The unsigned varint at `at`, and where it ends."""
    byte = buffer[at]
    if byte < 0x80:
        return byte, at + 1
    value = byte & 0x7F
    for shift in range(7, 7 * UVARINT_BYTES_MAX, 7):
        at += 1
        byte = buffer[at]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at + 1
    raise ValueError("unsigned varint longer than 5 bytes")


def skip_tags(buffer: bytes | bytearray, at: int) -> int:
    """Where a block of tagged fields ends."""
    count = buffer[at]
    if count == 0:
        return at + 1
    count, at = read_uvarint(buffer, at)
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
    return at
