"""What MirrorMaker 2 really does where its documents are silent: the answers that docs/inspector.md gives.

Each answer is a run of MirrorMaker 2 itself. Several flows share a process, and one that nobody spoils is the clock: what it
has done meanwhile, the spoilt ones could have done too. SPARKMIRROR_MM2_JARS names a folder with another release's jars.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import (
    admin_of,
    await_true,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    now_ms,
    numbered,
    produce,
    recreate_topic,
    topics_of,
    write_settings,
)
from integration.scenario import client_of, commit, java_offsets
from integration.test_doctor_on_clusters import Told, tell
from integration.test_offsets_on_clusters import QUICK, WAIT_S, committed, count, done, java_positions
from judge import java_records
from judge.java_gateway import java_gateway, java_map
from py4j.protocol import Py4JJavaError

from sparkmirror.clusters import append_records
from sparkmirror.clusters.removal import delete_group_offsets
from sparkmirror.local import LocalCluster, MirrorMaker, open_clusters
from sparkmirror.local.java import QUICK_START
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.wire import encode_checkpoint, encode_offset_sync

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]

JARS = Path(os.environ["SPARKMIRROR_MM2_JARS"]) if "SPARKMIRROR_MM2_JARS" in os.environ else None
ROUNDS = 3  # of commits on the clock's flow, until what has not happened elsewhere counts as not happening


@pytest.fixture(scope="module")
def clusters() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Of this file alone: names are those of the contract."""
    with open_clusters(LocalCluster("answers-source"), LocalCluster("answers-target")) as (source, target):
        yield source, target


@dataclass(frozen=True)
class Flow:
    """A flow `alias->alias-to` of topics `alias-…`, all of whose intervals are a second or two."""

    alias: str
    source: LocalCluster
    target: LocalCluster
    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, str]:
        """Its keys."""
        more = QUICK | {"groups": f"{self.alias}-.*"} | self.more
        found = flow_settings(self.source, self.target, alias=self.alias, topics=f"{self.alias}-.*", more=more)
        worker = {"offset.flush.interval.ms": "1000", "session.timeout.ms": "60000"}
        return found | {f"{self.alias}-to.{key}": value for key, value in worker.items()}

    @property
    def file(self) -> Path:
        """The file of this flow alone, for our own commands."""
        return write_settings(self.folder / f"{self.alias}.properties", self.settings)

    @property
    def syncs(self) -> str:
        """The topic of offset syncs, on the source."""
        return f"mm2-offset-syncs.{self.alias}-to.internal"

    @property
    def checkpoints(self) -> str:
        """The topic of checkpoints, on the target."""
        return f"{self.alias}.checkpoints.internal"

    def topic(self, stem: str = "orders") -> str:
        """A topic of the flow."""
        return f"{self.alias}-{stem}"

    def remote(self, stem: str = "orders") -> str:
        """Its copy."""
        return f"{self.alias}.{self.alias}-{stem}"

    def create(self, *stems: str, partitions: int = 1) -> None:
        """Empty topics on the source."""
        create_topics(self.source, {self.topic(stem): (partitions, {}) for stem in stems})

    def fill(self, records: int, stem: str = "orders", *, first: int = 0, partition: int = 0) -> None:
        """More records on the source."""
        produce(self.source, self.topic(stem), partition, numbered(records, first=first))

    def await_copied(self, records: int, stem: str = "orders") -> None:
        """Waits for the copy's end."""
        await_true(lambda: count(self.target, self.remote(stem)) >= records, WAIT_S, f"{self.remote(stem)}: {records}")

    def read_to(self, group: str, offset: int) -> None:
        """A group's position on the source."""
        commit(self.source, f"{self.alias}-{group}", self.topic(), {0: offset})

    def at_target(self, group: str) -> int | None:
        """A group's position on the target."""
        return committed(self.target, f"{self.alias}-{group}", self.remote()).get(0)

    def await_group(self, group: str, offset: int) -> None:
        """Waits until the group stands there on the target."""
        await_true(lambda: self.at_target(group) == offset, WAIT_S, f"{self.alias}-{group} at {offset}")

    def tick(self, at: int) -> None:
        """Waits for some rounds of commits: a group that nobody has seen goes to this offset, again and again."""
        for turn in range(ROUNDS):
            name = f"clock{at}-{turn}"
            self.read_to(name, at)
            self.await_group(name, at)

    def values(self, stem: str = "orders") -> list[int]:
        """The number that each record of the copy begins with, as Java's consumer reads it."""
        [records] = java_records(self.target.bootstrap, self.remote(stem)).values()
        return [int((record.value or b"").split(b":")[0]) for record in records]

    def delete(self, cluster: LocalCluster, *topics: str) -> None:
        """Deletes topics and waits until they are gone."""
        with admin_of(cluster) as admin:
            admin.delete_topics(list(topics))
        await_true(lambda: not set(topics) & topics_of(cluster), WAIT_S, f"{topics} are gone")


