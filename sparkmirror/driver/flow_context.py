"""What the parts of one flow's driver share: clients, ledger, ownership, status, and who copies what."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from sparkmirror.clusters import ClusterClient, raise_producer_epoch
from sparkmirror.config import FlowSettings, SentSettings
from sparkmirror.driver.flow_ledger import Entry, FlowLedger
from sparkmirror.driver.takeover import BlockingFinder
from sparkmirror.driver.topic_transforms import TopicTransforms
from sparkmirror.errors import ReplicationError
from sparkmirror.ledger import NOBODY, Attempt, LedgerRecord, Move, Open, Ownership, Ready, moved
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import FlowStatus, MirroredTopic, PartitionStatus
from sparkmirror.status.remedies import Remedies
from sparkmirror.topology import accepts_gap

OWNER_BEAT_S = 5.0


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """Where a flow's state lies, and how this run treats it; `file_words` name it in a command line."""

    settings: SentSettings
    ledger_topic: str
    offsets_topic: str
    syncs_topic: str
    slots: int
    once: bool
    take_over: bool
    standby: bool = False
    file_words: str = ""
    url: str = ""  # where this process answers over HTTP


@dataclass(slots=True)
class FlowContext:
    """One flow on the driver."""

    flow: FlowSettings
    place: FlowPlace
    status: FlowStatus
    source: ClusterClient
    target: ClusterClient
    ledger: FlowLedger
    finder: BlockingFinder
    transforms: TopicTransforms
    ownership: Ownership | None = None
    topics: dict[str, MirroredTopic] = field(default_factory=dict)
    placed: dict[TopicPartition, Open] = field(default_factory=dict)
    ready: dict[TopicPartition, Ready] = field(default_factory=dict)
    stopped: set[TopicPartition] = field(default_factory=set)
    held: set[TopicPartition] = field(default_factory=set)  # not to be opened while a request about them is carried out
    leaving: set[TopicPartition] = field(default_factory=set)  # of topics that the settings do not name any more
    # Partitions whose next records the source deleted: to go on behind them once their attempt is closed.
    gapped: set[TopicPartition] = field(default_factory=set)
    # Partitions that cannot be fenced for want of a right: when to try again, and what is missing.
    forbidden: dict[TopicPartition, tuple[float, str]] = field(default_factory=dict)
    # When the source was last seen to end where the ledger says, −1 before.
    source_seen_ms: int = -1
    # Stopped partitions with a new attempt, and since when; shown as stopped until it has copied something.
    trials: dict[TopicPartition, float] = field(default_factory=dict)
    # What was appended as a whole last, and under which epoch of the producer: it serves for one batch.
    appended: tuple[tuple[int, int], Sequence[Entry]] | None = None
    _beat: int = 0
    _beat_due: float = 0.0
    _number: int = 0

    @classmethod
    def of(cls, flow: FlowSettings, place: FlowPlace, status: FlowStatus) -> FlowContext:
        """A flow that has not talked to anybody yet."""
        source, target = ClusterClient(flow.source), ClusterClient(flow.target)
        ledger = FlowLedger(target, place.ledger_topic)
        finder = BlockingFinder(source, target, time.sleep)
        return cls(flow, place, status, source, target, ledger, finder, TopicTransforms(flow))

    @property
    def read_committed(self) -> bool:
        """The flow's isolation level."""
        return self.flow.reads_committed

    @property
    def transactional_id(self) -> str:
        """The name whose producer epoch says who owns the flow."""
        return f"sparkmirror-{self.flow.name}"

    @property
    def remedies(self) -> Remedies:
        """What helps against what stops a partition."""
        return Remedies(self.place.file_words)

    @property
    def owned(self) -> Ownership:
        """Our ownership; only after it was taken."""
        assert self.ownership is not None
        return self.ownership

    def accepts_gap(self, topic: str) -> bool:
        """Whether records that the source deleted before they were copied are passed over without asking."""
        return accepts_gap(self.flow, topic)

    def order(
        self, partition: TopicPartition, ready: Ready, *, slot: int, incarnation: int, until: int | None = None
    ) -> Open:
        """The next attempt at a partition."""
        topic = self.topics[partition.topic]
        producer_id, epoch = self.owned.producer
        self._number += 1
        return Open(
            partition=partition,
            attempt=Attempt(self.owned.owner.generation, epoch, self._number),
            previous=ready.previous,
            slot=slot,
            incarnation=incarnation,
            target_topic=topic.remote,
            producer_id=producer_id,
            producer_epoch=epoch,
            position=ready.position,
            source_topic_id=topic.source_topic_id,
            target_topic_id=topic.target_topic_id,
            read_committed=self.read_committed,
            shared=False,
            fenced=ready.fenced,
            source_compacts=topic.source_compacts,
            source_leader_epoch=self.ledger.view.of(partition).source_leader_epoch(),
            until=until,
        )

    def move(self, moves: Iterable[Move], reason: str) -> None:
        """Says in the ledger that partitions go on elsewhere; only of those whose last attempt is over."""
        records = self.move_records(moves, reason)
        self.ledger.append(records)
        for record in records:
            self.ledger.view.apply(record)

    def move_records(self, moves: Iterable[Move], reason: str) -> list[LedgerRecord]:
        """What would say so; nothing is written yet."""
        records: list[LedgerRecord] = []
        for move in moves:
            newest = self.ledger.view.of(move.partition).newest
            ready = Ready(move.new, newest.attempt if newest is not None else None, False, 0)
            order = self.order(move.partition, ready, slot=NOBODY, incarnation=NOBODY)
            assert order.topic_incarnation == move.topic_incarnation, "a move must name the topics it was judged by"
            records += moved(move, order, reason=reason, time_ms=int(time.time() * 1000))
        return records

    def raise_epoch(self, held: tuple[int, int] | None) -> tuple[int, int]:
        """InitProducerId for the flow."""
        return raise_producer_epoch(self.target, self.transactional_id, held)

    def sign(self, **changes: Any) -> None:
        """Writes the owner record with what changed."""
        owner = replace(self.owned.owner, **changes)
        self.ownership = replace(self.owned, owner=owner)
        self.ledger.append([owner])

    def beat(self) -> None:
        """Writes a sign of life when one is due; also to be called by whatever takes long."""
        now = time.monotonic()
        if now >= self._beat_due:
            self._beat += 1
            status = self.status
            self.sign(
                beat=self._beat,
                source_seen_ms=self.source_seen_ms,
                since_ms=status.owned_since_ms,
                url=self.place.url,
            )
            self._beat_due = now + OWNER_BEAT_S  # one that could not be written stays due: the flow is not well

    def show(self, partition: TopicPartition, state: str, code: str = "", reason: str = "") -> None:
        """Sets what is shown of a partition; one that is only tried again is still shown as stopped."""
        if partition in self.trials and state not in ("stopped", "closed"):
            return
        self.trials.pop(partition, None)
        status = self.status.partitions.setdefault(partition, PartitionStatus(partition))
        status.state, status.code, status.reason = state, code, reason

    def stop_partition(self, partition: TopicPartition, error: ReplicationError) -> None:
        """A partition that is not copied until somebody acts."""
        self.stopped.add(partition)
        self.show(partition, "stopped", error.code, str(error))


def is_ended(context: FlowContext, partition: TopicPartition) -> bool:
    """Whether nobody can be writing: only closed, or a recovery, proves an end."""
    history = context.ledger.view.of(partition)
    return history.newest is None or history.is_closed or partition in context.ready
