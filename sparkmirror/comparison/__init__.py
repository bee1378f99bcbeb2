"""Compares the records of both sides of a copy, range by range. Pure: batches in, findings out."""

from sparkmirror.comparison.aligned import AlignedComparison
from sparkmirror.comparison.exact import ExactComparison, key_digest
from sparkmirror.comparison.values import Difference, Findings, Kind, Piece, Range, Stream, Why

__all__ = [
    "AlignedComparison",
    "Difference",
    "ExactComparison",
    "Findings",
    "Kind",
    "Piece",
    "Range",
    "Stream",
    "Why",
    "key_digest",
]
