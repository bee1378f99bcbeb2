"""Connect's REST of a running mirror on real clusters: what was recorded of Connect, and what Java's consumer reads then."""

from __future__ import annotations

import http.client
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jsonschema
import pytest
from host import hosted_command
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from integration.mirroring import (
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    numbered,
    produce,
    set_topic_config,
    write_settings,
)
from judge import java_records

from sparkmirror.local import LocalCluster

FOLDER = Path(__file__).parents[1] / "fixtures" / "seed003"
FACTORS = ("", "offset-syncs.topic.", "checkpoints.topic.", "heartbeats.topic.", "offset.storage.", "status.storage.",
           "config.storage.")  # fmt: skip
ALIAS, TARGET = "rest", "rest-to"
TOPIC, COPIED, LARGE = "rest-tx", f"{ALIAS}.rest-tx", "rest-large"
SOURCE, CHECKPOINT, HEARTBEAT = "MirrorSourceConnector", "MirrorCheckpointConnector", "MirrorHeartbeatConnector"
SECONDS = 60.0
COUNT = 20  # records in each partition
TOO_LARGE, CANARY = b"x" * 200_000, "canary-4711"
RECORDED: list[dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("golden", "data", "connect-rest.json").read_text("utf-8")
)["exchanges"]
# What is not sent: a worker that starts, connectors that are made of the recorded settings, and loggers of Java.
NOT_SENT = {
    "health while starting", "connectors while starting", "list empty", "list empty expand", "create source",
    "create checkpoint", "create heartbeat stopped", "put config", "patch config", "put config new", "delete newhb",
    "loggers", "plugins all",
}  # fmt: skip
# Where MirrorMaker 2 keeps an offset that nobody ever reads, and says that it was altered.
WITHOUT_EFFECT = {
    "offsets patch ok unknown topic", "offsets patch ok extra partition key", "offsets patch wrong cluster alias",
}  # fmt: skip


@dataclass(frozen=True)
class Worker:
    """A running mirror, as clients of Connect see it."""

    mirror: LiveMirror
    settings: Path
    port: int

    def ask(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> tuple[int, Any]:
        """Status and JSON of an answer; `body` is sent as JSON, bytes as they are. Who asks too often asks again."""
        return await_true(lambda: None if (found := self._ask(method, path, body, kind))[0] == 429 else found, SECONDS)

    def _ask(self, method: str, path: str, body: Any, kind: str) -> tuple[int, Any]:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        with closing(caller):
            caller.request(method, path, content, {} if content is None else {"Content-Type": kind})
            answer = caller.getresponse()
            text = answer.read()
        assert CANARY.encode() not in text
        return answer.status, json.loads(text) if text else None

    def states(self, connector: str = SOURCE) -> tuple[str, list[str]]:
        """Of the connector and its tasks."""
        status, found = self.ask("GET", f"/connectors/{connector}/status")
        return (found["connector"]["state"], [task["state"] for task in found["tasks"]]) if status == 200 else ("", [])

    def await_states(self, connector: str, *wanted: tuple[str, list[str]]) -> None:
        """Until it is in one of these states."""
        await_true(lambda: self.states(connector) in wanted, SECONDS, f"{connector} is {wanted}")

    def offsets(self, connector: str = SOURCE) -> dict[tuple[str, int], int]:
        """The last copied offsets."""
        _, found = self.ask("GET", f"/connectors/{connector}/offsets")
        return {(o["partition"]["topic"], o["partition"]["partition"]): o["offset"]["offset"] for o in found["offsets"]}

    def history(self) -> list[dict[str, Any]]:
        """What was asked of the flow's owner."""
        return json.loads(hosted_command("history", str(self.settings), "--json").stdout)["entries"]


def port_of(mirror: LiveMirror) -> int:
    """Where it listens."""
    mirror.await_said("listening on http://127.0.0.1:")
    return int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)", mirror.output)[0])


