"""Positions from a file: what `offsets export` wrote, or what Connect's REST API answers and takes. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions.alteration import Alteration, ConnectorKind, alteration_problem
from sparkmirror.positions.requests import StoragePlace
from sparkmirror.positions.snapshots import Snapshot, read_snapshot
from sparkmirror.state import PositionTable
from sparkmirror.wire import Record

FIELDS = {"cluster", "partition", "topic"}
Entries = dict[TopicPartition, int | None]


def read_entries(text: str, path: str, *, alias: str, storage: StoragePlace, topic: str | None) -> Entries:
    """The next upstream offset of each partition of a file, None for the beginning; only one topic's if it is named.

    A file of Connect's form, `{"offsets":[{"partition":{…},"offset":{"offset":41}}]}`, is judged by MirrorMaker 2's rules.
    """
    content = _json(text, path)
    if isinstance(content, dict) and isinstance(content.get("offsets"), list) and "kind" not in content:
        entries = _of_connect(content["offsets"], path, alias)
    else:
        entries = _of_snapshot(read_snapshot(text, path), path, alias, storage.connector)
    found = {partition: offset for partition, offset in entries.items() if topic is None or partition.topic == topic}
    if not found:
        what = f"topic {topic}" if topic is not None else "any topic"
        raise MoveRefused(f"{path} holds no position of {what} under connector {storage.connector} and cluster {alias}")
    return found


def _json(text: str, path: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MoveRefused(f"{path} is no JSON: {error}") from error


def _of_connect(offsets: list[Any], path: str, alias: str) -> Entries:
    entries: list[Alteration] = []
    for number, entry in enumerate(offsets, 1):
        partition, offset = (entry.get("partition"), entry.get("offset")) if isinstance(entry, dict) else (0, 0)
        if not all(part is None or isinstance(part, dict) for part in (partition, offset)):
            raise MoveRefused(f"{path}: entry {number} is no partition and offset: {json.dumps(entry)[:200]}")
        entries.append((partition, offset))  # type: ignore[arg-type]  # looked at just now
    problem = alteration_problem(ConnectorKind.SOURCE, entries)
    if problem is not None:
        raise MoveRefused(f"{path}: {problem}")
    found: Entries = {}
    for number, (partition, offset) in enumerate(entries, 1):
        # The rest MirrorMaker 2 would accept, and it would have no effect.
        where = _partition(partition, alias)
        if where is None:
            raise MoveRefused(f"{path}: entry {number} is no partition of cluster {alias}: {json.dumps(partition)[:200]}")
        found[where] = None if offset is None else int(offset["offset"]) + 1  # type: ignore[call-overload]
    return found


def _partition(partition: Mapping[str, object] | None, alias: str) -> TopicPartition | None:
    if partition is None or partition.keys() != FIELDS or partition["cluster"] != alias:
        return None
    topic, number = partition["topic"], partition["partition"]
    if not isinstance(topic, str) or type(number) is not int or number < 0:
        return None
    return TopicPartition(topic, number)


def _of_snapshot(snapshot: Snapshot, path: str, alias: str, connector: str) -> Entries:
    table, found = PositionTable(alias, connector), Entries()
    for record in snapshot.positions:
        table.take(record.place, Record(0, 0, record.key, record.value))
    for partition in table.partitions():
        readable = [stored.last_offset for stored in table.records_of(partition) if stored.is_readable]
        if len(set(readable)) > 1:
            raise MoveRefused(f"{path} holds two positions of {partition}: which one is meant?")
        if readable:
            found[partition] = None if readable[0] is None else readable[0] + 1
    return found
