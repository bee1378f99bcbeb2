"""What is done to clusters around the copying: topics now; configs, rights, heartbeats and groups later."""

from sparkmirror.control.acls import AclSync
from sparkmirror.control.flows import Mirror, RunOptions, place_of, run_flows
from sparkmirror.control.topics import TopicControl, TopicPlan

__all__ = [
    "AclSync",
    "Mirror",
    "RunOptions",
    "TopicControl",
    "TopicPlan",
    "place_of",
    "run_flows",
]
