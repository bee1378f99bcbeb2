"""`sparkmirror offsets`: what is stored of a flow's positions, and saying where its partitions go on."""

from sparkmirror.tools.offsets.alteration import Alteration, ConnectorKind, alteration_problem
from sparkmirror.tools.offsets.changes import PositionChange
from sparkmirror.tools.offsets.exporting import export
from sparkmirror.tools.offsets.importing import read_entries
from sparkmirror.tools.offsets.listing import FlowListing, ListedPosition, WorkerGroup, list_positions
from sparkmirror.tools.offsets.moves import apply, choose_flow, preview
from sparkmirror.tools.offsets.requests import Goal, MoveRequest, StoragePlace, parse_goal
from sparkmirror.tools.offsets.snapshots import Snapshot, read_snapshot
from sparkmirror.tools.offsets.target_state import GroupCommit, TargetPlan
from sparkmirror.tools.offsets.undo_file import read_text
from sparkmirror.tools.offsets.undoing import UndoRequest, UndoVerdict, WrittenBack, undo
from sparkmirror.tools.offsets.verdicts import MoveVerdict

__all__ = [
    "Alteration",
    "ConnectorKind",
    "FlowListing",
    "Goal",
    "GroupCommit",
    "ListedPosition",
    "MoveRequest",
    "MoveVerdict",
    "PositionChange",
    "Snapshot",
    "StoragePlace",
    "TargetPlan",
    "UndoRequest",
    "UndoVerdict",
    "WorkerGroup",
    "WrittenBack",
    "alteration_problem",
    "apply",
    "choose_flow",
    "export",
    "list_positions",
    "parse_goal",
    "preview",
    "read_entries",
    "read_snapshot",
    "read_text",
    "undo",
]
