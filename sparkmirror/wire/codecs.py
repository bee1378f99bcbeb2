"""The five compressions of Kafka, with a bound on what may come out.

| codec | name   | bytes                                                                                       |
|-------|--------|---------------------------------------------------------------------------------------------|
| 0     | none   | as they are                                                                                 |
| 1     | gzip   | one or more RFC 1952 members                                                                |
| 2     | snappy | Java: `82 "SNAPPY" 00`, int32 version, int32 compatible version, then (int32 length, block)…; |
|        |        | others (librdkafka, Go): one bare block                                                    |
| 3     | lz4    | the LZ4 frame format                                                                        |
| 4     | zstd   | one or more RFC 8878 frames                                                                 |

Written frames must be readable by Java. Its LZ4 reader refuses frames whose blocks depend on each other, which is what
`cramjam.lz4.compress` writes; so the frame is laid out here, in independent 64 KiB blocks as Java's writer does.
"""

from __future__ import annotations

import struct
import zlib

import cramjam

from sparkmirror.errors import CorruptBatch

Buffer = bytes | bytearray | memoryview

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# Kafka's default request limit (socket.request.max.bytes) is 100 MiB: a producer that kept to it cannot have had more
# than a few times that in one batch, and a task holds only a few batches at once.
DECOMPRESSED_BYTES_MAX = 256 * 1024 * 1024

# First guess for frames that do not name their size; doubled until it fits, so the work is at most twice the last step.
_FIRST_GUESS_BYTES_MIN = 64 * 1024
_FIRST_GUESS_RATIO = 4
# What cramjam says when the output buffer is full; any other text means that the bytes are bad.
_OUTPUT_FULL = "failed to write whole buffer"

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024  # SnappyOutputStream's default

_LZ4_MAGIC = 0x184D2204
# Version 1, independent blocks, no checksums; blocks of up to 64 KiB; the descriptor's checksum.
_LZ4_HEADER = struct.pack("<IBBB", _LZ4_MAGIC, 0x60, 0x40, 0x82)
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x80000000

_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ZSTD_LEVEL = 3  # Java's default; cramjam's own default is 11 and several times slower
_GZIP_WBITS = 31


def decompress(codec: int, data: Buffer, *, limit: int) -> bytes:
    """What was compressed; CorruptBatch when it is damaged or would be larger than `limit` bytes."""
    try:
        if codec == NONE:
            return _checked(bytes(data), limit)
        if codec == GZIP:
            return _gunzip(bytes(data), limit)
        if codec == SNAPPY:
            return _unsnappy(bytes(data), limit)
        if codec == LZ4:
            return _decompress_growing(cramjam.lz4, data, _first_guess(data), limit)
        if codec == ZSTD:
            return _decompress_growing(cramjam.zstd, data, _zstd_content_size(data) or _first_guess(data), limit)
    except (cramjam.DecompressionError, zlib.error, struct.error, OSError) as error:
        raise CorruptBatch(f"codec {codec} cannot decompress {len(data)} bytes: {error}") from error
    raise CorruptBatch(f"unknown compression codec {codec}")


def compress(codec: int, data: Buffer) -> bytes:
    """The bytes in the given codec, in the framing that Java writes."""
    if codec == NONE:
        return bytes(data)
    if codec == GZIP:
        squeezer = zlib.compressobj(wbits=_GZIP_WBITS)
        return squeezer.compress(data) + squeezer.flush()
    if codec == SNAPPY:
        return _xerial(data)
    if codec == LZ4:
        return _lz4_frame(data)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data, level=_ZSTD_LEVEL))
    raise CorruptBatch(f"unknown compression codec {codec}")


def _too_large(limit: int) -> CorruptBatch:
    return CorruptBatch(f"compressed data grows beyond the limit of {limit} bytes")


def _checked(data: bytes, limit: int) -> bytes:
    if len(data) > limit:
        raise _too_large(limit)
    return data


