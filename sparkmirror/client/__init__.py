"""Reads what was mirrored to one cluster, for applications that fail over. Needs no Spark."""

from sparkmirror.client.mirror_client import MirrorClient, RemoteOffset, RemotePosition, translate_offsets
from sparkmirror.client.refusals import CheckpointsMissing, LedgerMissing
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import Basis
from sparkmirror.state import DeadlineReached

__all__ = [
    "Basis",
    "CheckpointsMissing",
    "DeadlineReached",
    "LedgerMissing",
    "MirrorClient",
    "RemoteOffset",
    "RemotePosition",
    "TopicPartition",
    "translate_offsets",
]
