"""The lag commands of the reference document as they are written: what Kafka's tool shows on the target and the source."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from host import hosted_command
from integration.mirroring import (
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    write_settings,
)
from integration.scenario import commit

from sparkmirror.local import LocalCluster, open_clusters
from sparkmirror.local.ports import free_ports
from sparkmirror.local.tools import CONSUMER_GROUPS, consumer_groups, tool_call

GROUP = "connect-MirrorSourceConnector"
SCRIPT = Path(__file__).parents[1] / "fixtures" / "seed003" / "monitor-mm2-lag.sh"
READERS = "lag-readers"
DEPLOYED = [Path(__file__).parents[2] / "deploy" / name for name in ("prometheus/alerts.yaml", "grafana/sparkmirror.json")]
METRIC = re.compile(r"\b(?:sparkmirror_|kafka_connect_)\w+")
NOBODY = f"Consumer group '{GROUP}' has no active members."


@dataclass(frozen=True)
class Row:
    """One line of `kafka-consumer-groups --describe`."""

    lag: str
    consumer: str


@dataclass(frozen=True)
class Lagging:
    """A flow A->B and one back, with both lag groups."""

    source: LocalCluster
    target: LocalCluster
    mirror: LiveMirror
    settings: Path
    port: int
    folder: Path

    def described(self, cluster: LocalCluster, group: str = GROUP) -> tuple[dict[str, Row], str]:
        """Rows by partition, and what the tool says beside them."""
        call = tool_call(CONSUMER_GROUPS, ["--bootstrap-server", cluster.bootstrap, "--group", group, "--describe"])
        ended = subprocess.run(call.command(), capture_output=True, text=True, check=False, timeout=120)
        rows = {}
        for line in ended.stdout.splitlines():
            words = line.split()
            if words[:1] == [group]:
                rows[f"{words[1]}-{words[2]}"] = Row(words[5], words[6])
        return rows, ended.stdout + ended.stderr

    def await_rows(
        self, wanted: dict[str, str], cluster: LocalCluster | None = None, group: str = GROUP
    ) -> dict[str, Row]:
        """Waits until the tool shows these lags, on the target unless another cluster is given."""
        seen: dict[str, Row] = {}

        def are_there() -> bool:
            seen.clear()
            seen.update(self.described(cluster or self.target, group)[0])
            return {place: row.lag for place, row in seen.items()} == wanted

        try:
            await_true(are_there, 60)
        except AssertionError:
            raise AssertionError(f"expected {wanted}, found {seen}: {self.mirror.output[-3000:]}") from None
        return seen

    def script(self) -> str:
        """What the document's script prints, with its two addresses and nothing else changed."""
        tools = self.folder / "bin"
        tools.mkdir(exist_ok=True)
        command = tool_call(CONSUMER_GROUPS, []).command()
        tool = tools / "kafka-consumer-groups.sh"
        tool.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n')
        tool.chmod(0o755)
        text = SCRIPT.read_text().replace("localhost:8083", f"localhost:{self.port}")
        text = text.replace("target:9092", self.target.bootstrap)
        path = f"{tools}{os.pathsep}{os.environ['PATH']}"
        ended = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=True, timeout=120,
                               env=os.environ | {"PATH": path})  # fmt: skip
        return ended.stdout


@pytest.fixture(scope="module")
def lagging(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lagging]:
    folder, [port] = tmp_path_factory.mktemp("laggroups"), free_ports(1)
    with open_clusters(LocalCluster("lag-source"), LocalCluster("lag-target")) as (source, target):
        create_topics(source, {"lag-orders": (2, {}), "lag-idle": (1, {}), "heartbeats": (1, {})})
        small = {"max.message.bytes": "2000"}
        create_topics(target, {"lag.lag-orders": (2, small), "lag.lag-idle": (1, small)})
        for partition in (0, 1):
            produce(source, "lag-orders", partition, numbered(20))
        commit(source, READERS, "lag-orders", {0: 5, 1: 7})
        more = {"groups": ".*", "groups.exclude": "none", "sync.group.offsets.enabled": "true",
                "emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1"}  # fmt: skip
        there = flow_settings(source, target, alias="lag", topics="lag-.*", more=more)
        there |= {"heartbeats.replication.enabled": "true", "emit.heartbeats.enabled": "true"}
        there |= {"emit.heartbeats.interval.seconds": "1"}
        back = {"lag-to->lag.enabled": "true", "lag-to->lag.topics": "nothing"}
        back |= {f"lag-to->lag.{key}": value for key, value in more.items()}
        settings = write_settings(folder / "mm2.properties", there | back | {"clusters": "lag, lag-to"})
        with live_mirror(settings, "--listen", str(port)) as mirror:
            mirror.await_said("listening on")
            yield Lagging(source, target, mirror, settings, port, folder)


