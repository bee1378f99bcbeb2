"""Damages in a log that a broker serves: records are changed in the segment file, in batches that keep their size.

A broker sends what is in the file, and its clients trust the checksum, which is made to fit. So this is a copy that a
mirror has spoilt, not a disk that went bad.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from crc32c import crc32c
from integration.mirroring import segment_files

from sparkmirror.local import LocalCluster
from sparkmirror.wire import BatchView, Producer, Record, build_sparse_batch, read_batches, read_records

LEADER_EPOCH_AT, CRC_AT, ATTRIBUTES_AT = 12, 17, 21
CONTROL = 0x20
Change = Callable[[list[Record], int], None]


def flip_bit(records: list[Record], at: int) -> None:
    """One bit of the value."""
    value = records[at].value or b""
    records[at] = replace(records[at], value=value[:-1] + bytes((value[-1] ^ 1,)))


def change_header(records: list[Record], at: int) -> None:
    """The value of the only header."""
    [(name, value)] = records[at].headers
    records[at] = replace(records[at], headers=((name, bytes(reversed(value or b""))),))


def shift_timestamp(records: list[Record], at: int) -> None:
    """One millisecond later."""
    records[at] = replace(records[at], timestamp=records[at].timestamp + 1)


def swap(records: list[Record], at: int) -> None:
    """This record and the next one."""
    this, other = records[at], records[at + 1]
    records[at], records[at + 1] = replace(other, offset=this.offset), replace(this, offset=other.offset)


def double(records: list[Record], at: int) -> None:
    """The record before it, in its place."""
    records[at] = replace(records[at - 1], offset=records[at].offset)


def damage(cluster: LocalCluster, topic: str, offset: int, change: Change) -> None:
    """Changes the record at an offset of partition 0."""
    path, batch = _batch_at(cluster, topic, offset)
    records = list(read_records(batch))
    change(records, next(at for at, record in enumerate(records) if record.offset == offset))
    producer = Producer(batch.producer_id, batch.producer_epoch, batch.base_sequence)
    made = build_sparse_batch(records, codec=batch.codec, producer=producer)
    struct.pack_into(">i", made, LEADER_EPOCH_AT, batch.leader_epoch)
    _overwrite(path, batch, made)


def hide(cluster: LocalCluster, topic: str, offset: int) -> None:
    """Takes a record that is alone in its batch away from every reader: the batch becomes one of the broker's own."""
    path, batch = _batch_at(cluster, topic, offset)
    assert batch.count == 1
    made = bytearray(batch.raw)
    made[ATTRIBUTES_AT + 1] |= CONTROL
    struct.pack_into(">I", made, CRC_AT, crc32c(bytes(made[ATTRIBUTES_AT:])))
    _overwrite(path, batch, made)


def _batch_at(cluster: LocalCluster, topic: str, offset: int) -> tuple[Path, BatchView]:
    for path in segment_files(cluster, topic, 0):
        content = path.read_bytes()
        for batch in read_batches(memoryview(content), 0, len(content)):
            if batch.base_offset <= offset <= batch.last_offset:
                return path, batch
    raise AssertionError(f"no batch of {topic} holds offset {offset}")


def _overwrite(path: Path, batch: BatchView, made: bytearray) -> None:
    assert len(made) == batch.size, "the batch must keep its size"
    with path.open("r+b") as file:
        file.seek(batch.start)
        file.write(made)
