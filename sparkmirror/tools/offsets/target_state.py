"""What a reset leaves behind on the target, and taking it away (`--with-target`).

Copying from the beginning once more appends everything again behind what the target holds. To begin with empty copies,
their topics are deleted, and with them all that speaks of their offsets:

| what                    | one topic                                     | the whole flow                                |
|-------------------------|-----------------------------------------------|-----------------------------------------------|
| copies                  | deleted                                       | deleted, if the source still has their topic  |
| groups' offsets there   | deleted: MirrorMaker 2 never lowers them       | deleted                                       |
| checkpoints topic       | deleted: its old ones keep lower ones back    | deleted                                       |
| offset syncs            | one that begins anew, before every record     | topic deleted                                 |

Never a tombstone in syncs or checkpoints: MirrorMaker 2's readers stumble over a null value there. A topic is gone when no
broker shows it any more; before that its name cannot be created again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient, append_records, committed_offsets, list_groups, name_of, read_to_end
from sparkmirror.clusters.removal import delete_group_offsets, delete_topics
from sparkmirror.config import FlowSettings
from sparkmirror.errors import BrokerRefused, MoveRefused
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.tools.offsets.snapshots import SavedCommit, SavedRecord
from sparkmirror.topology import policy_for
from sparkmirror.wire import MalformedInternalRecord, decode_offset_sync, encode_offset_sync
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

__all__ = ["GroupCommit", "TargetPlan", "plan_target", "read_commits", "take_away"]

GROUPS_AT_ONCE = 500
WITHOUT_MEMBERS = frozenset({"", "Empty", "Dead"})
CONSUMER_PROTOCOLS = frozenset({"", "consumer"})


@dataclass(frozen=True, slots=True)
class GroupCommit:
    """A group's offset in a copy, and whether the group has members on the target."""

    group: str
    partition: TopicPartition
    offset: int
    metadata: str
    has_members: bool


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """What is taken away. `anew` are source partitions whose syncs begin anew, `kept` copies that could not come again.

    `namesakes` are copies that have the same name as their source topic: somebody else's records may lie there.
    """

    topics: tuple[str, ...]
    checkpoints_topic: str | None
    syncs_topic: str | None
    anew: tuple[TopicPartition, ...]
    commits: tuple[GroupCommit, ...]
    kept: tuple[str, ...]
    namesakes: tuple[str, ...]


def read_commits(target: ClusterClient, topics: Collection[str]) -> tuple[list[GroupCommit], list[str]]:
    """What groups committed in these topics, and notes on groups that could not be read. Holds only what it hands out."""
    wanted, found, notes = set(topics), list[GroupCommit](), list[str]()
    try:
        listed = {group.name: group for group in list_groups(target) if group.protocol in CONSUMER_PROTOCOLS}
    except BrokerRefused as error:
        return [], [f"groups on {target.alias} could not be read: {error.message}"]
    names = sorted(listed)
    for start in range(0, len(names), GROUPS_AT_ONCE):
        for name, offsets in committed_offsets(target, names[start : start + GROUPS_AT_ONCE]).items():
            if offsets.error:
                notes.append(f"commits of group {name} could not be read: {name_of(offsets.error)}")
            has_members = listed[name].state not in WITHOUT_MEMBERS
            found += [
                GroupCommit(name, partition, commit.offset, commit.metadata, has_members)
                for partition, commit in offsets.committed.items()
                if partition.topic in wanted and commit is not None
            ]
    return sorted(found, key=lambda commit: (commit.group, commit.partition)), notes


