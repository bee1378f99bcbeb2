"""Receipts read as an exact map between upstream and downstream offsets."""

from sparkmirror.offsets.offset_map import OffsetMap

__all__ = ["OffsetMap"]
