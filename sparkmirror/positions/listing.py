"""`offsets list`: what is stored of a flow, beside what both clusters hold. Reads only, also while the flow runs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import TypeVar

from sparkmirror.clusters.members import describe_groups
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings
from sparkmirror.errors import ClusterError, MoveRefused
from sparkmirror.ledger import SourceEnd
from sparkmirror.model import TopicPartition
from sparkmirror.positions.requests import StoragePlace
from sparkmirror.positions.stored import read_stored
from sparkmirror.state import (
    FlowState,
    LedgerTable,
    Part,
    PositionTable,
    last_source_ends,
    recorded_partitions,
    source_seen_ms,
)
from sparkmirror.topology import policy_for, select_topics
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ListedPosition:
    """One source partition; None where nothing is stored, or where `unknown` names the column.

    `mm2_offset` is the *last* offset that MirrorMaker 2 stored as copied, `places` are the partitions of its topic that
    hold the key. `ledger_next` is the *next* offset by sparkmirror's ledger. `lag` counts from whichever is further. Where
    the source does not say where it ends, `last_source_end` is where it ended when the mirror saw it at `last_seen_ms`.
    """

    topic: str
    partition: int
    remote: str
    mm2_offset: int | None
    mm2_time_ms: int | None
    places: tuple[TopicPartition, ...]
    ledger_next: int | None
    source_first: int | None
    source_end: int | None
    target_end: int | None
    lag: int | None
    trouble: str
    unknown: tuple[str, ...] = ()  # of "mm2", "ledger", "source", "target", "lag"
    last_source_end: int | None = None
    last_seen_ms: int | None = None
    last_lag: int | None = None


@dataclass(frozen=True, slots=True)
class WorkerGroup:
    """MirrorMaker 2's group on the target: with members it runs."""

    name: str
    state: str
    members: int


@dataclass(frozen=True, slots=True)
class FlowListing:
    """One flow. `owner` is the last process that owned it as sparkmirror's, None if there is no ledger.

    `unknown` says what could not be read, and why: "positions", "ledger", "topics", "source ends", "target ends".
    """

    flow: str
    connector: str
    offsets_topics: tuple[str, ...]
    workers: WorkerGroup | None
    owner: str | None
    is_released: bool
    positions: tuple[ListedPosition, ...]
    notes: tuple[str, ...]
    is_complete: bool
    unknown: Mapping[str, str] = field(default_factory=dict)
    source_seen_ms: int | None = None


def list_positions(flow: FlowSettings, storage: StoragePlace, topic: str | None = None) -> FlowListing:
    """Every partition that is copied, or of which something is stored; a failed request becomes a note."""
    with closing(FlowState(flow)) as state:
        return _Gathering(flow, storage, state).listing(topic)


