"""Consumer groups: where a group of the source stands on the target, and what may be written there. Pure."""

from sparkmirror.groups.checkpoints import Checkpoints, TimedCheckpoint
from sparkmirror.groups.sync_history import TOO_OLD, SyncHistories, SyncHistory
from sparkmirror.groups.target_group import TargetGroup, offsets_to_write
from sparkmirror.groups.translation import Basis, Copied, Translation, translate

__all__ = [
    "TOO_OLD",
    "Basis",
    "Checkpoints",
    "Copied",
    "SyncHistories",
    "SyncHistory",
    "TargetGroup",
    "TimedCheckpoint",
    "Translation",
    "offsets_to_write",
    "translate",
]
