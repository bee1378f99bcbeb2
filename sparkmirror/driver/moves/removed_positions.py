"""Restarts the partitions whose position somebody removed from MirrorMaker 2's offsets topic (`on.positions.removed`).

They restart where MirrorMaker 2 would, at `auto.offset.reset`, and what they copy is appended to what the target holds.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from sparkmirror.clusters import fence
from sparkmirror.driver.flow_context import FlowContext, is_ended
from sparkmirror.driver.moves.copy_states import copy_states
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.starting import reset_offsets
from sparkmirror.ledger import Attempt, CopyState, Move, State, lost_attempts, reset
from sparkmirror.model import TopicPartition
from sparkmirror.state import PositionTable

AT_ONCE = 100  # partitions; the owner's beat goes on in between
NAMED_MAX = 3


class RemovedPositions:
    """What the owner found removed at its start; a partition waits here until its last attempt is over."""

    def __init__(self, context: FlowContext, recorder: Recorder) -> None:
        found = recorder.memory.read()
        self.table: PositionTable = found.table
        self._context, self._recorder, self._is_whole = context, recorder, found.removal.is_whole
        self._pending = set(found.removal.removed)
        self._stopped: dict[TopicPartition, Attempt | None] = {}  # after which attempt
        context.status.notes += found.report
        if found.removal.lost:
            context.status.notes.append(
                f"{recorder.memory.topic} lost records, and with them {len(found.removal.lost)} positions "
                f"({_listed(found.removal.lost)}); nobody removed them, so they are written again"
            )
            recorder.put_back(found.removal.lost)
        if context.flow.on_positions_removed == "ignore":
            self._ignore()
        recorder.held |= self._pending

    def apply(self, partitions: Collection[TopicPartition] | None = None) -> set[TopicPartition]:
        """Restarts those that can be (None: all), whatever stopped them; returns the ones that stay stopped."""
        context = self._context
        self._settle({p for p, attempt in self._stopped.items() if self._newest(p) != attempt})  # somebody moved them
        wanted = self._pending - self._stopped.keys() if partitions is None else self._pending.intersection(partitions)
        due = self._led(sorted(p for p in wanted if p.topic in context.topics and self._is_over(p)))
        restarted: list[_Restart] = []
        for start in range(0, len(due), AT_ONCE):
            context.beat()
            restarted += self._restart(self._fenced(due[start : start + AT_ONCE]))
        self._report(restarted)
        return self._stopped.keys() & set(due)

    def _newest(self, partition: TopicPartition) -> Attempt | None:
        newest = self._context.ledger.view.of(partition).newest
        return None if newest is None else newest.attempt

    def _is_over(self, partition: TopicPartition) -> bool:
        """Whether its last attempt was ended, or cannot be: then it is fenced here."""
        return is_ended(self._context, partition) or partition in self._context.stopped

    def _led(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those that both clusters lead: without an end on the target, none can be said; a topic may have fewer now."""
        context, remotes = self._context, {p: self._context.topics[p.topic].remote for p in partitions}
        if not partitions:
            return []
        source, target = context.source.view({p.topic for p in partitions}), context.target.view(set(remotes.values()))
        return [
            p
            for p, remote in remotes.items()
            if source.leader(p) is not None and target.leader(TopicPartition(remote, p.partition)) is not None
        ]

    def _fenced(self, partitions: Sequence[TopicPartition]) -> list[TopicPartition]:
        """Those that no former attempt can write to any more; a topic that is gone needs no fence."""
        context = self._context
        lost = [order for order in lost_attempts(context.ledger.view, partitions) if order.partition not in context.ready]
        targets = {TopicPartition(order.target_topic, order.partition.partition): order.partition for order in lost}
        view = context.target.view({target.topic for target in targets})
        there = [t for t in targets if (found := view.topics.get(t.topic)) is not None and not found.error]
        led = [target for target in there if view.leader(target) is not None]
        refused = fence(context.target, context.transactional_id, context.owned.producer, led)
        left_out = {targets[target] for target in (*refused, *(set(there) - set(led)))}
        return [partition for partition in partitions if partition not in left_out]

    def _restart(self, partitions: Sequence[TopicPartition]) -> list[_Restart]:
        context, recorder = self._context, self._recorder
        starts = reset_offsets(context, partitions)
        self._stopped |= {p: self._newest(p) for p in partitions if p not in starts}
        found = copy_states(context, context.topics, list(starts))
        restarts = [restart for state in found if (restart := _Restart.of(state, starts[state.partition])) is not None]
        if context.flow.on_positions_removed == "stop":
            for restart in restarts:
                self._stop(restart)
            self._settle(starts.keys() - {restart.move.partition for restart in restarts})  # those stand there already
            return []
        for restart in restarts:
            if restart.move.is_map_new:
                recorder.restart(restart.move.partition, restart.move.new.downstream)
        recorder.drop(starts)
        context.move([restart.move for restart in restarts], f"its position was removed from {recorder.memory.topic}")
        self._settle(starts.keys())
        return restarts

    def _settle(self, partitions: Collection[TopicPartition]) -> None:
        """The ledger says where these resume. Whatever dies before, the next owner finds the same removal."""
        context, recorder = self._context, self._recorder
        recorder.held.difference_update(partitions)
        recorder.memory.forget(partitions)
        for partition in partitions:
            context.ready.pop(partition, None)
            self._stopped.pop(partition, None)
            if partition in context.stopped:
                context.stopped.discard(partition)
                context.show(partition, "opening")
        self._pending.difference_update(partitions)

    def _stop(self, restart: _Restart) -> None:
        context, partition = self._context, restart.move.partition
        topic, start = self._recorder.memory.topic, restart.move.new.upstream
        error = context.remedies.position_removed(partition, topic, start, restart.text)
        attempt = self._stopped[partition] = self._newest(partition)
        if attempt is not None:
            context.ledger.append([State.stopped(partition, attempt, error)])
        context.stop_partition(partition, error)

    def _ignore(self) -> None:
        if self._pending:
            count, topic = len(self._pending), self._recorder.memory.topic
            self._context.status.notes.append(
                f"{topic}: {self._what()}; {count} partitions continue where the copy ended, and their positions are "
                "written again (on.positions.removed = ignore)"
            )
        self._recorder.put_back(self._pending)
        self._recorder.memory.forget(self._pending)
        self._pending.clear()

    def _what(self) -> str:
        if self._is_whole:
            return "it was deleted while the flow was stopped"
        return f"positions were removed while the flow was stopped ({_listed(self._pending)})"

    def _report(self, restarts: Sequence[_Restart]) -> None:
        if not restarts:
            return
        what = "was deleted" if self._is_whole else "lost positions"
        names = _listed([restart.move.partition for restart in restarts])
        self._context.status.notes.append(
            f"{self._recorder.memory.topic} {what} while the flow was stopped: {len(restarts)} partitions ({names}) restart "
            f"at auto.offset.reset; {_Restart.total(restarts)} are copied again, after what the target "
            "holds (on.positions.removed)"
        )


@dataclass(frozen=True, slots=True)
class _Restart:
    """Where a partition restarts, and how many copied offsets come again; what MirrorMaker 2 alone copied is a guess."""

    move: Move
    again: int
    is_exact: bool

    @classmethod
    def of(cls, state: CopyState, start: int) -> _Restart | None:
        """None if the copy stands there already."""
        move = reset(state, str(min(max(start, state.log_start), state.log_end)))
        if move is None:
            return None
        again = move.copied_again if move.old is not None else state.log_end - move.new.upstream
        return cls(move, again, move.old is not None)

    @property
    def text(self) -> str:
        """How much comes again, in words."""
        return f"{'' if self.is_exact else 'at most '}{self.again} copied offsets"

    @classmethod
    def total(cls, restarts: Sequence[_Restart]) -> str:
        """The same of several."""
        is_exact = all(restart.is_exact for restart in restarts)
        return f"{'' if is_exact else 'at most '}{sum(restart.again for restart in restarts)} copied offsets"


def _listed(partitions: Collection[TopicPartition]) -> str:
    return ", ".join(str(p) for p in sorted(partitions)[:NAMED_MAX]) + (", …" if len(partitions) > NAMED_MAX else "")
