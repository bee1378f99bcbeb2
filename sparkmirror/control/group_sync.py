"""Consumer groups of one flow: where they stand on the target (checkpoints), and their commits there.

Every round reads the ledger on from where the last one ended, so a translation rests on what is proven and nothing else.
A group's commits on the target are read and written back to back, group by group: what another reader of that group did
a moment ago is seen. Between the two requests a member may still join, commit and leave; Kafka has no compare-and-set for
commits, so that window of milliseconds cannot be closed.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkmirror import failpoints
from sparkmirror.clusters import (
    LATEST,
    ClusterClient,
    Committed,
    GroupOffsets,
    append_records,
    commit_offsets,
    committed_offsets,
    list_groups,
    list_offsets,
    refusal,
)
from sparkmirror.config import FlowSettings
from sparkmirror.driver import FlowLedger, FlowPlace, ensure_compacted_topic
from sparkmirror.ledger import PartitionHistory
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.offsets import Basis, OffsetMap, TargetGroup, Translation, offsets_to_write
from sparkmirror.state import CheckpointTable, FollowedTopic, SyncTable, read_settled
from sparkmirror.status import CheckpointKey, FlowStatus, GroupCounts
from sparkmirror.topology import group_filter, is_lag_group, policy_for, topic_filter
from sparkmirror.wire import encode_checkpoint
from sparkmirror.wire.error_codes import (
    GROUP_AUTHORIZATION_FAILED,
    ILLEGAL_GENERATION,
    REBALANCE_IN_PROGRESS,
    STALE_MEMBER_EPOCH,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID,
)

SHARE_GROUP = "share"  # these read without committing offsets
NAMED_MAX = 3  # of positions that one sentence names
# What a coordinator answers to a commit without a member while the group has members.
HAS_MEMBERS = frozenset(
    {ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS, STALE_MEMBER_EPOCH}
)
RECREATED = ("SOURCE_TOPIC_RECREATED", "TARGET_TOPIC_RECREATED")


@dataclass(frozen=True, slots=True)
class _Mark:
    """What a translation was made from; while it stays the same, so does the translation."""

    history: object
    offset: int
    metadata: str


class GroupSync:
    """Checkpoints and commits of one flow; `emit` and `commit` are each one round."""

    def __init__(
        self, flow: FlowSettings, place: FlowPlace, status: FlowStatus, source: ClusterClient, target: ClusterClient
    ) -> None:
        self._flow, self._place, self._status = flow, place, status
        self._source, self._target = source, target
        self._groups, self._topics = group_filter(flow), topic_filter(flow)
        self._topic = TopicPartition(policy_for(flow).checkpoints_topic(flow.name.source), 0)
        self._ledger = FlowLedger(target, place.ledger_topic)
        self._checkpoints = CheckpointTable().last
        self._syncs = FollowedTopic(place.syncs_topic, SyncTable)
        self._listed: list[str] = []
        self._refresh_due = 0.0
        self._is_loaded = False
        self._marks: dict[tuple[str, TopicPartition], _Mark] = {}
        self._barred: set[TopicPartition] = set()
        self._placed: set[str] = set()  # groups that have a position in what is copied
        self._unplaced: set[str] = set()  # those of them that have one without a checkpoint
        self._unread: set[str] = set()  # groups that may not be read on the source

    # --- checkpoints -------------------------------------------------------------------------------------------

    def emit(self) -> list[str]:
        """One round of checkpoints: those that are news are written."""
        if not self._is_loaded:
            self._load()
        self._refresh()
        self._ledger.read_new()
        self._read_syncs()
        now_ms = int(time.time() * 1000)
        found = committed_offsets(self._source, self._listed)
        notes = _Unplaced()
        news: list[Checkpoint] = []
        marks: dict[tuple[str, TopicPartition], _Mark] = {}
        self._placed, self._unplaced = set(), set()
        self._unread = {group for group, offsets in found.items() if offsets.error}
        for group, offsets in found.items():
            if offsets.error:
                notes.refused[group] = offsets.error
            for checkpoint, mark, partition in self._news_of(group, offsets, notes):
                if mark is not None:
                    marks[group, partition] = mark
                if checkpoint is not None:
                    news.append(checkpoint)
        append_records(self._target, self._topic, [encode_checkpoint(checkpoint) for checkpoint in news], now_ms)
        written_ms = int(time.time() * 1000)
        for checkpoint in news:
            self._checkpoints.take(checkpoint)
            key = CheckpointKey(checkpoint.group, *checkpoint.partition)
            self._status.checkpoints[key] = (written_ms, written_ms - now_ms)
        self._marks.update(marks)
        if failpoints.ARMED and news:
            failpoints.point("groups.checkpoint_no_commit")
        return list(notes.sentences(self._source))

    def _load(self) -> None:
        """What the checkpoints topic holds, written by MM2 or by us; tombstones and foreign records do no harm (L24)."""
        factor = self._flow.checkpoints_topic_replication_factor
        ensure_compacted_topic(self._target, self._topic.topic, 1, factor, "checkpoints.topic.replication.factor")
        table = CheckpointTable()
        self._status.notes += read_settled(self._target, self._topic.topic, table).report()
        self._checkpoints = table.last
        self._is_loaded = True

    def _refresh(self) -> None:
        """Groups of the source that pass the filter; looked up again at each round that is due."""
        now = time.monotonic()
        if self._listed and (not self._flow.refresh_groups_enabled or now < self._refresh_due):
            return
        self._refresh_due = now + self._flow.refresh_groups_interval_seconds
        listed = [
            group.name
            for group in list_groups(self._source)
            if not is_lag_group(group.name) and group.kind.lower() != SHARE_GROUP and self._groups.wants(group.name)
        ]
        # A group that we may not describe any more is not listed either: it must not be missed in silence.
        gone = committed_offsets(self._source, set(self._listed) - set(listed))
        self._listed = listed + [group for group, found in gone.items() if found.error == GROUP_AUTHORIZATION_FAILED]

    def _read_syncs(self) -> None:
        """Offset syncs, MM2's and ours; a tombstone or a foreign record is passed over, not stumbled on (L24, L25)."""
        self._syncs.read_on(self._source if self._flow.syncs_side == "source" else self._target)
        self._status.notes += self._syncs.foreign.report()

    def _news_of(
        self, group: str, offsets: GroupOffsets, notes: _Unplaced
    ) -> Iterator[tuple[Checkpoint | None, _Mark | None, TopicPartition]]:
        elsewhere = self._elsewhere(group, offsets)
        for partition, committed in offsets.committed.items():
            history = self._ledger.view.partitions.get(partition)
            if committed is None or not self._topics.wants(partition.topic):
                continue
            newest = history.newest if history is not None else None
            if history is None or newest is None:
                yield self._where_nothing_was_copied(group, partition, committed), None, partition
                continue
            if self._is_barred(partition, newest.target_topic):
                continue
            self._placed.add(group)
            mark = _Mark(_fingerprint(history), committed.offset, committed.metadata)
            remote = TopicPartition(newest.target_topic, partition.partition)
            if self._marks.get((group, partition)) == mark and remote not in elsewhere:
                continue
            end = history.position()
            found = self._ledger.table.translate(partition, committed.offset, self._syncs.table)
            is_plain = found is not None and found.basis in (Basis.EXACT, Basis.BEYOND)
            if not is_plain:
                notes.add(group, partition, committed.offset, found)
            if found is None:
                self._unplaced.add(group)
                continue
            checkpoint = Checkpoint(group, remote, committed.offset, found.downstream, committed.metadata)
            routed = elsewhere.pop(remote, checkpoint)
            checkpoint = min(checkpoint, routed, key=lambda c: c.downstream_offset)
            copied_to = None if end is None else end.downstream
            is_news = self._checkpoints.is_news(checkpoint, copied_to=copied_to)
            yield checkpoint if is_news else None, mark if is_plain else None, partition
        for remote, checkpoint in elsewhere.items():
            yield checkpoint if self._checkpoints.is_news(checkpoint) else None, None, remote

    def _where_nothing_was_copied(
        self, group: str, partition: TopicPartition, committed: Committed
    ) -> Checkpoint | None:
        """The checkpoint of a group that waits for the next record of a partition that `--once` need not open."""
        status, remote = self._status.partitions.get(partition), self._status.remotes.get(partition.topic)
        if status is None or remote is None or status.next_downstream < 0 or committed.offset != status.next_upstream:
            return None
        place = TopicPartition(remote, partition.partition)
        checkpoint = Checkpoint(group, place, committed.offset, status.next_downstream, committed.metadata)
        return checkpoint if self._checkpoints.is_news(checkpoint) else None

    def _elsewhere(self, group: str, offsets: GroupOffsets) -> dict[TopicPartition, Checkpoint]:
        """Where a group goes on in partitions to which transforms send records of what it reads.

        Of several source partitions whose records lie in one, the earliest place counts: no record of any is passed over.
        """
        found: dict[TopicPartition, Checkpoint] = {}
        for partition, committed in offsets.committed.items():
            history = self._ledger.view.partitions.get(partition)
            if committed is None or history is None or not history.routed or not self._topics.wants(partition.topic):
                continue
            for target, runs in history.routed_runs().items():
                places = OffsetMap(runs)
                downstream = places.downstream(committed.offset)
                if downstream is None:
                    downstream = places.end_before(committed.offset)
                if downstream is None:
                    continue
                checkpoint = Checkpoint(group, target, committed.offset, downstream, committed.metadata)
                if target not in found or downstream < found[target].downstream_offset:
                    found[target] = checkpoint
        return found

    def _is_barred(self, partition: TopicPartition, remote: str) -> bool:
        """A topic that was deleted and created again: its old offsets name other records now (G9)."""
        status = self._status.partitions.get(partition)
        is_barred = status is not None and status.state == "stopped" and status.code in RECREATED
        place = TopicPartition(remote, partition.partition)
        (self._barred.add if is_barred else self._barred.discard)(place)
        return is_barred

    # --- commits -----------------------------------------------------------------------------------------------

    def commit(self) -> list[str]:
        """One round of commits: every group without members is brought to its checkpoints, never back."""
        listed = set(self._listed)
        groups = [group for group in self._checkpoints.groups() if group in listed]
        notes: list[str] = []
        late, unread = set(self._unplaced), set(self._unread)
        for group, offsets in committed_offsets(self._target, groups).items():
            if not offsets.error and self._wanted(group, offsets):
                refused = self._commit(group)
                notes += refused
                late |= {group} if refused else set()
            elif offsets.error:
                unread.add(group)
                text = refusal(offsets.error, self._target.who, f"Read on group {group}")
                notes.append(f"group {group} on {self._target.alias} cannot be read: {text}")
        ready = self._placed - late - unread
        self._status.groups = GroupCounts(len(ready), len(late - unread), len(unread))
        return notes

    def _wanted(self, group: str, offsets: GroupOffsets) -> dict[TopicPartition, Checkpoint]:
        checkpoints = self._checkpoints.of(group)
        committed = {p: None if c is None else c.offset for p, c in offsets.committed.items()}
        rewound = self._checkpoints.rewound(group)
        for partition in rewound:
            if partition in checkpoints and committed.get(partition) == checkpoints[partition].downstream_offset:
                self._checkpoints.is_followed(group, partition)
        may_go_back = rewound if self._flow.sync_group_offsets_rewind else frozenset()
        usable = [c for p, c in checkpoints.items() if p not in self._barred]
        return offsets_to_write(usable, TargetGroup(False, committed), rewound=may_go_back | self._lost(usable, committed))

    def _lost(self, checkpoints: list[Checkpoint], committed: Mapping[TopicPartition, int | None]) -> set[TopicPartition]:
        """Partitions whose commit lies past the target's end: the target lost records, and the group would be reset (G8)."""
        ahead = {
            c.partition: found
            for c in checkpoints
            if (found := committed.get(c.partition)) is not None and found > c.downstream_offset
        }
        if not ahead:
            return set()
        view = self._target.view({partition.topic for partition in ahead})
        ends = list_offsets(self._target, [p for p in ahead if view.leader(p) is not None], timestamp=LATEST)
        return {partition for partition, (end, _) in ends.items() if ahead[partition] > end}

    def _commit(self, group: str) -> list[str]:
        """Read again and written at once, so that nothing older than a moment is written over (L7)."""
        seen = committed_offsets(self._target, [group])[group]
        wanted = {} if seen.error else self._wanted(group, seen)
        if not wanted:
            return []
        commits = {p: Committed(c.downstream_offset, c.metadata) for p, c in wanted.items()}
        codes = commit_offsets(self._target, group, commits)
        if HAS_MEMBERS & set(codes.values()):
            return []  # it is being read from there: its own commits count
        refused = {p: code for p, code in codes.items() if code}
        if not refused:
            return []
        place, code = min(refused.items(), key=lambda item: str(item[0]))
        needs = f"Read on topic {place.topic}" if code == TOPIC_AUTHORIZATION_FAILED else f"Read on group {group}"
        text = refusal(code, self._target.who, needs)
        return [f"group {group} on {self._target.alias}: commit for {place} refused: {text}"]


