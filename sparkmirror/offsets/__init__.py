"""Offsets of one cluster and of the other: the exact map, MirrorMaker 2's offset syncs, translation, checkpoints. Pure."""

from sparkmirror.offsets.checkpoints import Checkpoints, TimedCheckpoint
from sparkmirror.offsets.offset_map import OffsetMap
from sparkmirror.offsets.sync_history import TOO_OLD, SyncHistories, SyncHistory
from sparkmirror.offsets.sync_pairs import SyncPairs
from sparkmirror.offsets.target_group import TargetGroup, offsets_to_write
from sparkmirror.offsets.translation import Basis, Copied, Translation, translate

__all__ = [
    "TOO_OLD",
    "Basis",
    "Checkpoints",
    "Copied",
    "OffsetMap",
    "SyncHistories",
    "SyncHistory",
    "SyncPairs",
    "TargetGroup",
    "TimedCheckpoint",
    "Translation",
    "offsets_to_write",
    "translate",
]
