"""Tools for people: each gathers from the clusters, judges without touching them, and hands out a verdict to be shown."""

from sparkmirror.tools.offsets import (
    Alteration,
    ConnectorKind,
    MoveRequest,
    MoveVerdict,
    alteration_problem,
    apply,
    preview,
)

__all__ = ["Alteration", "ConnectorKind", "MoveRequest", "MoveVerdict", "alteration_problem", "apply", "preview"]
