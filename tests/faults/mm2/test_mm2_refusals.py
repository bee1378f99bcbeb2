"""MirrorMaker 2 and a target that refuses what is too large. As staged for us in test_bad_input.py."""

from __future__ import annotations

import time

import pytest
from integration.mirroring import batch_of, create_topics, log_ends, numbered, produce, produce_raw

from faults.mm2.flow import CONVERGE_SECONDS_MAX, START_SECONDS_MAX, Mm2Flow, log_of
from faults.workload import wait_until
from sparkmirror.local import LocalCluster

ALIAS = "mm2large"
SPLIT, LARGE, FINE = "large-batch", "large-record", "large-fine"
LIMIT = 2000
TOPICS = {SPLIT: 1, LARGE: 2, FINE: 2}


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.fault_mm2("F34")
def test_a_batch_and_then_a_record_are_larger_than_the_target_allows(
    source_cluster: LocalCluster, target_cluster: LocalCluster, row
) -> None:
    create_topics(source_cluster, {topic: (partitions, {}) for topic, partitions in TOPICS.items()})
    limited = {f"{ALIAS}.{topic}": (TOPICS[topic], {"max.message.bytes": str(LIMIT)}) for topic in (SPLIT, LARGE)}
    create_topics(target_cluster, limited)
    more = {"sync.topic.configs.enabled": "false"}
    flow = Mm2Flow(source_cluster, target_cluster, alias=ALIAS, topics="large-.*", more=more)
    small = numbered(8)
    large = batch_of(numbered(100, size=100))
    assert len(large) > LIMIT
    for topic, partitions in TOPICS.items():
        for partition in range(partitions):
            produce(source_cluster, topic, partition, small)
    with flow.process() as mm2:
        wanted = sum(TOPICS.values()) * len(small)
        wait_until(lambda: sum(map(flow.copied, TOPICS)) == wanted, "everything small is copied", START_SECONDS_MAX)
        began = time.monotonic()
        produce_raw(source_cluster, SPLIT, {0: [large]})
        flow.converge(SPLIT, began)
        batch = flow.judge(SPLIT)
        after = len(log_of(mm2))
        produce_raw(source_cluster, LARGE, {0: [batch_of(numbered(1, size=5000))]})
        flow.await_rest(LARGE)
        before = {(topic, at): end for topic in TOPICS for at, end in log_ends(target_cluster, flow.remote(topic)).items()}
        for topic, partitions in TOPICS.items():
            for partition in range(partitions):
                produce(source_cluster, topic, partition, small)

        def standing() -> list[tuple[str, int]]:
            ends = {(topic, at): end for topic in TOPICS for at, end in log_ends(target_cluster, flow.remote(topic)).items()}
            return [place for place, end in ends.items() if end == before[place]]

        deadline = time.monotonic() + CONVERGE_SECONDS_MAX
        while standing() not in ([], [(LARGE, 0)]) and time.monotonic() < deadline:
            time.sleep(1)
        flow.await_rest(*TOPICS)
        others = [place for place in standing() if place != (LARGE, 0)]
        found = flow.judge(LARGE)
        reported = flow.reported(mm2, after=after)
    healthy = sum(TOPICS.values()) - 1
    stopped = f"{len(others)} of {healthy} other partitions stop with it"
    waiting = f"{found.lost} of {found.records} records of its topic are not copied"
    row.seen = f"batch: {batch}; record: {waiting}; {reported}; {stopped}"
