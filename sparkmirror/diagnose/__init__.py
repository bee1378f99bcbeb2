"""Pure rules over a flow's state. A finding says what is wrong, how severe and certain it is, and how to fix it."""

from sparkmirror.diagnose.findings import Certainty, Fact, Finding, Rule, Severity
from sparkmirror.diagnose.flow_positions import JudgedPosition, judged_positions
from sparkmirror.diagnose.group_position import CAUSES, Cause, Circumstances, LogEnds, PositionFinding, RowFacts, find_cause
from sparkmirror.diagnose.reference import explain
from sparkmirror.diagnose.report import FlowReport, Report
from sparkmirror.diagnose.rules import RULES, judge, rule_ids
from sparkmirror.diagnose.why import Answer, Step, why
from sparkmirror.state.facts import OpenQuestion, Subject

__all__ = [
    "CAUSES",
    "RULES",
    "Answer",
    "Cause",
    "Certainty",
    "Circumstances",
    "Fact",
    "Finding",
    "FlowReport",
    "JudgedPosition",
    "LogEnds",
    "OpenQuestion",
    "PositionFinding",
    "Report",
    "RowFacts",
    "Rule",
    "Severity",
    "Step",
    "Subject",
    "explain",
    "find_cause",
    "judge",
    "judged_positions",
    "rule_ids",
    "why",
]
