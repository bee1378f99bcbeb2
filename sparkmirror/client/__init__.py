"""Questions to one cluster about what was mirrored to it, for applications that move over. Needs no Spark."""

from sparkmirror.client.mirror_client import MirrorClient, RemoteOffset, translate_offsets
from sparkmirror.client.refusals import CheckpointsMissing, DeadlineReached, LedgerMissing
from sparkmirror.client.standings import RemotePosition
from sparkmirror.groups import Basis
from sparkmirror.model import TopicPartition

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
