"""Bytes that Java wrote: MM2 4.3.1's internal records, and batches of kafka-clients 4.3.1."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.wire import (
    PackLimits,
    Record,
    build_batch,
    checkpoint_key,
    connect_partition,
    control_type,
    decode_checkpoint,
    decode_connect_offset,
    decode_heartbeat,
    decode_offset_sync,
    decode_source_key,
    encode_checkpoint,
    encode_connect_offset,
    encode_heartbeat,
    encode_offset_sync,
    heartbeat_key,
    pack,
    read_batches,
    read_records,
    source_key,
    stamp,
)

DATA = Path(__file__).parent / "data"
HEARTBEATS = ["A__heartbeats", "B__heartbeats", "B__A.heartbeats"]
OFFSETS = ["A__mm2-offsets.B.internal", "B__mm2-offsets.A.internal"]
STATUSES = ["A__mm2-status.B.internal", "B__mm2-status.A.internal"]
BATCHES: list[dict[str, Any]] = json.loads((DATA / "java-batches.json").read_text())
LIMITS = PackLimits(1 << 20, 1 << 14, 1 << 19, 1 << 24, splice_below_bytes=1 << 14)


def stored(name: str) -> list[tuple[int, bytes, bytes | None]]:
    """(partition, key, value) of every record of a topic."""
    rows = json.loads((DATA / f"{name}.json").read_text())["records"]
    assert rows
    return [(row["partition"], bytes.fromhex(row["key"]), _bytes(row["value"])) for row in rows]


def _bytes(text: str | None) -> bytes | None:
    if text is None or "*" not in text:
        return None if text is None else bytes.fromhex(text)
    byte, times = text.split("*")
    return bytes.fromhex(byte) * int(times)


@pytest.mark.parametrize("name", HEARTBEATS)
def test_heartbeats_of_mm2_are_written_byte_for_byte(name: str) -> None:
    for _, key, value in stored(name):
        assert value is not None
        assert encode_heartbeat(decode_heartbeat(key, value)) == (key, value)


def test_offset_syncs_of_mm2_are_written_byte_for_byte() -> None:
    for _, key, value in stored("A__mm2-offset-syncs.B.internal"):
        assert value is not None
        assert encode_offset_sync(decode_offset_sync(key, value)) == (key, value)


def test_checkpoints_of_mm2_are_written_byte_for_byte() -> None:
    for _, key, value in stored("B__A.checkpoints.internal"):
        assert value is not None
        assert encode_checkpoint(decode_checkpoint(key, value)) == (key, value)


@pytest.mark.parametrize("name", OFFSETS)
def test_connect_offsets_of_mm2_are_written_byte_for_byte(name: str) -> None:
    for _, key, value in stored(name):
        assert value is not None
        offset = decode_connect_offset(value)
        assert offset is not None and encode_connect_offset(offset) == value
        assert _rewritten(key) == key


def _rewritten(key: bytes) -> bytes:
    position = decode_source_key(key)
    if position is not None:
        return source_key(position.connector, position.cluster, position.partition)
    connector, fields = json.loads(key)
    if "group" in fields:
        return checkpoint_key(connector, fields["group"], TopicPartition(fields["topic"], fields["partition"]))
    return heartbeat_key(connector, FlowName(fields["sourceClusterAlias"], fields["targetClusterAlias"]))


@pytest.mark.parametrize(("name", "partitions"), [*((name, 25) for name in OFFSETS), *((name, 5) for name in STATUSES)])
def test_partition_rule_holds_for_every_stored_connect_record(name: str, partitions: int) -> None:
    for partition, key, _ in stored(name):
        assert connect_partition(key, partitions) == partition


def _expected(entry: dict[str, Any]) -> list[Record]:
    records: list[Record] = []
    for offset, timestamp, key, value, headers in entry["records"]:
        pairs = tuple((bytes.fromhex(name), _bytes(content)) for name, content in headers)
        records.append(Record(offset, timestamp, _bytes(key), _bytes(value), pairs))
    return records


@pytest.mark.parametrize("entry", BATCHES, ids=[entry["name"] for entry in BATCHES])
def test_batch_of_the_java_client_is_read(entry: dict[str, Any]) -> None:
    buffer = bytearray.fromhex(entry["batch"])
    views = read_batches(memoryview(buffer), 0, len(buffer))
    assert [record for view in views for record in read_records(view)] == _expected(entry)
    kinds = {"marker-abort": "abort", "marker-commit": "commit"}
    assert [control_type(view) for view in views] == [kinds.get(entry["name"])] * len(views)


@pytest.mark.parametrize("entry", BATCHES, ids=[entry["name"] for entry in BATCHES])
def test_batch_of_the_java_client_is_carried_by_every_path(entry: dict[str, Any]) -> None:
    for start in (500, 501):
        buffer = bytearray.fromhex(entry["batch"])
        views = read_batches(memoryview(buffer), 0, len(buffer))
        result = pack(views, from_offset=start, until_offset=None, aborted=None, limits=LIMITS)
        found: list[Record] = []
        for outgoing in result.outgoing_batches:
            stamp(outgoing.buffer, 1, 0, 0)
            [view] = read_batches(memoryview(outgoing.buffer), 0, len(outgoing.buffer))
            found += read_records(view)
        wanted = [] if "marker" in entry["name"] else _expected(entry)[start - 500 :]
        assert [(r.timestamp, r.key, r.value, r.headers) for r in found] == [
            (r.timestamp, r.key, r.value, r.headers) for r in wanted
        ]
        assert result.stopped is None and result.next_upstream == (501 if not wanted else 504)


def test_uncompressed_batch_is_written_as_the_java_client_writes_it() -> None:
    [entry] = [entry for entry in BATCHES if entry["name"] == "v2-none"]
    assert build_batch(_expected(entry), base_offset=500).hex() == entry["batch"]
