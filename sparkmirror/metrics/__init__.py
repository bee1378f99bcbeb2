"""Figures of a running mirror under MirrorMaker 2's own names, and a few that it lacks. Nothing here touches a cluster."""

from sparkmirror.metrics.exposition import exposition
from sparkmirror.metrics.file import MetricsFile
from sparkmirror.metrics.names import CHECKPOINT_ATTRIBUTES, SOURCE_ATTRIBUTES, Metric
from sparkmirror.metrics.registry import MirrorMetrics
from sparkmirror.metrics.windows import Spread, Window

__all__ = [
    "CHECKPOINT_ATTRIBUTES",
    "SOURCE_ATTRIBUTES",
    "Metric",
    "MetricsFile",
    "MirrorMetrics",
    "Spread",
    "Window",
    "exposition",
]