@dataclass
class Running:
    """A MirrorMaker 2 at work, and its log."""

    mm2: MirrorMaker
    log: Path

    def said(self, *words: str, after: int = 0) -> list[str]:
        """The lines of its log with all of these words, behind so many characters."""
        text = self.log.read_text(errors="replace")[after:]
        return [line for line in text.splitlines() if all(word in line for word in words)]

    @property
    def length(self) -> int:
        """How many characters it has logged."""
        return len(self.log.read_text(errors="replace"))


def old_log(folder: Path) -> tuple[str, Path]:
    """Releases before 4.0 log by log4j 1: the JVM option that makes them, and their log."""
    log, file = folder / "mm2-old.log", folder / "log4j.properties"
    file.write_text(
        f"log4j.rootLogger=INFO, out\nlog4j.appender.out=org.apache.log4j.FileAppender\nlog4j.appender.out.File={log}\n"
        "log4j.appender.out.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.out.layout.ConversionPattern=[%d] %p %m (%c)%n\n"
    )
    return f"-Dlog4j.configuration=file:{file}", log


@contextmanager
def mirror_maker(folder: Path, *flows: Flow) -> Iterator[Running]:
    """One MirrorMaker 2 for all of these; what it logged last is shown if the block fails."""
    file = write_settings(folder / "all.properties", *(flow.settings for flow in flows))
    option, log = old_log(folder)
    options = [*QUICK_START, *([option] if JARS is not None else [])]
    with MirrorMaker(file.read_text("latin-1"), name="answers", jvm_options=options, jars=JARS) as mm2:
        running = Running(mm2, mm2.log_file if JARS is None else log)
        try:
            yield running
        except AssertionError as error:
            error.add_note("\n".join([*running.said("ERROR")[-9:], *running.said("")[-9:]]))
            raise


def states(told: Told) -> list[str]:
    """What the doctor says of connectors and tasks that do not run."""
    return [found["message"] for found in told.findings if found["id"] == "D11"]


# --- 4: the bytes of stored positions ---------------------------------------------------------------------------


def test_positions_are_stored_under_the_keys_and_in_the_partitions_of_the_contract(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    source, target = clusters
    settings = flow_settings(source, target, alias="primary", topics="orders", more=QUICK | {"groups": "billing"})
    settings = {key.replace("primary-to", "backup"): text.replace("primary-to", "backup") for key, text in settings.items()}
    settings |= {"emit.heartbeats.enabled": "true", "backup.offset.flush.interval.ms": "1000"}
    create_topics(source, {"orders": (3, {})})
    for partition in range(3):
        produce(source, "orders", partition, numbered(10))
    commit(source, "billing", "orders", {0: 10})
    topic, wanted = "mm2-offsets.primary.internal", {
        (24, b'["MirrorSourceConnector",{"cluster":"primary","partition":0,"topic":"orders"}]'): b'{"offset":9}',
        (24, b'["MirrorSourceConnector",{"cluster":"primary","partition":1,"topic":"orders"}]'): b'{"offset":9}',
        (3, b'["MirrorSourceConnector",{"cluster":"primary","partition":2,"topic":"orders"}]'): b'{"offset":9}',
        (9, b'["MirrorCheckpointConnector",{"partition":0,"topic":"primary.orders","group":"billing"}]'): b'{"offset":0}',
        (7, b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"primary","targetClusterAlias":"backup"}]'): b'{"offset":0}',
    }  # fmt: skip
    file = write_settings(tmp_path / "mm2.properties", settings)
    with MirrorMaker(file.read_text("latin-1"), jvm_options=QUICK_START, jars=JARS) as mm2:
        await_true(lambda: topic in topics_of(target), WAIT_S, topic)
        await_true(lambda: len(java_positions(target, topic)) >= len(wanted), WAIT_S, "all kinds of keys")
        mm2.stop()
    # 3.9.1 copies heartbeats whatever `heartbeats.replication.enabled` says: one key more.
    found = {place: value for place, value in java_positions(target, topic).items() if b'"heartbeats"' not in place[1]}
    assert found == wanted
    assert len(log_ends(target, topic)) == 25


