"""Moves partitions of a flow that nobody runs: takes it as a run does, ends what is open, moves, and gives it back."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, fence_all, list_offsets
from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_context import FlowContext, FlowPlace
from sparkmirror.driver.flow_ledger import ensure_compacted_topic
from sparkmirror.driver.owning import own, wait_out_lease
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.recovering import recover
from sparkmirror.driver.takeover import settled_end
from sparkmirror.driver.transform_recovery import raise_query_epoch, recover_transforms
from sparkmirror.errors import ClusterError, MoveRefused
from sparkmirror.ledger import (
    TRANSFORM_QUERY,
    CopyState,
    LedgerRecord,
    Move,
    Open,
    TopicIncarnation,
    decode_key,
    lost_attempts,
)
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import Discovery, FlowStatus, MirroredTopic


class Repositioning:
    """One flow for as long as its positions are looked at or moved; `close` gives back what was taken."""

    def __init__(self, flow: FlowSettings, place: FlowPlace) -> None:
        self._context = FlowContext.of(flow, place, FlowStatus(flow.name))
        self._recorder: Recorder | None = None
        self._stop = threading.Event()

    @property
    def clients(self) -> tuple[ClusterClient, ClusterClient]:
        """Source and target."""
        return self._context.source, self._context.target

    def look(self, topics: Mapping[str, MirroredTopic], partitions: Sequence[TopicPartition]) -> list[CopyState]:
        """How partitions stand, as far as that can be seen without taking the flow; changes nothing."""
        context = self._context
        if _has_topic(context.target, context.place.ledger_topic):
            context.ledger.read_all()
        return self._copy_states(topics, partitions)

    def own(self) -> None:
        """Takes the flow: whoever owned it before can write nothing more. Raises FlowOwnedByAnother if that one lives."""
        context = self._context
        flow, place = context.flow, context.place
        ensure_compacted_topic(context.target, place.ledger_topic, 1, flow.offset_storage_replication_factor)
        ensure_compacted_topic(
            context.target, place.offsets_topic, flow.offset_storage_partitions, flow.offset_storage_replication_factor
        )
        context.ownership = own(context, self._stop)
        self._recorder = Recorder.of(context)

    def take(
        self,
        partitions: Sequence[TopicPartition],
        discover: Callable[[ClusterClient, ClusterClient], Discovery],
        accepted: Collection[str],
    ) -> list[CopyState]:
        """Ends the partitions' attempts and says how they stand: nobody can be writing there now. Only after `own`.

        `accepted` are error codes the operator accepted. A partition about which nothing could be found out stands where
        it was proven; what follows on the target is then not known to be a copy.
        """
        context = self._context
        discovery = discover(context.source, context.target)
        for topic in dict.fromkeys(partition.topic for partition in partitions):
            if topic in discovery.stopped:
                raise MoveRefused(f"topic {topic}: {discovery.stopped[topic]}")
        context.topics = {found.topic: found for found in discovery.topics}
        self._end_attempts(partitions, accepted)
        return self._copy_states(context.topics, partitions)

    def _end_attempts(self, partitions: Sequence[TopicPartition], accepted: Collection[str]) -> None:
        context = self._context
        assert self._recorder is not None
        lost = lost_attempts(context.ledger.view, partitions)

        def outlast(orders: list[Open]) -> None:
            if any(order.producer_id != context.owned.owner.producer_id for order in orders):
                wait_out_lease(context, self._stop)

        as_records = [order for order in lost if order.slot == TRANSFORM_QUERY]
        left: set[TopicPartition] = set()
        if as_records:
            raise_query_epoch(context)
            left = recover_transforms(context, self._recorder, as_records, lambda _: None)
        rest = [order for order in lost if order.slot != TRANSFORM_QUERY]
        left |= recover(context, self._recorder, rest, lambda _: None, outlast, raise_epoch=False, accepted=accepted)
        if left:
            unled = f"{min(left)}: nobody leads its copy on {context.target.alias}"
            _, text = context.forbidden.get(min(left), (0.0, unled))
            raise MoveRefused(f"{text}, so it cannot be fenced")
        # Attempts at topics that are no more were not looked at. Whoever made them must not write to what is there now.
        past = [o for o in rest if o.topic_incarnation != _life(context.topics[o.partition.topic])]
        fence_all(
            context.target,
            context.transactional_id,
            context.owned.producer,
            [TopicPartition(o.target_topic, o.partition.partition) for o in past],
        )

    def trouble(self, partition: TopicPartition) -> str:
        """Why it could not be found out where a partition's copy ends; empty if it could."""
        status = self._context.status.partitions.get(partition)
        return status.reason if partition in self._context.stopped and status is not None else ""

    def _copy_states(self, topics: Mapping[str, MirroredTopic], partitions: Sequence[TopicPartition]) -> list[CopyState]:
        context = self._context
        starts = list_offsets(context.source, partitions, timestamp=EARLIEST)
        ends = list_offsets(context.source, partitions, timestamp=LATEST, read_committed=context.read_committed)
        present = context.target.view({topics[partition.topic].remote for partition in partitions})
        found = []
        for partition in partitions:
            topic = topics[partition.topic]
            history = context.ledger.view.of(partition)
            newest, target = history.newest, TopicPartition(topic.remote, partition.partition)
            is_there = present.leader(target) is not None
            found.append(
                CopyState(
                    partition=partition,
                    position=history.position(),
                    was=newest.topic_incarnation if newest is not None else None,
                    now=_life(topic),
                    log_start=starts[partition][0],
                    log_end=ends[partition][0],
                    target_end=settled_end(context.finder, partition, target) if is_there else 0,
                    is_open=newest is not None and not history.is_closed,
                )
            )
        return found

    def prepare(self, moves: Sequence[Move], reason: str) -> list[LedgerRecord]:
        """The ledger's records of the moves, to be kept for taking them back; nothing is written yet."""
        return self._context.move_records(moves, reason)

    def write(self, moves: Sequence[Move], records: Sequence[LedgerRecord]) -> None:
        """Says the moves in the ledger and in MM2's positions, so that both go on at the same offset.

        A position of MM2's that lies before the ledger's word means nothing, one behind it means that MM2 copied since.
        So the former is never the case in between: back first there, forward first in the ledger.
        """
        recorder = self._recorder
        assert recorder is not None
        for move in moves:
            if move.old is None or move.new.upstream < move.old.upstream:
                recorder.move(move.partition, move.new.upstream)
            if move.is_map_new:
                recorder.restart(move.partition, move.new.downstream)
        recorder.flush()
        self._context.ledger.append(records)
        for move in moves:
            recorder.move(move.partition, move.new.upstream)
        recorder.flush()

    def check_take_back(self, keys: Sequence[bytes]) -> None:
        """Raises MoveRefused unless the moves of these keys are the last word of their partitions."""
        view = self._context.ledger.read_all()
        found = [decode_key(key) for key in keys]
        for _, partition, _, _ in found:
            newest = view.of(partition).newest
            if newest is None or not newest.is_move or all(newest.attempt != a for _, p, a, _ in found if p == partition):
                raise MoveRefused(
                    f"{partition}: the flow has gone on since it was moved, so the move cannot be taken back",
                    hint="set its position: `sparkmirror offsets set`",
                )

    def take_back(self, keys: Sequence[bytes]) -> None:
        """Takes moves back by the keys of their records: the ledger says what it said before. Only after `own`."""
        self.check_take_back(keys)
        self._context.ledger.remove([(key, None) for key in keys])

    def close(self) -> None:
        """Gives the flow back and ends the connections."""
        context = self._context
        if context.ownership is not None:
            with suppress(ClusterError):  # then a run finds it unreleased by a process that is gone
                context.sign(released=True)
        for client in self.clients:
            client.close()


def _life(topic: MirroredTopic) -> TopicIncarnation:
    return TopicIncarnation(topic.source_topic_id, topic.target_topic_id)


def _has_topic(client: ClusterClient, topic: str) -> bool:
    found = client.view([topic]).topics.get(topic)
    return found is not None and found.error == 0
