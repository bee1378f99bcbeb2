"""The doctor on real brokers under a running sparkmirror: nothing on a healthy pair, and every cause that is staged by name.

What MirrorMaker 2 does is in test_doctor_on_mm2.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from host import hosted_command
from integration.mirroring import (
    admin_of,
    await_true,
    batch_of,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    move_log_start,
    now_ms,
    numbered,
    partitions_of,
    produce,
    produce_raw,
    recreate_topic,
    set_topic_config,
    transactional,
    write_settings,
)
from integration.scenario import client_of, commit

from sparkmirror.clusters import append_records, committed_offsets
from sparkmirror.config import load
from sparkmirror.diagnose import Answer, why
from sparkmirror.examination.examine import Examination, examine
from sparkmirror.local import LocalCluster
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.wire import connect_partition, encode_connect_offset, encode_offset_sync, source_key

ALIAS, FLOW = "sick", "sick->sick-to"
DAY_MS = 86_400_000
TOPICS = (
    "sick-fine", "sick-recreated", "sick-overtaken", "sick-large", "sick-old", "sick-replaced", "sick-stranger",
    "sick-narrow",
)  # fmt: skip
GROUP = "sick-group"
SUBJECTS = {
    "sick-fine": None, "sick-recreated": "D6", "sick-overtaken:0": "D7", "sick.sick-large": "D1", "sick-old": "D10",
    "sick-replaced": "D5", "sick-stranger": "C24", "unwanted-sick": "D8", "sick-new": "D9", "sick-narrow": "D12",
    GROUP: None,
}  # fmt: skip


@dataclass
class Told:
    """How a command ended and what it said as JSON."""

    status: int
    value: dict[str, Any]

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Of all flows."""
        return [found for flow in self.value["flows"] for found in flow["findings"]]

    def bad(self) -> list[str]:
        """Errors and warnings in words, for a test that expects none."""
        return [f"{f['id']} {f['severity']} {f['message']}" for f in self.findings if f["severity"] != "I"]

    def about(self, name: str, topic: str = "") -> dict[str, Any]:
        """The finding of an id about a topic."""
        found = [f for f in self.findings if f["id"] == name and f["subject"]["topic"] == topic]
        assert found, f"no {name} about {topic or 'the flow'}: {[(f['id'], f['message']) for f in self.findings]}"
        return found[0]


def tell(*words: str) -> Told:
    """`sparkmirror … --json`."""
    ended = hosted_command(*words, "--json", seconds=300)
    assert ended.stdout, f"{ended.returncode}: {ended.stderr}"
    return Told(ended.returncode, json.loads(ended.stdout))


@dataclass
class Story:
    """What the doctor said at each stage, and what `why` said of each topic."""

    healthy: Told | None = None
    sick: Told | None = None
    dead: Told | None = None
    away: Told | None = None
    reason: Told | None = None
    reasons: dict[str, Answer] = field(default_factory=dict)


