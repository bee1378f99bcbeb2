"""How far behind a run says it is, against the ends that a public client sees: stopped, re-created, the source gone."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import kafka
import pytest
from host import hosted_command
from integration.mirroring import (
    IS_BUSY,
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    now_ms,
    numbered,
    produce,
    recreate_topic,
    write_settings,
)

from sparkmirror.local import LocalCluster, open_clusters
from sparkmirror.local.ports import free_ports

FLOW, LEDGER = "late->late-to", "mm2-ledger.late.internal"
LIMIT = "2000"
SILENT_S_MAX = 30.0 if IS_BUSY else 6.0
WAIT_S = 60.0


@dataclass(frozen=True)
class Watched:
    """A mirror that is watched as an operator's tools do."""

    source: LocalCluster
    target: LocalCluster
    mirror: LiveMirror
    port: int
    file: str

    def get(self, path: str) -> tuple[int, str]:
        """Status and body."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read().decode()

    def flow(self) -> dict[str, Any]:
        """All that is said of the flow."""
        _, body = self.get(f"/flows/{FLOW.replace('>', '%3E')}")
        found = json.loads(body)
        assert isinstance(found, dict)
        return found

    def status(self, *words: str) -> tuple[int, dict[str, Any]]:
        """How `sparkmirror status` ends, and what it says of the flow."""
        ended = hosted_command("status", self.file, "--json", *words)
        assert "Traceback" not in ended.stderr, ended.stderr
        [flow] = json.loads(ended.stdout)["flows"]
        return ended.returncode, flow

    def partition(self, topic: str, index: int) -> dict[str, Any]:
        """What is said of one partition."""
        [found] = [p for p in self.flow()["partition_list"] if (p["topic"], p["partition"]) == (topic, index)]
        assert isinstance(found, dict)
        return found

    def metric(self, name: str, **tags: str) -> str:
        """The value of one series, as Prometheus would read it."""
        _, body = self.get("/metrics")
        wanted = "".join(rf"(?=.*{tag}=\"{re.escape(value)}\")" for tag, value in tags.items())
        [found] = re.findall(rf"^{name}\{{{wanted}.*\}} (\S+)$", body, re.MULTILINE)
        return str(found)

    def ends_in_ledger(self) -> dict[tuple[str, int], tuple[int, int]]:
        """(end, newest timestamp) of each source partition, as another program reads them from the ledger."""
        found: dict[tuple[str, int], tuple[int, int]] = {}
        end = log_ends(self.target, LEDGER)[0]
        options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 2_000, "enable_auto_commit": False}
        with closing(kafka.KafkaConsumer(LEDGER, bootstrap_servers=self.target.bootstrap, **options)) as consumer:
            for record in consumer:
                kind, *names = json.loads(record.key)
                if kind == "ends" and record.value is None:  # the topic was not there when somebody looked
                    found = {place: ends for place, ends in found.items() if place[0] != names[0]}
                elif kind == "ends":
                    for index, at, newest in json.loads(record.value)["ends"]:
                        found[names[0], index] = (at, newest)
                if record.offset >= end - 1:  # the mirror goes on writing
                    break
        return found


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A flow with a topic whose first partition is stopped by a record that is too large, and an idle topic."""
    folder, [port] = tmp_path_factory.mktemp("late"), free_ports(1)
    with open_clusters(LocalCluster("late-source"), LocalCluster("late-target")) as (source, target):
        create_topics(source, {"late-orders": (2, {}), "late-idle": (1, {}), "late-again": (1, {})})
        create_topics(target, {"late.late-orders": (2, {"max.message.bytes": LIMIT})})
        produce(source, "late-idle", 0, numbered(7))
        produce(source, "late-again", 0, numbered(9))
        for partition in (0, 1):
            produce(source, "late-orders", partition, numbered(5))
        settings = write_settings(folder / "mm2.properties", flow_settings(source, target, alias="late", topics="late-.*"))
        with live_mirror(settings, "--listen", str(port)) as mirror:
            mirror.await_said("listening on")
            watched = Watched(source, target, mirror, port, str(settings))
            await_true(lambda: json.loads(watched.get("/flows")[1])["flows"], 60)
            await_true(lambda: watched.flow()["records"] == 26, 90, "all is copied")
            yield watched


def test_a_flow_that_has_copied_everything_is_not_behind(watched: Watched) -> None:
    await_true(lambda: watched.flow()["lag"] == 0 and watched.flow()["lag_seconds"] == 0, WAIT_S)
    assert (watched.get("/health/ready")[0], watched.get("/health/flows")[0]) == (200, 200)
    assert watched.metric("sparkmirror_flow_degraded", source="late") == "0"
    assert watched.metric("sparkmirror_flow_lag_seconds", source="late") == "0"


def test_the_ledger_says_where_the_source_ends_also_of_idle_partitions(watched: Watched) -> None:
    ends = await_true(lambda: found if len(found := watched.ends_in_ledger()) == 4 else None, WAIT_S)
    assert ends["late-idle", 0][0] == log_ends(watched.source, "late-idle")[0] == 7
    assert all(abs(now_ms() - newest) < 300_000 for _, newest in ends.values())


