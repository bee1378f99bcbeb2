"""Records of MM2's offset-syncs topic.

| part  | layout                                        |
|-------|-----------------------------------------------|
| key   | STRING topic (source name), INT32 partition   |
| value | INT64 upstream offset, INT64 downstream offset |

There is no version field. Both offsets are those of the same record, not the next ones.
"""

from __future__ import annotations

import struct

from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.wire.schema import FieldReader, encode_string


def encode_offset_sync(sync: OffsetSync) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    key = encode_string(sync.partition.topic) + struct.pack(">i", sync.partition.partition)
    return key, struct.pack(">qq", sync.upstream_offset, sync.downstream_offset)


def decode_offset_sync(key: bytes, value: bytes) -> OffsetSync:
    """The sync; MalformedInternalRecord when the bytes are not one."""
    fields = FieldReader(key, "offset sync key")
    partition = TopicPartition(fields.read_string(), fields.read_int32())
    fields = FieldReader(value, "offset sync value")
    return OffsetSync(partition, fields.read_int64(), fields.read_int64())
