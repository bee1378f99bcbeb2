"""Failover as a command: looks, waits until the source is at rest, stops the flow for good, places every group, reports."""

from sparkmirror.failover.abandoning import abandon
from sparkmirror.failover.drilling import Drill, DrillReport
from sparkmirror.failover.looking import look
from sparkmirror.failover.returning import FailbackOptions, FailbackPlan, FailbackReport, FailbackRun, look_back
from sparkmirror.failover.steps import FailoverOptions, FailoverRun, refuse_obstacles, steps_of
from sparkmirror.failover.stopping import OWNER_VERBS
from sparkmirror.failover.values import CopyEnd, FailoverPlan, FailoverReport, GroupPlan, GroupPosition, Kind, Obstacle

__all__ = [
    "OWNER_VERBS",
    "CopyEnd",
    "Drill",
    "DrillReport",
    "FailbackOptions",
    "FailbackPlan",
    "FailbackReport",
    "FailbackRun",
    "FailoverOptions",
    "FailoverPlan",
    "FailoverReport",
    "FailoverRun",
    "GroupPlan",
    "GroupPosition",
    "Kind",
    "Obstacle",
    "abandon",
    "look",
    "look_back",
    "refuse_obstacles",
    "steps_of",
]
