"""What cannot be copied stops its own partition with the reason, and nothing else; once mended, nothing is lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from judge import compare, java_records
from mirroring import (
    TRACEBACK,
    Outcome,
    admin_of,
    batch_of,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    now_ms,
    numbered,
    produce,
    produce_raw,
    recreate_topic,
    run_once,
    set_topic_config,
    topics_of,
    write_settings,
)

from sparkmirror.local import LocalCluster

ALIAS = "bad"
DAY_MS = 86_400_000
LIMIT = 2000
MENDABLE = ("bad-large", "bad-future", "bad-null-key")
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "bad-large": (2, {}),
    "bad-future": (1, {"message.timestamp.after.max.ms": str(1000 * DAY_MS)}),
    "bad-null-key": (1, {}),
    "bad-fewer": (4, {}),
    "bad-recreated-longer": (1, {}),
    "bad-recreated-shorter": (1, {}),
    "bad-overtaken": (1, {}),
    "bad-overtaken-to-the-end": (1, {}),
    "bad-stranger": (1, {}),
    "bad-target-deleted": (1, {}),
    "bad-target-recreated": (1, {}),
    "bad-fine": (1, {}),
}
REMOTE: dict[str, tuple[int, dict[str, str]]] = {
    "bad.bad-large": (2, {"max.message.bytes": str(LIMIT)}),
    "bad.bad-future": (1, {}),
    "bad.bad-null-key": (1, {"cleanup.policy": "compact"}),
    "bad.bad-fewer": (1, {}),
}


@dataclass(frozen=True)
class Stages:
    """The outcomes, and where the remote topics ended after each run."""

    outcomes: list[Outcome]
    ends: list[dict[str, dict[int, int]]]


def fill(source: LocalCluster) -> None:
    small = [batch_of([value]) for value in numbered(8)]
    large = [batch_of(numbered(1, size=5000))]
    produce_raw(source, "bad-large", {0: small[:5] + large + small[5:], 1: small})
    future = batch_of([b"from the future"], timestamp=now_ms() + 3 * DAY_MS)
    produce_raw(source, "bad-future", {0: [*small[:2], future, small[3]]})
    keys = [b"k0", b"k1", None, b"k3"]
    produce_raw(source, "bad-null-key", {0: [batch_of(numbered(4), keys=keys)]})
    produce_raw(source, "bad-fewer", dict.fromkeys(range(4), small))
    for topic in TOPICS:
        if topic.startswith(("bad-recreated", "bad-overtaken", "bad-stranger", "bad-target", "bad-fine")):
            produce(source, topic, 0, numbered(10))


def spoil(source: LocalCluster, target: LocalCluster) -> None:
    """Changes both clusters while no run looks."""
    for topic, count in (("bad-recreated-longer", 25), ("bad-recreated-shorter", 4)):
        recreate_topic(source, topic)
        produce(source, topic, 0, numbered(count))
    for topic, start in (("bad-overtaken", 17), ("bad-overtaken-to-the-end", 20)):
        produce(source, topic, 0, numbered(10))
        move_log_start(source, topic, 0, start)
    produce(target, "bad.bad-stranger", 0, [b"not ours"])
    with admin_of(target) as admin:
        admin.delete_topics(["bad.bad-target-deleted"])
    recreate_topic(target, "bad.bad-target-recreated")
    for topic in ("bad-stranger", "bad-target-deleted", "bad-target-recreated", "bad-fine"):
        produce(source, topic, 0, numbered(5))


def mend(target: LocalCluster) -> None:
    """Makes the target accept what it refused."""
    set_topic_config(target, "bad.bad-large", {"max.message.bytes": "100000"})
    set_topic_config(target, "bad.bad-future", {"message.timestamp.after.max.ms": str(1000 * DAY_MS)})
    set_topic_config(target, "bad.bad-null-key", {"cleanup.policy": "delete"})


@pytest.fixture(scope="module")
def stages(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Stages:
    """A run over what the target refuses, then one after that was mended and other things were spoilt."""
    create_topics(source_cluster, TOPICS)
    create_topics(target_cluster, REMOTE)
    fill(source_cluster)
    settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics="bad-.*")
    path = write_settings(tmp_path_factory.mktemp("bad") / "mm2.properties", settings)
    first = run_once(path)
    before = remote_ends(target_cluster)
    mend(target_cluster)
    spoil(source_cluster, target_cluster)
    second = run_once(path)
    return Stages([first, second], [before, remote_ends(target_cluster)])


def remote_ends(target: LocalCluster) -> dict[str, dict[int, int]]:
    there = topics_of(target)
    return {topic: log_ends(target, f"{ALIAS}.{topic}") for topic in TOPICS if f"{ALIAS}.{topic}" in there}


def lines_about(outcome: Outcome, topic: str) -> str:
    return "\n".join(line for line in outcome.output.splitlines() if f"{topic}-0" in line)


def test_a_refused_record_ends_the_run_with_status_4(stages: Stages) -> None:
    assert [outcome.status for outcome in stages.outcomes] == [4, 4]
    assert all(TRACEBACK not in outcome.output for outcome in stages.outcomes)


@pytest.mark.fault("F34")
def test_a_record_too_large_stops_its_partition_with_offset_size_and_limit(stages: Stages) -> None:
    said = lines_about(stages.outcomes[0], "bad-large")
    assert "RECORD_TOO_LARGE" in said
    assert all(word in said for word in ("offset 5", "max.message.bytes", str(LIMIT)))
    assert any(str(size) in said for size in range(5060, 5100)), said
    assert stages.ends[0]["bad-large"] == {0: 5, 1: 8}


def test_every_error_line_names_its_partition(stages: Stages) -> None:
    errors = [line for line in stages.outcomes[0].output.splitlines() if line.startswith("sparkmirror:")]
    assert len(errors) == 3
    assert [any(f"{topic}-0" in line for line in errors) for topic in MENDABLE] == [True] * 3


@pytest.mark.fault("F35")
@pytest.mark.parametrize(
    ("topic", "copied", "setting"),
    [("bad-future", 2, "message.timestamp.after.max.ms"), ("bad-null-key", 2, "cleanup.policy")],
)
def test_a_record_that_the_target_refuses_stops_its_partition_with_the_setting(
    stages: Stages, topic: str, copied: int, setting: str
) -> None:
    said = lines_about(stages.outcomes[0], topic)
    assert "TARGET_REFUSED_RECORDS" in said
    assert f"offset {copied}" in said
    assert setting in said
    assert stages.ends[0][topic] == {0: copied}


@pytest.mark.parametrize("topic", MENDABLE)
def test_once_the_target_accepts_it_the_rest_is_copied_exactly(
    stages: Stages, source_cluster: LocalCluster, target_cluster: LocalCluster, topic: str
) -> None:
    source = java_records(source_cluster.bootstrap, topic)
    assert compare(source, java_records(target_cluster.bootstrap, f"{ALIAS}.{topic}")) == []


def test_a_healthy_partition_beside_stopped_ones_is_copied(
    stages: Stages, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source = java_records(source_cluster.bootstrap, "bad-fine")
    assert len(source[0]) == 15
    assert compare(source, java_records(target_cluster.bootstrap, "bad.bad-fine")) == []


@pytest.mark.fault("F32")
def test_a_remote_topic_with_fewer_partitions_is_extended(stages: Stages) -> None:
    assert stages.ends[0]["bad-fewer"] == {0: 8, 1: 8, 2: 8, 3: 8}


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("bad-recreated-longer", "SOURCE_TOPIC_RECREATED"),
        ("bad-recreated-shorter", "SOURCE_TOPIC_RECREATED"),
        ("bad-overtaken", "SOURCE_OFFSET_LOST"),
        ("bad-overtaken-to-the-end", "SOURCE_OFFSET_LOST"),
        ("bad-stranger", "TARGET_HAS_STRANGER"),
        ("bad-target-deleted", "TARGET_TOPIC_RECREATED"),
        ("bad-target-recreated", "TARGET_TOPIC_RECREATED"),
    ],
)
def test_what_changed_while_nobody_looked_stops_the_partition_with_its_name(
    stages: Stages, topic: str, code: str
) -> None:
    assert code in lines_about(stages.outcomes[1], topic)
    before = {"bad-stranger": 11, "bad-target-deleted": 0, "bad-target-recreated": 0}.get(topic, 10)
    assert stages.ends[1].get(topic, {0: 0}) == {0: before}, "something was written"


@pytest.mark.parametrize(("topic", "count"), [("bad-overtaken", 7), ("bad-overtaken-to-the-end", 10)])
def test_lost_offsets_are_counted(stages: Stages, topic: str, count: int) -> None:
    assert f"{count} offsets are gone" in lines_about(stages.outcomes[1], topic)


Change = Callable[[dict[str, str]], dict[str, str]]


@pytest.mark.fault("F43")
@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda s: s | {"x->x-to.enabled": "false"}, 2, ["flow"]),
        (lambda s: s | {"replication.policy.class": "com.example.OurPolicy"}, 2, ["com.example.OurPolicy"]),
        (lambda s: s | {"x.bootstrap.servers": "127.0.0.1:1"}, 2, ["127.0.0.1:1", "x.bootstrap.servers"]),
        (lambda s: s | {"x-to.bootstrap.servers": "127.0.0.1:1"}, 2, ["127.0.0.1:1", "x-to"]),
        (lambda s: s | {"x->x-to.topics": "("}, 2, ["topics"]),
    ],
    ids=["no flow enabled", "unknown policy", "source unreachable", "target unreachable", "broken pattern"],
)
def test_a_configuration_that_cannot_work_ends_at_once_with_the_reason(
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path: Path,
    change: Change,
    status: int,
    words: list[str],
) -> None:
    settings = change(flow_settings(source_cluster, target_cluster, alias="x", topics="nothing"))
    outcome = run_once(write_settings(tmp_path / "mm2.properties", settings))
    assert outcome.status == status, outcome.output
    assert TRACEBACK not in outcome.output
    assert all(word in outcome.output for word in words), outcome.output


def test_a_missing_file_ends_with_status_255(tmp_path: Path) -> None:
    outcome = run_once(tmp_path / "missing.properties")
    assert outcome.status == 255
    assert "missing.properties" in outcome.output
    assert TRACEBACK not in outcome.output
