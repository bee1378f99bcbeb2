"""Produce of ready-made batches: scatter/gather request parts out, one verdict per partition back.

Version 13 names topics by id (Kafka 4.1 on), version 9 by name. One batch per partition per request. Partitions come
back in another order than they were sent in: match them by index (seen on 4.3.1).

Request: transactional id (null) · acks int16 · timeout int32 · topics[ id uuid | name ·
partitions[ index int32 · records ] ].
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.clusters.compact import read_uvarint, skip_tags, uvarint

PRODUCE_API = 0
PRODUCE_BY_NAME = 9
PRODUCE_BY_ID = 13

INDEX = struct.Struct(">i")
VERDICT = struct.Struct(">ihqqq")
# The broker waits this long for replication before it answers REQUEST_TIMED_OUT; the default of Kafka's own producer.
TIMEOUT_MS = 30_000
HEAD = b"\0" + struct.pack(">hi", -1, TIMEOUT_MS)

Batch = bytes | bytearray | memoryview


@dataclass(slots=True)
class ProducedPartition:
    """The broker's verdict on one batch; `base_offset` ≥ 0 means appended, whatever the error says."""

    topic: bytes | str
    partition: int
    error: int
    base_offset: int
    log_append_time: int
    log_start: int
    message: str


def encode_produce(topics: Mapping[bytes | str, Iterable[tuple[int, Batch]]]) -> list[Batch]:
    """The parts of one request body; batches are passed on by reference."""
    parts: list[Batch] = []
    pending = [HEAD, uvarint(len(topics) + 1)]
    for topic, batches in topics.items():
        if isinstance(topic, bytes):
            pending.append(topic)
        else:
            name = topic.encode()
            pending.append(uvarint(len(name) + 1) + name)
        items = list(batches)
        pending.append(uvarint(len(items) + 1))
        for index, batch in items:
            pending.append(INDEX.pack(index) + uvarint(len(batch) + 1))
            parts.append(b"".join(pending))
            parts.append(batch)
            pending = [b"\0"]
        pending.append(b"\0")
    pending.append(b"\0")
    parts.append(b"".join(pending))
    return parts


def parse_produce(buffer: bytearray, at: int, *, by_id: bool) -> list[ProducedPartition]:
    """One verdict per partition, in the broker's order."""
    topics, at = read_uvarint(buffer, at)
    found: list[ProducedPartition] = []
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
            index, error, base, append_time, log_start = VERDICT.unpack_from(buffer, at)
            errors, at = read_uvarint(buffer, at + VERDICT.size)
            first = ""
            for _ in range(errors - 1):
                at += 4
                text, at = _read_nullable(buffer, at)
                first = first or text
                at = skip_tags(buffer, at)
            message, at = _read_nullable(buffer, at)
            at = skip_tags(buffer, at)
            found.append(ProducedPartition(topic, index, error, base, append_time, log_start, first or message))
        at = skip_tags(buffer, at)
    return found


def _read_nullable(buffer: bytearray, at: int) -> tuple[str, int]:
    length, at = read_uvarint(buffer, at)
    if length <= 1:
        return "", at
    return buffer[at : at + length - 1].decode(errors="replace"), at + length - 1
