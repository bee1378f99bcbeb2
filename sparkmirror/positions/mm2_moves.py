"""Positions of a flow that MirrorMaker 2 runs: there is no ledger, only its own records.

Order of a change: proof that no process runs the flow; the undo file; the records, in the partitions that hold their keys;
the same proof again; the topic read once more, which must say what was written; then what `--with-target` takes away. A
failure in between leaves positions that copy too much rather than too little.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.clusters.probing import probe_ends, probe_times
from sparkmirror.config import FlowSettings
from sparkmirror.errors import FlowOwnedByAnother, MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions.changes import PositionChange, StoredFacts, judge_changes
from sparkmirror.positions.requests import MoveRequest, StoragePlace
from sparkmirror.positions.running import STOP_FIRST, refuse_running_workers
from sparkmirror.positions.snapshots import SavedRecord, Snapshot
from sparkmirror.positions.stored import committed_ends, read_stored, require_compacted
from sparkmirror.positions.target_state import plan_target, read_commits, save_target, take_away
from sparkmirror.positions.undo_file import now_text, save, undo_path
from sparkmirror.positions.verdicts import MM2, MoveVerdict
from sparkmirror.state import PositionTable
from sparkmirror.topology import policy_for, select_topics


@dataclass(frozen=True, slots=True)
class Mm2Flow:
    """One flow and its clusters, and where MirrorMaker 2 keeps its positions."""

    flow: FlowSettings
    storage: StoragePlace
    source: ClusterClient
    target: ClusterClient

    @property
    def clients(self) -> tuple[ClusterClient, ClusterClient]:
        """Source and target."""
        return self.source, self.target

    @property
    def offsets_topics(self) -> tuple[str, ...]:
        """Every topic that holds positions of the connector."""
        return self.storage.offsets_topics or (self.flow.offset_storage_topic,)

    def read(self) -> PositionTable:
        """The offsets topics as they are now."""
        return read_stored(
            self.target, self.offsets_topics, connector=self.storage.connector, alias=self.flow.name.source
        )

    def prove_stopped(self) -> str:
        """The proof that no process runs the flow; raises FlowOwnedByAnother if one may."""
        return refuse_running_workers(self.target, self.flow, self.storage)


@contextmanager
def open_mm2_flow(flow: FlowSettings, storage: StoragePlace) -> Iterator[Mm2Flow]:
    """The flow with clients of its own, which are closed behind it."""
    source, target = ClusterClient(flow.source), ClusterClient(flow.target)
    try:
        yield Mm2Flow(flow, storage, source, target)
    finally:
        source.close()
        target.close()


def preview_of_mm2(opened: Mm2Flow, request: MoveRequest) -> MoveVerdict:
    """What `apply_to_mm2` would do, by what can be seen now. Changes nothing; raises what it would."""
    proof = opened.prove_stopped()
    require_compacted(opened.target, opened.offsets_topics)
    return _judge(opened, request, opened.read(), proof)


def apply_to_mm2(opened: Mm2Flow, request: MoveRequest, command: str) -> MoveVerdict:
    """Writes the records and proves them; all or, if one is refused, none."""
    proof = opened.prove_stopped()
    require_compacted(opened.target, opened.offsets_topics)
    stored = opened.read()
    verdict = _judge(opened, request, stored, proof)
    if verdict.is_nothing:
        return replace(verdict, is_applied=True, undo_file="")
    save(verdict.undo_file, _snapshot(opened, verdict, command))
    writes = [
        SavedRecord(place, change.key, change.value) for change in verdict.changes for place in change.places
    ]
    write_records(opened.target, writes, stored, opened.prove_stopped)
    if verdict.target is not None:
        take_away(opened.flow, opened.clients, verdict.target)
    return replace(verdict, is_applied=True)


def write_records(
    target: ClusterClient, writes: Sequence[SavedRecord], stored: PositionTable, prove: Callable[[], object]
) -> None:
    """Writes records, each to its place, and proves that they are the newest of their keys."""
    places = sorted({record.place for record in writes})
    _refuse_growth(target, stored)
    now_ms = int(time.time() * 1000)
    for place in places:
        entries = [(record.key, record.value) for record in writes if record.place == place]
        append_records(target, place, entries, now_ms)
    try:
        prove()
    except FlowOwnedByAnother as error:
        raise FlowOwnedByAnother(
            f"{error.message}; it started while positions were written, so it may have read the old ones", hint=STOP_FIRST
        ) from error
    found = read_stored(target, sorted({p.topic for p in places}), connector=stored.connector, alias=stored.source_alias)
    for record in writes:
        newest = found.records.get(record.key, {}).get(record.place)
        # A tombstone may be compacted away at once; no record says the same.
        if (newest.value if newest is not None else None) != record.value:
            raise FlowOwnedByAnother(
                f"another process wrote to {record.place} just now: {record.key.decode(errors='replace')} does not say "
                "what was written",
                hint=STOP_FIRST,
            )


def _refuse_growth(target: ClusterClient, stored: PositionTable) -> None:
    for place, end in committed_ends(target, list(stored.ends)).items():
        if end != stored.ends[place]:
            raise FlowOwnedByAnother(
                f"another process writes positions: {place} on {target.alias} grew from {stored.ends[place]} to {end}",
                hint=STOP_FIRST,
            )


# --- gather and judge ------------------------------------------------------------------------------------------


def _judge(opened: Mm2Flow, request: MoveRequest, stored: PositionTable, proof: str) -> MoveVerdict:
    flow, policy = opened.flow, policy_for(opened.flow)
    partitions = _partitions(opened, request, stored)
    found = StoredFacts(
        stored=stored,
        ends=probe_ends(opened.source, partitions),
        times=_times(opened.source, request, partitions),
        auto_offset_reset=flow.consumer.get("auto.offset.reset", "earliest"),
    )
    changes = judge_changes(request, found, partitions)
    moved = {change.partition for change in changes}
    names = sorted({partition.topic for partition in partitions} | ({request.topic} if request.topic is not None else set()))
    topics = tuple((name, policy.format_remote_topic(flow.name.source, name)) for name in names)
    remotes = {remote for _, remote in topics}
    commits, notes = read_commits(opened.target, remotes, requires_all=request.with_target)
    plan = None
    if request.with_target:
        selected = _selected(opened, names, is_whole=request.topic is None)
        plan = plan_target(flow, opened.clients, selected, commits=commits, is_whole=request.topic is None)
    return MoveVerdict(
        flow=str(flow.name),
        run_by=MM2,
        topics=topics,
        changes=tuple(changes),
        unmoved=tuple(partition for partition in partitions if partition not in moved),
        target=plan,
        commits=tuple(commits),
        target_ends=_target_ends(opened, topics, partitions),
        proof=proof,
        notes=(*_stored_notes(stored, request), *notes),
        undo_file=undo_path(flow, request.undo_file),
    )


def _partitions(opened: Mm2Flow, request: MoveRequest, stored: PositionTable) -> list[TopicPartition]:
    """The partitions to change: those that are stored, not those of today's metadata; the topic may have had more."""
    if request.entries is not None:
        return sorted(request.entries)
    known = [p for p in stored.partitions() if request.topic is None or p.topic == request.topic]
    if request.force_unseen and request.topic is not None:
        there = opened.source.view([request.topic]).topics.get(request.topic)
        if there is not None and not there.error:
            known = sorted({*known, *(TopicPartition(request.topic, index) for index in range(there.partitions))})
    if request.partition is not None:
        assert request.topic is not None
        wanted = TopicPartition(request.topic, request.partition)
        known = [wanted] if wanted in known or request.force_unseen else []
    if not known and not _is_forgotten(opened, request, stored):
        _refuse_nothing(opened, request, stored)
    return known


