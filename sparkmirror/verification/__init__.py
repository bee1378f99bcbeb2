"""Compares a flow's copy with its source, record by record, in Spark tasks, and remembers what is equal."""

from sparkmirror.verification.planning import LeftOut, VerifyScope
from sparkmirror.verification.report import VerifiedFlow, VerifiedPartition, VerifyReport
from sparkmirror.verification.running import Progress, VerifyOptions, verify, with_slots

__all__ = [
    "LeftOut",
    "Progress",
    "VerifiedFlow",
    "VerifiedPartition",
    "VerifyOptions",
    "VerifyReport",
    "VerifyScope",
    "verify",
    "with_slots",
]