def _gunzip(data: bytes, limit: int) -> bytes:
    parts: list[bytes] = []
    size = 0
    while True:
        member = zlib.decompressobj(wbits=_GZIP_WBITS)
        part = member.decompress(data, limit - size + 1)
        size += len(part)
        if size > limit:
            raise _too_large(limit)
        if not member.eof:
            raise CorruptBatch("gzip data is cut off")
        parts.append(part)
        data = member.unused_data
        # As Java's reader: what follows a member is another member or nothing worth reading.
        if not data.startswith(b"\x1f\x8b"):
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _unsnappy(data: bytes, limit: int) -> bytes:
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, limit, limit)
    parts: list[bytes] = []
    position, size = len(_XERIAL_HEADER), 0
    if len(data) < position:
        raise CorruptBatch("snappy header is cut off")
    while position < len(data):
        (length,) = struct.unpack_from(">i", data, position)
        position += 4
        if length < 0 or length > len(data) - position:
            raise CorruptBatch(f"snappy block claims {length} of {len(data) - position} bytes")
        part = _snappy_block(data[position : position + length], limit - size, limit)
        parts.append(part)
        size += len(part)
        position += length
    return b"".join(parts)


def _snappy_block(data: bytes, room: int, limit: int) -> bytes:
    # The block begins with its own size, so the claim is judged before anything is allocated.
    if cramjam.snappy.decompress_raw_len(data) > room:
        raise _too_large(limit)
    return bytes(cramjam.snappy.decompress_raw(data))


def _first_guess(data: Buffer) -> int:
    return max(_FIRST_GUESS_BYTES_MIN, _FIRST_GUESS_RATIO * len(data))


def _decompress_growing(library: object, data: Buffer, first_size: int, limit: int) -> bytes:
    """Decompress into buffers of growing size, never one beyond the limit."""
    size = min(first_size, limit)
    while True:
        out = bytearray(size)
        try:
            written: int = library.decompress_into(data, out)  # type: ignore[attr-defined]  # a compiled module
        except cramjam.DecompressionError as error:
            if _OUTPUT_FULL not in str(error):
                raise
            if size >= limit:
                raise _too_large(limit) from error
            size = min(size * 2, limit)
        else:
            return bytes(memoryview(out)[:written])


def _zstd_content_size(data: Buffer) -> int:
    """The size that the first frame's header names, 0 when it names none (RFC 8878, 3.1.1.1)."""
    head = bytes(data[:18])
    if not head.startswith(_ZSTD_MAGIC) or len(head) < 6:
        return 0
    descriptor = head[4]
    single_segment = descriptor >> 5 & 1
    width = (single_segment, 2, 4, 8)[descriptor >> 6]
    start = 5 + (1 - single_segment) + (0, 1, 2, 4)[descriptor & 3]
    size = int.from_bytes(head[start : start + width], "little")
    return size + 256 if width == 2 else size


def _xerial(data: Buffer) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts.append(struct.pack(">i", len(block)))
        parts.append(block)
    return b"".join(parts)


def _lz4_frame(data: Buffer) -> bytes:
    parts = [_LZ4_HEADER]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts.append(struct.pack("<I", len(block)))
            parts.append(block)
        else:
            parts.append(struct.pack("<I", len(plain) | _LZ4_STORED))
            parts.append(bytes(plain))
    parts.append(bytes(4))
    return b"".join(parts)


def mend_lz4_header(data: Buffer) -> bytes:
    """The frame with the right descriptor checksum; clients before 0.10 hashed the magic number too (KAFKA-3160)."""
    frame = bytearray(data)
    if len(frame) < 7 or struct.unpack_from("<I", frame)[0] != _LZ4_MAGIC:
        return bytes(frame)
    checksum_at = 6 + (8 if frame[4] & 0x08 else 0)
    if len(frame) > checksum_at:
        frame[checksum_at] = _xxh32_short(bytes(frame[4:checksum_at])) >> 8 & 0xFF
    return bytes(frame)


def _xxh32_short(data: bytes) -> int:
    """The xxHash-32 of fewer than 16 bytes, seed 0."""
    prime1, prime2, prime3, prime4, prime5 = 0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
    mask = 0xFFFFFFFF
    state = prime5 + len(data)
    words = len(data) // 4
    for (word,) in struct.iter_unpack("<I", data[: 4 * words]):
        state = state + word * prime3 & mask
        state = (state << 17 | state >> 15) * prime4 & mask
    for byte in data[4 * words :]:
        state = state + byte * prime5 & mask
        state = (state << 11 | state >> 21) * prime1 & mask
    state = (state ^ state >> 15) * prime2 & mask
    state = (state ^ state >> 13) * prime3 & mask
    return state ^ state >> 16
