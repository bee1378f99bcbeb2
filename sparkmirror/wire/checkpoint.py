"""Records of MM2's checkpoints topic.

| part  | layout                                                                          |
|-------|---------------------------------------------------------------------------------|
| key   | STRING group, STRING topic (target name), INT32 partition                       |
| value | INT16 version 0, INT64 upstream offset, INT64 downstream offset, STRING metadata |

Both offsets are the next to read. The version is read but not judged, as MM2 does.
"""

from __future__ import annotations

import struct

from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.wire.schema import FieldReader, encode_string

_VERSION = 0


def encode_checkpoint(checkpoint: Checkpoint) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    partition = checkpoint.partition
    key = encode_string(checkpoint.group) + encode_string(partition.topic) + struct.pack(">i", partition.partition)
    offsets = struct.pack(">hqq", _VERSION, checkpoint.upstream_offset, checkpoint.downstream_offset)
    return key, offsets + encode_string(checkpoint.metadata)


def decode_checkpoint_key(key: bytes) -> tuple[str, TopicPartition]:
    """The group and the partition of the target; MalformedInternalRecord when the bytes are no such key."""
    fields = FieldReader(key, "checkpoint key")
    group = fields.read_string()
    return group, TopicPartition(fields.read_string(), fields.read_int32())


def decode_checkpoint(key: bytes, value: bytes) -> Checkpoint:
    """The checkpoint; MalformedInternalRecord when the bytes are not one."""
    group, partition = decode_checkpoint_key(key)
    fields = FieldReader(value, "checkpoint value")
    fields.read_int16()
    return Checkpoint(group, partition, fields.read_int64(), fields.read_int64(), fields.read_string())
