"""`offsets undo FILE`: writes back what a command saved before it changed anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient, Committed, append_records, commit_offsets, name_of
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import MoveRefused
from sparkmirror.positions.ledger_moves import open_ledger_flow
from sparkmirror.positions.mm2_moves import open_mm2_flow, write_records
from sparkmirror.positions.moves import choose_flow
from sparkmirror.positions.requests import CONNECTOR, StoragePlace
from sparkmirror.positions.snapshots import SavedRecord, Snapshot, read_snapshot
from sparkmirror.positions.stored import read_stored
from sparkmirror.positions.undo_file import now_text, read_text, save, undo_path
from sparkmirror.positions.verdicts import MM2, SPARKMIRROR, RunBy
from sparkmirror.state import PositionTable, stored_offset


@dataclass(frozen=True, slots=True)
class UndoRequest:
    """Which file is written back, and, where Connect's workers run other connectors too, their group."""

    path: str
    worker_group: str | None = None
    undo_file: str | None = None


@dataclass(frozen=True, slots=True)
class WrittenBack:
    """One saved record, and what is in its place now."""

    record: SavedRecord
    value_now: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoVerdict:
    """What is written back, or was if `is_applied`; `command` and `time` are of the change that is undone."""

    flow: str
    run_by: RunBy
    command: str
    time: str
    records: tuple[WrittenBack, ...]
    ledger_records: int
    commits: int
    proof: str
    undo_file: str
    is_applied: bool = False


def undo(settings: Settings, request: UndoRequest, *, is_applied: bool) -> UndoVerdict:
    """Shows what would be written back, or writes it; only while no process runs the flow."""
    snapshot = read_snapshot(read_text(request.path), request.path)
    if snapshot.kind != "undo":
        raise MoveRefused(f"{request.path} was written by `offsets export`", hint="use `sparkmirror offsets import`")
    flow = choose_flow(settings, snapshot.flow)
    if snapshot.ledger_keys:
        return _undo_ledger(settings, flow, snapshot, request, is_applied=is_applied)
    return _undo_mm2(flow, snapshot, request, is_applied=is_applied)


def _undo_mm2(flow: FlowSettings, snapshot: Snapshot, request: UndoRequest, *, is_applied: bool) -> UndoVerdict:
    topics = tuple(sorted({record.place.topic for record in snapshot.positions}))
    is_default = snapshot.connector == CONNECTOR and set(topics) <= {flow.offset_storage_topic}
    given = StoragePlace(snapshot.connector, () if is_default else topics, request.worker_group)
    with open_mm2_flow(flow, given) as opened:
        proof = opened.prove_stopped()
        _refuse_other_copies(opened.target, snapshot, request)
        stored = opened.read()
        verdict = replace(_verdict(flow, snapshot, stored, proof), undo_file=undo_path(flow, request.undo_file))
        if not is_applied:
            return verdict
        now = tuple(replace(back.record, value=back.value_now) for back in verdict.records)
        save(verdict.undo_file, replace(snapshot, time=now_text(), command=f"offsets undo {request.path}", positions=now))
        write_records(opened.target, snapshot.positions, stored, opened.prove_stopped)
        _commit_again(opened.target, snapshot)
        return replace(verdict, is_applied=True)


def _undo_ledger(
    settings: Settings, flow: FlowSettings, snapshot: Snapshot, request: UndoRequest, *, is_applied: bool
) -> UndoVerdict:
    with open_ledger_flow(settings, flow) as opened:
        proof = opened.prove_no_worker() if is_applied else opened.prove_stopped()
        _, target = opened.clients
        _refuse_other_copies(target, snapshot, request)
        if is_applied:
            opened.own()
        stored = read_stored(target, [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source)
        verdict = replace(_verdict(flow, snapshot, stored, proof), run_by=SPARKMIRROR)
        opened.work.check_take_back(snapshot.ledger_keys)
        if not is_applied:
            return verdict
        # MirrorMaker 2's position is ahead of the ledger only if it has copied since.
        lower = [back.record for back in verdict.records if stored_offset(back.record.value) < stored_offset(back.value_now)]
        _append(target, lower)
        opened.work.take_back(snapshot.ledger_keys)
        stored = read_stored(target, [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source)
        write_records(target, snapshot.positions, stored, opened.prove_no_worker)
        return replace(verdict, is_applied=True)


def _verdict(flow: FlowSettings, snapshot: Snapshot, stored: PositionTable, proof: str) -> UndoVerdict:
    def now(record: SavedRecord) -> bytes | None:
        found = stored.records.get(record.key, {}).get(record.place)
        return found.value if found is not None else None

    return UndoVerdict(
        flow=str(flow.name),
        run_by=MM2,
        command=snapshot.command,
        time=snapshot.time,
        records=tuple(WrittenBack(record, now(record)) for record in snapshot.positions),
        ledger_records=len(snapshot.ledger_keys),
        commits=len(snapshot.commits),
        proof=proof,
        undo_file="",
    )


def _refuse_other_copies(target: ClusterClient, snapshot: Snapshot, request: UndoRequest) -> None:
    """Old positions point into copies that are gone: the records before them would be missing there."""
    view = target.view(list(snapshot.topic_ids)).topics
    for name, topic_id in snapshot.topic_ids.items():
        there = view.get(name)
        if there is None or there.error or there.topic_id.hex() != topic_id:
            raise MoveRefused(
                f"{name} on {target.alias} is not the same topic as at {snapshot.time}: resuming at the old positions "
                "would leave it without the records copied before",
                hint=f"deleted records cannot be restored; `offsets import FILE {request.path}` sets positions alone",
            )


def _commit_again(target: ClusterClient, snapshot: Snapshot) -> None:
    """Offsets of groups that were deleted with a copy that is there after all."""
    for group in sorted({commit.group for commit in snapshot.commits}):
        wanted = {c.partition: Committed(c.offset, c.metadata) for c in snapshot.commits if c.group == group}
        for partition, code in commit_offsets(target, group, wanted).items():
            if code:
                raise MoveRefused(f"the offset of group {group} in {partition} cannot be set: {name_of(code)}")


def _append(target: ClusterClient, records: Sequence[SavedRecord]) -> None:
    for record in records:
        append_records(target, record.place, [(record.key, record.value)], int(time.time() * 1000))