def test_a_stopped_partition_makes_its_flow_degraded_and_its_lag_grows_with_the_source(watched: Watched) -> None:
    source = watched.source
    produce(source, "late-orders", 0, [bytes(5_000)])
    await_true(lambda: watched.partition("late-orders", 0)["code"] == "RECORD_TOO_LARGE", WAIT_S)
    stopped_at = time.monotonic()
    for count in (1_000, 2_000):
        produce(source, "late-orders", 0, numbered(count))
        produce(source, "late-orders", 1, numbered(10))
        behind = log_ends(source, "late-orders")[0] - 5
        await_true(lambda behind=behind: watched.flow()["lag"] == behind, WAIT_S, f"a lag of {behind}")
        assert watched.partition("late-orders", 0)["lag"] == behind
        assert float(watched.metric("sparkmirror_flow_lag", source="late")) == behind
    flow = watched.flow()
    assert (flow["state"], flow["stopped_partitions"]) == ("degraded", 1)
    tags = {"topic": "late.late-orders", "partition": "0"}
    first = float(watched.metric("sparkmirror_partition_lag_seconds", **tags))
    assert 0 < first < time.monotonic() - stopped_at + 30
    await_true(lambda: float(watched.metric("sparkmirror_partition_lag_seconds", **tags)) >= first + 3, WAIT_S)
    assert watched.metric("sparkmirror_flow_degraded", source="late") == "1"
    assert watched.metric("sparkmirror_flow_running", source="late") == "1"
    ready, body = watched.get("/health/ready")
    assert (ready, json.loads(body)["status"]) == (200, "degraded")
    assert watched.get("/health/flows")[0] == 503
    watched.mirror.await_said("degraded records=")
    watched.mirror.await_said(f"lag={flow['lag']} lag_seconds=", WAIT_S)


def test_status_asks_the_process_that_it_finds_by_the_ledger_and_both_clusters_say_the_same(watched: Watched) -> None:
    behind = log_ends(watched.source, "late-orders")[0] - 5
    await_true(lambda: watched.flow()["owner"] is not None, WAIT_S)
    status, by_process = watched.status()
    assert (status, by_process["from"]) == (4, f"http://127.0.0.1:{watched.port}")
    status, by_clusters = watched.status("--url", "http://127.0.0.1:1")
    assert (status, by_clusters["from"]) == (4, "both clusters")
    for found in (by_process, by_clusters):
        assert (found["state"], found["lag"], found["stopped_partitions"]) == ("degraded", behind, 1)
        assert [trouble["code"] for trouble in found["troubles"]] == ["RECORD_TOO_LARGE"]
        assert abs(time.time() - _seconds(found["owned_since"])) < 600
    assert by_clusters["owner"] == by_process["owner"]
    assert by_clusters["lag_seconds"] == pytest.approx(by_process["lag_seconds"], abs=20)


def test_everything_in_a_topic_that_was_created_again_is_behind(watched: Watched) -> None:
    recreate_topic(watched.source, "late-again")
    produce(watched.source, "late-again", 0, numbered(4))
    await_true(lambda: watched.partition("late-again", 0)["code"] == "SOURCE_TOPIC_RECREATED", 60)
    await_true(lambda: watched.partition("late-again", 0)["lag"] == 4, WAIT_S)
    produce(watched.source, "late-again", 0, numbered(6))
    await_true(lambda: watched.partition("late-again", 0)["lag"] == log_ends(watched.source, "late-again")[0] == 10, WAIT_S)
    await_true(lambda: watched.ends_in_ledger().get(("late-again", 0), (-1, -1))[0] == 10, WAIT_S)
    assert watched.status("--url", "http://127.0.0.1:1")[1]["lag"] == watched.flow()["lag"]
    assert watched.metric("sparkmirror_flow_degraded", source="late") == "2"


@pytest.mark.parametrize("how", ["suspend", "kill"])
def test_a_source_that_is_gone_is_unknown_within_seconds_and_what_was_known_is_said_with_its_time(
    watched: Watched, how: str
) -> None:
    source = watched.source
    await_true(lambda: watched.flow()["lag"], WAIT_S)
    known, before = watched.flow()["lag"], len(watched.mirror.output)
    getattr(source, how)(1)
    gone = time.time()
    try:
        flow = await_true(lambda: found if (found := watched.flow())["lag"] is None else None, SILENT_S_MAX)
        print(f"{how}: {flow['state']} after {time.time() - gone:.1f} s: {flow['reason']}")
        assert flow["state"] in ("unknown", "waiting", "degraded")
        await_true(lambda: watched.flow()["state"] in ("unknown", "waiting"), SILENT_S_MAX)
        flow = watched.flow()
        assert (flow["lag"], flow["lag_seconds"], flow["lag_known"]) == (None, None, known)
        assert abs(gone - _seconds(flow["lag_as_of"])) < SILENT_S_MAX + 4
        idle = watched.partition("late-idle", 0)
        assert (idle["lag"], idle["lag_seconds"], idle["lag_known"]) == (None, None, 0)
        assert watched.metric("sparkmirror_flow_lag", source="late") == "NaN"
        tags = {"topic": "late.late-orders", "partition": "0"}
        assert watched.metric("sparkmirror_partition_lag", **tags) == "NaN"
        age = float(watched.metric("sparkmirror_partition_lag_seconds", **tags))
        await_true(lambda: float(watched.metric("sparkmirror_partition_lag_seconds", **tags)) >= age + 2, WAIT_S)
        assert watched.get("/health/flows")[0] == 503
        watched.mirror.await_said(f"lag=? lag_known={known} as_of=", WAIT_S, after=before)
        if how == "kill":
            status, flow = watched.status("--url", "http://127.0.0.1:1")
            assert (status, flow["state"], flow["lag"]) == (4, "unknown", None)
            # Where the topic that was created again began, only the process had seen.
            assert (flow["lag_known"], flow["lag_unknown_partitions"]) == (known - 10, 4)
    finally:
        source.resume(1) if how == "suspend" else source.start(1)
    await_true(lambda: watched.flow()["lag"] == known, 90, "the lag is known again")


def _seconds(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()
