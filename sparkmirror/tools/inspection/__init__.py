"""The offset sync inspector: what each group's position on the target is worth."""

from sparkmirror.tools.inspection.causes import CAUSES, Cause, Circumstances, Finding, Severity, find_cause
from sparkmirror.tools.inspection.durations import parse_duration
from sparkmirror.tools.inspection.gathering import FlowInspection, FlowStanding, InspectedRow, InspectOptions
from sparkmirror.tools.inspection.rows import (
    COLUMNS,
    HEADER,
    Ends,
    RowFacts,
    columns,
    csv_line,
    judge,
    parse_csv_line,
    quoted_line,
    sort_key,
    strict_columns,
)
from sparkmirror.tools.inspection.tally import CauseTally, FlowReport, FlowTally, GroupCost, Summary, exit_status
from sparkmirror.tools.inspection.verdicts import (
    ACTIVE_STATES,
    VERDICTS,
    StrictLoop,
    Verdict,
    verdict_of,
    verdict_of_text,
)

__all__ = [
    "ACTIVE_STATES",
    "CAUSES",
    "COLUMNS",
    "HEADER",
    "VERDICTS",
    "Cause",
    "CauseTally",
    "Circumstances",
    "Ends",
    "Finding",
    "FlowInspection",
    "FlowReport",
    "FlowStanding",
    "FlowTally",
    "GroupCost",
    "InspectOptions",
    "InspectedRow",
    "RowFacts",
    "Severity",
    "StrictLoop",
    "Summary",
    "Verdict",
    "columns",
    "csv_line",
    "exit_status",
    "find_cause",
    "judge",
    "parse_csv_line",
    "parse_duration",
    "quoted_line",
    "sort_key",
    "strict_columns",
    "verdict_of",
    "verdict_of_text",
]
