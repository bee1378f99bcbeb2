"""Writes the positions of a group, and reads them back."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets, committed_offsets, name_of
from sparkmirror.failover.values import GroupPlan, GroupPosition
from sparkmirror.model import TopicPartition


def target_positions(group: GroupPlan) -> dict[TopicPartition, GroupPosition]:
    """What is written: of several partitions whose records lie in one of the other cluster, the earliest place."""
    found: dict[TopicPartition, GroupPosition] = {}
    for position in group.positions:
        if position.action != "place" or position.remote is None or position.downstream is None:
            continue
        known = found.get(position.remote)
        if known is None or (known.downstream or 0) > position.downstream:
            found[position.remote] = position
    return found


def place_group(client: ClusterClient, group: str, wanted: Mapping[TopicPartition, GroupPosition]) -> str:
    """Why the cluster did not take them; empty if every position was read back."""
    commits = {place: Committed(position.downstream or 0, "") for place, position in wanted.items()}
    refused = {place: code for place, code in commit_offsets(client, group, commits).items() if code}
    if refused:
        place, code = next(iter(refused.items()))
        return f"{place}: {name_of(code)}"
    back = committed_offsets(client, [group])[group].committed
    for place, commit in commits.items():
        found = back.get(place)
        if found is None or found.offset != commit.offset:
            return f"{place}: committed {commit.offset}, read back {found.offset if found else 'nothing'}"
    return ""