class _Unplaced:
    """Positions that have no counterpart, reported in few sentences however many there are."""

    def __init__(self) -> None:
        self.refused: dict[str, int] = {}
        self._unknown: list[str] = []
        self._missing: list[str] = []
        self._rough: list[str] = []

    def add(self, group: str, partition: TopicPartition, offset: int, found: Translation | None) -> None:
        """One position that is not translated by our own map."""
        if found is None:
            self._unknown.append(f"{group} at {partition} offset {offset}")
        elif found.basis is Basis.MM2_SYNCS:
            self._rough.append(f"{group} at {partition}")
        else:
            self._missing.append(f"{group} at {partition}: the {found.missing} offsets from {offset} on were never copied")

    def sentences(self, source: ClusterClient) -> Iterator[str]:
        """At most one for each kind."""
        if self._unknown:
            yield f"no checkpoint for positions from before everything known: {_some(self._unknown)}"
        if self._missing:
            yield f"groups will not find all records on the target: {_some(self._missing)}"
        if self._rough:
            yield f"translated by MM2's offset syncs, so that records may be read again: {_some(self._rough)}"
        if self.refused:
            text = [f"group {g}: {refusal(c, source.who, f'Describe on group {g}')}" for g, c in self.refused.items()]
            yield f"groups cannot be read on {source.alias}: {_some(text)}"


def _some(items: list[str]) -> str:
    rest = len(items) - NAMED_MAX
    return "; ".join(sorted(items)[:NAMED_MAX]) + (f"; and {rest} more" if rest > 0 else "")


def _fingerprint(history: PartitionHistory) -> object:
    return len(history.opens), len(history.blocks), history.position(), tuple(history.voids.items())
