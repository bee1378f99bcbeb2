"""Receipts read as an exact map between the offsets of both clusters, and as MM2's offset syncs."""

from sparkmirror.offsets.offset_map import OffsetMap
from sparkmirror.offsets.sync_pairs import SyncPairs

__all__ = ["OffsetMap", "SyncPairs"]
