"""A flow's state as the states of Connect's connectors and tasks."""

from __future__ import annotations

import pytest

from sparkmirror.config import FlowSettings, parse
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.rest.connectors import ConnectState, Named, connectors_of, find, status_document
from sparkmirror.status import FlowStatus, PartitionStatus

FILE = """clusters = A, B, C
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
C.bootstrap.servers = c:1
A->B.enabled = true
A->C.enabled = true
A->B.tasks.max = 2
"""


def flows() -> list[FlowSettings]:
    return [flow for flow in parse(FILE, "mm2.properties").flows if flow.enabled]


def status(target: str, state: str = "running", **partitions: str) -> FlowStatus:
    """One slot, and a partition of topic t in each of the states."""
    found = {}
    for at, (name, partition_state) in enumerate(partitions.items()):
        place = TopicPartition("t", at)
        found[place] = PartitionStatus(place, partition_state, code=name.upper(), reason=f"because {name}", slot=at)
    return FlowStatus(FlowName("A", target), state, "a reason" if state == "failed" else "", partitions=found)


def named(*statuses: FlowStatus, name: str = "MirrorSourceConnector") -> Named:
    connectors = [c for flow, seen in zip(flows(), statuses, strict=False) for c in connectors_of(flow, seen, {})]
    found = find(connectors, name)
    assert found is not None
    return found


def test_a_partition_that_does_not_copy_makes_its_task_failed_with_code_and_reason() -> None:
    document = status_document(named(status("B", one="copying", two="stopped")), "w:1")
    assert document["connector"] == {"state": "RUNNING", "worker_id": "w:1", "version": "4.3.1-sparkmirror"}
    tasks = document["tasks"]
    assert isinstance(tasks, list)
    assert [task["state"] for task in tasks] == ["RUNNING", "FAILED"]
    assert tasks[1]["trace"] == "t-1: TWO: because two"
    assert "trace" not in tasks[0]


@pytest.mark.parametrize(
    ("state", "wanted"),
    [("running", "RUNNING"), ("waiting", "RUNNING"), ("failed", "FAILED"), ("standby", "UNASSIGNED"),
     ("starting", "UNASSIGNED"), ("recovering", "RESTARTING")],
)  # fmt: skip
def test_each_state_of_a_flow_is_one_of_connects(state: str, wanted: str) -> None:
    assert named(status("B", state)).parts[0].state is ConnectState(wanted)


def test_a_stopped_topic_makes_the_connector_failed() -> None:
    flow = status("B", one="copying")
    flow.stopped_topics["other"] = "it has more partitions on the target"
    connector = status_document(named(flow), "w:1")["connector"]
    assert connector == {
        "state": "FAILED", "worker_id": "w:1", "version": "4.3.1-sparkmirror",
        "trace": "topic other: it has more partitions on the target",
    }  # fmt: skip


def test_a_plain_name_of_several_flows_has_the_worst_state_and_all_tasks() -> None:
    both = named(status("B", one="copying", two="copying"), status("C", "failed", one="copying"))
    document = status_document(both, "w:1")
    connector, tasks = document["connector"], document["tasks"]
    assert isinstance(connector, dict) and isinstance(tasks, list)
    assert (connector["state"], connector["trace"]) == ("FAILED", "a reason")
    assert [task["id"] for task in tasks] == [0, 1, 2]
    assert [task["state"] for task in tasks] == ["RUNNING", "RUNNING", "FAILED"]
    one = status_document(named(status("B", one="copying"), status("C", "failed"), name="A->B.MirrorSourceConnector"), "w:1")
    assert one["connector"] == {"state": "RUNNING", "worker_id": "w:1", "version": "4.3.1-sparkmirror"}


def test_a_chore_that_cannot_be_done_makes_its_task_failed() -> None:
    flow = status("B", one="copying")
    flow.chores["checkpoints"] = "not allowed to read group g"
    document = status_document(named(flow, name="MirrorCheckpointConnector"), "w:1")
    assert document["tasks"] == [
        {"id": 0, "state": "FAILED", "worker_id": "w:1", "version": "4.3.1-sparkmirror",
         "trace": "checkpoints: not allowed to read group g"},
    ]  # fmt: skip


def test_a_long_trace_is_cut_and_says_so() -> None:
    flow = FlowStatus(FlowName("A", "B"), "running")
    for at in range(30):
        place = TopicPartition("t", at)
        flow.partitions[place] = PartitionStatus(place, "stopped", code="X", reason="y", slot=0)
    task = named(flow).tasks[0][1]
    assert task.trace.splitlines()[-1] == "and 10 more"