def copied(cluster: LocalCluster, topic: str, partition: int) -> list[bytes | None]:
    """The values of a partition, as Java reads them."""
    return [record.value for record in java_records(cluster.bootstrap, topic)[partition]]


@pytest.fixture(scope="module")
def worker(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    create_topics(source_cluster, {TOPIC: (2, {}), LARGE: (1, {"max.message.bytes": "1000000"})})
    create_topics(target_cluster, {f"{ALIAS}.{LARGE}": (1, {"max.message.bytes": "100000"})})
    for partition in range(2):
        produce(source_cluster, TOPIC, partition, numbered(COUNT))
    produce(source_cluster, LARGE, 0, [*numbered(3), TOO_LARGE])
    more = {"emit.heartbeats.enabled": "true", "ssl.truststore.password": CANARY}
    settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics="rest-.*", more=more)
    path = write_settings(tmp_path_factory.mktemp("rest") / "mm2.properties", settings)
    with live_mirror(path, "--listen", "0") as mirror:
        opened = Worker(mirror, path, port_of(mirror))
        await_true(lambda: "FAILED" in opened.states()[1], SECONDS, mirror.output)
        yield opened
        mirror.stop()


def test_a_restart_takes_up_what_is_stopped(worker: Worker, target_cluster: LocalCluster) -> None:
    status, found = worker.ask("POST", f"/connectors/{SOURCE}/restart?includeTasks=true&onlyFailed=true")
    assert (status, [task["state"] for task in found["tasks"]]) == (202, ["RESTARTING"])
    set_topic_config(target_cluster, f"{ALIAS}.{LARGE}", {"max.message.bytes": "1000000"})
    assert worker.ask("POST", f"/connectors/{SOURCE}/tasks/0/restart") == (204, None)
    worker.await_states(SOURCE, ("RUNNING", ["RUNNING"]))
    assert len(copied(target_cluster, f"{ALIAS}.{LARGE}", 0)) == 4
    entries = [entry for entry in worker.history() if entry["verb"] == "restart"]
    assert {entry["who"] for entry in entries} == {"no token from 127.0.0.1"}
    assert entries[1]["command"] == f"POST /connectors/{SOURCE}/tasks/0/restart"
    assert "no token from 127.0.0.1 asked for POST /connectors" in worker.mirror.output


# --- the documents' commands -----------------------------------------------------------------------------------------

# As they stand there, but for the address and the name of the connector.
OF_OFFSETS = '''
curl -X PUT http://localhost:8083/connectors/my-connector-name/offsets/stop
curl -X DELETE http://localhost:8083/connectors/my-connector-name/offsets
'''
SHOWN_OFFSETS = "curl -X GET http://localhost:8083/connectors/my-connector-name/offsets | jq"
STATUS = "curl http://connect:8083/connectors/MirrorSourceConnector/status"
PIPED_STATUS = "curl -s http://connect:8083/connectors/MirrorSourceConnector/status | jq ."
TASK_STATUS = "curl -s http://connect:8083/connectors/MirrorSourceConnector/tasks/0/status | jq ."
TASKS = "curl -s http://connect:8083/connectors/MirrorSourceConnector/tasks | jq ."
TRACE = "curl -s http://connect:8083/connectors/MirrorSourceConnector/tasks/0/status | jq '.trace'"
STATE = '''CONNECT_HOST="localhost:8083"
STATUS=$(curl -s "http://${CONNECT_HOST}/connectors/MirrorSourceConnector/status" | jq -r '.connector.state')
echo "Connector status: ${STATUS}"
'''
CREATE = '''curl -X POST -H "Content-Type: application/json" \\
  --data @mirror-source-connector.json \\
  http://connect:8083/connectors
'''
HAS_TOOLS = pytest.mark.skipif(not shutil.which("curl") or not shutil.which("jq"), reason="needs curl and jq")


