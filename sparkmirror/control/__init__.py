"""What is done to clusters around the copying: topics now; configs, rights, heartbeats and groups later."""

from sparkmirror.control.acls import AclSync
from sparkmirror.control.flows import Mirror, RunOptions, run_flows
from sparkmirror.control.plan import FlowPlan, OwnerFinding, PartitionStart, Plan, PlannedTopic, make_plan
from sparkmirror.control.topics import TopicControl, TopicPlan

__all__ = [
    "AclSync",
    "FlowPlan",
    "Mirror",
    "OwnerFinding",
    "PartitionStart",
    "Plan",
    "PlannedTopic",
    "RunOptions",
    "TopicControl",
    "TopicPlan",
    "make_plan",
    "run_flows",
]