def _is_forgotten(opened: Mm2Flow, request: MoveRequest, stored: PositionTable) -> bool:
    """Whether nothing is left to delete: no other connector's key could be meant, and the source has the topic."""
    if request.verb != "reset" or stored.other_connectors():
        return False
    there = None if request.topic is None else opened.source.view([request.topic]).topics.get(request.topic)
    return request.topic is None or (there is not None and not there.error)


def _refuse_nothing(opened: Mm2Flow, request: MoveRequest, stored: PositionTable) -> None:
    what = "the flow" if request.topic is None else f"topic {request.topic}"
    if request.partition is not None:
        what = f"partition {request.partition} of {what}"
    others = ", ".join(f"{connector} (cluster {cluster})" for connector, cluster in stored.other_connectors())
    raise MoveRefused(
        f"{opened.flow.name}: {', '.join(opened.offsets_topics)} on {opened.target.alias} holds no position of {what} "
        f"under connector {stored.connector} and cluster {stored.source_alias}"
        + (f"; it holds those of {others}" if others else ""),
        hint="give --connector, --offsets-topic, or --force-unseen to write a key that does not exist yet",
    )


def _selected(opened: Mm2Flow, names: Sequence[str], *, is_whole: bool) -> list[str]:
    """Of these topics, or of all, the ones that are copied today: only those come again."""
    there = opened.source.view(None).topics.values() if is_whole else ()
    found = {*names, *(topic.name for topic in there if not topic.is_internal and not topic.error)}
    decisions = select_topics(opened.flow, policy_for(opened.flow), sorted(found))
    return [decision.topic for decision in decisions if decision.replicated]