def typed(worker: Worker, text: str, connector: str, folder: Path | None = None) -> str:
    """What a shell prints for these lines."""
    script = re.sub(r"(connect|localhost):8083", f"127.0.0.1:{worker.port}", text).replace("my-connector-name", connector)
    ended = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, cwd=folder)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def run_the_documents(worker: Worker, connector: str, folder: Path) -> None:
    """Each command, and what it says of a connector that copies, and then of one whose offsets are reset."""
    for command in (STATUS, PIPED_STATUS):
        found = json.loads(typed(worker, command, connector))
        assert (found["name"], found["connector"]["state"], found["type"]) == (SOURCE, "RUNNING", "source")
    assert json.loads(typed(worker, TASK_STATUS, connector))["state"] == "RUNNING"
    assert json.loads(typed(worker, TASKS, connector))[0]["config"]["task.assigned.partitions"]
    assert typed(worker, TRACE, connector) == "null\n"
    assert typed(worker, STATE, connector) == "Connector status: RUNNING\n"
    config = json.loads(typed(worker, f"curl -s http://connect:8083/connectors/{connector}/config", connector))
    (folder / "mirror-source-connector.json").write_text(json.dumps({"name": config["name"], "config": config}))
    assert json.loads(typed(worker, CREATE, connector, folder))["message"].endswith(" already exists")
    assert json.loads(typed(worker, SHOWN_OFFSETS, connector))["offsets"]
    assert "have been reset successfully" in typed(worker, OF_OFFSETS, connector)
    assert worker.states(connector) == ("STOPPED", []) and worker.offsets(connector) == {}
    assert worker.ask("PUT", f"/connectors/{connector}/resume")[0] == 202
    await_true(lambda: worker.offsets(connector), SECONDS, worker.mirror.output)


