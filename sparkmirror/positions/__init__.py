"""`sparkmirror offsets`: a flow's stored positions, and setting where its partitions resume."""

from sparkmirror.positions.alteration import Alteration, ConnectorKind, alteration_problem
from sparkmirror.positions.changes import PositionChange
from sparkmirror.positions.exporting import export
from sparkmirror.positions.importing import read_entries
from sparkmirror.positions.listing import FlowListing, ListedPosition, WorkerGroup, list_positions
from sparkmirror.positions.moves import apply, choose_flow, preview
from sparkmirror.positions.requests import Goal, MoveRequest, StoragePlace, parse_goal
from sparkmirror.positions.snapshots import Snapshot, read_snapshot
from sparkmirror.positions.target_state import GroupCommit, TargetPlan
from sparkmirror.positions.undo_file import read_text
from sparkmirror.positions.undoing import UndoRequest, UndoVerdict, WrittenBack, undo
from sparkmirror.positions.verdicts import MoveVerdict

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