def plan_target(
    flow: FlowSettings,
    clients: tuple[ClusterClient, ClusterClient],
    topics: Collection[str],
    *,
    commits: Sequence[GroupCommit],
    is_whole: bool,
) -> TargetPlan:
    """What would be taken away for these source topics; raises MoveRefused while a group reads one of the copies."""
    source, target = clients
    policy = policy_for(flow)
    there, present = source.view(None).topics, target.view(None).topics
    remotes = {policy.format_remote_topic(flow.name.source, topic): topic for topic in topics}
    copies = sorted(remote for remote in remotes if remote in present and not present[remote].error)
    deleted = tuple(remote for remote in copies if remotes[remote] in there and not there[remotes[remote]].error)
    lost = [commit for commit in commits if commit.partition.topic in deleted]
    for commit in lost:
        if commit.has_members:
            raise MoveRefused(
                f"group {commit.group} has members on {target.alias} and reads {commit.partition.topic}, which is deleted",
                hint="stop its consumers first",
            )
    syncs, syncs_topic = _syncs_place(flow, clients)
    checkpoints = policy.checkpoints_topic(flow.name.source)
    has_syncs = _has(syncs, syncs_topic)
    return TargetPlan(
        topics=deleted,
        checkpoints_topic=checkpoints if checkpoints in present else None,
        syncs_topic=syncs_topic if has_syncs and is_whole else None,
        anew=() if is_whole or not has_syncs else tuple(_synced(syncs, syncs_topic, topics)),
        commits=tuple(lost),
        kept=tuple(remote for remote in copies if remote not in deleted),
        namesakes=tuple(remote for remote in deleted if remotes[remote] == remote),
    )


def save_target(
    flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient], plan: TargetPlan
) -> tuple[tuple[SavedRecord, ...], tuple[SavedRecord, ...], tuple[SavedCommit, ...]]:
    """The newest syncs and checkpoints, and the commits, that a plan takes away."""
    syncs, syncs_topic = _syncs_place(flow, clients)
    saved_syncs = _newest(syncs, syncs_topic) if plan.syncs_topic is not None or plan.anew else ()
    saved_checkpoints = _newest(clients[1], plan.checkpoints_topic) if plan.checkpoints_topic is not None else ()
    commits = tuple(SavedCommit(c.group, c.partition, c.offset, c.metadata) for c in plan.commits)
    return saved_syncs, saved_checkpoints, commits


def take_away(flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient], plan: TargetPlan) -> None:
    """Carries out a plan and waits until it is done; may be repeated after a failure."""
    _, target = clients
    for group in sorted({commit.group for commit in plan.commits}):
        mine = [commit.partition for commit in plan.commits if commit.group == group]
        for partition, code in delete_group_offsets(target, group, mine).items():
            if code not in (0, UNKNOWN_TOPIC_OR_PARTITION):
                raise MoveRefused(f"the offset of group {group} in {partition} cannot be deleted: {name_of(code)}")
    syncs, syncs_topic = _syncs_place(flow, clients)
    on_target = [*plan.topics, *([plan.checkpoints_topic] if plan.checkpoints_topic is not None else [])]
    delete_topics(target, on_target)
    if plan.syncs_topic is not None:
        delete_topics(syncs, [plan.syncs_topic])
    if plan.anew:
        # Before every record: readers forget older syncs when one goes back, and send every group to the copy's beginning.
        entries = [encode_offset_sync(OffsetSync(partition, -1, -1)) for partition in plan.anew]
        append_records(syncs, TopicPartition(syncs_topic, 0), entries, int(time.time() * 1000))


def _syncs_place(flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient]) -> tuple[ClusterClient, str]:
    is_on_source = flow.offset_syncs_topic_location == "source"
    alias = flow.name.target if is_on_source else flow.name.source
    return clients[0 if is_on_source else 1], policy_for(flow).offset_syncs_topic(alias)


def _has(client: ClusterClient, topic: str) -> bool:
    found = client.view([topic]).topics.get(topic)
    return found is not None and not found.error


def _synced(client: ClusterClient, topic: str, wanted: Collection[str]) -> Iterator[TopicPartition]:
    """The partitions of these topics that have a sync."""
    found = set()
    for record in read_to_end(client, TopicPartition(topic, 0)):
        try:
            sync = decode_offset_sync(record.key or b"", record.value or b"")
        except MalformedInternalRecord:
            continue
        if sync.partition.topic in wanted:
            found.add(sync.partition)
    yield from sorted(found)


def _newest(client: ClusterClient, topic: str) -> tuple[SavedRecord, ...]:
    place = TopicPartition(topic, 0)
    found = {record.key: record.value for record in read_to_end(client, place) if record.key is not None}
    return tuple(SavedRecord(place, key, value) for key, value in found.items() if value is not None)