# --- 5: null values in the topics of syncs and of checkpoints ---------------------------------------------------


@dataclass
class Nulls:
    """Where groups stood on the target: of an unspoilt flow, of one with a null sync, of one with a null checkpoint."""

    flows: dict[str, Flow]
    live: dict[str, int | None] = field(default_factory=dict)
    restarted: dict[str, int | None] = field(default_factory=dict)
    slow_before: dict[str, int | None] = field(default_factory=dict)
    slow: dict[str, int | None] = field(default_factory=dict)
    mended: dict[str, int | None] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    java: dict[str, str] = field(default_factory=dict)
    errors_live: list[str] = field(default_factory=list)
    errors_later: list[str] = field(default_factory=list)


def spoil_with_nulls(story: Nulls) -> None:
    """One record without a value each, under keys that exist."""
    sync, point = story.flows["sync"], story.flows["point"]
    key, _ = encode_offset_sync(OffsetSync(TopicPartition(sync.topic(), 0), 0, 0))
    with client_of(sync.source) as client:
        append_records(client, TopicPartition(sync.syncs, 0), [(key, None)], now_ms())
    key, _ = encode_checkpoint(Checkpoint("point-other", TopicPartition(point.remote(), 0), 0, 0, ""))
    with client_of(point.target) as client:
        append_records(client, TopicPartition(point.checkpoints, 0), [(key, None)], now_ms())


def translated_by_java(flow: Flow, jvm: Any) -> str:
    """What RemoteClusterUtils answers for the group, or the exception that it ends with."""
    config = java_map(jvm, {"bootstrap.servers": flow.target.bootstrap})
    try:
        found = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
            config, flow.alias, f"{flow.alias}-fast", jvm.java.time.Duration.ofSeconds(30)
        )
    except Py4JJavaError as error:
        return str(error.java_exception.getClass().getSimpleName())
    return str([offset.offset() for offset in dict(found).values()])


@pytest.fixture(scope="module")
def nulls(clusters: tuple[LocalCluster, LocalCluster], tmp_path_factory: pytest.TempPathFactory) -> Nulls:
    """Three flows alike; two are spoilt while MirrorMaker 2 runs. It is restarted once, and once more after the mending."""
    folder = tmp_path_factory.mktemp("nulls")
    flows = {name: Flow(name, *clusters, folder) for name in ("fine", "sync", "point")}
    story, fine = Nulls(flows), flows["fine"]
    for flow in flows.values():
        flow.create("orders")
        flow.fill(50)
        flow.read_to("fast", 50)
        flow.read_to("slow", 50)
    with mirror_maker(folder, *flows.values()) as running:
        for flow in flows.values():
            flow.await_group("fast", 50)
            flow.fill(30, first=50)
            flow.await_copied(80)
            flow.read_to("fast", 80)
        for flow in flows.values():
            flow.await_group("fast", 80)
            story.slow_before[flow.alias] = flow.at_target("slow")
        spoil_with_nulls(story)
        for flow in flows.values():
            flow.fill(20, first=80)
            flow.read_to("fast", 100)
        fine.await_group("fast", 100)
        fine.tick(100)
        story.errors_live = running.said("ERROR")
        story.live = {name: flow.at_target("fast") for name, flow in flows.items()}
        running.mm2.stop()
    with mirror_maker(folder, *flows.values()) as running:
        for flow in flows.values():
            flow.fill(20, first=100)
            flow.await_copied(120)
            flow.read_to("fast", 120)
            flow.read_to("slow", 80)
        fine.await_group("fast", 120)
        fine.tick(120)
        story.errors_later = running.said("ERROR")
        story.restarted = {name: flow.at_target("fast") for name, flow in flows.items()}
        story.slow = {name: flow.at_target("slow") for name, flow in flows.items()}
        story.told = {name: tell("doctor", str(flow.file), "--only", "D11,V6,C06") for name, flow in flows.items()}
        with java_gateway() as jvm:
            story.java = {name: translated_by_java(flow, jvm) for name, flow in flows.items()}
        running.mm2.stop()
    flows["sync"].delete(flows["sync"].source, flows["sync"].syncs)
    flows["point"].delete(flows["point"].target, flows["point"].checkpoints)
    with mirror_maker(folder, *flows.values()) as running:
        for flow in flows.values():
            flow.fill(20, first=120)
            flow.read_to("fast", 140)
        for flow in flows.values():
            flow.await_group("fast", 140)
        running.mm2.stop()
    return story