@pytest.fixture(scope="module")
def both_ways(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    """The document's active-active file, but for addresses, aliases, topics and replication factors."""
    text = (FOLDER / "active_active.properties").read_text()
    text = re.sub(r"= orders, events, users", "= rest-both", re.sub(r"\b(east|west)\b", r"rest\1", text))
    for alias, cluster in (("resteast", source_cluster), ("restwest", target_cluster)):
        create_topics(cluster, {"rest-both": (1, {})})
        produce(cluster, "rest-both", 0, numbered(COUNT))
        text += f"\n{alias}.bootstrap.servers = {cluster.bootstrap}"
    text += "".join(f"\n{name}replication.factor = 1" for name in FACTORS)
    path = tmp_path_factory.mktemp("both") / "mm2.properties"
    path.write_text(f"{text}\ntasks.max = 1\nrefresh.topics.interval.seconds = 1\n")
    with live_mirror(path, "--listen", "0") as mirror:
        opened = Worker(mirror, path, port_of(mirror))
        opened.await_states(SOURCE, ("RUNNING", ["RUNNING", "RUNNING"]))
        yield opened
        mirror.stop()


@HAS_TOOLS
def test_every_command_of_the_documents_does_what_they_say_with_two_flows(both_ways: Worker, tmp_path: Path) -> None:
    east, west = f"resteast->restwest.{SOURCE}", f"restwest->resteast.{SOURCE}"
    await_true(lambda: len(both_ways.offsets()) >= 2, SECONDS, both_ways.mirror.output)
    for lines in OF_OFFSETS.strip().splitlines():
        refused = json.loads(typed(both_ways, lines, SOURCE))
        assert refused["message"] == f"{SOURCE} is a connector of 2 flows: expected one of {east}, {west}"
    run_the_documents(both_ways, east.replace(">", "%3E"), tmp_path)
    assert both_ways.states(west.replace(">", "%3E")) == ("RUNNING", ["RUNNING"])


# --- what was recorded -----------------------------------------------------------------------------------------------


NAMES = {"S": ALIAS, "T": TARGET, "tx": TOPIC, "S.tx": COPIED}


def ours(value: Any) -> Any:
    """What was recorded of topics tx and cmp from S to T, with the names of this test."""
    if isinstance(value, dict):
        return {name: ours(of) for name, of in value.items()}
    if isinstance(value, list):
        return [ours(of) for of in value]
    return NAMES.get(value, value) if isinstance(value, str) else value


def words(message: str) -> str:
    """Of an error, without where in a text it is and which classes Java has, with the names of this test."""
    text = re.split(r"\n at \[| \(line| \(through|: expected close marker| within/between|, available", message)[0]
    return re.sub(r"(?<=[=])(S\.tx|S|T|tx)(?=[,}])", lambda found: NAMES[found[1]], text)


def shape(found: Any) -> Any:
    """Names and types; of a list what its items have, of maps by names nothing more."""
    if isinstance(found, dict):
        if "connector.class" in found:
            return "settings"
        return {name: shape(value) for name, value in found.items()}
    if isinstance(found, list):
        return [shape(found[0])] if found else []
    return type(found).__name__


def body_of(exchange: dict[str, Any]) -> Any:
    body = exchange["body"]
    return body.encode() if isinstance(body, str) else ours(body) if body is not None else None


def sent(worker: Worker, exchange: dict[str, Any]) -> tuple[int, Any]:
    kind = "text/plain" if exchange["label"] == "create wrong content type" else "application/json"
    return worker.ask(exchange["method"], exchange["path"], body_of(exchange), kind)


def differences(exchange: dict[str, Any], status: int, found: Any) -> list[str]:
    """How an answer differs from the recorded one."""
    label, wanted = exchange["label"], exchange.get("json")
    if label in WITHOUT_EFFECT:
        is_same = status == 400 and "nothing was changed" in found["message"]
    elif status != exchange["status"]:
        is_same = False
    elif exchange["method"] in ("HEAD", "OPTIONS") or label.startswith("logger ") or not wanted:
        is_same = isinstance(found, type(wanted)) or not found
    elif status >= 400:
        is_same = words(found["message"]) == words(wanted["message"]) and found["error_code"] == status
    else:
        is_same = is_alike(label, found, wanted)
    return [] if is_same else [f"{label}: expected {exchange['status']} {wanted}, found {status} {found}"]


def is_alike(label: str, found: Any, wanted: Any) -> bool:
    """Whether two answers mean the same; the connectors and topics of both are others."""
    if label.startswith("list"):
        return isinstance(found, type(wanted))
    if label == "status pause after stop":  # a connector that is paused keeps its tasks here
        return found["connector"]["state"] == wanted["connector"]["state"]
    if label.startswith("status") or label in ("offsets get after twice", "offsets after patch"):
        return connector_states(found) == connector_states(wanted)
    if label == "topics":
        return list(found) == list(wanted)
    if label == "validate":
        return (found["error_count"], shape(found["configs"])) == (1, shape(wanted["configs"]))
    return found == {"offsets": []} or shape(found) == shape(wanted)


def connector_states(document: Any) -> Any:
    if "connector" not in document:
        places = ((o["partition"], o["offset"]["offset"]) for o in document["offsets"])
        return [offset for place, offset in places if place["topic"].endswith("tx") and place["partition"] == 0]
    return document["connector"]["state"], {task["state"] for task in document["tasks"]}


def test_what_was_recorded_of_connect_is_answered_alike(worker: Worker) -> None:
    found: list[str] = []
    for exchange in RECORDED:
        if exchange["label"] in NOT_SENT:
            continue
        if exchange["label"] == "status stopped-at-creation":
            assert worker.ask("PUT", f"/connectors/{HEARTBEAT}/stop")[0] == 204
        found += differences(exchange, *sent(worker, exchange))
    assert found == []
    assert worker.ask("GET", "/connectors") == (200, [])  # the last exchanges delete them


def test_what_was_deleted_goes_on_when_it_is_created_again(worker: Worker, target_cluster: LocalCluster) -> None:
    """After the reset among the exchanges, so that everything is copied once more, and once only."""
    config = {"connector.class": f"org.apache.kafka.connect.mirror.{SOURCE}", "source.cluster.alias": ALIAS,
              "target.cluster.alias": TARGET}  # fmt: skip
    refused = worker.ask("POST", "/connectors", {"name": SOURCE, "config": config | {"topics": "others"}})
    assert refused[0] == 409 and "nothing was changed" in refused[1]["message"] and "topics" in refused[1]["message"]
    assert worker.ask("GET", "/connectors") == (200, [])
    status, made = worker.ask("POST", "/connectors", {"name": SOURCE, "config": config})
    assert (status, made["name"], made["config"]["source.cluster.alias"]) == (201, SOURCE, ALIAS)
    for name in (CHECKPOINT, HEARTBEAT):
        config["connector.class"] = name
        assert worker.ask("POST", "/connectors", {"name": name, "config": config})[0] == 201
    worker.await_states(SOURCE, ("RUNNING", ["RUNNING"]))
    for partition in range(2):
        values = numbered_values(worker, target_cluster, partition)
        assert values == [*range(COUNT)] * 2


def numbered_values(worker: Worker, cluster: LocalCluster, partition: int, count: int = 2 * COUNT) -> list[int]:
    """What stands before the colon of each record, once there are so many."""
    await_true(lambda: len(copied(cluster, COPIED, partition)) >= count, SECONDS, worker.mirror.output)
    return [int((value or b"").split(b":")[0]) for value in copied(cluster, COPIED, partition)]


# --- other ways in ---------------------------------------------------------------------------------------------------


def test_a_public_client_lists_pauses_resumes_and_reads_status(worker: Worker) -> None:
    """kafka-connect-py knows nothing of offsets: those are reset by the document's curl, below."""
    client = pytest.importorskip("kafka_connect").KafkaConnect(url=f"http://127.0.0.1:{worker.port}")
    name = f"{ALIAS}->{TARGET}.{SOURCE}"
    assert client.get_cluster_info()["version"].startswith("4.3.1")
    assert name in client.list_connectors()
    assert client.list_connectors(expand="status", state="RUNNING")[name]["status"]["connector"]["state"] == "RUNNING"
    client.pause_connector(name)
    assert client.get_connector_status(name)["connector"]["state"] == "PAUSED"
    client.resume_connector(name)
    assert client.get_connector_status(name)["connector"]["state"] != "PAUSED"
    worker.await_states(SOURCE, ("RUNNING", ["RUNNING"]))
    client.restart_connector(name, include_tasks=True, only_failed=True)
    assert client.get_connector_task_status(name, 0)["state"] == "RUNNING"
    assert client.get_connector_config(name)["topics"] == "rest-.*"
    assert client.update_connector(name, client.get_connector_config(name))["name"] == name
    assert client.list_connector_topics(name)[name]["topics"]
    assert len(client.list_connector_plugins()) == 3
    found = client.validate_connector_config(SOURCE, {"connector.class": SOURCE, "tasks.max": "0"})
    assert [c["value"]["errors"] for c in found["configs"] if c["definition"]["name"] == "tasks.max"] == [
        ["Invalid value 0 for configuration tasks.max: Value must be at least 1"]
    ]


def test_a_position_is_translated_as_the_command_does(worker: Worker) -> None:
    place = ("--at", f"{TOPIC}:1={COUNT - 5}")
    told = json.loads(hosted_command("translate", str(worker.settings), *place, "--json").stdout)
    status, found = worker.ask("GET", f"/translate?topic={TOPIC}&partition=1&offset={COUNT - 5}")
    assert (status, found) == (200, told)
    assert found["positions"][0]["to"] == {"topic": COPIED, "partition": 1, "offset": 2 * COUNT - 5}
    assert worker.ask("GET", f"/translate?topic={TOPIC}&partition=1")[0] == 400


ODD = ("%3Cscript%3E", "%1B%5B31m", "a" * 249, "%E2%98%83", "..", "%25", "x%2Fy")


@pytest.mark.parametrize("name", ODD, ids=range(len(ODD)))
def test_an_odd_name_is_a_connector_that_is_not_there(worker: Worker, name: str) -> None:
    for method, path in (("GET", ""), ("PUT", "/stop"), ("DELETE", "/offsets"), ("POST", "/restart")):
        status, found = worker.ask(method, f"/connectors/{name}{path}")
        assert (status, found["error_code"]) == (404, 404), path


ENTRY = {"partition": {"cluster": ALIAS, "topic": TOPIC, "partition": 0}, "offset": {"offset": 3}}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"[" * 100_000, 500, "nesting depth"),
        (b'{"offsets": [' + b" " * (1 << 20), 413, "expected a body"),
        (b'{"offsets": [{"partition": "x", "offset": null}]}', 500, "Cannot deserialize"),
        (b"\xff", 500, "UTF-8"),
        (b'{"offsets": [{"partition": {}, "offset": {"offset": NaN}}]}', 500, "Non-standard token"),
        (json.dumps({"offsets": [ENTRY | {"offset": {"offset": 10**6}}]}).encode(), 400, "found 1000001"),
        (json.dumps({"offsets": [ENTRY, {**ENTRY, "offset": {"offset": 10**6}}]}).encode(), 400, "found 1000001"),
    ],
    ids=["deep", "large", "wrong type", "no text", "no number", "past the end", "one of two past the end"],
)
def test_bad_offsets_change_nothing(worker: Worker, body: bytes, status: int, words: str) -> None:
    assert worker.ask("PUT", f"/connectors/{SOURCE}/stop")[0] == 204
    before = worker.offsets()
    found = worker.ask("PATCH", f"/connectors/{SOURCE}/offsets", body)
    assert (found[0], found[1]["error_code"]) == (status, status) and words in found[1]["message"]
    assert worker.offsets() == before and worker.states() == ("STOPPED", [])


