"""Reads what the inspector judges: groups page by page, so that ten thousand of them take no more memory than a hundred.

Commits are read before ends, so that a topic that grows cannot make a position appear past the end.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from sparkmirror.clusters import GroupOffsets, ListedGroup
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.config import FlowSettings
from sparkmirror.diagnose.group_position import Circumstances, LogEnds, PositionFinding, RowFacts, find_cause
from sparkmirror.diagnose.inspector_rows import judge, sort_key
from sparkmirror.diagnose.inspector_verdicts import ACTIVE_STATES, StrictLoop, Verdict
from sparkmirror.examination.position_worth import PositionWorth
from sparkmirror.model import Checkpoint, Side, TopicPartition
from sparkmirror.offsets.proof import Proof, WalkLimits
from sparkmirror.state import CopyPosition, FlowState, Note, Part, mapped_partition, now_ms
from sparkmirror.topology import JavaPattern, group_filter, topic_filter
from sparkmirror.wire.error_codes import TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION

GROUPS_FIRST, GROUPS_MAX = 20, 100  # of a page
ROWS_WANTED = 4_000  # of a page; a group with more is a page of its own
# Groups that read topics; those of Connect workers, share groups and others are not the inspector's.
PROTOCOLS = ("consumer", "")
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
    """The health of a flow: who writes it, when last, and how many source offsets are not copied yet."""

    runner: Literal["sparkmirror", "MirrorMaker 2", ""]
    last_written_ms: int | None
    copy_lag: int | None
    groups: int
    groups_left_out: int
    read_at_ms: int


class FlowInspection:
    """One flow: `rows` first, then `health` and `state.notes`. Close it."""

    def __init__(self, flow: FlowSettings, options: InspectOptions) -> None:
        self.flow = flow
        self.state = FlowState(flow, options.patience)
        self._options = options
        self._worth = PositionWorth(self.state, options.limits)
        self._topics = topic_filter(flow)
        self._loop = StrictLoop()
        self._lags: dict[TopicPartition, int] = {}
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
        if not names or not self.state.is_up("target"):
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
            return []
        names, wanted = group_filter(self.flow), self._options.groups
        chosen = [
            group
            for group in self.state.groups("source").values()
            if group.protocol in PROTOCOLS and names.wants(group.name) and (wanted is None or wanted.fullmatch(group.name))
        ]
        active = [group for group in chosen if self._options.includes_inactive or group.state in ACTIVE_STATES]
        self._inspected, self._left_out = len(active), len(chosen) - len(active)
        return [group.name for group in sorted(active, key=lambda group: (group.name.lower(), group.name))]

    def _page(self, names: Sequence[str]) -> list[InspectedRow]:
        self.state.syncs()  # before any end is read: a mapping past the end must not be one that came later
        if self._options.wants_causes:
            self.state.checkpoints()
        source, target = self.state.commits("source", names), self.state.commits("target", names)
        facts: list[RowFacts] = []
        for group in names:
            facts += self._facts_of(group, source.get(group), target.get(group))
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
        if ours is None or (not is_reported if is_strict else target_failed):
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
                source_ends=_NO_ENDS,
                source_state=_state(self.state.groups("source"), group),
                source_offset=offset,
                target_ends=None,
                target_state=_state(self.state.groups("target"), group),
                target_offset=None if committed is None else committed.offset,
                is_known=is_known,
                sync=sync,
                read_at_ms=now_ms(),
            )

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
            if source is None or not source.is_known:
                self._note_end("source", row.source, source)
                continue
            if target is None or not target.is_known:
                self._note_end("target", row.target, target)
                if target is None or target.error == TOPIC_AUTHORIZATION_FAILED:
                    continue  # commits in a topic that we may not see are not shown either: no verdict, not a wrong one
            ends = LogEnds(target.first, target.end) if target is not None and target.is_known else None
            found.append(replace(row, source_ends=LogEnds(source.first, source.end), target_ends=ends))
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
        verdict, copy = judge(row), self._worth.copy(row.source)
        if copy is not None:
            self._lags[row.source] = max(row.source_ends.end - copy.next_upstream_offset, 0)
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
            is_target_known=row.target not in self._unknown,
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
        is_ours = ledger is not None and ledger.view.owner is not None and not ledger.view.owner.released
        runner: Literal["sparkmirror", "MirrorMaker 2", ""] = "MirrorMaker 2" if newest >= 0 else ""
        return FlowHealth(
            runner="sparkmirror" if is_ours or ours > theirs else runner,
            last_written_ms=newest if newest >= 0 else None,
            copy_lag=sum(self._lags.values()) if self._lags else None,
            groups=self._inspected,
            groups_left_out=self._left_out,
            read_at_ms=self._began_ms,
        )


_NO_ENDS = LogEnds(-1, -1)


def _state(groups: Mapping[str, ListedGroup], group: str) -> str:
    return groups[group].state if group in groups else ABSENT_STATE


def _place(row: RowFacts) -> tuple[str, TopicPartition]:
    return row.group, row.source


def _committed(offsets: GroupOffsets | None, place: TopicPartition) -> int | None:
    found = offsets.committed.get(place) if offsets is not None else None
    return None if found is None else found.offset


def _moved_words(proof: Proof) -> str:
    count = "" if proof.records is None else f" {proof.records}"
    return f"a moment ago {proof.result}{count}: source {proof.upstream}, target {proof.downstream}"