def committed(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """Where a group stands; only waited for, never judged by."""
    with client_of(cluster) as client:
        found = committed_offsets(client, [group])[group].committed
    return {place.partition: at.offset for place, at in found.items() if place.topic == topic and at is not None}


def await_copied(target: LocalCluster, topic: str, records: int) -> None:
    remote = f"{ALIAS}.{topic}"
    await_true(lambda: partitions_of(target, remote) > 0 and log_ends(target, remote)[0] >= records, 180.0, f"{topic} is "
                                                                                                            "copied")


def spoil(source: LocalCluster, target: LocalCluster) -> None:
    """While nobody runs the flow."""
    recreate_topic(source, "sick-recreated")
    produce(source, "sick-recreated", 0, numbered(4, first=200))
    produce(source, "sick-overtaken", 0, numbered(10, first=10))
    move_log_start(source, "sick-overtaken", 0, 17)
    set_topic_config(target, f"{ALIAS}.sick-large", {"max.message.bytes": "2000"})
    produce(source, "sick-large", 0, [b"x" * 5_000])
    set_topic_config(target, f"{ALIAS}.sick-old", {"message.timestamp.before.max.ms": str(DAY_MS)})
    produce_raw(source, "sick-old", {0: [batch_of(numbered(3), timestamp=now_ms() - 9 * DAY_MS)]})
    recreate_topic(target, f"{ALIAS}.sick-replaced")
    produce(target, f"{ALIAS}.sick-stranger", 0, [b"not ours"])
    produce(source, "sick-stranger", 0, numbered(5, first=10))
    with client_of(source) as client:
        append_records(client, TopicPartition(f"mm2-offset-syncs.{ALIAS}-to.internal", 0), [(b"junk", b"junk")], now_ms())


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """A healthy run; then one under which everything is spoilt; then nobody."""
    source, target = source_cluster, target_cluster
    told = Story()
    create_topics(source, {**dict.fromkeys(TOPICS, (1, {})), "sick-fine": (2, {}), "unwanted-sick": (1, {})})
    for topic in TOPICS:
        produce(source, topic, 0, numbered(10))
    quick = {"emit.checkpoints.interval.seconds": "1", "sync.group.offsets.interval.seconds": "1", "groups": GROUP,
             "sync.group.offsets.enabled": "true", "refresh.groups.interval.seconds": "1"}  # fmt: skip
    folder = tmp_path_factory.mktemp("sick")
    settings = flow_settings(source, target, alias=ALIAS, topics="sick-.*", more=quick)
    path = write_settings(folder / "mm2.properties", settings)
    commit(source, GROUP, "sick-fine", {0: 6})
    with live_mirror(path) as mirror:
        for topic in TOPICS:
            await_copied(target, topic, 10)
        await_true(lambda: committed(target, GROUP, f"{ALIAS}.sick-fine") == {0: 6}, 120.0, "the group is synced")
        told.healthy = tell("doctor", str(path))
        assert mirror.stop().status == 0
    spoil(source, target)
    slow = {**settings, "refresh.topics.interval.seconds": "600"}
    path = write_settings(folder / "mm2.properties", slow)
    with live_mirror(path) as mirror:
        for topic, code in (("recreated", "SOURCE_TOPIC_RECREATED"), ("overtaken", "SOURCE_OFFSET_LOST"),
                            ("large", "RECORD_TOO_LARGE"), ("old", "TARGET_REFUSED_RECORDS"),
                            ("replaced", "TARGET_TOPIC_RECREATED"), ("stranger", "TARGET_HAS_STRANGER")):  # fmt: skip
            mirror.await_said(f"sick-{topic}-0 stopped {code}", 120.0)
        create_topics(source, {"sick-new": (1, {})})
        with admin_of(source) as admin:
            admin.create_partitions({"sick-narrow": 2})
        told.sick = tell("doctor", str(path))
        [flow] = examine(load(str(path)), Examination(wait_s=0)).flows
        for subject in SUBJECTS:
            [told.reasons[subject]] = why(flow, subject)
        told.reason = tell("why", str(path), "sick-overtaken:0", "--wait", "0")
        mirror.kill()
    told.dead = tell("doctor", str(path), "--only", "D11")
    text = path.read_text().replace(target.bootstrap, "127.0.0.1:1")
    path.write_text(text)
    told.away = tell("doctor", str(path))
    yield told


@pytest.mark.timeout(600)
def test_a_healthy_pair_has_neither_errors_nor_warnings(story: Story) -> None:
    assert story.healthy is not None
    assert story.healthy.bad() == []
    [flow] = story.healthy.value["flows"]
    assert flow["open"] == [] and story.healthy.status == 0
    assert flow["runner"]["program"] == "sparkmirror" and flow["runner"]["state"] == "running"
    assert (flow["lag"], flow["groups_by_proof"]) == (0, {"exact": 1})


@pytest.mark.parametrize(
    ("name", "topic", "severity", "words"),
    [
        ("D1", "sick-large", "E", "RECORD_TOO_LARGE"),
        ("D5", "sick-replaced", "E", "deleted on the target or created again"),
        ("D6", "sick-recreated", "E", "deleted and created again"),
        ("D7", "sick-overtaken", "E", "7 offsets (10 to 16) expired"),
        ("D8", "unwanted-sick", "I", "matched by no include pattern"),
        ("D9", "sick-new", "I", "refreshed every 10 min"),
        ("D10", "sick-old", "E", "timestamp"),
        ("D12", "sick-narrow", "W", "2 partitions on the source"),
        ("C24", "sick-stranger", "W", "sick.sick-stranger-0"),
        ("V6", "", "W", "mm2-offset-syncs.sick-to.internal-0 offset"),
    ],
)
def test_a_cause_is_named_while_the_flow_runs(story: Story, name: str, topic: str, severity: str, words: str) -> None:
    assert story.sick is not None and story.sick.status == 4
    found = story.sick.about(name, topic)
    assert found["severity"] == severity
    assert words in found["message"]
    assert severity == "I" or found["mend"]


def test_what_is_fine_is_left_alone_beside_what_is_not(story: Story) -> None:
    assert story.sick is not None
    assert not [f for f in story.sick.findings if f["subject"]["topic"] == "sick-fine"]


def test_the_commands_are_those_that_mend_it(story: Story) -> None:
    assert story.sick is not None
    verbs = {("D6", "sick-recreated"): "reset", ("D7", "sick-overtaken"): "skip", ("D5", "sick-replaced"): "reset"}
    for (name, topic), verb in verbs.items():
        command = story.sick.about(name, topic)["command"]
        assert command.startswith(f"sparkmirror offsets {verb} ") and f"--topic {topic} --partition 0" in command


@pytest.mark.parametrize("subject", SUBJECTS)
def test_why_stops_at_the_cause(story: Story, subject: str) -> None:
    answer = story.reasons[subject]
    assert (answer.cause.id if answer.cause is not None else None) == SUBJECTS[subject], answer


def test_the_command_why_answers_in_steps_and_with_the_status_of_the_cause(story: Story) -> None:
    assert story.reason is not None and story.reason.status == 4
    [answer] = story.reason.value["answers"]
    assert answer["cause"]["id"] == "D7" and answer["subject"] == "sick-overtaken-0"
    assert [step["good"] for step in answer["steps"]] == [True, False, True, True, False]
    stop = answer["steps"][1]["answer"]
    assert "SOURCE_OFFSET_LOST" in stop and "sparkmirror offsets skip" in stop


def test_a_mirror_that_was_killed_is_told_dead(story: Story) -> None:
    assert story.dead is not None and story.dead.status == 4
    found = [f for f in story.dead.findings if " died" in f["message"]]
    assert found and found[0]["certainty"] == "proven"


def test_a_cluster_that_does_not_answer_is_told_with_what_is_known(story: Story) -> None:
    assert story.away is not None and story.away.status == 4
    [flow] = story.away.value["flows"]
    assert (flow["findings"][0]["id"], flow["outage"], flow["lag"]) == ("V1", "target unreachable", None)
    assert (flow["clusters"]["source"]["reached"], flow["clusters"]["target"]["reached"]) == (True, False)
    assert flow["topics"] > 0 and any("does not answer" in question["reason"] for question in flow["open"])
    story.away.about("D8", "unwanted-sick")


# --- MirrorMaker 2 with exactly-once support, its records written by the test ------------------------------------


def test_records_that_an_exactly_once_mm2_aborted_are_no_copies(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    alias, topic = "eos", "eos-orders"
    partition, remote = TopicPartition(topic, 0), f"{alias}.{topic}"
    positions, syncs = f"mm2-offsets.{alias}.internal", f"mm2-offset-syncs.{alias}-to.internal"
    compacted = {"cleanup.policy": "compact"}
    create_topics(source_cluster, {topic: (1, {}), syncs: (1, compacted)})
    create_topics(target_cluster, {remote: (1, {}), positions: (25, compacted)})
    values, time_ms = numbered(10), now_ms()
    for cluster, name in ((source_cluster, topic), (target_cluster, remote)):
        produce_raw(cluster, name, {0: [batch_of(values, timestamp=time_ms)]})
    with transactional(target_cluster, "eos-task") as producer:  # the task failed in its poll and was restarted
        producer.begin_transaction()
        for number in range(5, 10):
            producer.send(remote, values[number], b"k%d" % number, partition=0, timestamp_ms=time_ms)
        producer.flush()
        producer.abort_transaction()
    key = source_key("MirrorSourceConnector", alias, partition)
    with client_of(target_cluster) as client:
        stored = TopicPartition(positions, connect_partition(key, 25))
        append_records(client, stored, [(key, encode_connect_offset(9))], now_ms())
    with client_of(source_cluster) as client:
        append_records(client, TopicPartition(syncs, 0), [encode_offset_sync(OffsetSync(partition, 0, 0))], now_ms())
    settings = flow_settings(source_cluster, target_cluster, alias=alias, topics=topic)
    settings |= {f"{alias}-to.exactly.once.source.support": "enabled"}
    found = tell("doctor", str(write_settings(tmp_path / "eos.properties", settings)))
    assert [(f["id"], f["message"]) for f in found.findings if f["id"] in ("C22", "C24")] == []
    settings |= {f"{alias}-to.exactly.once.source.support": "disabled"}
    plain = tell("doctor", str(write_settings(tmp_path / "plain.properties", settings)))
    assert "5 records" in plain.about("C22", topic)["message"], "read uncommitted they are there"
