"""`offsets undo FILE`: writes back what a command saved before it changed anything."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sparkmirror.clusters import ClusterClient, Committed, append_records, commit_offsets, name_of
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.driver import Asking, Outcome, ask_or_do, carry_out_as_owner, take_back, who_asks
from sparkmirror.errors import MoveRefused
from sparkmirror.ledger import OwnerAnswer, OwnerRequest
from sparkmirror.model import TopicPartition
from sparkmirror.positions.ledger_moves import LedgerFlow, open_ledger_flow
from sparkmirror.positions.live_moves import UNDO, refuse_other_copies
from sparkmirror.positions.mm2_moves import open_mm2_flow, write_records
from sparkmirror.positions.moves import choose_flow
from sparkmirror.positions.requests import CONNECTOR, StoragePlace
from sparkmirror.positions.snapshots import SavedRecord, Snapshot, read_snapshot
from sparkmirror.positions.stored import read_stored
from sparkmirror.positions.undo_file import now_text, read_text, save, undo_path
from sparkmirror.positions.verdicts import MM2, SPARKMIRROR, RunBy
from sparkmirror.state import PositionTable, stored_offset
from sparkmirror.wire import decode_source_key


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
    owner: str = ""
    request_id: str = ""
    is_applied: bool = False


def undo(
    settings: Settings, request: UndoRequest, *, is_applied: bool, asking: Asking | None = None
) -> UndoVerdict:
    """Shows what would be written back, or writes it; a process of sparkmirror that runs the flow is asked to."""
    snapshot = read_snapshot(read_text(request.path), request.path)
    if snapshot.kind != "undo":
        raise MoveRefused(f"{request.path} was written by `offsets export`", hint="use `sparkmirror offsets import`")
    flow = choose_flow(settings, snapshot.flow)
    if snapshot.ledger_keys:
        with open_ledger_flow(settings, flow) as opened:
            if is_applied:
                return _undo_ledger(opened, snapshot, request, asking or Asking())
            return _preview_of_ledger(opened, snapshot, request)
    return _undo_mm2(flow, snapshot, request, is_applied=is_applied)


def _undo_mm2(flow: FlowSettings, snapshot: Snapshot, request: UndoRequest, *, is_applied: bool) -> UndoVerdict:
    topics = tuple(sorted({record.place.topic for record in snapshot.positions}))
    is_default = snapshot.connector == CONNECTOR and set(topics) <= {flow.offset_storage_topic}
    given = StoragePlace(snapshot.connector, () if is_default else topics, request.worker_group)
    with open_mm2_flow(flow, given) as opened:
        proof = opened.prove_stopped()
        refuse_other_copies(opened.target, snapshot.topic_ids, snapshot.time, request.path)
        stored = opened.read()
        verdict = replace(_verdict(flow, snapshot, stored, proof), undo_file=undo_path(flow, request.undo_file))
        if not is_applied:
            return verdict
        now = tuple(replace(back.record, value=back.value_now) for back in verdict.records)
        save(verdict.undo_file, replace(snapshot, time=now_text(), command=f"offsets undo {request.path}", positions=now))
        write_records(opened.target, snapshot.positions, stored, opened.prove_stopped)
        _commit_again(opened.target, snapshot)
        return replace(verdict, is_applied=True)


def _preview_of_ledger(opened: LedgerFlow, snapshot: Snapshot, request: UndoRequest) -> UndoVerdict:
    owner = opened.live_owner()
    proof = "" if owner else opened.prove_no_worker()
    refuse_other_copies(opened.clients[1], snapshot.topic_ids, snapshot.time, request.path)
    opened.work.ledger.read_all()
    take_back(opened.work.ledger.view, snapshot.ledger_keys, allows_open=bool(owner))
    verdict = _verdict(opened.flow, snapshot, _stored(opened), proof)
    records = () if owner else verdict.records  # a running owner derives them from the ledger
    return replace(verdict, run_by=SPARKMIRROR, owner=owner, records=records)


def _undo_ledger(opened: LedgerFlow, snapshot: Snapshot, request: UndoRequest, asking: Asking) -> UndoVerdict:
    arguments = {
        "ledger_keys": [key.decode() for key in snapshot.ledger_keys],
        "topic_ids": dict(snapshot.topic_ids),
        "time": snapshot.time,
        "path": request.path,
    }
    who = who_asks(opened.clients[1])
    record = asking.request(UNDO, who, topic=None, partition=None, arguments=arguments)

    def told(answer: OwnerAnswer) -> UndoVerdict:
        verdict = _verdict(opened.flow, replace(snapshot, positions=()), PositionTable(opened.flow.name.source), "")
        return replace(verdict, run_by=SPARKMIRROR, owner=answer.owner, request_id=answer.id, is_applied=True)

    return ask_or_do(opened.asker(), record, told, lambda asked: _undo_as_owner(opened, snapshot, request, asked))


def _undo_as_owner(
    opened: LedgerFlow, snapshot: Snapshot, request: UndoRequest, asked: OwnerRequest
) -> UndoVerdict:
    proof = opened.prove_no_worker()
    _, target = opened.clients
    refuse_other_copies(target, snapshot.topic_ids, snapshot.time, request.path)
    opened.own()
    verdict = replace(_verdict(opened.flow, snapshot, _stored(opened), proof), run_by=SPARKMIRROR, request_id=asked.id)

    def decide() -> Outcome:
        entries = take_back(opened.work.ledger.view, snapshot.ledger_keys)[1]
        # MirrorMaker 2's position is ahead of the ledger only if it has copied since.
        lower = [back.record for back in verdict.records if stored_offset(back.record.value) < stored_offset(back.value_now)]
        opened.work.memory.forget(_partitions(snapshot)[1])
        _append(target, lower)
        opened.work.writer.renew()
        return Outcome(f"{len(snapshot.ledger_keys)} records of the ledger are restored", {}, entries)

    carry_out_as_owner(opened.work, asked, decide)
    write_records(target, snapshot.positions, _stored(opened), opened.prove_no_worker)
    opened.work.memory.remember(_partitions(snapshot)[0])
    return replace(verdict, is_applied=True)


def _stored(opened: LedgerFlow) -> PositionTable:
    flow = opened.flow
    return read_stored(opened.clients[1], [flow.offset_storage_topic], connector=CONNECTOR, alias=flow.name.source)


def _partitions(snapshot: Snapshot) -> tuple[set[TopicPartition], set[TopicPartition]]:
    """The source partitions that get a position back, and those that had none."""
    found = [(decode_source_key(record.key), record.value is not None) for record in snapshot.positions]
    written = {source.partition for source, is_stored in found if source is not None and is_stored}
    return written, {source.partition for source, _ in found if source is not None} - written


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
