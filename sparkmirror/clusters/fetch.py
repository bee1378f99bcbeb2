"""Fetch of raw record batches: request bytes out, positions inside the answer's buffer back.

Version 13 names topics by id, so a topic that was deleted and created again is refused by the broker instead of being
spliced (KIP-516). Version 12 names them by name and serves brokers from 2.7 on; the topic id is then compared whenever
metadata is read. The bytes of a batch are never copied here: an answer is parsed in place.

Request (12 and 13): replica int32 · max wait int32 · min bytes int32 · max bytes int32 · isolation int8 · session id
int32 · session epoch int32 · topics[ id uuid | name · partitions[ index int32 · leader epoch int32 · offset int64 · last
fetched epoch int32 · log start int64 · max bytes int32 ] ] · forgotten[] · rack. All arrays and strings are compact.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from sparkmirror.clusters.compact import read_uvarint, skip_tags, uvarint

FETCH_API = 1
FETCH_BY_NAME = 12
FETCH_BY_ID = 13

HEAD = struct.Struct(">iiiibii")
PARTITION = struct.Struct(">iiqiqi")
PARTITION_HEAD = struct.Struct(">ihqqq")
ANSWER_HEAD = struct.Struct(">ihi")
PAIR = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class FetchLimits:
    """How much one fetch may bring and how long the broker may hold it."""

    wait_ms: int
    bytes_min: int
    bytes_max: int
    partition_bytes_max: int
    isolation: int  # 0 read_uncommitted, 1 read_committed


class FetchFrom(NamedTuple):
    """Where one partition is read. With the leader epoch of the batch before it, the broker says if its log diverged."""

    partition: int
    offset: int
    leader_epoch: int = -1
    last_epoch: int = -1


@dataclass(slots=True)
class FetchedPartition:
    """One partition's part of an answer; its batches lie at [start, end) of the answer's buffer."""

    topic: bytes | str
    partition: int
    error: int
    high_watermark: int
    last_stable: int
    log_start: int
    aborted: list[tuple[int, int]] | None
    start: int
    end: int
    diverging: bool


@dataclass(slots=True)
class FetchAnswer:
    """A parsed fetch answer."""

    throttle_ms: int
    error: int
    partitions: list[FetchedPartition]


def encode_fetch(topics: Mapping[bytes | str, Iterable[FetchFrom]], limits: FetchLimits) -> bytes:
    """The body of a fetch of topics by their ids (version 13) or names (12)."""
    out = [
        HEAD.pack(-1, limits.wait_ms, limits.bytes_min, limits.bytes_max, limits.isolation, 0, -1),
        uvarint(len(topics) + 1),
    ]
    for topic, wanted in topics.items():
        if isinstance(topic, bytes):
            out.append(topic)
        else:
            name = topic.encode()
            out.append(uvarint(len(name) + 1) + name)
        partitions = list(wanted)
        out.append(uvarint(len(partitions) + 1))
        for index, offset, leader_epoch, last_epoch in partitions:
            out.append(PARTITION.pack(index, leader_epoch, offset, last_epoch, -1, limits.partition_bytes_max))
            out.append(b"\0")
        out.append(b"\0")
    out.append(b"\x01\x01\0")  # forgotten topics: none; rack: ""; no tags
    return b"".join(out)


def parse_fetch(buffer: bytearray, at: int, *, by_id: bool) -> FetchAnswer:
    """Where each partition's batches lie in `buffer`; `at` is the first byte after the response header."""
    throttle, error, _ = ANSWER_HEAD.unpack_from(buffer, at)
    topics, at = read_uvarint(buffer, at + ANSWER_HEAD.size)
    found: list[FetchedPartition] = []
    for _ in range(topics - 1):
        topic: bytes | str
        if by_id:
            topic = bytes(buffer[at : at + 16])
            at += 16
        else:
            length, at = read_uvarint(buffer, at)
            topic = buffer[at : at + length - 1].decode()
            at += length - 1
        partitions, at = read_uvarint(buffer, at)
        for _ in range(partitions - 1):
            at = _parse_partition(buffer, at, topic, found)
        at = skip_tags(buffer, at)
    return FetchAnswer(throttle, error, found)


def _parse_partition(buffer: bytearray, at: int, topic: bytes | str, found: list[FetchedPartition]) -> int:
    index, error, high_watermark, last_stable, log_start = PARTITION_HEAD.unpack_from(buffer, at)
    count, at = read_uvarint(buffer, at + PARTITION_HEAD.size)
    aborted: list[tuple[int, int]] | None = None
    if count:
        aborted = []
        for _ in range(count - 1):
            aborted.append(PAIR.unpack_from(buffer, at))
            at = skip_tags(buffer, at + PAIR.size)
    size, at = read_uvarint(buffer, at + 4)  # the preferred read replica is not used: we read from the leader
    start, end = at, at + max(size - 1, 0)
    if end > len(buffer):
        raise ValueError(f"records of {size - 1} bytes do not fit the answer")
    at = skip_tags(buffer, end)
    diverging = at > end + 1 and _has_tag(buffer, end, tag=0)
    found.append(
        FetchedPartition(
            topic, index, error, high_watermark, last_stable, log_start, aborted, start, end, diverging
        )
    )
    return at


def _has_tag(buffer: bytearray, at: int, *, tag: int) -> bool:
    count, at = read_uvarint(buffer, at)
    first, _ = read_uvarint(buffer, at)
    return count > 0 and first == tag