def test_caught_up_flow_has_lag_0_in_every_remote_partition_and_a_member_named_after_it(lagging: Lagging) -> None:
    rows = lagging.await_rows({"lag.lag-orders-0": "0", "lag.lag-orders-1": "0", "lag.lag-idle-0": "0"})
    assert all(row.consumer.startswith("sparkmirror-lag->lag-to-") for row in rows.values()), rows
    assert NOBODY not in lagging.described(lagging.target)[1]
    caught_up = {"lag-orders-0": "0", "lag-orders-1": "0", "lag-idle-0": "0"}  # and no heartbeats
    lagging.await_rows(caught_up, lagging.source, f"{GROUP}-lag-to")


@pytest.mark.skipif(not all(map(shutil.which, ("curl", "jq", "awk"))), reason="the script needs curl, jq and awk")
def test_script_of_the_document_runs_unchanged(lagging: Lagging) -> None:
    assert lagging.script() == "Connector status: RUNNING\nTotal lag: 0\n"


def test_stopped_partition_shows_what_is_not_copied_of_it_and_the_others_0(lagging: Lagging) -> None:
    produce(lagging.source, "lag-orders", 0, [bytes(5_000)])
    produce(lagging.source, "lag-orders", 0, numbered(6))
    produce(lagging.source, "lag-orders", 1, numbered(5))
    lagging.await_rows({"lag.lag-orders-0": "7", "lag.lag-orders-1": "0", "lag.lag-idle-0": "0"})
    assert lagging.script().splitlines()[1] == "Total lag: 7"
    produce(lagging.source, "lag-idle", 0, [bytes(5_000)])  # no position in an empty copy shows a lag
    lagging.await_rows({"lag.lag-orders-0": "7", "lag.lag-orders-1": "0", "lag.lag-idle-0": "-"})


def test_lag_groups_are_copied_by_no_flow(lagging: Lagging) -> None:
    assert sorted(consumer_groups(lagging.target.bootstrap, "--list").split()) == [GROUP, READERS]
    assert sorted(consumer_groups(lagging.source.bootstrap, "--list").split()) == [GROUP, f"{GROUP}-lag-to", READERS]
    assert lagging.described(lagging.source)[0] == {}  # that of the flow back, which copies no topic
    for flow in ("lag->lag-to", "lag-to->lag"):
        checkpoints = hosted_command("records", str(lagging.settings), "checkpoints", "--flow", flow)
        assert GROUP not in checkpoints.stdout


def test_every_alert_and_panel_names_figures_of_a_real_answer_which_agree_with_the_clusters(lagging: Lagging) -> None:
    parser = pytest.importorskip("prometheus_client.parser")

    def asked() -> dict[str, dict[str, float]]:
        with urllib.request.urlopen(f"http://127.0.0.1:{lagging.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, dict[str, float]] = {}
        for family in parser.text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.labels.get("source", "lag") == "lag":
                    found.setdefault(sample.name, {})[sample.labels.get("topic", "")] = sample.value
        written = {line.split("{")[0].split(" ")[0] for line in text.splitlines() if not line.startswith("#")}
        return found | {name: {} for name in written - found.keys()}

    await_true(lambda: asked()["sparkmirror_flow_groups_ready"].get("") == 1, 60, "the group is synced")
    found = asked()
    named = {name for path in DEPLOYED for name in METRIC.findall(path.read_text(encoding="utf-8"))}
    assert named - found.keys() - {"sparkmirror_certificate_expiry_timestamp_seconds"} == set()
    assert found["sparkmirror_flow_groups_unsynced"][""] == 0
    assert 0 <= found["sparkmirror_flow_heartbeat_age_seconds"][""] < 30
    ends = sum(log_ends(lagging.source, "lag-orders").values()) + sum(log_ends(lagging.source, "lag-idle").values())
    assert found["sparkmirror_flow_lag"][""] == ends - sum(log_ends(lagging.target, "lag.lag-orders").values())
    ages = [found[f"kafka_connect_mirror_mirrorsourceconnector_{name}_ms_avg"]["lag.lag-orders"]
            for name in ("record_age", "replication_latency")]  # fmt: skip
    assert 0 <= ages[0] <= ages[1], "a record is copied after it was read"


def test_nobody_is_a_member_when_nobody_copies(lagging: Lagging) -> None:
    lagging.mirror.stop()
    rows, said = lagging.described(lagging.target)
    assert NOBODY in said
    assert {place: row.lag for place, row in rows.items()} == {
        "lag.lag-orders-0": "7", "lag.lag-orders-1": "0", "lag.lag-idle-0": "-"
    }  # fmt: skip
    assert {row.consumer for row in rows.values()} == {"-"}
