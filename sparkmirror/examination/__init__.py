"""The offset sync inspector: what each group's position on the target is worth."""

from sparkmirror.examination.inspecting import FlowInspection, FlowStanding, InspectedRow, InspectOptions
from sparkmirror.examination.tally import CauseTally, FlowTally, GroupCost, InspectedFlow, Summary, exit_status

__all__ = [
    "CauseTally",
    "FlowInspection",
    "FlowStanding",
    "FlowTally",
    "GroupCost",
    "InspectOptions",
    "InspectedFlow",
    "InspectedRow",
    "Summary",
    "exit_status",
]
