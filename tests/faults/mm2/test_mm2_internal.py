"""MirrorMaker 2 and records in its internal topics that nobody can read."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass

import pytest
from integration.mirroring import create_topics, numbered, produce
from integration.scenario import commit, java_offsets
from judge import group_violations, java_records
from kafka import KafkaProducer

from faults.mm2.flow import CONVERGE_SECONDS_MAX, Mm2Flow, ends
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition

PART = 300  # records before each start
GARBAGE: dict[bytes, bytes | None] = {
    b"\x00": b"\x00", b"not a key": b"not a value", b"\x7f\xff\xff\xff": b"\x00\x01", b"gone": None, b"empty": b"",
}  # fmt: skip
OTHER = b"\x00\x05other\x00\x00\x00\x00"  # topic and partition, as keys of offset syncs are written
CHECKPOINT = b"\x00\x01g" + OTHER  # group, topic and partition
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


@dataclass
class Scene:
    """One topic of a flow that syncs groups, and three of them: one for each start."""

    flow: Mm2Flow
    topic: str
    groups: tuple[str, ...]

    def grow(self) -> None:
        """More records on the source."""
        produce(self.flow.source, self.topic, 0, numbered(PART, first=ends(self.flow.source, self.topic)[self.place]))

    @property
    def place(self) -> TopicPartition:
        """Its only partition."""
        return TopicPartition(self.topic, 0)

    def run(self, group: str, at_source: int) -> tuple[float | None, int | None, str]:
        """A start that copies everything and has to place a group: seconds, the place, and what was reported."""
        commit(self.flow.source, group, self.topic, {0: at_source})
        with self.flow.process() as mm2:
            seconds = self.flow.converge(self.topic, time.monotonic())
            deadline = time.monotonic() + CONVERGE_SECONDS_MAX
            while not (at := java_offsets(self.flow.target, group, self.flow.remote(self.topic))):
                if time.monotonic() > deadline:
                    break
            reported = self.flow.reported(mm2)
            mm2.check()
            mm2.stop()
        return seconds, at.get(0), reported


def judged(scene: Scene, at_source: int, at_target: int | None) -> str:
    if at_target is None:
        return "is not placed"
    source = java_records(scene.flow.source.bootstrap, scene.topic)[0]
    target = java_records(scene.flow.target.bootstrap, scene.flow.remote(scene.topic))[0]
    wrong = group_violations(source, target, at_source=at_source, at_target=at_target)
    return wrong[0].removeprefix("it ") if wrong else "goes on exactly"


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.fault_mm2("F40")
@pytest.mark.parametrize("where", ["nowhere", *WRONG])
def test_records_that_cannot_be_read_lie_in_an_internal_topic(
    where: str, source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[..., str], row
) -> None:
    source, target = source_cluster, target_cluster
    alias, topic, stem = "mm2bad" + where.replace(" ", ""), topic_name("bad"), topic_name("group")
    internal = {
        "offset syncs": (source, f"mm2-offset-syncs.{alias}-to.internal"),
        "checkpoints": (target, f"{alias}.checkpoints.internal"),
        "positions": (target, f"mm2-offsets.{alias}.internal"),
    }
    more = {"sync.group.offsets.enabled": "true", "groups": f"{stem}.*"}
    flow = Mm2Flow(source, target, alias=alias, topics=topic, more=more)
    scene = Scene(flow, topic, tuple(f"{stem}-{number}" for number in range(3)))
    create_topics(source, {topic: (1, {})})
    scene.grow()
    _, at, _ = scene.run(scene.groups[0], PART)
    assert at is not None, "all is well before"
    if where in WRONG:
        write(*internal[where], WRONG[where])
    scene.grow()
    row.recovered, at_end, first_told = scene.run(scene.groups[1], 2 * PART)
    # What the second start wrote lies behind what cannot be read, and the third one needs it.
    _, at_middle, second_told = scene.run(scene.groups[2], 2 * PART - PART // 3)
    said = f"a group at the end {judged(scene, 2 * PART, at_end)}"
    said += f", one in the middle {judged(scene, 2 * PART - PART // 3, at_middle)}"
    reported = first_told if first_told == second_told else f"{first_told}; then {second_told}"
    row.seen = f"{where}: {flow.judge(topic)}; {said}; {reported}"
