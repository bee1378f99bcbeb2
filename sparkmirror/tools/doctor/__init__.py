"""The doctor: gathers facts of flows, judges them by rules, and says what is wrong and what mends it."""

from sparkmirror.tools.doctor.checks import RULES, judge, rule_ids
from sparkmirror.tools.doctor.examination import Examination, FlowReport, Report, examine, wanted_ids
from sparkmirror.tools.doctor.findings import Certainty, Fact, Finding, Open, Rule, Severity, Subject
from sparkmirror.tools.doctor.gathering import GatherOptions, gather
from sparkmirror.tools.doctor.reference import explain
from sparkmirror.tools.doctor.why import Answer, Step, why

__all__ = [
    "RULES",
    "Answer",
    "Certainty",
    "Examination",
    "Fact",
    "Finding",
    "FlowReport",
    "GatherOptions",
    "Open",
    "Report",
    "Rule",
    "Severity",
    "Step",
    "Subject",
    "examine",
    "explain",
    "gather",
    "judge",
    "rule_ids",
    "wanted_ids",
    "why",
]
