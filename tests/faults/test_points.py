"""Every place where an attempt can die (K1 to K9), reached and died at once each, under load. Judged by Java.

Named points are deterministic: they prove; kills at random moments (test_kills.py) discover.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from integration.mirroring import numbered, produce
from integration.scenario import client_of, commit, java_offsets
from judge import compare, group_violations, java_records, map_violations

from faults.staging import Flow
from faults.workload import MirrorProcess, Workload, run_once, wait_until, write_properties
from sparkmirror.driver import FlowLedger
from sparkmirror.errors import ConfigError
from sparkmirror.failpoints import POINTS, arm
from sparkmirror.local import LocalCluster, create_topic, perf_produce
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

# Each is reached so often before a worker dies there. A receipt is written once a second, the others are passed per request.
WORKER_POINTS = {
    "relay.before_produce": 14,
    "relay.sent_no_ack": 21,
    "relay.acked_no_receipt": 28,
    "relay.receipt_no_ack": 5,
}
DRIVER_POINTS = ("attempt.opened", "record.midway", "record.forgotten", "record.written", "record.done")


def test_every_point_is_in_the_code() -> None:
    package = Path(__file__).parents[2] / "sparkmirror"
    text = "".join(path.read_text(encoding="utf-8") for path in package.rglob("*.py") if path.name != "failpoints.py")
    assert [name for name in POINTS if f'failpoints.point("{name}")' not in text] == []


@pytest.mark.parametrize("text", ["nowhere=kill@1:/f", "record.done", "record.done=kill", "record.done=stop@1:/f"])
def test_a_point_that_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="SPARKMIRROR_FAULTS"):
        arm(text)


@pytest.mark.fault("F01", "F03")
@pytest.mark.timeout(600)
def test_F01_F03_dying_with_records_under_way_loses_nothing_and_doubles_nothing(
    source_cluster, target_cluster, topic_name, tmp_path: Path
) -> None:
    """K2 to K6: workers die at each of their points, and the driver while its worker stands at K4."""
    points = Points(source_cluster, target_cluster, topic_name("points"), tmp_path)
    with points.load():
        points.driver_dies_while_a_worker_stands_at("relay.acked_no_receipt")
        points.workers_die_one_after_the_other()
    points.worker_dies_before_it_says_closed()
    points.judge()


@pytest.mark.nightly
@pytest.mark.fault("F01", "F04")
@pytest.mark.timeout(600)
def test_F01_F04_the_driver_dying_at_each_of_its_points_loses_nothing_and_doubles_nothing(
    source_cluster, target_cluster, topic_name, tmp_path: Path
) -> None:
    """K1, K7, K8: the driver dies at its own points; K3: while what its worker sent may be anywhere."""
    points = Points(source_cluster, target_cluster, topic_name("points"), tmp_path)
    with points.load():
        for name in DRIVER_POINTS:
            points.driver_dies_at(name)
        points.driver_dies_while_a_worker_stands_at("relay.sent_no_ack")
    points.judge()


@pytest.mark.fault("F03", "F12")
@pytest.mark.timeout(600)
def test_F03_F12_what_was_copied_of_a_new_leader_epoch_without_a_receipt_is_no_truncation(
    own_cluster, target_cluster, topic_name, tmp_path: Path
) -> None:
    """K4 after the source's broker was killed: the last receipt is of the epoch before, the records found are not."""
    source, topic = own_cluster("epochs"), topic_name("epochs")
    create_topic(source.bootstrap, topic)
    path = write_properties(tmp_path, source.bootstrap, target_cluster.bootstrap, alias=topic, topics=topic)
    flow = Flow(source, target_cluster, alias=topic, topic=topic, partitions=1)
    perf_produce(source.bootstrap, topic, records=100, record_bytes=100)
    assert run_once(path)[0] == 0
    source.kill(1)
    source.start(1)
    perf_produce(source.bootstrap, topic, records=100, record_bytes=100)
    died = tmp_path / "died"
    with MirrorProcess(path, faults=f"relay.acked_no_receipt=kill@1:{died}") as mirror:
        flow.await_copied(lambda: mirror.output)
        assert died.exists(), mirror.output
        perf_produce(source.bootstrap, topic, records=100, record_bytes=100)
        flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert "SOURCE_TRUNCATED" not in mirror.output, mirror.output
    assert flow.judge() == 300


