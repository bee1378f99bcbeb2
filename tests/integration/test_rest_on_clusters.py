"""Connect's REST of a running mirror on real clusters: what a request changes, and what Java's consumer reads then."""

from __future__ import annotations

import http.client
import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from host import hosted_command
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

ALIAS = "rest"
TOPIC, LARGE = "rest-tx", "rest-large"
FLOW = f"{ALIAS}->{ALIAS}-to"
SOURCE = "MirrorSourceConnector"
SECONDS = 60.0
TOO_LARGE = b"x" * 200_000


@dataclass(frozen=True)
class Worker:
    """A running mirror, as clients of Connect see it."""

    mirror: LiveMirror
    settings: Path
    port: int

    def ask(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of an answer; `body` is sent as JSON, bytes as they are. Who asks too often asks again."""
        return await_true(lambda: None if (found := self._ask(method, path, body))[0] == 429 else found, SECONDS)

    def _ask(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {} if content is None else {"Content-Type": "application/json"}
        caller = http.client.HTTPConnection("127.0.0.1", self.port, timeout=90)
        with closing(caller):
            caller.request(method, path, content, headers)
            answer = caller.getresponse()
            text = answer.read()
        return answer.status, json.loads(text) if text else None

    def states(self, connector: str = SOURCE) -> tuple[str, list[str]]:
        """Of the connector and its tasks."""
        status, found = self.ask("GET", f"/connectors/{connector}/status")
        return (found["connector"]["state"], [task["state"] for task in found["tasks"]]) if status == 200 else ("", [])

    def await_states(self, connector: str, *wanted: tuple[str, list[str]]) -> None:
        await_true(lambda: self.states(connector) in wanted, SECONDS, f"{connector} is {wanted}")

    def history(self) -> list[dict[str, Any]]:
        """What was asked of the flow's owner."""
        return json.loads(hosted_command("history", str(self.settings), "--json").stdout)["entries"]


def port_of(mirror: LiveMirror) -> int:
    """Where it listens."""
    mirror.await_said("listening on http://127.0.0.1:")
    return int(re.findall(r"listening on http://127\.0\.0\.1:(\d+)", mirror.output)[0])


@pytest.fixture(scope="module")
def worker(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    create_topics(source_cluster, {TOPIC: (2, {}), LARGE: (1, {"max.message.bytes": "1000000"})})
    create_topics(target_cluster, {f"{ALIAS}.{LARGE}": (1, {"max.message.bytes": "100000"})})
    for partition in range(2):
        produce(source_cluster, TOPIC, partition, numbered(20))
    produce(source_cluster, LARGE, 0, [*numbered(3), TOO_LARGE])
    settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics="rest-.*")
    path = write_settings(tmp_path_factory.mktemp("rest") / "mm2.properties", settings)
    with live_mirror(path, "--listen", "0") as mirror:
        opened = Worker(mirror, path, port_of(mirror))
        await_true(lambda: "FAILED" in opened.states()[1], SECONDS, mirror.output)
        yield opened


def test_a_restart_takes_up_what_is_stopped(worker: Worker, target_cluster: LocalCluster) -> None:
    status, found = worker.ask("POST", f"/connectors/{SOURCE}/restart?includeTasks=true&onlyFailed=true")
    assert (status, [task["state"] for task in found["tasks"]]) == (202, ["RESTARTING"])
    set_topic_config(target_cluster, f"{ALIAS}.{LARGE}", {"max.message.bytes": "1000000"})
    assert worker.ask("POST", f"/connectors/{SOURCE}/tasks/0/restart") == (204, None)
    worker.await_states(SOURCE, ("RUNNING", ["RUNNING"]))
    assert len(java_records(target_cluster.bootstrap, f"{ALIAS}.{LARGE}")[0]) == 4
    assert worker.ask("POST", f"/connectors/{SOURCE}/restart?includeTasks=true")[0] == 202
    assert worker.ask("POST", f"/connectors/{SOURCE}/restart") == (204, None)
    entries = [entry for entry in worker.history() if entry["verb"] == "restart"]
    assert {entry["who"] for entry in entries} == {"no token from 127.0.0.1"}
    assert entries[1]["command"] == f"POST /connectors/{SOURCE}/tasks/0/restart"
    assert "no token from 127.0.0.1 asked for POST /connectors" in worker.mirror.output
