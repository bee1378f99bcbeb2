"""Writes where partitions go on: in the ledger, beside the answer to a request, and in MirrorMaker 2's positions.

A position of MirrorMaker 2's that lies before the ledger's word means nothing, one behind it means that MirrorMaker 2 copied
since. So the former is never the case in between: back first there, forward first in the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror import failpoints
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.flow_ledger import Entry
from sparkmirror.driver.owning import append_whole, renew_producer
from sparkmirror.driver.recorder import Recorder
from sparkmirror.errors import MoveRefused
from sparkmirror.ledger import LedgerRecord, LedgerView, Move, attempt_keys, decode_key, idle_since, position_before
from sparkmirror.model import TopicPartition


@dataclass(frozen=True, slots=True)
class NextPosition:
    """A partition goes on at `upstream`; whether that lies further back, and where a new offset map begins, if one does."""

    partition: TopicPartition
    upstream: int
    is_back: bool
    restarts_at: int | None = None

    @classmethod
    def of(cls, move: Move) -> NextPosition:
        """What a move changes."""
        is_back = move.old is None or move.new.upstream < move.old.upstream
        return cls(move.partition, move.new.upstream, is_back, move.new.downstream if move.is_map_new else None)


class PositionWriter:
    """The owner of a flow, as it moves partitions whose attempts are over; without a recorder it moves none."""

    def __init__(self, context: FlowContext, recorder: Recorder | None) -> None:
        self._context, self._recorder = context, recorder

    def prepare(self, moves: Sequence[Move], reason: str) -> list[LedgerRecord]:
        """The ledger's records of the moves, to be kept for taking them back; nothing is written yet.

        They are under an epoch that nothing was written under: their attempts begin with sequence 0.
        """
        self.renew()
        return self._context.move_records(moves, reason)

    def renew(self) -> None:
        """Takes a fresh epoch: one batch is appended as a whole under each."""
        renew_producer(self._context)

    def write(self, changes: Sequence[NextPosition], entries: Sequence[Entry]) -> None:
        """Says the changes in both, so that both continue at the same offset; and what was found out about copies' ends."""
        self.write_back(changes)
        self.append(entries)
        self.write_forward(changes)
        if not changes and self._recorder is not None:
            self._recorder.flush()

    def write_back(self, changes: Sequence[NextPosition]) -> None:
        """MM2's positions that are to lie further back."""
        if not changes:
            return  # the source may be gone, where offset syncs are
        recorder = self._recorder
        assert recorder is not None
        recorder.held -= {change.partition for change in changes}
        for change in changes:
            if change.is_back:
                recorder.move(change.partition, change.upstream)
            if change.restarts_at is not None:
                recorder.restart(change.partition, change.restarts_at)
        recorder.flush()

    def append(self, entries: Sequence[Entry]) -> None:
        """The ledger's part: all of it or nothing, and nothing if somebody else has taken the flow."""
        if failpoints.ARMED:
            failpoints.point("request.before_answer")
        append_whole(self._context, entries)
        if failpoints.ARMED:
            failpoints.point("request.answered")

    def write_forward(self, changes: Sequence[NextPosition]) -> None:
        """MM2's positions, all of them; what cannot be written now stays due."""
        if not changes:
            return
        recorder = self._recorder
        assert recorder is not None
        for change in changes:
            recorder.move(change.partition, change.upstream)
        recorder.flush()


def take_back(
    view: LedgerView, keys: Sequence[bytes], *, allows_open: bool = False
) -> tuple[list[NextPosition], list[Entry]]:
    """Where partitions go on, and the tombstones, once the moves of these keys are taken back.

    Attempts that followed a move and copied nothing go with it. Raises MoveRefused if one copied something.
    """
    changes: list[NextPosition] = []
    entries: list[Entry] = [(key, None) for key in keys]
    found = [(partition, attempt) for kind, partition, attempt, _ in map(decode_key, keys) if kind == "open"]
    for partition in sorted({partition for partition, _ in found}):
        history, moves = view.of(partition), {attempt for at, attempt in found if at == partition}
        now, later = history.position(), idle_since(history, moves)
        if now is None or later is None:
            raise MoveRefused(
                f"{partition}: the flow has gone on since it was moved, so the move cannot be taken back",
                hint="set its position: `sparkmirror offsets set`",
            )
        if not allows_open and not history.is_closed:
            raise MoveRefused(
                f"{partition}: its last attempt was broken off, so it is not known whether the flow has gone on since",
                hint="run the flow: it finds out, and `offsets undo` works while it runs",
            )
        before = position_before(history, min(moves))
        upstream = before.upstream if before is not None else 0
        changes.append(NextPosition(partition, upstream, upstream < now.upstream))
        entries += [key for attempt in later for key in attempt_keys(history, partition, attempt)]
    return changes, entries
