"""Compares a flow's copy with its source, record by record, in Spark tasks, and remembers what is equal."""

from sparkmirror.verification.planning import LeftOut, Wanted
from sparkmirror.verification.report import FlowReport, PartitionReport, VerifyReport
from sparkmirror.verification.running import Progress, VerifyOptions, verify, with_slots

__all__ = [
    "FlowReport",
    "LeftOut",
    "PartitionReport",
    "Progress",
    "VerifyOptions",
    "VerifyReport",
    "Wanted",
    "verify",
    "with_slots",
]
