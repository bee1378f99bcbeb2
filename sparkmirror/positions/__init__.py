"""`sparkmirror offsets`: a flow's stored positions, and setting where its partitions resume."""

from sparkmirror.positions.alteration import Alteration, ConnectorKind, alteration_problem
from sparkmirror.positions.changes import PositionChange
from sparkmirror.positions.exporting import export
from sparkmirror.positions.history import HistoryEntry, history_of
from sparkmirror.positions.importing import read_entries
from sparkmirror.positions.listing import FlowListing, ListedPosition, WorkerGroup, list_positions
from sparkmirror.positions.live_moves import LIVE_VERBS
from sparkmirror.positions.moves import apply, choose_flow, preview
from sparkmirror.positions.pausing import Wished, WishRequest, ask_for
from sparkmirror.positions.requests import Goal, MoveRequest, StoragePlace, parse_goal
from sparkmirror.positions.restarting import Restarted, RestartedPartition, RestartScope, restart
from sparkmirror.positions.snapshots import Snapshot, read_snapshot
from sparkmirror.positions.stored import present_topics
from sparkmirror.positions.target_state import GroupCommit, TargetPlan
from sparkmirror.positions.undo_file import read_text
from sparkmirror.positions.undoing import UndoRequest, UndoVerdict, WrittenBack, undo
from sparkmirror.positions.verdicts import MoveVerdict

__all__ = [
    "LIVE_VERBS",
    "Alteration",
    "ConnectorKind",
    "FlowListing",
    "Goal",
    "GroupCommit",
    "HistoryEntry",
    "ListedPosition",
    "MoveRequest",
    "MoveVerdict",
    "PositionChange",
    "RestartScope",
    "Restarted",
    "RestartedPartition",
    "Snapshot",
    "StoragePlace",
    "TargetPlan",
    "UndoRequest",
    "UndoVerdict",
    "WishRequest",
    "Wished",
    "WorkerGroup",
    "WrittenBack",
    "alteration_problem",
    "apply",
    "ask_for",
    "choose_flow",
    "export",
    "history_of",
    "list_positions",
    "parse_goal",
    "present_topics",
    "preview",
    "read_entries",
    "read_snapshot",
    "read_text",
    "restart",
    "undo",
]
