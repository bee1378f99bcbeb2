"""Records of MM2's Connect offsets topic (mm2-offsets.<alias>.internal): JSON without blanks, schemas off.

| connector  | key                                                                              | value           |
|------------|----------------------------------------------------------------------------------|-----------------|
| source     | `["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]`        | `{"offset":41}` |
| checkpoint | `["MirrorCheckpointConnector",{"partition":0,"topic":"A.orders","group":"g1"}]`   | `{"offset":0}`  |
| heartbeat  | `["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]` | `{"offset":0}`  |

Connect finds a key by its bytes, so the order of the fields is part of it (that of a 16-bucket Java HashMap), and so is
the escaping (Jackson's: only quote, backslash and control characters, hex in upper case). The offset is the *last* one
copied. A null value takes the position back. The first element is the connector's name, which users may choose.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.wire.schema import MalformedInternalRecord

# Connect's offset.storage.partitions default, which MM2 does not change.
CONNECT_OFFSET_PARTITIONS = 25

_SHORT_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {ord(sign): text for sign, text in _SHORT_ESCAPES.items()}
_SOURCE_FIELDS = {"cluster", "partition", "topic"}


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """Whose position a key names: the source connector's, for one partition of the source cluster."""

    connector: str
    cluster: str
    partition: TopicPartition


def source_key(connector: str, cluster: str, partition: TopicPartition) -> bytes:
    """The key under which MM2's source connector keeps the position of one source partition."""
    fields = f'"cluster":{_quote(cluster)},"partition":{partition.partition},"topic":{_quote(partition.topic)}'
    return _key(connector, fields)


def checkpoint_key(connector: str, group: str, partition: TopicPartition) -> bytes:
    """The key of the checkpoint connector for one group and one remote partition."""
    fields = f'"partition":{partition.partition},"topic":{_quote(partition.topic)},"group":{_quote(group)}'
    return _key(connector, fields)


def heartbeat_key(connector: str, flow: FlowName) -> bytes:
    """The key of the heartbeat connector."""
    return _key(connector, f'"sourceClusterAlias":{_quote(flow.source)},"targetClusterAlias":{_quote(flow.target)}')


def encode_connect_offset(last_offset: int) -> bytes:
    """The value that says: copied up to and including this offset."""
    return b'{"offset":%d}' % last_offset


def decode_source_key(key: bytes) -> SourcePosition | None:
    """Whose position the key names; None when it is another connector's key."""
    content = _parse(key, "connect offset key")
    if not isinstance(content, list) or len(content) != 2 or not isinstance(content[0], str):
        raise MalformedInternalRecord(f"connect offset key is no pair of name and object: {key!r}")
    fields = content[1]
    if not isinstance(fields, dict) or fields.keys() != _SOURCE_FIELDS:
        return None
    cluster, topic, partition = fields["cluster"], fields["topic"], fields["partition"]
    if not isinstance(cluster, str) or not isinstance(topic, str) or type(partition) is not int:
        raise MalformedInternalRecord(f"connect offset key has fields of the wrong type: {key!r}")
    return SourcePosition(content[0], cluster, TopicPartition(topic, partition))


def decode_connect_offset(value: bytes | None) -> int | None:
    """The last copied offset; None for a tombstone, which takes the position back."""
    if value is None:
        return None
    content = _parse(value, "connect offset value")
    offset = content.get("offset") if isinstance(content, dict) else None
    # A bool is an int in Python, and a float would break MM2's own task.
    if type(offset) is not int or not -(1 << 63) <= offset < 1 << 63:
        raise MalformedInternalRecord(f"connect offset value holds no 64-bit offset: {value!r}")
    return offset


def connect_partition(key: bytes, partitions: int = CONNECT_OFFSET_PARTITIONS) -> int:
    """The partition in which Connect's producer puts the key."""
    return (murmur2(key) & 0x7FFFFFFF) % partitions


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash of Kafka's Java clients, signed."""
    mask, multiplier = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * multiplier & mask
        word = (word ^ word >> 24) * multiplier & mask
        state = state * multiplier & mask ^ word
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * multiplier & mask
    state = (state ^ state >> 13) * multiplier & mask
    state ^= state >> 15
    return state - (1 << 32) if state >> 31 else state


def _key(connector: str, fields: str) -> bytes:
    # Written out by hand, because the json module escapes control characters in lower case and sorts by insertion:
    # either would be another key, which no task ever reads.
    try:
        return f"[{_quote(connector)},{{{fields}}}]".encode()
    except UnicodeEncodeError as error:
        raise MalformedInternalRecord(f"connect offset key cannot be written as UTF-8: {error}") from error


def _quote(text: str) -> str:
    return f'"{text.translate(_ESCAPES)}"'


def _parse(data: bytes, part: str) -> object:
    try:
        content: object = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise MalformedInternalRecord(f"{part} is no JSON: {data[:200]!r}") from error
    return content
