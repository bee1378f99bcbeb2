"""Which chores a flow has by its settings, and which flows write heartbeats."""

from __future__ import annotations

import pytest

from sparkmirror.config import FlowSettings, parse
from sparkmirror.control import RunOptions, place_of
from sparkmirror.control.flow_chores import FlowChores
from sparkmirror.control.heartbeats import Heartbeats
from sparkmirror.model import FlowName
from sparkmirror.status import FlowStatus

FILE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\n"


def flow_of(more: str) -> FlowSettings:
    return parse(FILE + "A->B.enabled = true\n" + more, "file", {}).flow(FlowName("A", "B"))


def chores_of(more: str = "") -> set[str]:
    settings = parse(FILE + "A->B.enabled = true\n" + more, "file", {})
    flow = settings.flow(FlowName("A", "B"))
    place = place_of(settings, flow, RunOptions(), slots=1)
    chores = FlowChores(flow, place, FlowStatus(flow.name), is_over=lambda: True)
    return {chore.name for chore in chores._wanted()}


def test_a_flow_has_them_all_but_group_offsets_by_default() -> None:
    """MirrorCheckpointConnectorTest enabled, replication enabled."""
    assert chores_of() == {"topic configs", "topic ACLs", "checkpoints", "lag group"}


@pytest.mark.parametrize(
    ("key", "chore"),
    [
        ("sync.topic.configs.enabled", "topic configs"),
        ("sync.topic.acls.enabled", "topic ACLs"),
        ("emit.checkpoints.enabled", "checkpoints"),
        ("lag.group.enabled", "lag group"),
    ],
)
def test_each_can_be_turned_off(key: str, chore: str) -> None:
    """MirrorCheckpointConnectorTest disabled."""
    assert chore not in chores_of(f"{key} = false\n")


def test_group_offsets_need_checkpoints() -> None:
    assert "group offsets" in chores_of("sync.group.offsets.enabled = true\n")
    assert "group offsets" not in chores_of("sync.group.offsets.enabled = true\nemit.checkpoints.enabled = false\n")


@pytest.mark.parametrize(("more", "beats"), [("", True), ("A->B.emit.heartbeats.enabled = false\n", False)])
def test_heartbeats_can_be_turned_off(more: str, beats: bool) -> None:
    """MirrorHeartbeatConnectorTest disabled: 0 tasks."""
    assert bool(Heartbeats([flow_of(more)], lambda trouble: None)._beating) is beats


def test_heartbeats_do_not_ask_whether_the_flow_copies() -> None:
    """MirrorHeartbeatConnectorTest replication disabled: still 1 task."""
    settings = parse(FILE + "A->B.enabled = true\n", "file", {})
    [back] = [flow for flow in settings.flows if not flow.enabled]
    assert Heartbeats([back], lambda trouble: None)._beating == [back]
