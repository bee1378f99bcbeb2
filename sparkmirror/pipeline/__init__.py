"""The one door to Spark: conductors on the driver, slots in tasks."""

from sparkmirror.pipeline.conductor import Conductor
from sparkmirror.pipeline.flow_context import FlowPlace
from sparkmirror.pipeline.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.pipeline.heap import FreedMemory, return_freed_memory
from sparkmirror.pipeline.repositioning import Repositioning
from sparkmirror.pipeline.spark import SparkSlots
from sparkmirror.pipeline.standing import Trouble, counted_states, flow_state, troubles
from sparkmirror.pipeline.status import CheckpointKey, Discovery, FlowNotes, FlowStatus, MirroredTopic, PartitionStatus

__all__ = [
    "CheckpointKey",
    "Conductor",
    "Discovery",
    "FlowLedger",
    "FlowNotes",
    "FlowPlace",
    "FlowStatus",
    "FreedMemory",
    "MirroredTopic",
    "PartitionStatus",
    "Repositioning",
    "SparkSlots",
    "Trouble",
    "counted_states",
    "ensure_compacted_topic",
    "flow_state",
    "return_freed_memory",
    "troubles",
]
