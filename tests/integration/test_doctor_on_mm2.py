"""The doctor on flows that Java MirrorMaker 2 runs: nothing on a healthy pair, and D1–D12 staged and named.

Three runs of MirrorMaker 2 on one flow: a healthy one that stores its positions each second; one that stores none any more,
under which everything is spoilt, each partition with a task of its own; and one with a single task behind a quota.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from integration.mirroring import (
    admin_of,
    await_true,
    batch_of,
    create_topics,
    log_ends,
    move_log_start,
    now_ms,
    numbered,
    partitions_of,
    produce,
    produce_raw,
    recreate_topic,
    set_topic_config,
    topics_of,
)
from integration.scenario import Pair, client_of, commit
from integration.test_doctor_on_clusters import Told, committed, tell

from sparkmirror.clusters import append_records
from sparkmirror.config import load
from sparkmirror.diagnose import Answer, why
from sparkmirror.examination.examine import Examination, examine
from sparkmirror.local import LocalCluster, MirrorMaker, java_tool
from sparkmirror.model import TopicPartition
from sparkmirror.wire import connect_partition, source_key

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

DAY_MS = 86_400_000
STEMS = (
    "fine", "large", "larger", "coarse", "resumed", "shorter", "longer", "overtaken", "old", "narrow", "twice", "foreign",
    "gone", "drifted",
)  # fmt: skip
# What each topic of the second run suffers from.
CAUSES = {
    "large": "D1", "larger": "D2", "coarse": "D3", "resumed": "D5", "shorter": "D6", "longer": "D6", "overtaken": "D7",
    "new": "D9", "old": "D10", "narrow": "D12", "twice": "C22",
}  # fmt: skip
CONFIG_COMMAND = "kafka.admin.ConfigCommand"


@dataclass
class Stage:
    """The flow of this test: names of topics and groups, and the file with what is changed in it."""

    pair: Pair
    source: LocalCluster
    target: LocalCluster

    def topic(self, stem: str) -> str:
        """A topic of the flow."""
        return f"test-topic-{stem}-{self.pair.mark}"

    def remote(self, stem: str) -> str:
        """Its copy."""
        return f"{self.pair.source}.{self.topic(stem)}"

    def write(self, **more: str) -> Path:
        """The file."""
        names = {name.replace("_", "."): text for name, text in more.items()}
        return self.pair.write({"sync.group.offsets.enabled": "true", "sync.topic.acls.enabled": "false", **names})

    def fill(self, stem: str, count: int = 10, first: int = 0, partition: int = 0) -> None:
        """More records."""
        produce(self.source, self.topic(stem), partition, numbered(count, first=first))

    def await_end(self, stem: str, end: int, partition: int = 0) -> None:
        """Waits for the copy."""
        def is_there() -> bool:
            return partitions_of(self.target, self.remote(stem)) > partition and (
                log_ends(self.target, self.remote(stem))[partition] >= end
            )

        await_true(is_there, 300.0, f"{stem} has {end} records on the target")


@dataclass
class Story:
    """What was said when."""

    stage: Stage
    healthy: Told | None = None
    reason_of_group: Told | None = None
    foreign: Told | None = None
    sick: Told | None = None
    reasons: dict[str, Answer] = field(default_factory=dict)
    reason: Told | None = None
    dead: Told | None = None
    reason_of_dead: Told | None = None
    slow: Told | None = None
    reason_of_slow: Told | None = None
    later: Told | None = None


def stored(stage: Stage, stem: str) -> bool:
    """Whether MirrorMaker 2 has stored that all ten records are copied."""
    told = tell("doctor", str(stage.pair.folder / f"mm2-{stage.pair.mark}.properties"), "--only", "C12", "--wait", "0")
    return not told.findings


def forget_settings(stage: Stage) -> None:
    """Between two runs: a worker begins with the settings of its last one, and takes those of its file a moment later."""
    with admin_of(stage.target) as admin:
        admin.delete_topics([f"mm2-configs.{stage.pair.source}.internal"])


def spoil_at_rest(stage: Stage) -> None:
    """Between two runs."""
    source, target = stage.source, stage.target
    set_topic_config(target, stage.remote("large"), {"max.message.bytes": "20000"})
    produce(source, stage.topic("large"), 0, [b"x" * 50_000])
    produce(source, stage.topic("larger"), 0, [b"x" * 2_000_000])
    with admin_of(target) as admin:
        admin.delete_topics([stage.remote("resumed")])
    stage.fill("resumed", first=10)
    recreate_topic(source, stage.topic("shorter"))
    stage.fill("shorter", 4, first=200)
    recreate_topic(source, stage.topic("longer"))
    stage.fill("longer", 25, first=300)
    stage.fill("overtaken", 20, first=10)
    move_log_start(source, stage.topic("overtaken"), 0, 25)
    set_topic_config(target, stage.remote("old"), {"message.timestamp.before.max.ms": str(DAY_MS)})
    produce_raw(source, stage.topic("old"), {0: [batch_of(numbered(3), timestamp=now_ms() - 9 * DAY_MS)]})
    key = source_key("MirrorSourceConnector", stage.pair.source, TopicPartition(stage.topic("twice"), 0))
    offsets = f"mm2-offsets.{stage.pair.source}.internal"
    with client_of(target) as client:
        count = client.view([offsets]).topics[offsets].partitions
        append_records(client, TopicPartition(offsets, connect_partition(key, count)), [(key, None)], now_ms())
    with admin_of(source) as admin:
        admin.delete_topics([stage.topic("gone")])
    set_topic_config(source, f"mm2-offset-syncs.{stage.pair.target}.internal", {"cleanup.policy": "delete"})
    set_topic_config(source, stage.topic("drifted"), {"retention.ms": "777000000"})
    commit(target, stage.pair.group("beyond"), stage.remote("fine"), {0: 999})
    commit(source, stage.pair.group("beyond"), stage.topic("fine"), {0: 9})
    commit(source, stage.pair.group("back"), stage.topic("fine"), {0: 2})


def spoil_under_way(stage: Stage) -> None:
    """While the second run is at work."""
    stage.fill("coarse", 50, first=11)
    stage.await_end("coarse", 61)
    recreate_topic(stage.target, stage.remote("narrow"))
    stage.fill("narrow", 5, first=20, partition=1)
    create_topics(stage.source, {stage.topic("new"): (1, {})})


def quota(cluster: LocalCluster, change: str) -> None:
    """Sets or removes a quota of all producers."""
    words = ["--bootstrap-server", cluster.bootstrap, "--alter", *change.split()]
    java_tool(CONFIG_COMMAND, [*words, "--entity-type", "clients", "--entity-default"])


def run_slowly(stage: Stage, story: Story) -> None:
    """A single task behind a quota, with records that keep coming."""
    stems, stop = [f"busy{number}" for number in range(3)], threading.Event()
    create_topics(stage.source, {stage.topic(stem): (1, {}) for stem in stems})
    for stem in stems:
        produce(stage.source, stage.topic(stem), 0, numbered(3_000, size=500))
    path = stage.write(tasks_max="1", topics=f"test-topic-busy.*{stage.pair.mark}")

    def keep_writing() -> None:
        while not stop.wait(0.1):
            for stem in stems:
                produce(stage.source, stage.topic(stem), 0, numbered(10, size=500))

    quota(stage.target, "--add-config producer_byte_rate=20000")
    writer = threading.Thread(target=keep_writing, daemon=True)
    try:
        with MirrorMaker(path.read_text(), name="slow") as mm2:
            stage.await_end(stems[0], 1)
            writer.start()
            story.slow = tell("doctor", str(path), "--wait", "15", "--only", "D4,C12")
            story.reason_of_slow = tell("why", str(path), stage.topic(stems[0]), "--wait", "15")
            mm2.kill()
    finally:
        stop.set()
        if writer.is_alive():
            writer.join(30)
        quota(stage.target, "--delete-config producer_byte_rate")


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """All runs of MirrorMaker 2."""
    pair = Pair(source_cluster, target_cluster, tmp_path_factory.mktemp("mm2"))
    stage = Stage(pair, source_cluster, target_cluster)
    told = Story(stage)
    large = {"max.message.bytes": "3000000"}
    shapes = {stage.topic(stem): (2 if stem == "narrow" else 1, {}) for stem in STEMS}
    create_topics(pair.primary, {**shapes, stage.topic("larger"): (1, large), f"other-{pair.mark}": (1, {})})
    for stem in STEMS:
        stage.fill(stem)
    stage.fill("narrow", partition=1)
    for name in ("1", "back"):
        commit(pair.primary, pair.group(name), stage.topic("fine"), {0: 10})
    healthy = stage.write(**{f"{pair.target}.offset.flush.interval.ms": "1000",
                             f"{pair.target}.producer.max.request.size": "4000000", "tasks.max": "3"})  # fmt: skip
    baseline = str(pair.folder / "looks.json")
    with MirrorMaker(healthy.read_text(), name="healthy") as mm2:
        for stem in STEMS:
            stage.await_end(stem, 10)
        await_true(lambda: committed(pair.backup, pair.group("back"), stage.remote("fine")) == {0: 10}, 180.0, "groups")
        await_true(lambda: stored(stage, "fine"), 180.0, "positions are stored")
        told.healthy = tell("doctor", str(healthy), "--baseline", baseline)
        told.reason_of_group = tell("why", str(healthy), pair.group("1"))
        produce(pair.backup, stage.remote("foreign"), 0, [b"not mirrored", b"neither"])
        told.foreign = tell("doctor", str(healthy), "--only", "C22,C24")
        mm2.stop()
    forget_settings(stage)
    spoil_at_rest(stage)
    sick = stage.write(**{f"{pair.target}.offset.flush.interval.ms": "3600000", "tasks.max": "40",
                          "refresh.topics.interval.seconds": "600", "sync.topic.configs.enabled": "false"})  # fmt: skip
    with MirrorMaker(sick.read_text(), name="sick") as mm2:
        stage.fill("coarse", 1, first=10)
        copied = {"coarse": 11, "resumed": 10, "shorter": 14, "longer": 25, "overtaken": 15, "twice": 20}
        for stem, end in copied.items():
            stage.await_end(stem, end)
        spoil_under_way(stage)
        await_true(lambda: failed_tasks(sick) == {"D1", "D2", "D10"}, 180.0, "three tasks have failed")
        told.sick = tell("doctor", str(sick), "--baseline", baseline)
        assert stage.remote("new") not in topics_of(pair.backup)
        [flow] = examine(load(str(sick)), Examination(wait_s=0)).flows
        for stem in (*CAUSES, "fine"):
            [told.reasons[stem]] = why(flow, stage.topic(stem))
        [told.reasons["other"]] = why(flow, f"other-{pair.mark}")
        told.reason = tell("why", str(sick), stage.topic("large"))
        mm2.kill()
    await_true(lambda: "nobody copies" in json_text(tell("doctor", str(sick), "--only", "D11")), 120.0, "the group is empty")
    told.dead = tell("doctor", str(sick), "--only", "D11")
    told.reason_of_dead = tell("why", str(sick), stage.topic("fine"), "--wait", "0")
    forget_settings(stage)
    run_slowly(stage, told)
    yield told


def failed_tasks(path: Path) -> set[str]:
    """Diagnoses of failed tasks."""
    told = tell("doctor", str(path), "--only", "D1,D2,D10", "--wait", "0", "--no-record-reads")
    return {found["id"] for found in told.findings if found["certainty"] == "proven"}


def cause_of(told: Told | None) -> str:
    """The id of the cause that `why` ends at."""
    assert told is not None
    [answer] = told.value["answers"]
    return str(answer["cause"] and answer["cause"]["id"])


def json_text(told: Told) -> str:
    return " ".join(found["message"] for found in told.findings)


def test_a_healthy_pair_of_mm2_has_neither_errors_nor_warnings(story: Story) -> None:
    assert story.healthy is not None
    assert story.healthy.bad() == []
    [flow] = story.healthy.value["flows"]
    assert flow["open"] == [] and story.healthy.status == 0
    assert (flow["runner"]["program"], flow["runner"]["state"], flow["mm2_version"]) == ("mm2", "running", "4.3.1")
    assert story.reason_of_group is not None and story.reason_of_group.status == 0


@pytest.mark.parametrize(
    ("name", "stem", "severity", "words"),
    [
        ("D1", "large", "E", "the target topic takes 20,000 bytes"),
        ("D2", "larger", "E", "its producer takes 1,048,576 bytes"),
        ("D3", "coarse", "I", "records coarse"),
        ("D5", "resumed", "E", "10 offsets from 0 to 9"),
        ("D6", "shorter", "E", ""),
        ("D6", "longer", "E", ""),
        ("D7", "overtaken", "E", ""),
        ("D9", "new", "I", "looked for every 10 min"),
        ("D10", "old", "E", "timestamp"),
        ("D12", "narrow", "E", "hangs without an error"),
        ("C16", "drifted", "W", "retention.ms"),
        ("C22", "twice", "W", "went back"),
        ("C23", "gone", "W", "created again, it would be copied from there on"),
    ],
)
def test_a_cause_is_named_while_mm2_runs(story: Story, name: str, stem: str, severity: str, words: str) -> None:
    assert story.sick is not None and story.sick.status == 4
    found = story.sick.about(name, story.stage.topic(stem))
    assert found["severity"] == severity, found
    assert words in found["message"], found


def test_a_failed_task_names_the_record(story: Story) -> None:
    assert story.sick is not None
    for name, stem in (("D1", "large"), ("D2", "larger"), ("D10", "old")):
        found = story.sick.about(name, story.stage.topic(stem))
        assert f"the record at offset 10 of {story.stage.topic(stem)}-0" in found["message"], found


def test_a_topic_that_is_not_selected_is_named_with_the_line(story: Story) -> None:
    assert story.sick is not None
    found = story.sick.about("D8", f"other-{story.stage.pair.mark}")
    assert "matched by no include pattern" in found["message"] and "line " in found["message"]


@pytest.mark.parametrize(("name", "words"), [("C07", "stands at 999"), ("C09", "would skip ")])
def test_groups_that_stand_wrong_are_named(story: Story, name: str, words: str) -> None:
    assert story.sick is not None
    found = [f for f in story.sick.findings if f["id"] == name]
    assert found and words in found[0]["message"], found


def test_an_internal_topic_that_would_lose_its_records_is_named(story: Story) -> None:
    assert story.sick is not None
    assert "cleanup.policy=delete" in story.sick.about("C18")["message"]


def test_foreign_records_are_told_from_copies(story: Story) -> None:
    assert story.foreign is not None
    found = story.foreign.about("C24", story.stage.topic("foreign"))
    assert "2 records from offset 10 on" in found["message"]
    assert [f["id"] for f in story.foreign.findings] == ["C24"]


@pytest.mark.parametrize("stem", CAUSES)
def test_why_names_the_same_cause(story: Story, stem: str) -> None:
    answer = story.reasons[stem]
    found = {answer.cause.id if answer.cause is not None else None, *(also.id for also in answer.also)}
    assert CAUSES[stem] in found, answer
    if stem not in ("twice",):
        assert answer.cause is not None and answer.cause.id == CAUSES[stem], answer


def test_why_of_a_topic_that_is_not_selected_ends_at_the_first_question(story: Story) -> None:
    answer = story.reasons["other"]
    assert answer.cause is not None and answer.cause.id == "D8" and len(answer.steps) == 1
    assert story.reason is not None and story.reason.status == 4


def test_a_killed_mm2_is_told(story: Story) -> None:
    assert story.dead is not None
    assert any("MirrorMaker 2 died" in found["message"] for found in story.dead.findings)
    assert cause_of(story.reason_of_dead) == "D11"


def test_too_few_tasks_are_told_while_records_keep_coming(story: Story) -> None:
    assert story.slow is not None
    found = story.slow.about("D4")
    assert found["severity"] == "W" and "on 1 task" in found["message"] and "tasks.max" in found["mend"]
    [flow] = story.slow.value["flows"]
    assert flow["lag"] > 0
    assert cause_of(story.reason_of_slow) == "D4"
