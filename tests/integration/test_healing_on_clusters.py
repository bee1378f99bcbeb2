"""What the operator mends at the target resumes within a minute, with no restart. Kafka's own tools mend and judge."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from integration.mirroring import (
    IS_BUSY,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    numbered,
    produce,
    write_settings,
)
from judge import compare, java_records

from sparkmirror.local import LocalCluster, java_tool

CONFIG_COMMAND = "kafka.admin.ConfigCommand"
SHOUT = "select * except (value), concat(value, binary('!')) as value from records"
RESUMED_S_MAX = 150.0 if IS_BUSY else 60.0  # with three of Kafka's own tools, which raise the limits
SMALL, LARGE = 20_000, 1_500_000  # bytes; brokers take batches of 1,048,588 unless they are told otherwise


def configure(cluster: LocalCluster, *words: str) -> None:
    """As document 002 says: "increasing the value of topic configuration max.message.bytes or … message.max.bytes"."""
    java_tool(CONFIG_COMMAND, ["--bootstrap-server", cluster.bootstrap, "--alter", *words])


@pytest.mark.timeout(600)
def test_records_that_were_too_large_are_copied_within_a_minute_of_raising_the_limit(
    source_cluster: LocalCluster, own_cluster, topic_name, tmp_path: Path
) -> None:
    """The limit of a topic, of a topic behind a transform, and of the broker."""
    target, alias = own_cluster("limited"), topic_name("limited").replace("-", "")
    sizes = {"plain": SMALL * 2, "shouted": SMALL * 2, "broker": LARGE}
    topics = {name: f"{alias}-{name}" for name in (*sizes, "free")}
    create_topics(source_cluster, {topic: (1, {"max.message.bytes": str(2 * LARGE)}) for topic in topics.values()})
    limited = {f"{alias}.{topics[name]}": (1, {"max.message.bytes": str(SMALL)}) for name in ("plain", "shouted")}
    create_topics(target, {**limited, f"{alias}.{topics['broker']}": (1, {})})
    more = {"transform.shout.topics": topics["shouted"], "transform.shout.sql": SHOUT}
    settings = flow_settings(source_cluster, target, alias=alias, topics=f"{alias}-.*", more=more)
    with live_mirror(write_settings(tmp_path / "mm2.properties", settings)) as mirror:
        for name, size in sizes.items():
            produce(source_cluster, topics[name], 0, [b"before", b"x" * size, b"behind"], batch=1)
        for name in sizes:
            mirror.await_stopped(f"{topics[name]}-0", "RECORD_TOO_LARGE", 120)
        produce(source_cluster, topics["free"], 0, numbered(100))
        began = time.monotonic()
        for name in ("plain", "shouted"):
            words = ["--entity-type", "topics", "--entity-name", f"{alias}.{topics[name]}"]
            configure(target, *words, "--add-config", f"max.message.bytes={SMALL * 10}")
        configure(target, "--entity-type", "brokers", "--entity-default", "--add-config", f"message.max.bytes={2 * LARGE}")

        def copied(name: str) -> int:
            return len(java_records(target.bootstrap, f"{alias}.{topics[name]}").get(0, []))

        for name in sizes:
            await_true(lambda name=name: copied(name) >= 3, RESUMED_S_MAX - (time.monotonic() - began), f"{name} resumes")
        print(f"resumed after {time.monotonic() - began:.1f} s")
        for name in sizes:
            mirror.await_said(f"{topics[name]}-0 resumed: RECORD_TOO_LARGE is no longer there")
        await_true(lambda: copied("free") >= 100, what="the topic beside them")
        produce(source_cluster, topics["plain"], 0, numbered(10))
        await_true(lambda: copied("plain") >= 13, what="it goes on")
        assert mirror.stop().status == 0, mirror.output
    for name in ("plain", "broker", "free"):
        found = java_records(target.bootstrap, f"{alias}.{topics[name]}")
        assert compare(java_records(source_cluster.bootstrap, topics[name]), found) == []
    shouted = [record.value for record in java_records(target.bootstrap, f"{alias}.{topics['shouted']}")[0]]
    assert shouted == [b"before!", b"x" * sizes["shouted"] + b"!", b"behind!"]