class Points:
    """A topic under load, and the places where those who copy it die."""

    def __init__(self, source: LocalCluster, target: LocalCluster, topic: str, folder: Path) -> None:
        self._source, self._target, self._topic, self._folder = source, target, topic, folder
        self._alias = topic  # a flow, and so a ledger, of its own
        create_topic(source.bootstrap, topic, partitions=2)
        self._path = write_properties(
            folder, source.bootstrap, target.bootstrap, alias=self._alias, topics=topic, more="tasks.max = 1"
        )

    def load(self) -> Workload:
        """What is written meanwhile."""
        return Workload(self._source.bootstrap, self._topic, partitions=2, per_second=1500)

    def driver_dies_at(self, name: str) -> None:
        marker = self._folder / name
        with MirrorProcess(self._path, faults=f"{name}=kill@1:{marker}") as mirror:
            wait_until(lambda: mirror.process.poll() is not None, f"the driver dies at {name}", 120)
            assert marker.exists(), mirror.output

    def driver_dies_while_a_worker_stands_at(self, name: str) -> None:
        held = self._folder / f"held {name}"
        with MirrorProcess(self._path, faults=f"{name}=hold@20:{held}") as mirror:
            wait_until(held.exists, f"the worker stands at {name}: {mirror.output}", 120)
            mirror.kill()

    def workers_die_one_after_the_other(self) -> None:
        markers = {name: self._folder / name for name in WORKER_POINTS}
        faults = ",".join(f"{name}=kill@{times}:{markers[name]}" for name, times in WORKER_POINTS.items())
        with MirrorProcess(self._path, faults=faults) as mirror:
            for name, marker in markers.items():
                wait_until(marker.exists, f"a worker dies at {name}: {mirror.output[-2000:]}", 120)
            time.sleep(1)

    def worker_dies_before_it_says_closed(self) -> None:
        marker = self._folder / "relay.before_closed"
        with MirrorProcess(self._path, "--once", faults=f"relay.before_closed=kill@1:{marker}") as mirror:
            assert mirror.wait(180) == 0, mirror.output
            assert marker.exists()

    def judge(self) -> None:
        """Copies the rest; then Java's consumer says what lies on both sides."""
        status, output = run_once(self._path)
        assert status == 0, output
        source = java_records(self._source.bootstrap, self._topic)
        target = java_records(self._target.bootstrap, f"{self._alias}.{self._topic}")
        assert compare(source, target) == []
        for partition, records in source.items():
            offsets = offset_map(self._target, self._alias, TopicPartition(self._topic, partition))
            assert map_violations(records, target[partition], offsets.downstream) == []


@pytest.mark.fault("F01")
def test_K9_a_driver_that_dies_between_checkpoint_and_commit_commits_later(
    source_cluster, target_cluster, topic_name, tmp_path: Path
) -> None:
    topic = topic_name("k9")
    create_topic(source_cluster.bootstrap, topic, partitions=1)
    produce(source_cluster, topic, 0, numbered(50))
    group = topic_name("group")
    commit(source_cluster, group, topic, {0: 21})
    more = f"tasks.max = 1\nsync.group.offsets.enabled = true\ngroups = {group}"
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias="k9", topics=topic, more=more
    )
    marker = tmp_path / "marker"
    with MirrorProcess(path, faults=f"groups.checkpoint_no_commit=kill@1:{marker}") as mirror:
        wait_until(lambda: mirror.process.poll() is not None, "the driver dies", 60)
        assert marker.exists(), mirror.output
    assert java_offsets(target_cluster, group, f"k9.{topic}") == {}
    status, output = run_once(path)
    assert status == 0, output
    placed = java_offsets(target_cluster, group, f"k9.{topic}")
    source = java_records(source_cluster.bootstrap, topic)[0]
    target = java_records(target_cluster.bootstrap, f"k9.{topic}")[0]
    assert group_violations(source, target, at_source=21, at_target=placed[0]) == []


def offset_map(cluster: LocalCluster, alias: str, partition: TopicPartition) -> OffsetMap:
    """What the ledger says of a partition; it is judged, not the judge."""
    with client_of(cluster) as client:
        view = FlowLedger(client, f"mm2-ledger.{alias}.internal").read_all()
    return OffsetMap(view.of(partition).runs())
