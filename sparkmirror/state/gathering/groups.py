"""Groups of the flow on both sides: states, commits, checkpoints, and where each would resume."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from sparkmirror.clusters import GroupOffsets, ListedGroup
from sparkmirror.model import TopicPartition
from sparkmirror.state import FlowState, LedgerTable, Part
from sparkmirror.state.facts import Copy, GroupFacts
from sparkmirror.topology import group_filter, is_lag_group

PROTOCOLS = ("", "consumer")
SHARE = "share"
TARGET_ONLY_MAX = 1_000  # groups of the target alone whose commits are read


@dataclass(frozen=True, slots=True)
class Commits:
    """What was read of groups before the ends were."""

    source_groups: Mapping[str, ListedGroup]
    target_groups: Mapping[str, ListedGroup]
    source: Mapping[str, GroupOffsets]
    target: Mapping[str, GroupOffsets]


def gather_commits(state: FlowState) -> Commits:
    """Lists and commits of every group that passes the filter."""
    flow = state.flow
    selected_by = group_filter(flow).wants

    def wants(name: str) -> bool:
        return not is_lag_group(name) and selected_by(name)

    there, here = state.groups("source"), state.groups("target")
    selected = [g.name for g in there.values() if _is_consumer(g) and wants(g.name)]
    only = [g.name for g in here.values() if g.name not in there and _is_consumer(g) and wants(g.name)]
    remembered: list[str] = []  # groups that no cluster shows, but whose checkpoints the target has
    if Part.SOURCE_GROUPS in state.unknown:
        known = {*there, *here}
        remembered = [name for name in state.checkpoints().last.groups() if name not in known and wants(name)]
    source = state.commits("source", selected)
    target = state.commits("target", [*selected, *only[:TARGET_ONLY_MAX], *remembered])
    return Commits(there, here, source, target)


def _is_consumer(group: ListedGroup) -> bool:
    return group.protocol in PROTOCOLS and group.kind.lower() != SHARE


def groups_of(state: FlowState, commits: Commits, copies: Mapping[TopicPartition, Copy]) -> dict[str, GroupFacts]:
    """Each group with what matters for this flow: commits in copied partitions, and in their copies on the target."""
    checkpoints, syncs = state.checkpoints().last, state.syncs()
    ledger = state.ledger() or LedgerTable()
    remotes = {copy.remote: copy.partition for copy in copies.values()}
    is_gone = Part.SOURCE_GROUPS in state.unknown
    groups: dict[str, GroupFacts] = {}
    for name in sorted(set(commits.source) | set(commits.target)):
        source, target = commits.source.get(name), commits.target.get(name)
        at = _positions(source, copies)
        here = _positions(target, remotes)
        points = {p: c for p, c in checkpoints.timed(name).items() if p in remotes}
        if not at and not here and not (is_gone and points):
            continue
        # Where the group stands on the source, else where it stood by its checkpoints.
        upstream = at if not is_gone else {remotes[p]: point.upstream for p, point in points.items()}
        groups[name] = GroupFacts(
            name=name,
            source_state=commits.source_groups[name].state or "Unknown" if name in commits.source_groups else "",
            target_state=commits.target_groups[name].state if name in commits.target_groups else "",
            source=at,
            target=here,
            checkpoints=points,
            translated={
                place: None if (found := ledger.translate(place, offset, syncs)) is None else found.downstream
                for place, offset in upstream.items()
            },
            is_source_known=not is_gone and (source is None or not source.error),
            is_target_known=target is not None and not target.error,
        )
    return groups


def _positions(
    offsets: GroupOffsets | None, wanted: Container[TopicPartition]
) -> dict[TopicPartition, int]:
    if offsets is None:
        return {}
    return {p: c.offset for p, c in offsets.committed.items() if c is not None and p in wanted}
