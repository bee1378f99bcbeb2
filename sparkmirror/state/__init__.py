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
    RouteTable,
    StoredRecord,
    SyncPair,
    SyncTable,
    Table,
    places_for,
    stored_offset,
    tombstones,
)
from sparkmirror.state.last_known import last_source_ends, recorded_partitions, recorded_sources, source_seen_ms
from sparkmirror.state.ownership import OwnerStatus, owner_status
from sparkmirror.state.parts import Outage, Part, Unknown
from sparkmirror.state.reading import ClusterReader, Note, NoteKind, Notes, now_ms
from sparkmirror.state.shown_records import KINDS, shown_record
from sparkmirror.state.topic_tail import TopicTail

__all__ = [
    "KINDS",
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
    "Outage",
    "OwnerStatus",
    "Part",
    "PositionTable",
    "RouteTable",
    "StoredRecord",
    "SyncPair",
    "SyncTable",
    "Table",
    "TopicTail",
    "Unknown",
    "copy_position",
    "has_topic",
    "last_source_ends",
    "mapped_partition",
    "now_ms",
    "owner_status",
    "places_for",
    "read_settled",
    "recorded_partitions",
    "recorded_sources",
    "shown_record",
    "source_seen_ms",
    "stored_offset",
    "tombstones",
]
