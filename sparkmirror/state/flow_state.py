"""What both clusters say of one flow, whoever runs it: MirrorMaker 2 or sparkmirror. Reads, and changes nothing.

Each part is read when it is first needed, once. A part that was read is in `known` with the time; one that could not be
read is in `unknown` with the reason and the right that it takes, and never stops the others. Something that is missing alone
(one group, one topic) is a note. Order matters where clusters move on: whoever compares commits with ends reads the commits
first, so that growth cannot fake a position past the end.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

from sparkmirror.clusters import ClusterClient, ClusterView, GroupOffsets, ListedGroup, committed_offsets, list_groups
from sparkmirror.clusters.client import PATIENCE, Patience
from sparkmirror.clusters.probing import PartitionEnds, is_allowed_to_list_all, probe_ends
from sparkmirror.clusters.rights import is_right_missing
from sparkmirror.config import FlowSettings
from sparkmirror.model import Side, TopicPartition
from sparkmirror.state.internal_topics import CheckpointTable, LedgerTable, PositionTable, SyncTable
from sparkmirror.state.parts import Part, Unknown
from sparkmirror.state.reading import ClusterReader
from sparkmirror.topology import ReplicationPolicy, ledger_topic, offset_syncs_topic, policy_for
from sparkmirror.wire.error_codes import GROUP_AUTHORIZATION_FAILED


@dataclass(frozen=True, slots=True)
class CopyPosition:
    """How far the copy of a partition has come: the next upstream offset, who says so, and since when that is known."""

    next_upstream_offset: int
    basis: Literal["ledger", "mm2"]
    time_ms: int | None


class FlowState:
    """One flow. For one thread at a time; close it."""

    def __init__(self, flow: FlowSettings, patience: Patience = PATIENCE) -> None:
        self.flow = flow
        self.policy: ReplicationPolicy = policy_for(flow)
        clients: dict[Side, ClusterClient] = {
            "source": ClusterClient(flow.source, patience, any_release=True),
            "target": ClusterClient(flow.target, patience, any_release=True),
        }
        self.reader = ClusterReader(clients)
        self.clients, self.notes, self.unknown = clients, self.reader.notes, self.reader.unknown

    def close(self) -> None:
        """Drops the connections."""
        self.reader.close()

    def is_up(self, side: Side) -> bool:
        """Whether the cluster answers; one that did not is not asked again."""
        self.topics(side)
        return self.reader.is_up(side)

    # --- clusters ----------------------------------------------------------------------------------------------

    def topics(self, side: Side) -> ClusterView | None:
        """Every topic that we may see, None if the cluster does not answer."""
        return self.reader.once(Part.topics(side), side, lambda client: client.view(None))

    def ends(self, side: Side, partitions: Collection[TopicPartition]) -> dict[TopicPartition, PartitionEnds]:
        """Ends of partitions, read now; each says for itself if it has none."""
        found = self.reader.ask(Part.ends(side), side, lambda client: probe_ends(client, partitions), {})
        for partition, ends in found.items():
            if is_right_missing(ends.error):
                needs = f"Describe on topic {partition.topic}"
                self.reader.refuse(side, f"ends of {partition}", ends.error, needs, topic=partition.topic)
        return found

    def groups(self, side: Side) -> dict[str, ListedGroup]:
        """Every group that we may see, with its state; the part is unknown if that may not be all."""

        def look(client: ClusterClient) -> dict[str, ListedGroup]:
            found = {group.name: group for group in list_groups(client)}
            if not found and not is_allowed_to_list_all(client):
                needs = "Describe on the cluster, or on its groups"
                note = self.reader.refuse(side, "no group is shown", GROUP_AUTHORIZATION_FAILED, needs)
                self.unknown[Part.groups(side)] = Unknown(note.message, needs)
            return found

        return self.reader.once(Part.groups(side), side, look) or {}

    def commits(self, side: Side, groups: Collection[str]) -> dict[str, GroupOffsets]:
        """What groups have committed, read now; a group that may not be read carries its error and a note."""
        if not groups:
            return {}
        found = self.reader.ask(Part.commits(side), side, lambda client: committed_offsets(client, groups), {})
        for group, offsets in found.items():
            if offsets.error:
                needs = f"Describe on group {group}"
                self.reader.refuse(side, f"commits of group {group}", offsets.error, needs, group=group)
        return found

    # --- internal topics ---------------------------------------------------------------------------------------

    def positions(self) -> PositionTable:
        """MirrorMaker 2's stored positions: the keys of its source connector in the Connect offsets topic."""
        table = PositionTable(self.flow.name.source)
        return self.reader.table(Part.POSITIONS, "target", self.flow.offset_storage_topic, table) or table

    def ledger(self) -> LedgerTable | None:
        """sparkmirror's ledger, None if it cannot be read, or if there is none: then sparkmirror never ran the flow."""
        topic = ledger_topic(self.flow.name.source)
        return self.reader.table(Part.LEDGER, "target", topic, LedgerTable(), may_be_absent=True)

    def syncs(self) -> SyncTable:
        """Offset syncs: the newest of each source partition, and what MirrorMaker 2 remembers of the others."""
        table, topic = SyncTable(), offset_syncs_topic(self.flow, self.policy)
        return self.reader.table(Part.SYNCS, self.flow.syncs_side, topic, table) or table

    def checkpoints(self) -> CheckpointTable:
        """The newest checkpoint of each group and remote partition."""
        table, topic = CheckpointTable(), self.policy.checkpoints_topic(self.flow.name.source)
        return self.reader.table(Part.CHECKPOINTS, "target", topic, table) or table


def has_topic(view: ClusterView | None, topic: str) -> bool:
    """Whether a cluster shows the topic."""
    found = view.topics.get(topic) if view is not None else None
    return found is not None and not found.error


def copy_position(state: FlowState, partition: TopicPartition) -> CopyPosition | None:
    """How far the copy of a source partition has come, by whoever came further; None if nobody says."""
    ledger, stored = state.ledger(), state.positions().of(partition)
    history = ledger.history(partition) if ledger is not None else None
    position = history.position() if history is not None else None
    ours, theirs = None, None
    if position is not None and ledger is not None:
        ours = CopyPosition(position.upstream, "ledger", ledger.times.get(partition))
    if stored is not None and stored.last_offset is not None:
        theirs = CopyPosition(stored.last_offset + 1, "mm2", stored.time_ms)
    if ours is None or theirs is None:
        return ours or theirs
    return theirs if theirs.next_upstream_offset > ours.next_upstream_offset else ours


def mapped_partition(flow: FlowSettings, policy: ReplicationPolicy, partition: TopicPartition) -> TopicPartition:
    """The partition of the target that stands for one of the source; a topic that came from the target goes back to it.

    As MirrorMaker 2 does for checkpoints: `B.orders` on A is `orders` on B, not `A.B.orders`, which never exists.
    """
    if policy.topic_source(partition.topic) == flow.name.target:
        return TopicPartition(policy.original_topic(partition.topic), partition.partition)
    return TopicPartition(policy.format_remote_topic(flow.name.source, partition.topic), partition.partition)
