"""The offset sync inspector: what each group's position on the target is worth."""

from sparkmirror.examination.inspecting import FlowHealth, FlowInspection, InspectedRow, InspectOptions
from sparkmirror.examination.tally import CauseTally, FlowTally, GroupCost, InspectedFlow, Summary, exit_status

__all__ = [
    "CauseTally",
    "FlowHealth",
    "FlowInspection",
    "FlowTally",
    "GroupCost",
    "InspectOptions",
    "InspectedFlow",
    "InspectedRow",
    "Summary",
    "exit_status",
]