def test_of_two_writers_at_once_both_are_carried_out_one_after_the_other(worker: Worker) -> None:
    assert worker.ask("PUT", f"/connectors/{SOURCE}/stop")[0] == 204
    bodies = [{"offsets": [{**ENTRY, "offset": {"offset": offset}}]} for offset in (5, 9)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda body: worker.ask("PATCH", f"/connectors/{SOURCE}/offsets", body)[0], bodies))
    assert found == [200, 200]
    entries = [entry for entry in worker.history() if entry["verb"] == "offsets.import"][-2:]
    assert worker.offsets()[TOPIC, 0] == (9 if entries[-1]["text"].endswith("-> 10") else 5)


def test_a_change_over_rest_is_taken_back_by_the_command(worker: Worker) -> None:
    before = worker.offsets()
    caller = http.client.HTTPConnection("127.0.0.1", worker.port, timeout=90)
    with closing(caller):
        body = json.dumps({"offsets": [{**ENTRY, "offset": {"offset": 1}}]})
        caller.request("PATCH", f"/connectors/{SOURCE}/offsets", body, {"Content-Type": "application/json"})
        answer = caller.getresponse()
        assert answer.status == 200, answer.read()
        saved = answer.headers["X-Sparkmirror-Undo-File"]
    assert worker.offsets()[TOPIC, 0] == 1
    undone = hosted_command("offsets", "undo", str(worker.settings), saved, "--yes")
    assert undone.returncode == 0, undone.stderr
    await_true(lambda: worker.offsets() == before, SECONDS, str(before))
    assert worker.ask("PUT", f"/connectors/{SOURCE}/resume")[0] == 202