def test_a_null_among_offset_syncs_ends_the_translation_at_the_next_start_without_a_failed_task(nulls: Nulls) -> None:
    topic = nulls.flows["sync"].syncs
    assert nulls.live["fine"] == 100 and nulls.restarted["fine"] == 120
    assert nulls.live["sync"] == 100, "a worker at work says an error and reads on"
    assert [line for line in nulls.errors_live if topic in line and "Unexpected exception" in line]
    assert nulls.restarted["sync"] == 100, "one that starts never comes to the end of the topic"
    assert [line for line in nulls.errors_later if "starting checkpoint and offset sync stores" in line]
    assert states(nulls.told["sync"]) == []
    told = nulls.told["sync"].about("V6")
    assert "a tombstone" in told["message"] and topic in told["message"]


def test_a_null_among_checkpoints_costs_the_history_and_javas_client(nulls: Nulls) -> None:
    assert nulls.live["point"] == 100 and nulls.restarted["point"] == 120
    assert nulls.slow["fine"] != nulls.slow_before["fine"]
    assert nulls.slow["point"] == nulls.slow_before["point"]
    assert nulls.java["fine"] == "[120]"
    assert nulls.java["point"] == "NullPointerException"
    assert states(nulls.told["point"]) == []


# --- 6: a full reset, with and without its steps 6 and 7 ---------------------------------------------------------


STEPS = (("neither", False, False), ("six", True, False), ("seven", False, True), ("both", True, True))


def reset_by_hand(flow: Flow, *, checkpoints: bool, commits: bool) -> int | None:
    """Steps 3 to 5 of the full reset, and 6 or 7 if wanted; where the group stands on the target before step 7."""
    flow.delete(flow.target, flow.remote(), f"mm2-offsets.{flow.alias}.internal")
    flow.delete(flow.source, flow.syncs)
    if checkpoints:
        flow.delete(flow.target, flow.checkpoints)
    left = java_offsets(flow.target, f"{flow.alias}-fast", flow.remote()).get(0)
    if commits:
        with client_of(flow.target) as client:
            delete_group_offsets(client, f"{flow.alias}-fast", [TopicPartition(flow.remote(), 0)])
    return left


