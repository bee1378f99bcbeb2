"""Connect's REST: what a real Connect 4.3.1 answered, and what we answer on the same paths."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkmirror.config import load
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.rest import HttpDoor, address_of
from sparkmirror.status import FlowStatus, PartitionStatus

EXCHANGES: list[dict[str, Any]] = json.loads(
    Path(__file__).with_name("data").joinpath("connect-rest.json").read_text(encoding="utf-8")
)["exchanges"]
SECRET = "canary-4711"
FILE = f"""clusters = S, T
S.bootstrap.servers = 127.0.0.1:1
T.bootstrap.servers = 127.0.0.1:2
T.security.protocol = SASL_PLAINTEXT
T.sasl.mechanism = PLAIN
T.sasl.jaas.config = org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="{SECRET}";
S->T.enabled = true
S->T.topics = tx,cmp
T->S.enabled = false
T->S.emit.heartbeats.enabled = false
tasks.max = 2
"""
# Read-only paths of a worker with running connectors, by the label of the recording.
SAME_SHAPE = (
    "health", "root", "list expand", "list expand status", "list expand unknown", "get", "config", "status", "tasks",
    "task status", "topics", "plugins", "offsets get running MirrorSourceConnector",
    "offsets get running MirrorCheckpointConnector", "offsets get running MirrorHeartbeatConnector",
)  # fmt: skip
SAME_BODY = ("task status unknown task", "task status bad task", "tasks-config", "unknown connector", "unknown path")


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    path = tmp_path_factory.mktemp("connect") / "mm2.properties"
    path.write_text(FILE)
    places = [TopicPartition("cmp", 0), TopicPartition("tx", 0), TopicPartition("tx", 1)]
    partitions = {
        place: PartitionStatus(place, "copying", slot=at % 2, next_upstream=10 + at) for at, place in enumerate(places)
    }
    flow = FlowStatus(FlowName("S", "T"), "running", partitions=partitions, remotes={"tx": "S.tx", "cmp": "S.cmp"})
    flow.target_cluster_id = "TnXglHeKTTePI2us6YkR8g"
    with HttpDoor(address_of("0"), load(str(path))) as door:
        door.show([flow])
        yield int(door.url.rpartition(":")[2])


def ask(port: int, path: str, method: str = "GET") -> tuple[int, Any]:
    caller = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        caller.request(method, path)
        found = caller.getresponse()
        body = found.read()
        return found.status, json.loads(body) if body else None
    finally:
        caller.close()


def recorded(*labels: str) -> list[Any]:
    """GETs of these labels; a name stands for several."""
    found = [e for e in EXCHANGES if e["label"] in labels and e["method"] == "GET"]
    assert {e["label"] for e in found} == set(labels)
    return [pytest.param(e, id=f"{e['label']} {e['path']}") for e in found]


def shape(found: Any) -> Any:
    """Names and types; of a list what one of its items has, of a map from names to texts nothing more."""
    if isinstance(found, dict):
        if found and all(isinstance(text, str) for text in found.values()) and "connector.class" in found:
            return "settings"
        return {name.rpartition(".")[2]: shape(value) for name, value in found.items()}
    if isinstance(found, list):
        return [shape(found[0])] if found else []
    return type(found).__name__


@pytest.mark.parametrize("exchange", recorded(*SAME_SHAPE))
def test_an_answer_has_the_shape_of_connects(exchange: dict[str, Any], port: int) -> None:
    status, found = ask(port, exchange["path"])
    assert status == exchange["status"]
    wanted = exchange["json"]
    if exchange["label"].startswith("offsets get") and not found["offsets"]:
        assert found == {"offsets": []}
        return
    if exchange["label"].startswith("list expand"):
        assert {name.rpartition(".")[2] for name in found} == set(wanted)
        wanted = {name: value for name, value in wanted.items() if name == "MirrorSourceConnector"}
        found = {name: value for name, value in found.items() if name.endswith("MirrorSourceConnector")}
    assert shape(found) == shape(wanted)


@pytest.mark.parametrize("exchange", recorded(*SAME_BODY))
def test_a_refusal_has_connects_words(exchange: dict[str, Any], port: int) -> None:
    assert ask(port, exchange["path"]) == (exchange["status"], exchange["json"])


def test_names_are_those_of_strimzi_and_of_the_documents(port: int) -> None:
    status, names = ask(port, "/connectors")
    assert (status, names) == (
        200, ["S->T.MirrorSourceConnector", "S->T.MirrorCheckpointConnector", "S->T.MirrorHeartbeatConnector"],
    )  # fmt: skip
    for name in ("S-%3ET.MirrorSourceConnector", "S->T.MirrorSourceConnector", "MirrorSourceConnector"):
        status, found = ask(port, f"/connectors/{name}/status")
        assert (status, found["connector"]["state"], len(found["tasks"])) == (200, "RUNNING", 2)


def test_a_task_is_a_slot_with_its_partitions(port: int) -> None:
    _, tasks = ask(port, "/connectors/MirrorSourceConnector/tasks")
    assert [task["config"]["task.assigned.partitions"] for task in tasks] == ["cmp-0,tx-1", "tx-0"]
    assert tasks[1]["id"] == {"connector": "MirrorSourceConnector", "task": 1}


def test_an_offset_is_the_last_one_that_was_copied(port: int) -> None:
    _, found = ask(port, "/connectors/MirrorSourceConnector/offsets")
    assert {(o["partition"]["topic"], o["partition"]["partition"]): o["offset"]["offset"] for o in found["offsets"]} == {
        ("cmp", 0): 9, ("tx", 0): 10, ("tx", 1): 11,
    }  # fmt: skip


def test_no_answer_has_a_secret(port: int) -> None:
    for path in ("", "?expand=info&expand=status", "/MirrorSourceConnector", "/MirrorSourceConnector/config",
                 "/MirrorSourceConnector/tasks", "/MirrorCheckpointConnector"):  # fmt: skip
        assert SECRET not in json.dumps(ask(port, f"/connectors{path}")[1])
    assert ask(port, "/connectors/MirrorSourceConnector/config")[1]["target.cluster.sasl.jaas.config"] == "[hidden]"


def test_a_wrong_method_is_refused_in_connects_words(port: int) -> None:
    assert ask(port, "/connectors", "DELETE") == (405, {"error_code": 405, "message": "HTTP 405 Method Not Allowed"})
