"""Figures under MirrorMaker 2's names, and as the text that Prometheus reads."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from sparkmirror.errors import ConfigError
from sparkmirror.metrics import SOURCE_ATTRIBUTES, Metric, MetricsFile, MirrorMetrics, Spread, Window, exposition
from sparkmirror.metrics.names import BOARD
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import CertificateEnd, CheckpointKey, FlowStatus, GroupCounts, PartitionStatus

ORDERS = TopicPartition("orders", 3)


def flow(**partition: object) -> FlowStatus:
    status = PartitionStatus(ORDERS, state="copying", **partition)  # type: ignore[arg-type]
    return FlowStatus(FlowName("A", "B"), "running", partitions={ORDERS: status}, remotes={"orders": "A.orders"})


def figures(metrics: MirrorMetrics, now: float) -> dict[str, float]:
    return {f"{metric.type}.{metric.attribute}": metric.value for metric in metrics.metrics(now)}


def test_thirteen_figures_with_the_tags_source_target_topic_and_partition() -> None:
    """MirrorSourceMetricsTest.testTags."""
    metrics = MirrorMetrics()
    metrics.take([flow()], 0.0)
    found = [metric for metric in metrics.metrics(0.0) if metric.type not in ("sparkmirror", BOARD)]
    assert len(found) == 13
    *of_partition, count = found
    assert {metric.tags for metric in of_partition} == {
        (("source", "A"), ("target", "B"), ("topic", "A.orders"), ("partition", "3"))
    }
    assert [metric.attribute for metric in of_partition] == list(SOURCE_ATTRIBUTES)
    assert (count.type, count.attribute, count.tags, count.value) == ("kafka-metrics-count", "count", (), 13.0)


def test_records_bytes_and_latency_are_told() -> None:
    metrics = MirrorMetrics()
    metrics.take([flow()], 0.0)
    metrics.take([flow(records=60, record_bytes=6000, newest_timestamp=1_000, read_ms=1_100,
                       proven_ms=1_250, source_end=70)], 1.0)
    metrics.take([flow(records=90, record_bytes=9000, newest_timestamp=2_000, read_ms=2_020,
                       proven_ms=2_050, next_upstream=60, source_end=70)], 2.0)  # fmt: skip
    found = figures(metrics, 2.0)
    source = {name.removeprefix("MirrorSourceConnector."): value for name, value in found.items()}
    assert (source["record-count"], source["byte-count"]) == (90, 9000)
    assert (source["record-rate"], source["byte-rate"]) == (3.0, 300.0)  # over a whole sample of 30 s
    for stem, spread in (("record-age-ms", [20, 100, 20, 60]), ("replication-latency-ms", [50, 250, 50, 150])):
        assert [source[stem], source[f"{stem}-max"], source[f"{stem}-min"], source[f"{stem}-avg"]] == spread
    assert found["sparkmirror.partition-lag"] == 10


def test_the_same_receipt_seen_twice_is_one_value_and_clocks_that_differ_give_no_negative_age() -> None:
    metrics = MirrorMetrics()
    for now in (0.0, 1.0, 2.0):
        metrics.take([flow(records=1, record_bytes=1, newest_timestamp=5_000, proven_ms=4_000)], now)
    found = figures(metrics, 2.0)
    assert found["MirrorSourceConnector.replication-latency-ms"] == 0
    assert found["MirrorSourceConnector.record-rate"] == pytest.approx(1 / 30)


def test_a_group_has_a_latency_of_its_own() -> None:
    """L43: MirrorMaker 2 mixes all groups of a task in one value."""
    metrics, status = MirrorMetrics(), flow()
    status.checkpoints = {CheckpointKey("g", "A.orders", 3): (10, 4), CheckpointKey("h", "A.orders", 3): (10, 8)}
    metrics.take([status], 0.0)
    found = [m for m in metrics.metrics(0.0) if m.attribute == "checkpoint-latency-ms"]
    assert [(dict(m.tags)["group"], m.value) for m in found] == [("g", 4), ("h", 8)]


@pytest.mark.parametrize("state", ["waiting", "running"])
def test_a_flow_that_does_not_copy_is_not_told_as_running(state: str) -> None:
    metrics, status = MirrorMetrics(), flow(gap_offsets=7)
    status.state, status.partitions[ORDERS].state = state, "stopped"
    metrics.take([status], 0.0)
    found = figures(metrics, 0.0)
    own = {name.removeprefix("sparkmirror."): value for name, value in found.items() if name.startswith("sparkmirror.")}
    assert (own["flow-running"], own["partition-copying"], own["partition-gap-offsets"]) == (0, 0, 7)
    assert math.isnan(own["partition-lag"])  # the source's end is not known


def test_a_window_forgets_after_a_minute() -> None:
    window, spread = Window(), Spread()
    for value, now in ((30.0, 0.0), (60.0, 31.0)):
        window.note(value, now)
        spread.note(value, now)
    assert window.rate(45.0) == 2.0
    assert spread.values(59.0) == (60.0, 60.0, 30.0, 45.0)
    assert window.rate(61.0) == 2.0  # the first sample is gone
    assert spread.values(62.0) == (60.0, 60.0, 60.0, 60.0)
    assert window.rate(200.0) == 0.0
    assert all(map(math.isnan, spread.values(200.0)[1:]))


def test_a_window_that_nobody_looks_at_does_not_grow() -> None:
    window = Window()
    for minute in range(100):
        window.note(1.0, 60.0 * minute)
    assert len(window._samples) == 2


def test_names_that_hold_anything_stay_in_their_line() -> None:
    tags = (("group", 'a"b\\c\nd'),)
    text = exposition([Metric("MirrorCheckpointConnector", "checkpoint-latency-ms", tags, math.nan)])
    assert text == (
        "# TYPE kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms gauge\n"
        'kafka_connect_mirror_mirrorcheckpointconnector_checkpoint_latency_ms{group="a\\"b\\\\c\\nd"} NaN\n'
    )


def test_every_line_is_of_the_form_that_prometheus_reads() -> None:
    metrics = MirrorMetrics()
    metrics.take([flow(records=3, record_bytes=10, newest_timestamp=1, proven_ms=4)], 0.0)
    labels = r'\{[a-z_]+="([^"\\]|\\")*"(,[a-z_]+="([^"\\]|\\")*")*\}'
    line = re.compile(rf"(# (HELP|TYPE) [a-z_]+ .+|[a-z_]+({labels})? (NaN|\d+(\.\d+)?(e-\d+)?))")
    lines = exposition(metrics.metrics(0.0)).splitlines()
    assert [found for found in lines if not line.fullmatch(found)] == []
    types = [found.split()[2] for found in lines if found.startswith("# TYPE")]
    assert len(types) == len(set(types)) == 47


def test_prometheus_own_parser_reads_every_line_with_the_labels_of_the_file() -> None:
    parser = pytest.importorskip("prometheus_client.parser")
    metrics, status = MirrorMetrics(), flow(records=3, record_bytes=10, newest_timestamp=1, read_ms=2, proven_ms=4)
    status.groups, status.heartbeat_ms, status.taken_ms = GroupCounts(4, 1, 0), 1_000, 3_500
    status.certificates = (CertificateEnd("A", 'the "best"\nauthority', 5_000),)
    status.partitions[ORDERS].gap_offsets = 7
    metrics.take([status], 0.0)
    text = exposition(metrics.metrics(0.0), (("strimzi_io_kind", "KafkaMirrorMaker2"),))
    samples = [sample for family in parser.text_string_to_metric_families(text) for sample in family.samples]
    assert len(samples) == len([line for line in text.splitlines() if not line.startswith("#")])
    assert {sample.labels["strimzi_io_kind"] for sample in samples} == {"KafkaMirrorMaker2"}
    found = {sample.name: sample for sample in samples}
    own = ("groups_ready", "groups_unsynced", "heartbeat_age_seconds", "gap_offsets")
    assert [found[f"sparkmirror_flow_{name}"].value for name in own] == [4, 1, 2.5, 7]
    ends = found["sparkmirror_certificate_expiry_timestamp_seconds"]
    assert (ends.value, ends.labels["whose"]) == (5, 'the "best"\nauthority')
    # As Strimzi's boards ask for them, whose variables are the labels of the first.
    assert found["kafka_connect_worker_connector_count"].value == 3
    assert found["kafka_connect_worker_task_count"].value == found["kafka_connect_coordinator_assigned_tasks"].value == 2
    lag = found["kafka_consumer_fetch_manager_records_lag"]
    assert re.fullmatch(r'.*replication-consumer"', lag.labels["clientid"])
    assert (lag.labels["topic"], lag.labels["partition"]) == ("orders", "3")
    assert found["kafka_consumer_incoming_byte_total"].value == found["kafka_producer_outgoing_byte_total"].value == 10


def test_what_is_not_known_of_groups_and_heartbeats_is_no_number() -> None:
    metrics = MirrorMetrics()
    metrics.take([flow()], 0.0)
    found = figures(metrics, 0.0)
    for name in ("flow-groups-ready", "flow-groups-unsynced", "flow-heartbeat-age-seconds"):
        assert math.isnan(found[f"sparkmirror.{name}"])


def test_the_file_is_whole_and_gone_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "mirror.prom"
    with MetricsFile(str(path)) as file:
        file.show([flow()])
        assert "sparkmirror_flow_running" in path.read_text()
        assert list(tmp_path.iterdir()) == [path]
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_told_at_the_start_and_one_that_went_away_ends_nothing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--metrics-file"):
        MetricsFile(str(tmp_path / "none" / "mirror.prom"))
    folder = tmp_path / "some"
    folder.mkdir()
    file = MetricsFile(str(folder / "mirror.prom"))
    folder.rmdir()
    file.show([flow()])
    assert "could not be written" in file.trouble


def test_a_paused_flow_does_not_run_and_is_said_to_be_paused() -> None:
    metrics = MirrorMetrics()
    paused = flow()
    paused.partitions[ORDERS].state = "paused"
    metrics.take([paused], 0.0)
    found = {line.split("{")[0]: line.rpartition(" ")[2] for line in exposition(metrics.metrics(0.0)).splitlines()}
    names = ("sparkmirror_flow_running", "sparkmirror_flow_paused", "sparkmirror_flow_paused_partitions")
    assert [found[name] for name in names] == ["0", "1", "1"]
