"""What a reset leaves on the target, and deleting it (`--with-target`).

Copying from the beginning appends everything again after what the target holds. To start with empty copies,
their topics are deleted, with their group offsets, checkpoints and offset syncs:

| what                    | one topic                                     | the whole flow                                |
|-------------------------|-----------------------------------------------|-----------------------------------------------|
| copies                  | deleted                                       | deleted, if the source still has their topic  |
| groups' offsets there   | deleted: MirrorMaker 2 never lowers them       | deleted                                       |
| checkpoints topic       | deleted: its old ones keep lower ones back    | deleted                                       |
| offset syncs            | one that restarts, before every record        | topic deleted                                 |

Never a tombstone in syncs or checkpoints: MirrorMaker 2's readers fail on a null value there. A topic is gone when no
broker shows it any more; before that its name cannot be created again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from sparkmirror.clusters import ClusterClient, append_records, committed_offsets, list_groups, name_of, read_to_end
from sparkmirror.clusters.probing import is_allowed_to_list_all
from sparkmirror.clusters.removal import delete_group_offsets, delete_topics
from sparkmirror.config import FlowSettings
from sparkmirror.errors import BrokerRefused, MoveRefused
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.positions.snapshots import SavedCommit, SavedRecord
from sparkmirror.positions.stored import present_topics
from sparkmirror.state import SyncTable, read_settled
from sparkmirror.topology import is_lag_group, offset_syncs_topic, policy_for
from sparkmirror.wire import encode_offset_sync
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

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
    """What is deleted. `restarted` are source partitions whose syncs restart, `kept` copies that could not be re-created.

    `namesakes` are copies that have the same name as their source topic: they may hold records of other producers.
    """

    topics: tuple[str, ...]
    checkpoints_topic: str | None
    syncs_topic: str | None
    restarted: tuple[TopicPartition, ...]
    commits: tuple[GroupCommit, ...]
    kept: tuple[str, ...]
    namesakes: tuple[str, ...]


def read_commits(
    target: ClusterClient, topics: Collection[str], *, requires_all: bool
) -> tuple[list[GroupCommit], list[str]]:
    """What groups committed in these topics, and notes on groups that could not be read.

    `requires_all`: raises MoveRefused where a group may be hidden or cannot be read, because the topics are to be deleted.
    """
    wanted, found, notes = set(topics), list[GroupCommit](), list[str]()
    if requires_all and not is_allowed_to_list_all(target):
        _refuse_hidden(target, "groups may be hidden", "Describe on the cluster")
    try:
        shown = [group for group in list_groups(target) if group.protocol in CONSUMER_PROTOCOLS]
    except BrokerRefused as error:
        if requires_all:
            raise
        return [], [f"groups on {target.alias} could not be read: {error.message}"]
    listed = {group.name: group for group in shown if not is_lag_group(group.name)}  # a mirror's own reads no topic
    names = sorted(listed)
    for start in range(0, len(names), GROUPS_AT_ONCE):
        for name, offsets in committed_offsets(target, names[start : start + GROUPS_AT_ONCE]).items():
            if offsets.error:
                if requires_all:
                    _refuse_hidden(target, f"commits of group {name}: {name_of(offsets.error)}", f"Describe on group {name}")
                notes.append(f"commits of group {name} could not be read: {name_of(offsets.error)}")
            has_members = listed[name].state not in WITHOUT_MEMBERS
            found += [
                GroupCommit(name, partition, commit.offset, commit.metadata, has_members)
                for partition, commit in offsets.committed.items()
                if partition.topic in wanted and commit is not None
            ]
    return sorted(found, key=lambda commit: (commit.group, commit.partition)), notes


def _refuse_hidden(target: ClusterClient, what: str, needs: str) -> NoReturn:
    raise MoveRefused(
        f"cluster {target.alias}: {what}: {target.who} needs {needs}, because a group may read a topic that is deleted",
        hint="grant it, or leave out --with-target",
    )


def plan_target(
    flow: FlowSettings,
    clients: tuple[ClusterClient, ClusterClient],
    topics: Collection[str],
    *,
    commits: Sequence[GroupCommit],
    is_whole: bool,
) -> TargetPlan:
    """What would be deleted for these source topics; raises MoveRefused while a group reads one of the copies."""
    source, target = clients
    policy = policy_for(flow)
    remotes = {policy.format_remote_topic(flow.name.source, topic): topic for topic in topics}
    checkpoints = policy.checkpoints_topic(flow.name.source)
    there, present = present_topics(source, topics), present_topics(target, [*remotes, checkpoints])
    copies = sorted(remote for remote in remotes if remote in present)
    deleted = tuple(remote for remote in copies if remotes[remote] in there)
    lost = [commit for commit in commits if commit.partition.topic in deleted]
    for commit in lost:
        if commit.has_members:
            raise MoveRefused(
                f"group {commit.group} has members on {target.alias} and reads {commit.partition.topic}, which is deleted",
                hint="stop its consumers first",
            )
    syncs, syncs_topic = _syncs_place(flow, clients)
    has_syncs = bool(present_topics(syncs, [syncs_topic]))
    return TargetPlan(
        topics=deleted,
        checkpoints_topic=checkpoints if checkpoints in present else None,
        syncs_topic=syncs_topic if has_syncs and is_whole else None,
        restarted=() if is_whole or not has_syncs else tuple(_synced(syncs, syncs_topic, topics)),
        commits=tuple(lost),
        kept=tuple(remote for remote in copies if remote not in deleted),
        namesakes=tuple(remote for remote in deleted if remotes[remote] == remote),
    )


def save_target(
    flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient], plan: TargetPlan
) -> tuple[tuple[SavedRecord, ...], tuple[SavedRecord, ...], tuple[SavedCommit, ...]]:
    """The newest syncs and checkpoints, and the commits, that a plan deletes."""
    syncs, syncs_topic = _syncs_place(flow, clients)
    saved_syncs = _newest(syncs, syncs_topic) if plan.syncs_topic is not None or plan.restarted else ()
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
    if plan.restarted:
        # Before every record: readers drop older syncs when one goes back, and send every group to the copy's beginning.
        entries = [encode_offset_sync(OffsetSync(partition, -1, -1)) for partition in plan.restarted]
        append_records(syncs, TopicPartition(syncs_topic, 0), entries, int(time.time() * 1000))


def _syncs_place(flow: FlowSettings, clients: tuple[ClusterClient, ClusterClient]) -> tuple[ClusterClient, str]:
    return clients[0 if flow.syncs_side == "source" else 1], offset_syncs_topic(flow, policy_for(flow))


def _synced(client: ClusterClient, topic: str, wanted: Collection[str]) -> list[TopicPartition]:
    """The partitions of these topics that have a sync."""
    table = SyncTable()
    read_settled(client, topic, table)
    return sorted(partition for partition in table.newest if partition.topic in wanted)


def _newest(client: ClusterClient, topic: str) -> tuple[SavedRecord, ...]:
    place = TopicPartition(topic, 0)
    found = {record.key: record.value for record in read_to_end(client, place) if record.key is not None}
    return tuple(SavedRecord(place, key, value) for key, value in found.items() if value is not None)
