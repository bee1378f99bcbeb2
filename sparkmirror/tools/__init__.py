"""Tools for people: each gathers from the clusters, judges without touching them, and hands out a verdict to be shown."""

from sparkmirror.tools.offsets import MoveRequest, MoveVerdict, apply, preview

__all__ = ["MoveRequest", "MoveVerdict", "apply", "preview"]
