"""The offset sync inspector: what each group's position on the target is worth."""

from sparkmirror.examination.inspecting import FlowHealth, FlowInspection, InspectedRow, InspectOptions
from sparkmirror.examination.plan_values import FlowPlan, PartitionStart, Plan, PlanFinding, PlannedTopic
from sparkmirror.examination.planning import make_plan
from sparkmirror.examination.tally import CauseTally, FlowTally, GroupCost, InspectedFlow, Summary, exit_status

__all__ = [
    "CauseTally",
    "FlowHealth",
    "FlowInspection",
    "FlowPlan",
    "FlowTally",
    "GroupCost",
    "InspectOptions",
    "InspectedFlow",
    "InspectedRow",
    "PartitionStart",
    "Plan",
    "PlanFinding",
    "PlannedTopic",
    "Summary",
    "exit_status",
    "make_plan",
]