def test_a_logger_is_silent_from_now_on_until_it_is_set_back(worker: Worker) -> None:
    name = f"sparkmirror.{ALIAS}->{TARGET}"
    assert worker.ask("PUT", f"/admin/loggers/{name}", {"level": "OFF"}) == (200, [name])
    assert worker.ask("GET", f"/admin/loggers/{name}")[1]["level"] == "OFF"
    silent_from = len(worker.mirror.output)
    assert worker.ask("PUT", f"/connectors/{SOURCE}/pause")[0] == 202
    assert worker.ask("PUT", f"/connectors/{SOURCE}/resume")[0] == 202
    assert f" {ALIAS}->{TARGET} " not in worker.mirror.output[silent_from:]
    assert worker.ask("PUT", "/admin/loggers/sparkmirror?scope=cluster", {"level": "INFO"}) == (204, None)
    worker.mirror.await_said(" - no token from 127.0.0.1: PUT /admin/loggers/sparkmirror: 204")
    length = len(worker.mirror.output)
    worker.mirror.await_said(f"INFO {ALIAS}->{TARGET}", after=length)


@HAS_TOOLS
def test_every_command_of_the_documents_does_what_they_say_with_one_flow(worker: Worker, tmp_path: Path) -> None:
    run_the_documents(worker, SOURCE, tmp_path)


