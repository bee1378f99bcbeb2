"""Moves partitions of a flow: by whoever takes it as a run does because nobody runs it, or by its owner while it runs.

Both end the attempts at the partitions, judge by what is found then, and append the moves beside the answer to the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient, fence_all
from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_context import FlowContext, FlowPlace
from sparkmirror.driver.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.driver.moves.copy_states import copy_states, incarnation_of
from sparkmirror.driver.moves.position_memory import PositionMemory
from sparkmirror.driver.moves.position_writing import PositionWriter
from sparkmirror.driver.owning import own, wait_out_lease
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.recovering import recover
from sparkmirror.driver.transform_recovery import raise_query_epoch, recover_transforms
from sparkmirror.errors import ClusterError, MoveRefused
from sparkmirror.ledger import (
    TRANSFORM_QUERY,
    CopyState,
    LedgerRecord,
    Open,
    Owner,
    lost_attempts,
)
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import Discovery, FlowStatus, MirroredTopic


@dataclass(frozen=True, slots=True)
class Ending:
    """How a running owner ends attempts: who takes what the ledger says meanwhile, and who waits for other producers."""

    take: Callable[[LedgerRecord], None]
    outlast: Callable[[list[Open]], None]
    raises_epoch: bool


class Repositioning:
    """One flow for as long as its positions are looked at or moved; `close` gives back what was taken."""

    def __init__(self, context: FlowContext, recorder: Recorder | None, ending: Ending | None) -> None:
        self._context, self._recorder, self._ending = context, recorder, ending
        self._stop = threading.Event()

    @classmethod
    def outside(cls, flow: FlowSettings, place: FlowPlace) -> Repositioning:
        """Of a flow that somebody else may run, with clients of its own."""
        return cls(FlowContext.of(flow, place, FlowStatus(flow.name)), None, None)

    @property
    def ledger(self) -> FlowLedger:
        """What the ledger says, as far as it was read."""
        return self._context.ledger

    @property
    def owner(self) -> Owner:
        """We; only after `own`."""
        return self._context.owned.owner

    @property
    def clients(self) -> tuple[ClusterClient, ClusterClient]:
        """Source and target."""
        return self._context.source, self._context.target

    def look(self, topics: Mapping[str, MirroredTopic], partitions: Sequence[TopicPartition]) -> list[CopyState]:
        """How partitions stand, as far as that can be seen without ending their attempts; changes nothing."""
        context = self._context
        if self._ending is None and _has_topic(context.target, context.place.ledger_topic):
            context.ledger.read_all()
        return copy_states(context, topics, partitions)

    @property
    def writer(self) -> PositionWriter:
        """Writes what was decided; only after `own`."""
        return PositionWriter(self._context, self._recorder)

    def states(self, partitions: Sequence[TopicPartition]) -> list[CopyState]:
        """How partitions stand whose attempts were ended."""
        return copy_states(self._context, self._context.topics, partitions)

    def own(self, *, moves: bool = True) -> None:
        """Takes the flow: whoever owned it before can write nothing more. Raises FlowOwnedByAnother if that one lives.

        Without `moves` only the ledger is written, which needs nothing of the source.
        """
        context = self._context
        flow, place = context.flow, context.place
        ensure_compacted_topic(context.target, place.ledger_topic, 1, flow.offset_storage_replication_factor)
        context.ownership = own(context, self._stop)
        if not moves:
            return
        self._recorder = Recorder.of(context)
        # What somebody removed stays removed until a run restarts it, or a move says where it resumes.
        self._recorder.held |= self._recorder.memory.read().removal.removed

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
        self.end_attempts(partitions, accepted)
        return self.states(partitions)

    def end_attempts(self, partitions: Sequence[TopicPartition], accepted: Collection[str]) -> None:
        """Fences and finds out where attempts ended that did not end themselves."""
        context = self._context
        assert self._recorder is not None
        lost = lost_attempts(context.ledger.view, partitions)
        if not lost:
            return

        def outlast(orders: list[Open]) -> None:
            if any(order.producer_id != context.owned.owner.producer_id for order in orders):
                wait_out_lease(context, self._stop)

        ending = self._ending or Ending(lambda _: None, outlast, raises_epoch=False)
        as_records = [order for order in lost if order.slot == TRANSFORM_QUERY]
        left: set[TopicPartition] = set()
        if as_records:
            raise_query_epoch(context)
            left = recover_transforms(context, self._recorder, as_records, ending.take)
        rest = [order for order in lost if order.slot != TRANSFORM_QUERY]
        left |= recover(
            context,
            self._recorder,
            rest,
            ending.take,
            ending.outlast,
            raise_epoch=ending.raises_epoch,
            accepted=accepted,
        )
        if left:
            unled = f"{min(left)}: nobody leads its copy on {context.target.alias}"
            _, text = context.forbidden.get(min(left), (0.0, unled))
            raise MoveRefused(f"{text}, so it cannot be fenced")
        # Attempts at topics that are no more were not looked at. Whoever made them must not write to what is there now.
        past = [o for o in rest if o.topic_incarnation != incarnation_of(context.topics[o.partition.topic])]
        fence_all(
            context.target,
            context.transactional_id,
            context.owned.producer,
            [TopicPartition(o.target_topic, o.partition.partition) for o in past],
        )

    def fence_lost(self) -> None:
        """Lets no attempt write on that did not end itself; a later run finds out where each ended. Only after `own`.

        Unlike `end_attempts` it needs nothing of the source.
        """
        context = self._context
        lost = lost_attempts(context.ledger.view)
        if any(order.slot == TRANSFORM_QUERY for order in lost):
            raise_query_epoch(context)
        rest = [order for order in lost if order.slot != TRANSFORM_QUERY]
        if any(order.producer_id != context.owned.owner.producer_id for order in rest):
            wait_out_lease(context, self._stop)
        present = context.target.view({order.target_topic for order in rest}).topics
        places = [TopicPartition(order.target_topic, order.partition.partition) for order in rest]
        there = [p for p in places if p.topic in present and not present[p.topic].error]
        fence_all(context.target, context.transactional_id, context.owned.producer, there)

    def trouble(self, partition: TopicPartition) -> str:
        """Why it could not be found out where a partition's copy ends; empty if it could."""
        status = self._context.status.partitions.get(partition)
        return status.reason if partition in self._context.stopped and status is not None else ""

    @property
    def memory(self) -> PositionMemory:
        """Which positions the ledger remembers; for who writes them without the recorder. Only after `own`."""
        assert self._recorder is not None
        return self._recorder.memory

    def close(self) -> None:
        """Gives the flow back and ends the connections; not those of an owner that goes on."""
        context = self._context
        if self._ending is not None:
            return
        if context.ownership is not None:
            with suppress(ClusterError):  # then a run finds it unreleased by a process that is gone
                context.sign(released=True)
        for client in self.clients:
            client.close()


def _has_topic(client: ClusterClient, topic: str) -> bool:
    found = client.view([topic]).topics.get(topic)
    return found is not None and found.error == 0
