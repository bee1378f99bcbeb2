"""Whether a process runs a flow: positions that are written while tasks run are overwritten at their next flush.

A worker of Connect is a member of its group for as long as it runs, so a group without members proves that none does: an
orderly end leaves it at once, a killed worker is dropped by the broker when its session ends (10 s). That the offsets topic
does not grow proves nothing by itself: tasks that have nothing to copy write no positions.

| MirrorMaker 2 runs …          | stopped is                                                                             |
|-------------------------------|----------------------------------------------------------------------------------------|
| by itself (dedicated)         | the group `group.id` of the file, `A-mm2`, has no members on the target                |
| as connectors of other workers | no worker of any Connect group there has a task of the connector, and none is         |
|                               | rebalancing (`--worker-group` names the only group that can have it)           |
"""

from __future__ import annotations

from sparkmirror.clusters import ClusterClient, list_groups
from sparkmirror.clusters.members import DescribedGroup, describe_groups
from sparkmirror.clusters.probing import is_allowed_to_list_all
from sparkmirror.config import FlowSettings
from sparkmirror.errors import FlowOwnedByAnother, MoveRefused
from sparkmirror.positions.requests import StoragePlace
from sparkmirror.wire import connect_tasks

STOP_FIRST = "stop it first: positions change only while the flow is stopped"
CONNECT = "connect"
STABLE = "Stable"


def refuse_running_workers(client: ClusterClient, flow: FlowSettings, storage: StoragePlace) -> str:
    """Raises FlowOwnedByAnother unless it is proven that MirrorMaker 2 does not run the flow; returns the proof."""
    if storage.is_dedicated:
        group = describe_groups(client, [flow.group_id])[flow.group_id]
        if group.members:
            raise FlowOwnedByAnother(
                f"{flow.name} is run by MirrorMaker 2: group {group.name} on {client.alias} has {group.named_members()}",
                hint=f"{STOP_FIRST}; a worker that was killed is dropped from its group after 10 s",
            )
        return f"group {flow.group_id} on {client.alias} has no members"
    groups = describe_groups(client, _connect_groups(client, storage))
    for group in groups.values():
        _refuse_tasks(client, flow, storage.connector, group)
    text = ", ".join(sorted(groups)) or "none"
    return f"no worker of a Connect group on {client.alias} has a task of {storage.connector} (groups: {text})"


def _connect_groups(client: ClusterClient, storage: StoragePlace) -> list[str]:
    if storage.worker_group is not None:
        return [storage.worker_group]
    if not is_allowed_to_list_all(client):
        raise MoveRefused(
            f"cluster {client.alias} does not list all groups, so a worker that runs {storage.connector} may be hidden",
            hint="grant Describe on the cluster, or give --worker-group, the group.id of the workers that could run it",
        )
    return [group.name for group in list_groups(client) if group.protocol == CONNECT]


def _refuse_tasks(client: ClusterClient, flow: FlowSettings, connector: str, group: DescribedGroup) -> None:
    if not group.members:
        return
    where = f"Connect group {group.name} on {client.alias}"
    if group.state != STABLE:
        raise FlowOwnedByAnother(
            f"{flow.name}: {where} is rebalancing (state {group.state}): {connector} may be among them",
            hint="try again when it is stable",
        )
    for member in group.members:
        tasks = sorted(number for name, number in connect_tasks(member.metadata, member.assignment) if name == connector)
        if tasks:
            raise FlowOwnedByAnother(
                f"{flow.name} is run by MirrorMaker 2: {where} runs {len(tasks)} tasks of {connector} on {member.host}",
                hint=f"PUT /connectors/{connector}/stop, or stop its workers; positions change only while it is stopped",
            )
