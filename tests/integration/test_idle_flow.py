"""What a large flow costs while nothing happens: 2 000 partitions, 200 groups."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from integration.mirroring import await_true, batch_of, create_topics, live_mirror, produce_raw
from integration.scenario import Pair, client_of, java_offsets

from sparkmirror.clusters import Committed, commit_offsets
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition

TOPICS, PARTITIONS, GROUPS, EACH = 20, 100, 200, 20
WATCH_S = 20.0
SHARE_MAX = 0.10


def driver_cpu(pid: int) -> tuple[float, float]:
    """CPU seconds of the Python driver and of Spark's JVM; its Python workers copy and are not the driver."""
    driver = psutil.Process(pid)
    java = [child for child in driver.children(recursive=True) if child.name() == "java"]
    return sum(driver.cpu_times()[:2]), sum(sum(child.cpu_times()[:2]) for child in java)


@pytest.mark.nightly  # a figure, and so a matter of an otherwise idle machine
@pytest.mark.timeout(600)
def test_an_idle_flow_costs_little_and_still_keeps_its_intervals(
    own_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    pair = Pair(own_cluster("many"), own_cluster("mirror"), tmp_path)
    names = [f"test-topic-{number}-{pair.mark}" for number in range(TOPICS)]
    create_topics(pair.primary, {name: (PARTITIONS, {}) for name in names})
    with client_of(pair.primary) as client:
        for number in range(GROUPS):
            places = [TopicPartition(names[number % TOPICS], (number + step) % PARTITIONS) for step in range(EACH)]
            commit_offsets(client, pair.group(str(number)), {place: Committed(0, "") for place in places})
    more = {
        "sync.group.offsets.enabled": "true",
        "emit.checkpoints.interval.seconds": "10",
        "sync.group.offsets.interval.seconds": "10",
        "refresh.topics.interval.seconds": "5",
        "refresh.groups.interval.seconds": "5",
        "sync.topic.configs.interval.seconds": "60",
    }
    with live_mirror(pair.write(more), alone=True) as mirror:
        mirror.await_said(f"copying={TOPICS * PARTITIONS + 1}", 150)  # and the heartbeats
        await_true(lambda: len(java_offsets(pair.backup, pair.group("7"), f"{pair.source}.{names[7]}")) == EACH, 60)
        time.sleep(10)  # the start is over
        before, since = driver_cpu(mirror.pid), time.monotonic()
        time.sleep(WATCH_S)
        after, seconds = driver_cpu(mirror.pid), time.monotonic() - since
        python, java = ((b - a) / seconds for a, b in zip(before, after, strict=True))
        print(f"driver: Python {python:.1%}, JVM {java:.1%} of one core")
        # It is still awake: a new topic and a new group within their intervals.
        create_topics(pair.primary, {pair.topic(99): (1, {})})
        produce_raw(pair.primary, pair.topic(99), {0: [batch_of([b"one", b"two"])]})
        with client_of(pair.primary) as client:
            commit_offsets(client, pair.group("new"), {TopicPartition(pair.topic(99), 0): Committed(1, "")})
        asked = time.monotonic()
        await_true(lambda: java_offsets(pair.backup, pair.group("new"), pair.remote(99)) == {0: 1}, 40)
        print(f"a new topic's group is on the target after {time.monotonic() - asked:.1f} s")
        assert mirror.stop().status == 0
    assert python + java < SHARE_MAX
