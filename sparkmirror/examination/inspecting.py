"""Reads what the inspector judges: groups page by page, so that ten thousand of them take no more memory than a hundred.

Commits are read before ends, so that a topic that grows cannot make a position appear past the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sparkmirror.clusters import GroupOffsets
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings
from sparkmirror.diagnose.group_position import Circumstances, LogEnds, PositionFinding, RowFacts, find_cause
from sparkmirror.diagnose.inspector_rows import judge, sort_key
from sparkmirror.diagnose.inspector_verdicts import ACTIVE_STATES, StrictLoop, Verdict
from sparkmirror.examination.position_worth import PositionWorth
from sparkmirror.model import Checkpoint, Side, TopicPartition
from sparkmirror.offsets.proof import Proof, WalkLimits
from sparkmirror.state import (
    CopyPosition,
    FlowState,
    Note,
    Part,
    copy_position,
    last_source_ends,
    mapped_partition,
    now_ms,
    recorded_sources,
    source_seen_ms,
)
from sparkmirror.topology import JavaPattern, group_filter, topic_filter
from sparkmirror.wire.error_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION

GROUPS_FIRST, GROUPS_MAX = 20, 100  # of a page
ROWS_WANTED = 4_000  # of a page; a group with more is a page of its own
# Groups that read topics; those of Connect workers, share groups and others are not the inspector's.
PROTOCOLS = ("consumer", "")
Program = Literal["sparkmirror", "MirrorMaker 2", ""]
ABSENT_STATE = "Dead"  # Kafka's word for a group that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class InspectOptions:
    """What is inspected, and how closely.

    `is_strict` reproduces the original with its defects. `wants_causes` reads the mirror's own topics too, which the 21
    columns do not need. `limits` None: records are not read. `behind_max`: more records read again than this is a warning.
    """

    is_strict: bool = False
    wants_causes: bool = True
    includes_inactive: bool = False
    groups: JavaPattern | None = None
    topics: JavaPattern | None = None
    limits: WalkLimits | None = field(default_factory=WalkLimits)
    patience: Patience = PATIENCE
    behind_max: int | None = None


@dataclass(frozen=True, slots=True)
class InspectedRow:
    """One row with its verdict; the rest only where causes were asked for."""

    facts: RowFacts
    verdict: Verdict
    proof: Proof | None = None
    finding: PositionFinding | None = None
    copy: CopyPosition | None = None


@dataclass(frozen=True, slots=True)
class FlowHealth:
    """The health of a flow: who writes it ("": unknown), when last, and how many source offsets are not copied yet."""

    runner: Program
    last_written_ms: int | None
    copy_lag: int | None
    groups: int
    groups_left_out: int
    read_at_ms: int
    outages: tuple[str, ...] = ()  # clusters that cannot be read: None above is then unknown
    source_seen_ms: int | None = None  # by the mirror, where the source cannot be read
    last_copy_lag: int | None = None  # as of then
    unknown_lags: int = 0  # partitions of which the lag is not known; then `copy_lag` is None
    partitions: int = 0  # those with groups, of which `copy_lag` is


class FlowInspection:
    """One flow: `rows` first, then `health` and `state.notes`. Close it."""

    def __init__(self, flow: FlowSettings, options: InspectOptions) -> None:
        self.flow = flow
        self.state = FlowState(flow, options.patience)
        self._options = options
        self._worth = PositionWorth(self.state, options.limits)
        self._topics, self._groups = topic_filter(flow), group_filter(flow)
        self._loop = StrictLoop()
        self._lags: dict[TopicPartition, int | None] = {}
        self._sources: dict[TopicPartition, TopicPartition] | None = None  # by partition of the target
        self._unknown: set[TopicPartition] = set()  # partitions of which there are no ends, though they exist
        self._inspected, self._left_out = 0, 0
        self._began_ms = now_ms()

    def close(self) -> None:
        """Drops the connections."""
        self._worth.close()
        self.state.close()

    # --- groups ------------------------------------------------------------------------------------------------

    def rows(self) -> Iterator[InspectedRow]:
        """Every group and partition, in the inspector's order."""
        names = self._chosen()
        if self._options.is_strict and not self.state.is_up("target"):
            return
        size, at = GROUPS_FIRST, 0
        while at < len(names):
            page = self._page(names[at : at + size])
            at += size
            yield from page
            size = max(1, min(GROUPS_MAX, ROWS_WANTED * size // max(len(page), 1)))

    def _chosen(self) -> list[str]:
        """Groups of the source that pass the file's filter and the caller's, and that have members unless all are wanted."""
        if not self.state.is_up("source"):
            return [] if self._options.is_strict else self._remembered()
        chosen = [group for group in self.state.groups("source").values() if self._wants(group.name, group.protocol)]
        active = [group for group in chosen if self._options.includes_inactive or group.state in ACTIVE_STATES]
        self._inspected, self._left_out = len(active), len(chosen) - len(active)
        return _in_order(group.name for group in active)

    def _remembered(self) -> list[str]:
        """Groups of a source that cannot be read, whoever has members: those with checkpoints, and the target's own."""
        protocols = {name: group.protocol for name, group in self.state.groups("target").items()}
        names = {*protocols, *self.state.checkpoints().last.groups()}
        return _in_order(name for name in names if self._wants(name, protocols.get(name, "")))

    def _wants(self, group: str, protocol: str) -> bool:
        wanted = self._options.groups
        is_wanted = self._groups.wants(group) and (wanted is None or wanted.fullmatch(group))
        return protocol in PROTOCOLS and is_wanted

    def _page(self, names: Sequence[str]) -> list[InspectedRow]:
        self.state.syncs()  # before any end is read: a mapping past the end must not be one that came later
        if self._options.wants_causes:
            self.state.checkpoints()
        source, target = self.state.commits("source", names), self.state.commits("target", names)
        facts: list[RowFacts] = []
        for group in names:
            if self.state.is_up("source"):
                facts += self._facts_of(group, source.get(group), target.get(group))
            else:
                facts += self._remembered_facts(group, target.get(group))
        facts = self._with_ends(facts)
        if self._options.is_strict or not self._options.wants_causes:
            return [InspectedRow(row, judge(row)) for row in sorted(facts, key=sort_key)]
        rows = [self._judged(row, proof) for row, proof in self._prove(facts)]
        return sorted(rows, key=lambda row: sort_key(row.facts))

    # --- facts ---------------------------------------------------------------------------------------------------

    def _facts_of(self, group: str, ours: GroupOffsets | None, theirs: GroupOffsets | None) -> Iterator[RowFacts]:
        """A row for each partition that the group has committed on the source; ends are still missing."""
        is_strict = self._options.is_strict
        source_failed, target_failed = ours is None or bool(ours.error), theirs is None or bool(theirs.error)
        is_reported, is_known = self._loop.take(source_failed=source_failed, target_failed=target_failed)
        is_target_gone = not self.state.is_up("target")
        if ours is None or (not is_reported if is_strict else target_failed and not is_target_gone):
            return  # a note says why
        chosen = {
            place: committed.offset
            for place, committed in ours.committed.items()
            if committed is not None and self._is_wanted(place.topic)
        }
        places = {place: self._target_of(place) for place in chosen}
        there = {} if theirs is None or not is_known else theirs.committed
        found = {place: there.get(place if is_strict else mapped) for place, mapped in places.items()}
        if not is_strict:
            is_known = any(committed is not None for committed in found.values())
        for place, offset in chosen.items():
            committed, sync = found[place], self.state.syncs().sync_of(place)
            yield RowFacts(
                flow=str(self.flow.name),
                source=place,
                target=places[place],
                group=group,
                source_ends=None,
                source_state=self._state_of("source", group),
                source_offset=offset,
                target_ends=None,
                target_state=self._state_of("target", group),
                target_offset=None if committed is None else committed.offset,
                is_known=None if is_target_gone else is_known,
                sync=sync,
                read_at_ms=now_ms(),
            )

    def _remembered_facts(self, group: str, theirs: GroupOffsets | None) -> Iterator[RowFacts]:
        """A row for each partition of the flow in which the group has a checkpoint or a position on the target."""
        if theirs is None or theirs.error:
            return  # a note says why
        points = self.state.checkpoints().last.timed(group)
        there = {place: committed for place, committed in theirs.committed.items() if committed is not None}
        if self._sources is None:
            self._sources = recorded_sources(self.state)
        rows = {place: self._sources.get(place) or self._upstream_of(place, points) for place in {*points, *there}}
        found = {place: source for place, source in rows.items() if source is not None and self._is_wanted(source.topic)}
        self._inspected += bool(found)
        for place, source in found.items():
            committed = there.get(place)
            yield RowFacts(
                flow=str(self.flow.name),
                source=source,
                target=place,
                group=group,
                source_ends=None,
                source_state="",
                source_offset=None,
                target_ends=None,
                target_state=self._state_of("target", group),
                target_offset=None if committed is None else committed.offset,
                is_known=any(at in there for at in found),
                sync=self.state.syncs().sync_of(source),
                read_at_ms=now_ms(),
            )

    def _upstream_of(self, place: TopicPartition, points: Collection[TopicPartition]) -> TopicPartition | None:
        """The source of a partition with a checkpoint, by the name alone: there may be no stored position of it."""
        topic = self.state.policy.upstream_topic(place.topic) if place in points else None
        return None if topic is None else TopicPartition(topic, place.partition)

    def _state_of(self, side: Side, group: str) -> str:
        """Empty where it is unknown."""
        groups = self.state.groups(side)
        return groups[group].state if group in groups else "" if Part.groups(side) in self.state.unknown else ABSENT_STATE

    def _is_wanted(self, topic: str) -> bool:
        wanted = self._options.topics
        return self._topics.wants(topic) and (wanted is None or wanted.fullmatch(topic))

    def _target_of(self, place: TopicPartition) -> TopicPartition:
        """The partition of the target whose ends are shown; the original does not know topics that came from there."""
        if self._options.is_strict:
            remote = self.state.policy.format_remote_topic(self.flow.name.source, place.topic)
            return TopicPartition(remote, place.partition)
        return mapped_partition(self.flow, self.state.policy, place)

    def _with_ends(self, facts: Collection[RowFacts]) -> list[RowFacts]:
        ours = self.state.ends("source", {row.source for row in facts})
        theirs = self.state.ends("target", {row.target for row in facts})
        found = []
        for row in facts:
            source, target = ours.get(row.source), theirs.get(row.target)
            if (source is None or not source.is_known) and self.state.is_up("source"):
                self._note_end("source", row.source, source)
                if self._options.is_strict or source is None or not source.has_no_leader:
                    continue
            if (target is None or not target.is_known) and self.state.is_up("target"):
                self._note_end("target", row.target, target)
                if target is None or target.error == TOPIC_AUTHORIZATION_FAILED:
                    continue  # commits in a topic that we may not see are not shown either: no verdict, not a wrong one
            found.append(replace(row, source_ends=_log_ends(source), target_ends=_log_ends(target)))
        return found

    def _note_end(self, side: Side, place: TopicPartition, ends: PartitionEnds | None) -> None:
        """A partition of the target that does not exist is a row's own cause; any other end that is missing is a note."""
        alias, error = self.state.clients[side].alias, None if ends is None else ends.error
        if error == UNKNOWN_TOPIC_OR_PARTITION:
            if side == "source":
                text = f"{place} does not exist on {alias}, though groups have positions in it"
                self.state.notes.add(Note("missing", alias, text))
        elif error is not None and error != TOPIC_AUTHORIZATION_FAILED:  # without rights: noted where it was requested
            self._unknown.add(place)
            self.state.notes.add(Note("refused", alias, f"ends of {place} on {alias} are not known"))

    # --- proofs --------------------------------------------------------------------------------------------------

    def _prove(self, facts: Sequence[RowFacts]) -> list[tuple[RowFacts, Proof | None]]:
        """Each row with its proof. A row whose positions moved meanwhile is read once more."""
        first = list(zip(facts, self._worth.of(facts), strict=True))
        if not self._worth.reads_records:
            return first
        again = self._with_ends(self._moved([row for row, proof in first if proof is not None]).values())
        repeated = {_place(row): (row, proof) for row, proof in zip(again, self._worth.of(again), strict=True)}
        still = self._moved([row for row, _ in repeated.values()])
        found: list[tuple[RowFacts, Proof | None]] = []
        for seen in first:
            row, proof = repeated.get(_place(seen[0]), seen)
            if proof is not None and _place(row) in still:
                proof = replace(proof, result="moving", reason=_moved_words(proof))
            found.append((row, proof))
        self._note_forbidden()
        return found

    def _moved(self, rows: Sequence[RowFacts]) -> dict[tuple[str, TopicPartition], RowFacts]:
        """Rows whose group has committed something else since, with what it is now."""
        groups = sorted({row.group for row in rows})
        if not groups:
            return {}
        ours, theirs = self.state.commits("source", groups), self.state.commits("target", groups)
        fresh = {}
        for row in rows:
            here = _committed(ours.get(row.group), row.source)
            there = _committed(theirs.get(row.group), row.target)
            if here is not None and (here, there) != (row.source_offset, row.target_offset):
                moved = replace(row, source_offset=here, target_offset=there, read_at_ms=now_ms())
                fresh[_place(row)] = moved
        return fresh

    def _note_forbidden(self) -> None:
        for side, topic in self._worth.forbidden:
            alias = self.state.clients[side].alias
            text = f"cluster {alias}: records of topic {topic} cannot be read"
            self.state.notes.add(Note("refused", alias, text, f"Read on topic {topic}"))

    # --- judging -------------------------------------------------------------------------------------------------

    def _judged(self, row: RowFacts, proof: Proof | None) -> InspectedRow:
        checkpoint = self.state.checkpoints().last.at(row.group, row.target)
        if checkpoint is not None:
            text = Checkpoint(row.group, row.target, checkpoint.upstream, checkpoint.downstream, "")
            row = replace(row, checkpoint=text, checkpoint_time_ms=checkpoint.time_ms)
            proof = self._worth.by_checkpoint(row) if row.source_offset is None else proof
        verdict, copy = judge(row), self._worth.copy(row.source)
        if copy is not None:
            self._lags[row.source] = (
                None if row.source_ends is None else max(row.source_ends.end - copy.next_upstream_offset, 0)
            )
        return InspectedRow(row, verdict, proof, find_cause(row, proof, self._around(row)), copy)

    def _around(self, row: RowFacts) -> Circumstances:
        history = self.state.syncs().histories.of(row.source)
        usable = [] if history is None else [s.upstream_offset for s in history.kept if s.upstream_offset >= 0]
        return Circumstances(
            now_ms=row.read_at_ms,
            syncs_commits=self.flow.sync_group_offsets_enabled,
            commits_interval_s=max(self.flow.sync_group_offsets_interval_seconds, 0),
            comes_from_target=self.state.policy.topic_source(row.source.topic) == self.flow.name.target,
            has_checkpoints=self.state.checkpoints().last.has_group(row.group),
            translatable=self._is_translatable(row),
            first_translatable=min(usable, default=None),
            is_target_known=row.is_known is not None and row.target not in self._unknown,
            behind_max=self._options.behind_max,
        )

    def _is_translatable(self, row: RowFacts) -> bool | None:
        """Whether ledger or syncs reach back to the source position; None if they could not be read."""
        if self._worth.translation(row) is not None:
            return True
        return None if self.state.unknown.keys() & {Part.SYNCS, Part.LEDGER} else False

    # --- the flow ------------------------------------------------------------------------------------------------

    def health(self) -> FlowHealth:
        """The flow's health; complete once every row was read."""
        theirs = max((stored.time_ms for stored in self.state.positions().own()), default=-1)
        ledger = self.state.ledger()
        ours = max(ledger.times.values(), default=-1) if ledger is not None else -1
        syncs = max((timed.time_ms for timed in self.state.syncs().newest.values()), default=-1)
        newest = max(theirs, ours, syncs, self.state.checkpoints().last.newest_ms)
        return FlowHealth(
            runner=self._runner(theirs) if newest >= 0 else "",
            last_written_ms=newest if newest >= 0 else None,
            copy_lag=self._copy_lag(),
            groups=self._inspected,
            groups_left_out=self._left_out,
            read_at_ms=self._began_ms,
            outages=tuple(outage.words.removeprefix("cluster ") for outage in self.state.reader.outages.values()),
            source_seen_ms=None if self.state.is_up("source") else source_seen_ms(self.state),
            last_copy_lag=self._last_copy_lag(),
            unknown_lags=sum(lag is None for lag in self._lags.values()),
            partitions=len(self._lags),
        )

    def _runner(self, positions_ms: int) -> Program:
        """Who writes, or wrote last, the flow; `positions_ms` is the time of its newest position."""
        if Part.LEDGER in self.state.unknown:
            return ""
        ledger = self.state.ledger()
        owner = None if ledger is None else ledger.view.owner
        if ledger is None or owner is None:
            return "MirrorMaker 2"
        # sparkmirror writes positions too, but none after it released the flow.
        return "MirrorMaker 2" if owner.released and positions_ms > ledger.newest_ms else "sparkmirror"

    def _copy_lag(self) -> int | None:
        """Of the partitions with groups; None if none is known, or not of all."""
        known = [lag for lag in self._lags.values() if lag is not None]
        return sum(known) if known and len(known) == len(self._lags) else None

    def _last_copy_lag(self) -> int | None:
        """Of all partitions of a source that cannot be read, where the ledger knows their ends."""
        if self.state.is_up("source"):
            return None
        ends = last_source_ends(self.state)
        copies = ((end, copy_position(self.state, place)) for place, end in ends.items())
        lags = [max(end.end - copy.next_upstream_offset, 0) for end, copy in copies if copy is not None]
        return sum(lags) if lags else None


def _in_order(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (name.lower(), name))


def _log_ends(ends: PartitionEnds | None) -> LogEnds | None:
    return LogEnds(ends.first, ends.end) if ends is not None and ends.is_known else None


def _place(row: RowFacts) -> tuple[str, TopicPartition]:
    return row.group, row.source


def _committed(offsets: GroupOffsets | None, place: TopicPartition) -> int | None:
    found = offsets.committed.get(place) if offsets is not None else None
    return None if found is None else found.offset


def _moved_words(proof: Proof) -> str:
    count = "" if proof.records is None else f" {proof.records}"
    return f"a moment ago {proof.result}{count}: source {proof.upstream}, target {proof.downstream}"
