"""What is known of a flow: read once from both clusters, each part known with its time or unknown with the reason."""

from sparkmirror.state.flow_state import CopyPosition, FlowState, copy_position, has_topic, mapped_partition
from sparkmirror.state.following import DeadlineReached, FollowedTopic, read_settled
from sparkmirror.state.internal_topics import (
    SOURCE_CONNECTOR,
    CheckpointTable,
    ForeignRecord,
    ForeignRecords,
    LedgerTable,
    PositionTable,
    StoredRecord,
    SyncPair,
    SyncTable,
    Table,
    places_for,
    stored_offset,
)
from sparkmirror.state.ownership import OwnerStatus, owner_status
from sparkmirror.state.parts import Part, Unknown
from sparkmirror.state.reading import ClusterReader, Note, NoteKind, Notes, now_ms

__all__ = [
    "SOURCE_CONNECTOR",
    "CheckpointTable",
    "ClusterReader",
    "CopyPosition",
    "DeadlineReached",
    "FlowState",
    "FollowedTopic",
    "ForeignRecord",
    "ForeignRecords",
    "LedgerTable",
    "Note",
    "NoteKind",
    "Notes",
    "OwnerStatus",
    "Part",
    "PositionTable",
    "StoredRecord",
    "SyncPair",
    "SyncTable",
    "Table",
    "Unknown",
    "copy_position",
    "has_topic",
    "mapped_partition",
    "now_ms",
    "owner_status",
    "places_for",
    "read_settled",
    "stored_offset",
]