# --- the document ----------------------------------------------------------------------------------------------------

ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)
KNOWN = st.sampled_from([SOURCE, HEARTBEAT, f"{ALIAS}->{TARGET}.{CHECKPOINT}", "root", "nope"])
PLACE = st.fixed_dictionaries({"cluster": st.just(ALIAS), "topic": st.just(TOPIC), "partition": st.integers() | st.text()})
OFFSET = st.fixed_dictionaries({"offset": st.integers() | st.floats() | st.none()})
NEARLY = st.builds(
    lambda partition, offset: {"offsets": [{"partition": partition, "offset": offset}]},
    st.none() | PLACE,
    st.none() | OFFSET,
)


def test_no_answer_falls_outside_the_document(worker: Worker) -> None:
    """Of what names, parameters and bodies of any kind get; DELETE of a connector would end what other tests look at."""
    _, document = worker.ask("GET", "/openapi.json")
    operations = [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if (path, method) not in (("/connectors/{connector}", "delete"), ("/metrics", "get"))
    ]

    @settings(max_examples=150, database=None, suppress_health_check=[*HealthCheck])
    @given(st.data())
    def ask(data: st.DataObject) -> None:
        path, method, operation = data.draw(st.sampled_from(operations))
        target = drawn_path(data, path, operation)
        body = drawn_body(data) if "requestBody" in operation else None
        status, found = worker.ask(method.upper(), target, body)
        assert str(status) in operation["responses"], (method, target, body, status, found)
        wanted = operation["responses"][str(status)].get("content", {}).get("application/json", {}).get("schema")
        assert (wanted is None) == (found is None), (method, target, found)
        if wanted is not None:
            jsonschema.validate(found, {**wanted, "components": document["components"]})

    ask()


def drawn_path(data: st.DataObject, path: str, operation: dict[str, Any]) -> str:
    """The path with names and parameters of any kind."""
    names, query = {}, {}
    for parameter in operation["parameters"]:
        if parameter["in"] == "path":
            is_number = parameter["schema"] == {"type": "integer"}
            text = st.text(st.characters(exclude_characters="/", codec="utf-8"), min_size=1, max_size=30).filter(
                lambda name: name not in (".", "..")
            )
            names[parameter["name"]] = str(data.draw(st.integers(0, 2) if is_number else KNOWN | text))
        elif data.draw(st.booleans()):
            known = st.sampled_from(["true", "false", "1", "status", "info", TOPIC])
            query[parameter["name"]] = data.draw(known | st.text(st.characters(codec="utf-8"), max_size=10))
    shown = re.sub(r"{(\w+)}", lambda found: quote(names[found[1]], safe=""), path)
    return f"{shown}?{urlencode(query)}" if query else shown


def drawn_body(data: st.DataObject) -> bytes:
    """Bytes of any kind, JSON of any kind, or what nearly is an offset."""
    drawn = data.draw(st.binary(max_size=20) | ANY_JSON | NEARLY)
    return drawn if isinstance(drawn, bytes) else json.dumps(drawn).encode()
