"""Compares the records of both sides of a copy, range by range. Pure: batches in, findings out."""

from sparkmirror.comparison.aligned import AlignedComparison
from sparkmirror.comparison.exact import ExactComparison, key_digest
from sparkmirror.comparison.values import ComparedRange, Difference, DifferenceKind, Entry, Findings, Piece, Stream, Why

__all__ = [
    "AlignedComparison",
    "ComparedRange",
    "Difference",
    "DifferenceKind",
    "Entry",
    "ExactComparison",
    "Findings",
    "Piece",
    "Stream",
    "Why",
    "key_digest",
]
