"""Bytes to values and back: record batches, outgoing batches, and MM2's internal records. Does no I/O."""

from sparkmirror.wire.checkpoint import decode_checkpoint, decode_checkpoint_key, encode_checkpoint
from sparkmirror.wire.codecs import DECOMPRESSED_BYTES_MAX, compress, decompress
from sparkmirror.wire.columns import Columns, build_column_batch, read_columns
from sparkmirror.wire.connect_assignment import connect_tasks
from sparkmirror.wire.connect_offset import (
    CONNECT_OFFSET_PARTITIONS,
    SourcePosition,
    checkpoint_key,
    connect_partition,
    decode_connect_offset,
    decode_source_key,
    encode_connect_offset,
    heartbeat_key,
    murmur2,
    source_key,
)
from sparkmirror.wire.heartbeat import decode_heartbeat, encode_heartbeat
from sparkmirror.wire.java_map import java_order, java_text
from sparkmirror.wire.offset_sync import decode_offset_sync, encode_offset_sync
from sparkmirror.wire.outgoing import AbortedTransactions, Packed, PackLimits, pack
from sparkmirror.wire.record import Record
from sparkmirror.wire.record_batch import (
    NO_PRODUCER,
    BatchView,
    Producer,
    Row,
    build_batch,
    build_sparse_batch,
    control_type,
    first_batch_size,
    read_batches,
    read_records,
    read_rows,
)
from sparkmirror.wire.rewrite import OutgoingBatch, assemble, stamp
from sparkmirror.wire.schema import MalformedInternalRecord
from sparkmirror.wire.tails import Headers

__all__ = [
    "CONNECT_OFFSET_PARTITIONS",
    "DECOMPRESSED_BYTES_MAX",
    "NO_PRODUCER",
    "AbortedTransactions",
    "BatchView",
    "Columns",
    "Headers",
    "MalformedInternalRecord",
    "OutgoingBatch",
    "PackLimits",
    "Packed",
    "Producer",
    "Record",
    "Row",
    "SourcePosition",
    "assemble",
    "build_batch",
    "build_column_batch",
    "build_sparse_batch",
    "checkpoint_key",
    "compress",
    "connect_partition",
    "connect_tasks",
    "control_type",
    "decode_checkpoint",
    "decode_checkpoint_key",
    "decode_connect_offset",
    "decode_heartbeat",
    "decode_offset_sync",
    "decode_source_key",
    "decompress",
    "encode_checkpoint",
    "encode_connect_offset",
    "encode_heartbeat",
    "encode_offset_sync",
    "first_batch_size",
    "heartbeat_key",
    "java_order",
    "java_text",
    "murmur2",
    "pack",
    "read_batches",
    "read_columns",
    "read_records",
    "read_rows",
    "source_key",
    "stamp",
]
