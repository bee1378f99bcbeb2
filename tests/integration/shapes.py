"""Records and batches of every shape, one shape in each partition of a topic."""

from __future__ import annotations

from mirroring import CODECS, batch_of, now_ms, numbered

from sparkmirror.wire import Record, build_batch

__all__ = [
    "BAD_HEADER", "CODECS", "EMPTY", "HEADERS", "MEGABYTE", "MIXED", "NULLS", "PARTITIONS", "PARTITION_OF_CODEC", "STARTED",
    "TIMES", "WIDE", "batches_of_shapes",
]  # fmt: skip

DAY_MS = 86_400_000
PARTITIONS = 20

# Partitions of the topic `shapes`.
NULLS, HEADERS, BAD_HEADER, TIMES, EMPTY, MEGABYTE, STARTED, MIXED, WIDE = range(9)
PARTITION_OF_CODEC = {codec: 10 + at for at, codec in enumerate(CODECS)}


def odd_parts() -> list[Record]:
    """Every mixture of null, empty and binary key and value."""
    parts = (None, b"", b"\x00\xff\n", b"text")
    return [Record(0, now_ms(), key, value) for key in parts for value in parts]


def odd_headers() -> list[Record]:
    """Headers in an order that sorting would change, repeated, null, empty, binary, with odd names."""
    now = now_ms()
    return [
        Record(0, now, b"k", b"v", ((b"z", b"1"), (b"a", b"2"), (b"z", b"3"))),
        Record(0, now, b"k", b"v", ((b"null", None), (b"empty", b""), (b"null", None))),
        Record(0, now, b"k", b"v", ((b"", b"nameless"), ("é".encode(), b"\x00\xff"))),
        Record(0, now, None, None, ((b"on-a-tombstone", b"x"),)),
        Record(0, now, b"k", b"v", tuple((b"h%d" % at, b"%d" % at) for at in range(200))),
    ]


BAD_HEADERS = ((b"\xff\xfe", b"not utf-8"), (b"\xc3(", None))


def odd_times() -> list[Record]:
    """No timestamp, the epoch, old, backward, equal, a little ahead."""
    now = now_ms()
    times = (now, now, now - 1, 0, 1, 1_000_000, -1, now - 400 * DAY_MS, now + 60_000, now)
    return [Record(0, time, b"k", b"%d" % time) for time in times]


def batches_of_shapes() -> dict[int, list[bytearray]]:
    now = now_ms()
    mixed = [batch_of(numbered(5), codec=codec) for codec in list(CODECS) * 3]
    large = [batch_of(numbered(30, size=2000), codec=codec) for codec in CODECS]
    shapes = {
        NULLS: [build_batch(odd_parts())] + [build_batch([record]) for record in odd_parts()],
        HEADERS: [build_batch(odd_headers())] + [build_batch([record]) for record in odd_headers()],
        BAD_HEADER: [build_batch([Record(0, now, b"k", b"v", BAD_HEADERS)] * 2)],
        TIMES: [build_batch(odd_times())] + [build_batch([record]) for record in odd_times()],
        MEGABYTE: [batch_of([b""]), batch_of(numbered(1, size=1_000_000)), batch_of([b"after"])],
        STARTED: [batch_of(numbered(10, first=at)) for at in range(0, 100, 10)],
        MIXED: mixed + large + mixed,
        WIDE: [batch_of(numbered(2000))],
    }
    for codec, partition in PARTITION_OF_CODEC.items():
        shapes[partition] = [batch_of(numbered(3), codec=codec) for _ in range(10)]
        shapes[partition] += [batch_of(numbered(50, size=500), codec=codec)]
    return shapes
