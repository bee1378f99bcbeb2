"""Short reads of records, only where offsets alone leave a question: which ones is decided by what was read before."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field

from sparkmirror.clusters import ClusterClient, read_range
from sparkmirror.errors import ClusterError
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof.proving import Asking, same_record
from sparkmirror.offsets.proof.values import RecordAsk, Seen, WalkLimits
from sparkmirror.state import FlowState
from sparkmirror.state.facts import ComparedPair, Copy, Facts, LargeRecord, Reads, Tail, failed_tasks, refused_by
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.proof_runner import run_all
from sparkmirror.wire import Record, read_records

WALK = 500  # records of one step
TAIL_RECORDS_MAX = 5_000
RECORD_HEAD_BYTES = 70  # of a batch that carries one record


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """How much is read: partitions of each kind, and records along one partition."""

    partitions: int = 2_000
    records: int = 10_000


@dataclass(slots=True)
class _Found:
    """What reading brought so far."""

    pairs: dict[TopicPartition, ComparedPair] = field(default_factory=dict)
    firsts: dict[TopicPartition, int] = field(default_factory=dict)
    next_records: dict[TopicPartition, LargeRecord] = field(default_factory=dict)
    large: dict[TopicPartition, LargeRecord] = field(default_factory=dict)
    tails: dict[TopicPartition, Tail] = field(default_factory=dict)
    lost: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)
    unread: dict[TopicPartition, str] = field(default_factory=dict)


def read_records_of(facts: Facts, state: FlowState, limits: ReadLimits) -> Reads:
    """Reads what the checks need; a partition that cannot be read says why."""
    found, source = _Found(), state.clients["source"]
    with closing(FlowLogs(state)) as logs:
        work = [*_pairs(facts, found), *_firsts(facts, found), *_tails(facts, found), *_holes(facts, found)]
        askings = [((copy.partition, copy.remote), asking) for copy, asking in work[: limits.partitions]]
        run_all(askings, logs.open(WalkLimits(limits.records)))
    _read_next(facts, source, found, limits)
    _read_large(facts, source, found, limits)
    return Reads(found.pairs, found.firsts, found.next_records, found.large, found.tails, found.lost, found.unread)


Work = Iterator[tuple[Copy, Asking[None]]]


# --- D6: is the record of the newest sync the same on both sides? ------------------------------------------------


def _pairs(facts: Facts, found: _Found) -> Work:
    for copy in facts.copies.values():
        ends, there = copy.source_ends, copy.target_ends
        if copy.basis != "mm2" or ends is None or there is None:
            continue  # sparkmirror knows the topics by their ids
        # MirrorMaker 2 that resumed in a new topic has written a true sync since: the oldest one shows it.
        for sync in dict.fromkeys((copy.sync, copy.first_sync)):
            if sync is not None and ends[0] <= sync.upstream < ends[1] and there[0] <= sync.downstream < there[1]:
                yield copy, _compare(copy, sync.upstream, sync.downstream, found)


def _compare(copy: Copy, upstream: int, downstream: int, found: _Found) -> Asking[None]:
    ours = yield RecordAsk("source", upstream, 1)
    theirs = yield RecordAsk("target", downstream, 1)
    trouble = ours.trouble or theirs.trouble
    if trouble:
        found.unread[copy.partition] = trouble
        return
    mine = ours.records[0] if ours.records and ours.records[0].offset == upstream else None
    copied = theirs.records[0] if theirs.records and theirs.records[0].offset == downstream else None
    if mine is None or copied is None:
        outcome, why = "unknown", "compaction or retention removed one of the two records"
    else:
        outcome, why = ("same" if same_record(mine, copied) else "differs"), ""
    known = found.pairs.get(copy.partition)
    if known is None or known.outcome != "differs":
        found.pairs[copy.partition] = ComparedPair(upstream, downstream, outcome, why)


# --- D5: where does the copy begin? ------------------------------------------------------------------------------


def _firsts(facts: Facts, found: _Found) -> Work:
    for copy in facts.copies.values():
        ends, there = copy.source_ends, copy.target_ends
        if ends is None or there is None or there[0] == there[1] or ends[0] == ends[1]:
            continue
        if copy.basis == "ledger":
            is_begun_there = copy.first_run is not None and copy.first_run[1] == there[0]
            is_given_up = any(gap.upstream <= ends[0] for gap in copy.gaps)
            if is_begun_there and not is_given_up and copy.first_run is not None and there[0] == 0:
                found.firsts[copy.partition] = copy.first_run[0]
        elif copy.sync is not None and copy.sync.upstream - (copy.sync.downstream - there[0]) > ends[0]:
            yield copy, _find_first(copy, ends, there, found)


def _find_first(copy: Copy, ends: tuple[int, int], there: tuple[int, int], found: _Found) -> Asking[None]:
    """The source offset of the target's first record: by the map, else along the source's log."""
    assert copy.sync is not None
    begun = yield RecordAsk("target", there[0], 1)
    first = yield RecordAsk("source", ends[0], 1)
    if begun.trouble or first.trouble or not begun.records or not first.records:
        if begun.trouble or first.trouble:
            found.unread[copy.partition] = begun.trouble or first.trouble
        return
    wanted = begun.records[0]
    if same_record(first.records[0], wanted):
        found.firsts[copy.partition] = ends[0]
        return
    guess = copy.sync.upstream - (copy.sync.downstream - there[0])
    guessed = yield RecordAsk("source", guess, 1)
    if guessed.records and same_record(guessed.records[0], wanted):
        found.firsts[copy.partition] = guessed.records[0].offset
        return
    at = ends[0]
    while at < ends[1]:
        found_range = yield RecordAsk("source", at, WALK, is_walk=True)
        if found_range.trouble:
            return
        match = next((record for record in found_range.records if same_record(record, wanted)), None)
        if match is not None:
            found.firsts[copy.partition] = match.offset
            return
        if found_range.is_end or found_range.next_offset <= at:
            return
        at = found_range.next_offset


# --- C22, C24: what lies behind the copy? ------------------------------------------------------------------------


def _tails(facts: Facts, found: _Found) -> Work:
    """Only partitions at rest: everything that the source holds was copied, and the position says so."""
    for copy in facts.copies.values():
        ends, there = copy.source_ends, copy.target_ends
        if ends is None or there is None or copy.next_upstream != ends[1]:
            continue
        if copy.basis == "ledger":
            if copy.next_downstream is not None and there[0] <= copy.next_downstream < there[1]:
                yield copy, _strangers(copy, copy.next_downstream, there[1], found)
        elif copy.sync is not None and ends[0] <= copy.sync.upstream < ends[1] and there[0] <= copy.sync.downstream:
            extra = (there[1] - copy.sync.downstream) - (ends[1] - copy.sync.upstream)
            if extra > 0 and there[1] - copy.sync.downstream <= TAIL_RECORDS_MAX:
                yield copy, _extra(copy, (copy.sync.upstream, ends[1]), (copy.sync.downstream, there[1]), found)


def _strangers(copy: Copy, start: int, end: int, found: _Found) -> Asking[None]:
    found_range = yield RecordAsk("target", start, TAIL_RECORDS_MAX)
    records = [record for record in found_range.records if record.offset < end]
    if records:
        found.tails[copy.partition] = Tail(0, len(records), records[0].offset)


def _extra(copy: Copy, ours: tuple[int, int], theirs: tuple[int, int], found: _Found) -> Asking[None]:
    """Records of both sides from the newest sync on; those of the target that the source has not are foreign."""
    width = theirs[1] - theirs[0]
    assert copy.source_ends is not None
    begin = max(ours[0] - width, copy.source_ends[0])
    mine = yield from _range_of("source", begin, ours[1])
    copied = yield from _range_of("target", theirs[0], theirs[1])
    if mine is None or copied is None:
        return
    expected = [record for record in mine if record.offset >= ours[0]]
    surplus = len(copied) - len(expected)
    if surplus <= 0:
        return  # markers of transactions, which are no records
    known = {record.fingerprint for record in mine}
    foreign = [record for record in copied if record.fingerprint not in known]
    repeated = max(surplus - len(foreign), 0)
    first = foreign[0].offset if foreign else copied[-surplus].offset
    found.tails[copy.partition] = Tail(repeated, len(foreign), first)


def _range_of(side: str, start: int, end: int) -> Asking[list[Seen] | None]:
    """Visible records from `start` to before `end`; None if they cannot be read."""
    records: list[Seen] = []
    at = start
    while at < end:
        found_range = yield RecordAsk("source" if side == "source" else "target", at, WALK, is_walk=True)
        if found_range.trouble:
            return None
        records += [record for record in found_range.records if record.offset < end]
        if found_range.is_end or found_range.next_offset <= at:
            break
        at = found_range.next_offset
    return records


# --- D7: holes between syncs -------------------------------------------------------------------------------------


def _holes(facts: Facts, found: _Found) -> Work:
    for copy in facts.copies.values():
        ends = copy.source_ends
        if copy.basis != "mm2" or ends is None or not copy.holes or facts.source.compacts(copy.partition.topic):
            continue
        yield copy, _explain(copy, ends[0], found)


def _explain(copy: Copy, begins: int, found: _Found) -> Asking[None]:
    """Counts what the source holds between two syncs; where that is gone, checks whether transactions could explain it."""
    for before, after in copy.holes:
        copied = after.downstream - before.downstream
        if before.upstream >= begins:
            seen = yield from _range_of("source", before.upstream, after.upstream)
            if seen is not None and len(seen) > copied:
                found.lost[copy.partition] = (before.upstream, after.upstream)
        elif after.upstream >= begins:
            window = yield RecordAsk("source", after.upstream, WALK)
            # Markers would leave holes here too; a log without any, over a fair stretch, is no log of transactions.
            if window.records and not window.trouble and not window.has_holes:
                found.lost[copy.partition] = (before.upstream, after.upstream)


# --- the next record, and the one that is too large ----------------------------------------------------------------


def _read_next(facts: Facts, source: ClusterClient, found: _Found, limits: ReadLimits) -> None:
    behind = [copy for copy in facts.copies.values() if copy.lag and copy.source_ends is not None]
    for copy in behind[: limits.partitions]:
        assert copy.source_ends is not None
        at = max(copy.reached if copy.reached is not None else copy.source_ends[0], copy.source_ends[0])
        for record in _records(facts, source, copy, at, found):
            found.next_records[copy.partition] = _measured(record)
            break


def _read_large(facts: Facts, source: ClusterClient, found: _Found, limits: ReadLimits) -> None:
    for copy, is_culprit in _suspects(facts):
        assert copy.source_ends is not None
        at = max(copy.next_upstream or 0, copy.source_ends[0])
        records = _records(facts, source, copy, at, found)
        for count, record in enumerate(records):
            measured = _measured(record)
            if is_culprit(measured):
                found.large[copy.partition] = measured
                break
            if count >= limits.records:
                break


class _Limit:
    """Finds the record that a limit refuses."""

    def __init__(self, *, size: int | None = None, oldest: int | None = None, newest: int | None = None) -> None:
        self._size, self._oldest, self._newest = size, oldest, newest

    def __call__(self, record: LargeRecord) -> bool:
        if self._size is not None and record.size > self._size:
            return True
        is_old = self._oldest is not None and 0 <= record.timestamp < self._oldest
        return is_old or (self._newest is not None and record.timestamp > self._newest)


def _suspects(facts: Facts) -> Iterator[tuple[Copy, _Limit]]:
    """Partitions that a refused record holds up, and what is wrong with it."""
    for connector, number, task in failed_tasks(facts):
        kind = refused_by(task)
        for place in sorted(connector.assigned.get(number, ())):
            copy = facts.copies.get(place)
            if copy is not None and copy.lag and copy.source_ends is not None and kind != "D11":
                yield copy, _limit(facts, copy, kind)
    for copy in facts.copies.values():
        if copy.stop is not None and copy.source_ends is not None and copy.stop.code == "RECORD_TOO_LARGE":
            yield copy, _limit(facts, copy, "D1")


def _limit(facts: Facts, copy: Copy, kind: str) -> _Limit:
    topic = copy.remote.topic
    if kind == "D2":
        return _Limit(size=int(facts.flow.producer.get("max.request.size", "1048576")))
    if kind == "D10":
        before = facts.target.number(topic, "message.timestamp.before.max.ms")
        after = facts.target.number(topic, "message.timestamp.after.max.ms")
        oldest = None if before is None else facts.now_ms - before
        return _Limit(oldest=oldest, newest=None if after is None else facts.now_ms + after)
    return _Limit(size=facts.target.number(topic, "max.message.bytes"))


def _records(facts: Facts, client: ClusterClient, copy: Copy, at: int, found: _Found) -> Iterator[Record]:
    """Records from an offset to the end that was seen; a refusal ends it and is noted."""
    assert copy.source_ends is not None
    committed, end = facts.flow.reads_committed, copy.source_ends[1]
    try:
        for batch in read_range(client, copy.partition, at, end, read_committed=committed, is_whole=False):
            yield from (record for record in read_records(batch) if record.offset >= at)
    except ClusterError as error:
        found.unread[copy.partition] = error.message


def _measured(record: Record) -> LargeRecord:
    size = RECORD_HEAD_BYTES + len(record.key or b"") + len(record.value or b"")
    size += sum(len(name) + len(value or b"") for name, value in record.headers)
    return LargeRecord(record.offset, size, record.timestamp)


def readable(unread: Mapping[TopicPartition, str]) -> dict[str, str]:
    """One reason per topic."""
    return {place.topic: why for place, why in unread.items()}
