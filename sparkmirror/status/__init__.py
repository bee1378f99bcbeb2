"""What a flow and its partitions do now, as values that every view shows. Pure."""

from sparkmirror.status.flow_status import (
    CertificateEnd,
    CheckpointKey,
    Discovery,
    FlowNotes,
    FlowStatus,
    GroupCounts,
    MirroredTopic,
    PartitionStatus,
)
from sparkmirror.status.health import (
    Trouble,
    TroubleGroup,
    counted_states,
    flow_state,
    grouped,
    is_healthy,
    stopped_partitions,
    troubles,
)
from sparkmirror.status.lag import FlowLag, flow_lag, partition_lag, partition_lag_ms
from sparkmirror.status.reloads import ReloadResult
from sparkmirror.status.wishes import (
    flow_reason,
    paused_partitions,
    resume_command,
    wish_fields,
    wish_reason,
    wish_reasons,
    wish_subject,
    wish_words,
)

__all__ = [
    "CertificateEnd",
    "CheckpointKey",
    "Discovery",
    "FlowLag",
    "FlowNotes",
    "FlowStatus",
    "GroupCounts",
    "MirroredTopic",
    "PartitionStatus",
    "ReloadResult",
    "Trouble",
    "TroubleGroup",
    "counted_states",
    "flow_lag",
    "flow_reason",
    "flow_state",
    "grouped",
    "is_healthy",
    "partition_lag",
    "partition_lag_ms",
    "paused_partitions",
    "resume_command",
    "stopped_partitions",
    "troubles",
    "wish_fields",
    "wish_reason",
    "wish_reasons",
    "wish_subject",
    "wish_words",
]
