"""The driver of a flow: owns it, opens partitions on slots, recovers what was lost, records what was proven."""

from sparkmirror.driver.conductor import Conductor
from sparkmirror.driver.flow_context import FlowPlace
from sparkmirror.driver.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.driver.repositioning import Repositioning

__all__ = ["Conductor", "FlowLedger", "FlowPlace", "Repositioning", "ensure_compacted_topic"]
