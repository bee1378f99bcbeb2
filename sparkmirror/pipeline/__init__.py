"""The one door to Spark: conductors on the driver, slots in tasks."""

from sparkmirror.pipeline.conductor import Conductor
from sparkmirror.pipeline.flow_context import FlowPlace
from sparkmirror.pipeline.spark import SparkSlots
from sparkmirror.pipeline.status import Discovery, FlowStatus, MirroredTopic, PartitionStatus

__all__ = ["Conductor", "Discovery", "FlowPlace", "FlowStatus", "MirroredTopic", "PartitionStatus", "SparkSlots"]
