"""The ledger folded into its present state. Order-free for receipts (merge = maximum), so a late retry changes nothing.

Valid are the records of a partition's newest open, and receipts and closed of earlier attempts up to the upstream offset
that the next open names. A zombie's late receipt or closed therefore has no effect. Attempts at topics that were deleted
and created again since do not count at all: their offsets name other records now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from sparkmirror.ledger.blocks import Block, block_starts
from sparkmirror.ledger.flow_records import (
    CopiedTopic,
    Failover,
    OwnerAnswer,
    OwnerRequest,
    RunSettings,
    SourceEnds,
    StoredPositions,
    Wish,
    WishKey,
)
from sparkmirror.ledger.records import (
    CHUNK,
    Attempt,
    Closed,
    Gap,
    Intent,
    LedgerRecord,
    Open,
    Owner,
    Position,
    Receipt,
    Release,
    Routed,
    SlotBeat,
    SlotStop,
    Started,
    State,
    Void,
    decode,
    decode_flow_key,
    decode_key,
)
from sparkmirror.ledger.runs import Run, Runs
from sparkmirror.ledger.wishes import wish_on
from sparkmirror.model import TopicPartition

BEHIND, RESTARTED = "behind", "anew"  # moves behind or over which the target's log is not what the ledger proves


@dataclass(slots=True)
class PartitionHistory:
    """Everything the ledger holds for one source partition."""

    opens: dict[Attempt, Open] = field(default_factory=dict)
    started: dict[Attempt, str] = field(default_factory=dict)
    receipts: dict[Attempt, Receipt] = field(default_factory=dict)
    blocks: dict[tuple[Attempt, int], Block] = field(default_factory=dict)
    closed: dict[Attempt, Closed] = field(default_factory=dict)
    states: dict[Attempt, State] = field(default_factory=dict)
    released: set[Attempt] = field(default_factory=set)
    voids: dict[Attempt, int] = field(default_factory=dict)
    gaps: dict[tuple[Attempt, int], Gap] = field(default_factory=dict)
    intents: dict[Attempt, Intent] = field(default_factory=dict)
    # By its first upstream offset: a record goes to one place, so no two of these begin with the same.
    routed: dict[tuple[Attempt, int], Routed] = field(default_factory=dict)

    @property
    def newest(self) -> Open | None:
        """The open that counts."""
        return self.opens[max(self.opens)] if self.opens else None

    def counted(self) -> dict[Attempt, Open]:
        """The opens that count: all but moves that no successor saw.

        Whoever was paused in the middle of a move may write it when another owner has long gone on: then no chain of
        predecessors leads from the newest open to it.
        """
        chain = self._chain()
        return {attempt: order for attempt, order in self.opens.items() if attempt in chain or not order.is_move}

    def _chain(self) -> dict[Attempt, Open]:
        """The newest open, the one it followed, and so on."""
        chain: dict[Attempt, Open] = {}
        order = self.newest
        while order is not None and order.attempt not in chain:
            chain[order.attempt] = order
            order = self.opens.get(order.previous) if order.previous is not None else None
        return chain

    @property
    def is_closed(self) -> bool:
        """Whether the newest attempt ended quietly."""
        newest = self.newest
        return newest is not None and newest.attempt in self.closed

    def position(self) -> Position | None:
        """What is proven: closed, else the furthest receipt, else the open itself; of the newest attempt only."""
        newest = self.newest
        if newest is None:
            return None
        if newest.attempt in self.closed:
            return self.closed[newest.attempt].position
        receipt = self.receipts.get(newest.attempt)
        return receipt.position if receipt is not None else newest.position

    def source_leader_epoch(self) -> int:
        """The leader epoch of the last proven upstream record, −1 if unknown or if the copy resumes elsewhere."""
        opens = self.counted()
        for attempt in sorted(opens, reverse=True):
            receipt = self.receipts.get(attempt)
            if receipt is not None and receipt.source_leader_epoch >= 0:
                return receipt.source_leader_epoch
            if opens[attempt].is_move:
                return -1
        return -1

    def accepted_gaps(self) -> list[Gap]:
        """What was given up in the source topic's present incarnation and not copied after all, in order."""
        if not self.gaps:
            return []
        newest, opens, chain = self.newest, self.counted(), self._chain()
        found = []
        for gap in sorted(self.gaps.values(), key=lambda gap: (gap.upstream, gap.attempt)):
            # Only by those who knew of it: a late open of a former owner says nothing of what is copied now.
            later = [order.position.upstream for attempt, order in chain.items() if attempt > gap.attempt]
            until = min(gap.until, *later) if later else gap.until
            is_of_incarnation = newest is not None and gap.source_topic_id == newest.source_topic_id
            if is_of_incarnation and gap.attempt in opens and gap.upstream < until:
                found.append(replace(gap, until=until))
        return found

    def pending_move(self) -> Attempt | None:
        """The newest move to where the copy had not come, while nothing was copied since: only the move explains it."""
        moves = [attempt for attempt, order in self.counted().items() if order.move in (BEHIND, RESTARTED)]
        if not moves or any(attempt > max(moves) and self._is_own(attempt, run) for attempt, run in self._attempted_runs()):
            return None
        return max(moves)

    def runs(self) -> Iterator[Run]:
        """The valid runs of every attempt, oldest first, cut where the next open began and where the target lost them."""
        for _, run in self._attempted_runs():
            yield run

    def run_blocks(self) -> Iterator[Runs]:
        """The valid runs, packed in blocks, none of them empty."""
        for _, runs in self._attempted_blocks():
            yield runs

    def runs_of(self, attempt: Attempt) -> Iterator[Run]:
        """The valid runs that one attempt wrote, each upstream offset once; not what it states of older ones."""
        end = self.opens[attempt].position.upstream
        for other, run in self._attempted_runs():
            if other == attempt and run.upstream >= self.opens[attempt].position.upstream:
                fresh = max(end - run.upstream, 0)  # a block begins with the last run of the one before (M4)
                if fresh < run.length:
                    yield Run(run.upstream + fresh, run.downstream + fresh, run.length - fresh)
                    end = run.upstream + run.length

    def routed_runs(self) -> dict[TopicPartition, list[Run]]:
        """The runs that lie elsewhere, in order, by where; of the source topic's present incarnation."""
        newest, found = self.newest, dict[TopicPartition, list[Run]]()
        moves = [order for order in self.counted().values() if order.is_move]
        for routed in sorted(self.routed.values(), key=lambda r: r.runs[0].upstream):
            if newest is not None and routed.source_topic_id == newest.source_topic_id:
                # What a later move went back behind is copied again, and the new copy counts.
                limit = min((m.position.upstream for m in moves if m.attempt > routed.attempt), default=None)
                cut = (_cut(run, limit, None) for run in routed.runs)
                found.setdefault(routed.target, []).extend(run for run in cut if run is not None)
        return {target: runs for target, runs in found.items() if runs}

    def last_copy(self, below: int) -> tuple[int, int, int] | None:
        """Where the last copied record below this downstream offset lies, its producer id and epoch (−1: unknown)."""
        best: tuple[int, int, int] | None = None
        pending = self.pending_move()
        if pending is not None and self.opens[pending].move == RESTARTED:
            return None  # what lies last below the move is a copy that does not count any more
        for attempt, run in self._attempted_runs():
            last = min(run.downstream + run.length, below) - 1
            if run.downstream <= last and (best is None or last > best[0]):
                order = self.opens[attempt]
                is_own = self._is_own(attempt, run)
                best = (last, *((order.producer_id, order.producer_epoch) if is_own else (-1, -1)))
        return best

    def _is_own(self, attempt: Attempt, run: Run) -> bool:
        """Whether the attempt copied the run; else it restates an older one's."""
        return run.upstream >= self.opens[attempt].position.upstream

    def _attempted_runs(self) -> Iterator[tuple[Attempt, Run]]:
        return ((attempt, run) for attempt, runs in self._attempted_blocks() for run in runs)

    def _attempted_blocks(self) -> Iterator[tuple[Attempt, Runs]]:
        newest = self.newest
        if newest is None:
            return
        topics = newest.topic_incarnation
        attempts = sorted(attempt for attempt, order in self.counted().items() if order.topic_incarnation == topics)
        for index, attempt in enumerate(attempts):
            later = [self.opens[other].position.upstream for other in attempts[index + 1 :]]
            upstream_limit = min(later) if later else None
            lost = [at for void_attempt, at in self.voids.items() if void_attempt >= attempt]
            downstream_limit = min(lost) if lost else None
            for start in block_starts(self.blocks, attempt):
                runs = _cut_block(self.blocks[attempt, start].runs, upstream_limit, downstream_limit)
                if runs:
                    yield attempt, runs


