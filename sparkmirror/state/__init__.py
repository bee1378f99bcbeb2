"""What is known of a flow: read once from both clusters, each part known with its time or unknown with the reason."""

from sparkmirror.state.flow_state import CopyPosition, FlowState, Note, NoteKind, Notes, now_ms
from sparkmirror.state.following import DeadlineReached, FollowedTopic, read_settled
from sparkmirror.state.internal_topics import (
    SOURCE_CONNECTOR,
    CheckpointTable,
    ForeignRecord,
    ForeignRecords,
    LedgerTable,
    PositionTable,
    StoredPosition,
    SyncPair,
    SyncTable,
    Table,
)
from sparkmirror.state.ownership import OwnerStatus, owner_status
from sparkmirror.state.parts import Part, Unknown

__all__ = [
    "SOURCE_CONNECTOR",
    "CheckpointTable",
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
    "StoredPosition",
    "SyncPair",
    "SyncTable",
    "Table",
    "Unknown",
    "now_ms",
    "owner_status",
    "read_settled",
]
