"""Groups of the flow on both sides: states, commits, checkpoints, and where each would go on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sparkmirror.clusters import GroupOffsets, ListedGroup
from sparkmirror.groups import Copied, SyncHistory, translate
from sparkmirror.ledger import PartitionHistory
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap
from sparkmirror.tools.doctor.facts import Checkpointed, Copy, GroupFacts, Part, Subject
from sparkmirror.tools.doctor.gathering.asking import Asker
from sparkmirror.tools.evidence import Note
from sparkmirror.tools.standing_records import CheckpointTable, SyncTable
from sparkmirror.topology import group_filter, lag_group

__all__ = ["Commits", "gather_commits", "groups_of"]

PROTOCOLS = ("", "consumer")
SHARE = "share"
TARGET_ONLY_MAX = 1_000  # groups of the target alone whose commits are looked at


@dataclass(frozen=True, slots=True)
class Commits:
    """What was read of groups before the ends were."""

    source_groups: Mapping[str, ListedGroup]
    target_groups: Mapping[str, ListedGroup]
    source: Mapping[str, GroupOffsets]
    target: Mapping[str, GroupOffsets]


def gather_commits(asker: Asker) -> Commits:
    """Lists and commits of every group that passes the filter."""
    evidence, flow = asker.evidence, asker.evidence.flow
    wants = group_filter(flow).wants
    ours = lag_group(flow.name.target)
    there = asker.hear(Part.SOURCE_GROUPS, "source", lambda: evidence.groups("source"))
    here = asker.hear(Part.TARGET_GROUPS, "target", lambda: evidence.groups("target"))
    selected = [g.name for g in there.values() if _is_consumer(g) and g.name != ours and wants(g.name)]
    only = [g.name for g in here.values() if g.name not in there and _is_consumer(g) and wants(g.name)]
    source = asker.hear_each("source", _group_of, lambda: evidence.commits("source", selected)) if selected else {}
    wanted = [*selected, *only[:TARGET_ONLY_MAX]]
    target = asker.hear_each("target", _group_of, lambda: evidence.commits("target", wanted)) if wanted else {}
    return Commits(there, here, source, target)


def _is_consumer(group: ListedGroup) -> bool:
    return group.protocol in PROTOCOLS and group.kind.lower() != SHARE


def _group_of(note: Note) -> Subject:
    return Subject(group=note.needs.rpartition("group ")[2] if "group " in note.needs else "")


def groups_of(
    asker: Asker, commits: Commits, copies: Mapping[TopicPartition, Copy], checkpoints: CheckpointTable, syncs: SyncTable
) -> dict[str, GroupFacts]:
    """Each group with what matters for this flow: commits in copied partitions, and in their copies on the target."""
    translator = _Translator(asker, syncs)
    remotes = {copy.remote for copy in copies.values()}
    found: dict[str, GroupFacts] = {}
    for name in sorted(set(commits.source) | set(commits.target)):
        source, target = commits.source.get(name), commits.target.get(name)
        at = _positions(source, copies)
        here = _positions(target, remotes)
        if not at and not here:
            continue
        points = {p: c for p, c in checkpoints.of_group(name).items() if p in remotes}
        found[name] = GroupFacts(
            name=name,
            source_state=commits.source_groups[name].state or "Unknown" if name in commits.source_groups else "",
            target_state=commits.target_groups[name].state if name in commits.target_groups else "",
            source=at,
            target=here,
            checkpoints={
                p: Checkpointed(c.upstream_offset, c.downstream_offset, c.time_ms) for p, c in points.items()
            },
            translated={place: translator.position(place, offset) for place, offset in at.items()},
            is_source_known=source is None or not source.error,
            is_target_known=target is not None and not target.error,
        )
    return found


def _positions(
    offsets: GroupOffsets | None, wanted: Mapping[TopicPartition, Copy] | set[TopicPartition]
) -> dict[TopicPartition, int]:
    if offsets is None:
        return {}
    return {p: c.offset for p, c in offsets.committed.items() if c is not None and p in wanted}


class _Translator:
    """Where a position goes on, by the ledger where there is one, else by MirrorMaker 2's rule over its syncs."""

    def __init__(self, asker: Asker, syncs: SyncTable) -> None:
        ledger = asker.evidence.ledger()
        self._partitions: Mapping[TopicPartition, PartitionHistory] = {} if ledger is None else ledger.view.partitions
        self._syncs = syncs
        self._known: dict[TopicPartition, Copied] = {}

    def position(self, partition: TopicPartition, offset: int) -> int | None:
        copied = self._known.get(partition)
        if copied is None:
            history = self._partitions.get(partition)
            syncs: SyncHistory | None = self._syncs.histories.of(partition)
            end = history.position() if history is not None else None
            copied = Copied(end, OffsetMap.of_blocks(history.run_blocks() if history is not None else ()), syncs)
            self._known[partition] = copied
        found = translate(offset, copied)
        return None if found is None else found.downstream
