"""The records of a flow's internal topics, one by one, as fields for people and programs. Pure.

Checkpoints have the names that MirrorMaker 2's reference gives their fields; those of the ledger are its own JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from sparkmirror.ledger import decode
from sparkmirror.model import TopicPartition
from sparkmirror.state.internal_topics import PositionTable, checkpoint_of, offset_sync_of
from sparkmirror.wire import MalformedInternalRecord, Record, decode_heartbeat

Fields = dict[str, Any]
SHOWN_BYTES_MAX = 1000  # of the key and of the value of a foreign record
_EPOCH = datetime.fromtimestamp(0, UTC)
_TOMBSTONE: Fields = {"tombstone": True}
_RESTART: Fields = {"restart": True}  # sparkmirror's mark that the offset map of a partition restarts


def shown_record(kind: str, place: TopicPartition, record: Record) -> Fields:
    """The fields of a record of such a topic; one that it should not hold is `foreign`, with the reason and its bytes."""
    try:
        fields = _SHOWN[kind](place, record)
    except (MalformedInternalRecord, ValueError) as error:
        fields = {"foreign": True, "reason": str(error), "key": _text(record.key), "value": _text(record.value)}
    where = {"topic": place.topic, "partition": place.partition, "offset": record.offset}
    return fields | {"record": where | shown_time(record.timestamp)}


def shown_time(time_ms: int) -> Fields:
    """A time in milliseconds and in ISO 8601, null where there is none or no calendar has it."""
    try:
        text = (_EPOCH + timedelta(milliseconds=time_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    except OverflowError:
        text = None
    return {"timestamp_ms": time_ms, "timestamp": text} if time_ms >= 0 else {"timestamp_ms": None, "timestamp": None}


def _place(partition: TopicPartition) -> Fields:
    return {"topic": partition.topic, "partition": partition.partition}


def _checkpoint(_place_of_record: TopicPartition, record: Record) -> Fields:
    group, partition, found = checkpoint_of(record)
    fields = {"consumer_group": group} | _place(partition)
    if found is None:
        return fields | _TOMBSTONE
    offsets = {"upstream_offset": found.upstream_offset, "downstream_offset": found.downstream_offset}
    return fields | offsets | {"metadata": found.metadata}


def _offset_sync(_place_of_record: TopicPartition, record: Record) -> Fields:
    found = offset_sync_of(record)
    fields = _place(found.partition)
    fields |= {"upstream_offset": found.upstream_offset, "downstream_offset": found.downstream_offset}
    return fields | (_RESTART if found.upstream_offset < 0 else {})


def _heartbeat(_place_of_record: TopicPartition, record: Record) -> Fields:
    if record.key is None or record.value is None:
        raise MalformedInternalRecord(f"a heartbeat without a {'key' if record.key is None else 'value'}")
    found = decode_heartbeat(record.key, record.value)
    return {"source_cluster": found.source, "target_cluster": found.target} | shown_time(found.timestamp_ms)


def _position(place: TopicPartition, record: Record) -> Fields:
    """The last offset that was copied, as Connect stores it; a key that is no source connector's is shown as it is."""
    table = PositionTable("")
    foreign = table.take(place, record)
    if foreign is not None:
        raise MalformedInternalRecord(foreign.reason)
    [stored] = table.all()
    if stored.source is None:
        return {"other": True, "key": _text(record.key), "value": _text(record.value)}
    source = stored.source
    fields = {"connector": source.connector, "cluster": source.cluster} | _place(source.partition)
    if stored.last_offset is None:
        return fields | _TOMBSTONE
    return fields | {"offset": stored.last_offset, "next_offset": stored.last_offset + 1}


def _ledger(_place_of_record: TopicPartition, record: Record) -> Fields:
    if record.key is None:
        raise MalformedInternalRecord("a ledger record without a key")
    if record.value is not None:
        decode(record.key, record.value)
    kind, *key = msgspec.json.decode(record.key, type=list)
    if record.value is None:
        return {"kind": kind, "key": key} | _TOMBSTONE
    return {"kind": kind, "key": key, "value": msgspec.json.decode(record.value)}


_SHOWN: Mapping[str, Callable[[TopicPartition, Record], Fields]] = MappingProxyType({
    "checkpoints": _checkpoint, "offset-syncs": _offset_sync, "heartbeats": _heartbeat, "positions": _position,
    "ledger": _ledger,
})  # fmt: skip
KINDS = tuple(_SHOWN)


def _text(data: bytes | None) -> str | None:
    """Bytes as text; those that are none as escapes, and no more than fit a line."""
    if data is None:
        return None
    text = data[:SHOWN_BYTES_MAX].decode(errors="backslashreplace")
    return text + (f"… {len(data)} bytes" if len(data) > SHOWN_BYTES_MAX else "")
