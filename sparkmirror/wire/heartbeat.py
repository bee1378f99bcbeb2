"""Records of MM2's heartbeats topic.

| part  | layout                                         |
|-------|------------------------------------------------|
| key   | STRING source alias, STRING target alias       |
| value | INT16 version 0, INT64 timestamp ms            |
"""

from __future__ import annotations

import struct

from sparkmirror.model import Heartbeat
from sparkmirror.wire.schema import FieldReader, encode_string

_VERSION = 0


def encode_heartbeat(heartbeat: Heartbeat) -> tuple[bytes, bytes]:
    """Key and value of the record."""
    key = encode_string(heartbeat.source) + encode_string(heartbeat.target)
    return key, struct.pack(">hq", _VERSION, heartbeat.timestamp_ms)


def decode_heartbeat(key: bytes, value: bytes) -> Heartbeat:
    """The heartbeat; MalformedInternalRecord when the bytes are not one."""
    fields = FieldReader(key, "heartbeat key")
    source, target = fields.read_string(), fields.read_string()
    fields = FieldReader(value, "heartbeat value")
    fields.read_int16()
    return Heartbeat(source, target, fields.read_int64())
