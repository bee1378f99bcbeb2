"""`sparkmirror offsets`: what is stored, and saying where a flow's partitions go on."""

from sparkmirror.tools.offsets.alteration import Alteration, ConnectorKind, alteration_problem
from sparkmirror.tools.offsets.moves import MoveRequest, MoveVerdict, apply, preview

__all__ = [
    "Alteration",
    "ConnectorKind",
    "MoveRequest",
    "MoveVerdict",
    "alteration_problem",
    "apply",
    "preview",
]