def _cut_block(runs: Runs, upstream_limit: int | None, downstream_limit: int | None) -> Runs:
    last = runs[-1]
    if _cut(last, upstream_limit, downstream_limit) is last and runs.is_in_order:
        return runs
    cut = (_cut(run, upstream_limit, downstream_limit) for run in runs)
    return Runs(run for run in cut if run is not None)


def _cut(run: Run, upstream_limit: int | None, downstream_limit: int | None) -> Run | None:
    length = run.length
    if upstream_limit is not None:
        length = min(length, upstream_limit - run.upstream)
    if downstream_limit is not None:
        length = min(length, downstream_limit - run.downstream)
    if length == run.length:
        return run
    return Run(run.upstream, run.downstream, length) if length > 0 else None


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a source partition ended when the owner last saw it change, and the newest timestamp in it (−1: unknown)."""

    end: int
    newest_timestamp: int
    time_ms: int
    source_topic_id: str


class LedgerView:
    """The whole ledger of one flow."""

    def __init__(self) -> None:
        self.partitions: dict[TopicPartition, PartitionHistory] = {}
        self.owners: dict[tuple[int, int], Owner] = {}
        self.slots: dict[tuple[int, int], SlotBeat] = {}
        self.stops: set[tuple[int, int]] = set()
        self.requests: dict[str, OwnerRequest] = {}  # in the order of the ledger
        self.answers: dict[str, OwnerAnswer] = {}
        self.source_ends: dict[TopicPartition, SourceEnd] = {}
        self.stored: dict[tuple[str, int], StoredPositions] = {}
        self.copied_topics: dict[str, str] = {}
        self.wishes: dict[WishKey, Wish] = {}
        self.settings: RunSettings | None = None
        self.failover: Failover | None = None
        self.malformed = 0

    @property
    def owner(self) -> Owner | None:
        """The newest owner, by generation and epoch, never by place in the log."""
        return max(self.owners.values(), key=lambda o: (o.generation, o.producer_epoch), default=None)

    @property
    def source_seen_ms(self) -> int:
        """When an owner last saw where the source ends, −1 if the ledger does not say."""
        return max((owner.source_seen_ms for owner in self.owners.values()), default=-1)

    def unanswered(self) -> list[OwnerRequest]:
        """Requests that wait for an answer, in order."""
        return [request for request in self.requests.values() if request.id not in self.answers]

    def wish_on(self, partition: TopicPartition) -> Wish | None:
        """What somebody asked for that keeps a partition from being copied; None if nothing does."""
        return wish_on(self.wishes, partition)

    def stored_in(self) -> dict[TopicPartition, str]:
        """The partitions that have a position in an offsets topic, and the id of that topic."""
        found = self.stored.values()
        return {TopicPartition(s.topic, partition): s.offsets_topic_id for s in found for partition in s.partitions}

    def of(self, partition: TopicPartition) -> PartitionHistory:
        """The history of a partition, empty if it has none."""
        return self.partitions.setdefault(partition, PartitionHistory())

    def read(self, key: bytes, value: bytes | None) -> LedgerRecord | None:
        """Folds one log record in; returns it decoded. What is not ours is counted, not used."""
        try:
            if value is None:
                self._remove(key)
                return None
            record = decode(key, value)
        except ValueError:
            self.malformed += 1
            return None
        self.apply(record)
        return record

    def _remove(self, key: bytes) -> None:
        found = decode_flow_key(key)
        if found is None:
            self._forget(*decode_key(key))  # a tombstone only removes what a later attempt has stated again
            return
        match found:
            case "request", (str(name),):
                self.requests.pop(name, None)
            case "wish", (str(connector), str(topic), int(partition)):
                self.wishes.pop(WishKey(connector, topic, partition), None)
            case "settings", ():
                self.settings = None
            case "failover", ():
                self.failover = None
            case "topic", (str(name),):
                self.copied_topics.pop(name, None)
            case "answer", (str(name), *by):
                known = self.answers.get(name)
                if known is not None and [known.generation, known.producer_epoch] == by:
                    del self.answers[name]
            case "stored", (str(topic), int(chunk)):
                self.stored.pop((topic, chunk), None)
            case _, (str(topic), int(chunk)):
                self._forget_ends(topic, chunk)

    def _forget_ends(self, topic: str, chunk: int) -> None:
        for partition in [p for p in self.source_ends if p.topic == topic and p.partition // CHUNK == chunk]:
            del self.source_ends[partition]

    def _apply_ends(self, record: SourceEnds) -> None:
        identity, time_ms = record.source_topic_id, record.time_ms
        seen = {TopicPartition(record.topic, p): SourceEnd(end, newest, time_ms, identity) for p, end, newest in record.ends}
        if any(p in self.source_ends and self.source_ends[p].source_topic_id != identity for p in seen):
            self._forget_ends(record.topic, record.chunk)  # the topic's next incarnation may have fewer partitions
        self.source_ends |= seen

    def _forget(self, kind: str, partition: TopicPartition, attempt: Attempt, start: int) -> None:
        history = self.of(partition)
        if kind == "receipt":
            history.blocks.pop((attempt, start), None)
            if not any(known == attempt for known, _ in history.blocks):
                history.receipts.pop(attempt, None)
            return
        history.released.discard(attempt)
        for kept, name in ((history.opens, "open"), (history.started, "started"), (history.closed, "closed")):
            if kind == name:
                kept.pop(attempt, None)
        for more, name in ((history.states, "state"), (history.voids, "void"), (history.intents, "intent")):
            if kind == name:
                more.pop(attempt, None)
        for placed, name in ((history.gaps, "gap"), (history.routed, "routed")):
            if kind == name:
                placed.pop((attempt, start), None)

    def apply(self, record: LedgerRecord) -> None:
        """Folds one record in."""
        match record:
            case Owner():
                self.owners[record.generation, record.first_epoch] = record
            case SlotBeat():
                self.slots[record.slot, record.incarnation] = record
            case SlotStop():
                self.stops.add((record.slot, record.incarnation))
            case OwnerRequest():
                self.requests.setdefault(record.id, record)  # asking again with the same id changes nothing
            case OwnerAnswer():
                known = self.answers.get(record.id, record)
                self.answers[record.id] = max(known, record, key=lambda a: (a.generation, a.producer_epoch))
            case SourceEnds():
                self._apply_ends(record)
            case StoredPositions():
                self.stored[record.topic, record.chunk] = record
            case CopiedTopic():
                self.copied_topics[record.topic] = record.target_topic
            case Wish():
                self.wishes[record.key] = record
            case RunSettings():
                self.settings = record
            case Failover():
                self.failover = record
            case _:
                self._apply_partition(self.of(record.partition), record)

    def _apply_partition(
        self,
        history: PartitionHistory,
        record: Open | Started | Receipt | Closed | State | Release | Void | Gap | Intent | Routed,
    ) -> None:
        match record:
            case Open():
                history.opens[record.attempt] = record
            case Started():
                history.started[record.attempt] = record.process
            case Receipt():
                self._apply_receipt(history, record)
            case Closed():
                history.closed[record.attempt] = record
            case State():
                history.states[record.attempt] = record
            case Release():
                history.released.add(record.attempt)
            case Void():
                known = history.voids.get(record.attempt, record.downstream)
                history.voids[record.attempt] = min(known, record.downstream)
            case Gap():
                place = (record.attempt, record.upstream)
                history.gaps[place] = max(history.gaps.get(place, record), record, key=lambda gap: gap.until)
            case Intent():
                history.intents[record.attempt] = record
            case Routed():
                place = (record.attempt, record.runs[0].upstream)
                known_runs = history.routed.get(place)
                if known_runs is None or len(record.runs) >= len(known_runs.runs):
                    history.routed[place] = record

    def _apply_receipt(self, history: PartitionHistory, record: Receipt) -> None:
        known = history.receipts.get(record.attempt)
        if known is None or record.position[:2] >= known.position[:2]:
            history.receipts[record.attempt] = replace(record, runs=())
        if record.runs:
            place = (record.attempt, record.runs[0].upstream)
            block, known_block = Block.of(record.runs, record.position.sequence), history.blocks.get(place)
            if known_block is None or block.end >= known_block.end:
                history.blocks[place] = block