def test_groups_end_past_the_copys_end_unless_checkpoints_are_deleted_too(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """The source lost its first 60 records meanwhile: the new copy is shorter than the old one was."""
    flows = {name: Flow(name, *clusters, tmp_path) for name in ("neither", "six", "seven", "both", "ours")}
    for flow in flows.values():
        flow.create("orders")
        flow.fill(100)
        flow.read_to("fast", 100)
    with mirror_maker(tmp_path, *flows.values()) as running:
        for flow in flows.values():
            flow.await_group("fast", 100)
        running.mm2.stop()
    for flow in flows.values():
        move_log_start(flow.source, flow.topic(), 0, 60)
    left = {
        name: reset_by_hand(flows[name], checkpoints=six, commits=seven)
        for name, six, seven in STEPS
    }
    done("reset", flows["ours"].file, "--all", "--with-target", "--yes")
    # The brokers forget what groups committed in a topic when it is deleted: step 7 has nothing left to do.
    assert left == dict.fromkeys(left)
    with mirror_maker(tmp_path, *flows.values()) as running:
        for name in ("six", "both", "ours"):
            flows[name].await_group("fast", 40)
        for name in ("neither", "seven"):
            flows[name].await_copied(40)
            flows[name].await_group("fast", 100)
        told = tell("doctor", str(flows["neither"].file), "--only", "C07,C08")
        running.mm2.stop()
    assert {name: java_offsets(flow.target, f"{name}-fast", flow.remote()) for name, flow in flows.items()} == {
        "neither": {0: 100}, "six": {0: 40}, "seven": {0: 100}, "both": {0: 40}, "ours": {0: 40},
    }  # fmt: skip
    assert {count(flow.target, flow.remote()) for flow in flows.values()} == {40}
    assert {found["id"] for found in told.findings if found["severity"] == "E"} == {"C07", "C08"}


# --- 7: a source topic that was created again --------------------------------------------------------------------


def test_a_topic_created_again_is_copied_whole_or_not_by_its_length_when_mm2_sees_it(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """`seen`: MirrorMaker 2 looks while it is empty; `live-…`: it looks when it is filled; `rest-…`: it is stopped."""
    stems = ("seen", "live-shorter", "live-longer", "rest-shorter", "rest-longer", "fine")
    flow = Flow("again", *clusters, tmp_path, {"tasks.max": "6"})
    flow.create(*stems)
    for stem in stems:
        flow.fill(10, stem)
    with mirror_maker(tmp_path, flow) as running:
        for stem in stems:
            flow.await_copied(10, stem)
        before = running.length
        recreate_topic(flow.source, flow.topic("seen"))
        await_true(lambda: running.said("eset", f"{flow.topic('seen')}-0", after=before), WAIT_S, "it has begun anew")
        flow.fill(25, "seen", first=100)
        running.mm2.suspend()
        for stem, records in (("live-shorter", 4), ("live-longer", 25)):
            recreate_topic(flow.source, flow.topic(stem))
            flow.fill(records, stem, first=100)
        running.mm2.resume()
        flow.await_copied(35, "seen")
        flow.await_copied(14, "live-shorter")
        flow.await_copied(25, "live-longer")
        told = tell("doctor", str(flow.file), "--only", "D6,D11")
        running.mm2.stop()
    for stem, records in (("rest-shorter", 4), ("rest-longer", 25)):
        recreate_topic(flow.source, flow.topic(stem))
        flow.fill(records, stem, first=100)
    with mirror_maker(tmp_path, flow) as running:
        flow.await_copied(14, "rest-shorter")
        flow.await_copied(25, "rest-longer")
        told_later = tell("doctor", str(flow.file), "--only", "D6,D11")
        running.mm2.stop()
    old = list(range(10))
    assert {stem: flow.values(stem) for stem in stems} == {
        "seen": [*old, *range(100, 125)],
        "live-shorter": [*old, *range(100, 104)],
        "live-longer": [*old, *range(110, 125)],
        "rest-shorter": [*old, *range(100, 104)],
        "rest-longer": [*old, *range(110, 125)],
        "fine": old,
    }
    for found, names in ((told, ("live-shorter", "live-longer")), (told_later, ("rest-shorter", "rest-longer"))):
        for stem in names:
            assert found.about("D6", flow.topic(stem))["severity"] == "E"
        assert [f for f in found.findings if f["subject"]["topic"] == flow.topic("fine")] == []


# --- 8: fewer partitions on the target ----------------------------------------------------------------------------


def test_a_task_hangs_without_a_word_while_the_target_lacks_a_partition(
    clusters: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    """`hang` looks for topics each ten minutes, `heal` each 20 seconds, and `fine` is left alone."""
    slow = {"refresh.topics.interval.seconds": "600", "tasks.max": "1"}
    often = slow | {"refresh.topics.interval.seconds": "20"}
    hang, heal, fine = (Flow(name, *clusters, tmp_path, m) for name, m in (("hang", slow), ("heal", often), ("fine8", {})))
    for flow in (hang, heal, fine):
        flow.create("orders", partitions=2)
        flow.create("beside")
        for stem, partition in (("orders", 0), ("orders", 1), ("beside", 0)):
            flow.fill(10, stem, partition=partition)
    with mirror_maker(tmp_path, hang, heal, fine) as running:
        for flow in (hang, heal, fine):
            flow.await_copied(20)
            flow.await_copied(10, "beside")
        before = running.length
        for flow in (hang, heal):
            recreate_topic(flow.target, flow.remote())
            flow.fill(5, first=10, partition=1)
        # The producer still believes in the partition: it tries again and again, and says so. Other topics go on.
        await_true(lambda: running.said("WARN", f"{hang.remote()}-1", after=before), WAIT_S, "the producer tries again")
        hang.fill(5, "beside", first=10)
        hang.await_copied(15, "beside")
        # From here on it knows better, and the next record for that partition is waited for without a word.
        before = running.length
        hang.fill(5, first=15, partition=1)
        hang.fill(5, "beside", first=15)
        heal.fill(5, "beside", first=10)
        heal.await_copied(5)
        heal.await_copied(15, "beside")
        assert len(log_ends(heal.target, heal.remote())) == 2, "extended by the look for topics"
        fine.tick(10)
        assert (count(hang.target, hang.remote("beside")), count(hang.target, hang.remote())) == (15, 0)
        told = tell("doctor", str(hang.file), "--only", "D11,D12")
        assert running.said("ERROR", "hang", after=before) == []
        with admin_of(hang.target) as admin:
            admin.create_partitions({hang.remote(): 2})
        hang.await_copied(20, "beside")
        hang.await_copied(10)
        running.mm2.stop()
    assert told.about("D12", hang.topic())["severity"] == "E" and states(told) == []
