"""What a flow and its partitions do now, as values that every view shows. Pure."""

from sparkmirror.status.flow_status import CheckpointKey, Discovery, FlowNotes, FlowStatus, MirroredTopic, PartitionStatus
from sparkmirror.status.health import Trouble, counted_states, flow_state, troubles

__all__ = [
    "CheckpointKey",
    "Discovery",
    "FlowNotes",
    "FlowStatus",
    "MirroredTopic",
    "PartitionStatus",
    "Trouble",
    "counted_states",
    "flow_state",
    "troubles",
]
