"""MirrorMaker 2 and records in its internal topics that nobody can read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing

import pytest
from integration.mirroring import await_true, create_topics, numbered, produce
from integration.scenario import commit, java_offsets
from judge import group_violations, java_records
from kafka import KafkaProducer

from faults.mm2.flow import CONVERGE_SECONDS_MAX, START_SECONDS_MAX, Mm2Flow, log_of
from sparkmirror.local import LocalCluster

PART = 300  # records before and after
GARBAGE: dict[bytes, bytes | None] = {
    b"\x00": b"\x00", b"not a key": b"not a value", b"\x7f\xff\xff\xff": b"\x00\x01", b"gone": None, b"empty": b"",
}  # fmt: skip
OTHER = b"\x00\x05other\x00\x00\x00\x00"  # topic and partition, as keys of offset syncs are written
CHECKPOINT = b"\x00\x00" + b"\x00\x01g" + OTHER  # version, group, topic and partition
WRONG: Mapping[str, Mapping[bytes, bytes | None]] = {
    "offset syncs": GARBAGE | {OTHER: b"\x00\x00\x00", OTHER + b"x": b"\xff" * 16, OTHER[:4]: b"\x00" * 16},
    "checkpoints": GARBAGE | {CHECKPOINT: b"\x00\x63" + b"\x00" * 18, CHECKPOINT[:5]: b"\x00" * 20},
    "positions": GARBAGE | {
        b"[": b"{", b'["MirrorSourceConnector"]': b'{"offset":1}', b'[1,2,3]': b'{"offset":"x"}',
        b'["MirrorSourceConnector",{"cluster":"x","partition":0,"topic":"other"}]': b'{"offset":-5}',
    },
}  # fmt: skip


def write(cluster: LocalCluster, topic: str, records: Mapping[bytes, bytes | None]) -> None:
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")) as producer:
        for key, value in records.items():
            producer.send(topic, value, key, partition=0).get(30)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.fault_mm2("F40")
@pytest.mark.parametrize("where", WRONG)
def test_records_that_cannot_be_read_lie_in_an_internal_topic(
    where: str, source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[..., str], row
) -> None:
    source, target = source_cluster, target_cluster
    alias, topic, group = "mm2bad" + where.replace(" ", ""), topic_name("bad"), topic_name("group")
    internal = {
        "offset syncs": (source, f"mm2-offset-syncs.{alias}-to.internal"),
        "checkpoints": (target, f"{alias}.checkpoints.internal"),
        "positions": (target, f"mm2-offsets.{alias}.internal"),
    }
    flow = Mm2Flow(
        source, target, alias=alias, topics=topic, more={"sync.group.offsets.enabled": "true", "groups": f"{group}.*"}
    )
    create_topics(source, {topic: (1, {})})
    produce(source, topic, 0, numbered(PART))
    commit(source, group, topic, {0: PART // 2})
    with flow.process() as mm2:
        await_true(lambda: flow.copied(topic) == PART, START_SECONDS_MAX, "everything is copied")
        await_true(lambda: java_offsets(target, group, flow.remote(topic)), START_SECONDS_MAX, "the group is placed")
        mm2.stop()
    before = java_offsets(target, group, flow.remote(topic))[0]
    write(*internal[where], WRONG[where])
    produce(source, topic, 0, numbered(PART, first=PART))
    commit(source, group, topic, {0: 2 * PART})
    with flow.process() as mm2:
        began = time.monotonic()
        row.recovered = flow.converge(topic, began)
        at = placed(flow, topic, group, before)
        told = flow.told(mm2)
        print(*[line for line in log_of(mm2).splitlines() if " WARN " in line or " ERROR " in line], sep="\n")
    records = java_records(source.bootstrap, topic)[0], java_records(target.bootstrap, flow.remote(topic))[0]
    moved = "the group goes on" if at > before else "the group stands still"
    wrong = "".join(f", {text}" for text in group_violations(*records, at_source=2 * PART, at_target=at))
    row.seen = f"{where}: {flow.judge(topic)}; {moved}{wrong}; {told}"


def placed(flow: Mm2Flow, topic: str, group: str, before: int) -> int:
    """Where the group stands once it has moved, or when there was time enough."""
    deadline = time.monotonic() + CONVERGE_SECONDS_MAX
    at = before
    while at <= before and time.monotonic() < deadline:
        at = java_offsets(flow.target, group, flow.remote(topic))[0]
    return at