def _times(source: ClusterClient, request: MoveRequest, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    if request.to is None or request.to.kind != "time":
        return {}
    return probe_times(source, dict.fromkeys(partitions, request.to.number))


def _target_ends(
    opened: Mm2Flow, topics: Sequence[tuple[str, str]], partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, int]:
    remotes = dict(topics)
    places = {TopicPartition(remotes[p.topic], p.partition): p for p in partitions}
    return {places[r]: ends.end for r, ends in probe_ends(opened.target, list(places)).items() if ends.is_known}


def _stored_notes(stored: PositionTable, request: MoveRequest) -> list[str]:
    notes = []
    foreign = stored.foreign_keys()
    if foreign:
        first = foreign[0]
        notes.append(
            f"{len(foreign)} records are not in MirrorMaker 2's own bytes, so no task reads them, such as "
            f"{first.key.decode(errors='replace')} in {first.place} at {first.offset}"
        )
    if request.topic is None and (others := stored.other_connectors()):
        named = ", ".join(f"{connector} (cluster {cluster})" for connector, cluster in others)
        notes.append(f"positions of others in the same topic stay: {named}")
    return notes


def _snapshot(opened: Mm2Flow, verdict: MoveVerdict, command: str) -> Snapshot:
    target = opened.target.view([remote for _, remote in verdict.topics]).topics
    plan = verdict.target
    syncs, checkpoints, commits = ((), (), ()) if plan is None else save_target(opened.flow, opened.clients, plan)
    return Snapshot(
        kind="undo",
        flow=verdict.flow,
        connector=opened.storage.connector,
        time=now_text(),
        command=command,
        positions=tuple(saved_positions(verdict.changes)),
        topic_ids={name: topic.topic_id.hex() for name, topic in sorted(target.items()) if not topic.error},
        with_target=plan is not None,
        syncs=syncs,
        checkpoints=checkpoints,
        commits=commits,
    )


def saved_positions(changes: Sequence[PositionChange]) -> Iterator[SavedRecord]:
    """What was at every place that changes; where there was no record, a null value."""
    for change in changes:
        old = {record.place: record.value for record in change.old}
        for place in change.places:
            yield SavedRecord(place, change.key, old.get(place))