class _Gathering:
    """The requests of one listing."""

    def __init__(self, flow: FlowSettings, storage: StoragePlace, state: FlowState) -> None:
        self._flow, self._storage, self._state = flow, storage, state
        self._policy = policy_for(flow)
        self._troubles: list[str] = []
        self._unknown: dict[str, str] = {}
        self._topics = storage.offsets_topics or (flow.offset_storage_topic,)

    def listing(self, topic: str | None) -> FlowListing:
        flow, state = self._flow, self._state
        stored = self._try("positions", self._read_stored) or PositionTable(flow.name.source, self._storage.connector)
        ledger = state.ledger() or LedgerTable()
        owner = ledger.view.owner
        wanted = sorted(p for p in self._partitions(stored, ledger) if topic is None or p.topic == topic)
        source_ends = state.ends("source", wanted)
        target_ends = state.ends("target", [self._remote(partition) for partition in wanted])
        for name, part in (
            ("topics", Part.SOURCE), ("ledger", Part.LEDGER), ("source ends", Part.SOURCE_ENDS),
            ("target ends", Part.TARGET_ENDS),
        ):  # fmt: skip
            if part in state.unknown:
                self._unknown[name] = state.unknown[part].reason
        last = last_source_ends(state)
        rows = tuple(
            self._row(p, stored, ledger, source_ends.get(p), target_ends.get(self._remote(p)), last.get(p)) for p in wanted
        )
        workers = self._try("workers", self._workers) if self._storage.is_dedicated else None
        text = [note.message for note in (*state.notes, *state.notes.rest()) if note.kind != "missing"]
        notes = dict.fromkeys([*text, *self._troubles, *_foreign_key_notes(stored)])
        is_known = not self._unknown and not any(row.unknown for row in rows)
        return FlowListing(
            flow=str(flow.name),
            connector=self._storage.connector,
            offsets_topics=tuple(self._topics),
            workers=workers,
            owner=owner.name if owner is not None else None,
            is_released=owner is not None and owner.released,
            positions=rows,
            notes=tuple(notes),
            is_complete=state.notes.is_complete and not self._troubles and is_known,
            unknown=self._unknown,
            source_seen_ms=source_seen_ms(state),
        )

    def _try(self, part: str, look: Callable[[], T]) -> T | None:
        if not self._state.is_up("target"):
            self._unknown[part] = self._state.unknown[Part.TARGET].reason
            return None
        try:
            return look()
        except ClusterError as error:
            self._troubles.append(error.message)
            self._unknown[part] = error.message
            return None

    def _read_stored(self) -> PositionTable | None:
        try:
            return read_stored(
                self._state.clients["target"],
                self._topics,
                connector=self._storage.connector,
                alias=self._flow.name.source,
            )
        except MoveRefused:
            return None  # MirrorMaker 2 never ran

    def _workers(self) -> WorkerGroup:
        name = self._flow.group_id
        group = describe_groups(self._state.clients["target"], [name])[name]
        return WorkerGroup(name, group.state, len(group.members))

    def _partitions(self, stored: PositionTable, ledger: LedgerTable) -> Collection[TopicPartition]:
        view = self._state.topics("source")
        if view is None:
            recorded = {partition.topic for partition in recorded_partitions(self._state)}
            wanted = {d.topic for d in select_topics(self._flow, self._policy, sorted(recorded)) if d.replicated}
            last = {partition for partition in ledger.view.source_ends if partition.topic in wanted}
            return last | set(stored.partitions()) | set(ledger.view.partitions)
        there = {t.name: t for t in view.topics.values() if not t.is_internal and not t.error} if view is not None else {}
        decisions = select_topics(self._flow, self._policy, sorted(there))
        copied = {
            TopicPartition(d.topic, index) for d in decisions if d.replicated for index in range(there[d.topic].partitions)
        }
        return copied | set(stored.partitions()) | set(ledger.view.partitions)

    def _remote(self, partition: TopicPartition) -> TopicPartition:
        name = self._policy.format_remote_topic(self._flow.name.source, partition.topic)
        return TopicPartition(name, partition.partition)

    def _row(
        self,
        partition: TopicPartition,
        stored: PositionTable,
        ledger: LedgerTable,
        source: PartitionEnds | None,
        target: PartitionEnds | None,
        last_source: SourceEnd | None,
    ) -> ListedPosition:
        known = source if source is not None and source.is_known else None
        records = stored.records_of(partition)
        last = stored.last_offset(partition)
        history = ledger.history(partition)
        position = history.position() if history is not None else None
        further = max(0 if last is None else last + 1, 0 if position is None else position.upstream)
        has_position = last is not None or position is not None
        unknown = tuple(self._unknown_columns(source, target))
        first = known.first if known is not None else 0
        is_old = "source" in unknown and last_source is not None and not {"mm2", "ledger"} & set(unknown)
        return ListedPosition(
            topic=partition.topic,
            partition=partition.partition,
            remote=self._remote(partition).topic,
            mm2_offset=last,
            mm2_time_ms=records[0].time_ms if last is not None else None,
            places=tuple(sorted(record.place for record in records)),
            ledger_next=None if position is None else position.upstream,
            source_first=None if known is None else known.first,
            source_end=None if known is None else known.end,
            target_end=target.end if target is not None and target.is_known else None,
            lag=None if known is None or "lag" in unknown else max(known.end - (further if has_position else first), 0),
            trouble=_trouble(stored, partition, known, further if has_position else None),
            unknown=unknown,
            last_source_end=last_source.end if "source" in unknown and last_source is not None else None,
            last_seen_ms=last_source.time_ms if "source" in unknown and last_source is not None else None,
            last_lag=max(last_source.end - further, 0) if is_old and last_source is not None else None,
        )

    def _unknown_columns(self, source: PartitionEnds | None, target: PartitionEnds | None) -> Iterator[str]:
        """What is not known of a partition; a topic that does not exist is known."""
        stored = [name for name, part in (("mm2", "positions"), ("ledger", "ledger")) if part in self._unknown]
        ends = [name for name, found in (("source", source), ("target", target)) if not _is_answered(found)]
        yield from (*stored, *ends)
        if stored or "source" in ends:
            yield "lag"


def _is_answered(ends: PartitionEnds | None) -> bool:
    return ends is not None and (ends.is_known or ends.error == UNKNOWN_TOPIC_OR_PARTITION)


def _trouble(
    stored: PositionTable, partition: TopicPartition, source: PartitionEnds | None, next_offset: int | None
) -> str:
    """What is wrong with a position; empty if nothing is."""
    records = stored.records_of(partition)
    if len({record.value for record in records}) > 1:
        named = ", ".join(str(record.place) for record in sorted(records, key=lambda record: record.place))
        return f"the key is in {named}: it is undefined which one MirrorMaker 2 uses"
    if source is None or next_offset is None:
        return ""
    if next_offset > source.end:
        return "ahead of the source: it lost records, or was created again"
    if next_offset < source.first:
        return f"the source deleted offsets {next_offset} to {source.first - 1} before they were copied"
    return ""


def _foreign_key_notes(stored: PositionTable) -> list[str]:
    return [
        f"{record.place} at {record.offset}: no task reads the key {record.key.decode(errors='replace')}"
        for record in stored.foreign_keys()
    ]
