"""What a request would do, or did."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sparkmirror.ledger import Move
from sparkmirror.model import TopicPartition
from sparkmirror.positions.changes import PositionChange
from sparkmirror.positions.target_state import GroupCommit, TargetPlan

RunBy = Literal["sparkmirror", "MirrorMaker 2"]
SPARKMIRROR: RunBy = "sparkmirror"
MM2: RunBy = "MirrorMaker 2"


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveVerdict:
    """What changes, or changed if `is_applied`.

    `topics` are source topics with their copies' names. A flow of sparkmirror's has `moves`, one of MirrorMaker 2's has
    `changes`. `unmoved` partitions stay as they are. `commits` are groups' offsets in the copies. `proof` says why it is
    known that no process runs the flow; if one does, `owner` is the process that carries the request out.
    """

    flow: str
    run_by: RunBy
    topics: tuple[tuple[str, str], ...]
    moves: tuple[Move, ...] = ()
    changes: tuple[PositionChange, ...] = ()
    unmoved: tuple[TopicPartition, ...] = ()
    created: tuple[str, ...] = ()
    target: TargetPlan | None = None
    commits: tuple[GroupCommit, ...] = ()
    target_ends: dict[TopicPartition, int] = field(default_factory=dict)
    proof: str = ""
    notes: tuple[str, ...] = ()
    undo_file: str = ""
    owner: str = ""
    request_id: str = ""
    is_applied: bool = False

    @property
    def is_nothing(self) -> bool:
        """Whether there is nothing to change."""
        return not self.moves and not self.changes and (self.target is None or not self.target.topics)
