"""Faults of the source and the target under topics that pass transforms: each stops or waits alone. Judged by Java."""

from __future__ import annotations

import gc
import re
import shlex
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from host import hosted_command
from integration.mirroring import (
    TRACEBACK,
    LiveMirror,
    Outcome,
    admin_of,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    move_log_start,
    numbered,
    produce,
    recreate_topic,
    run_once,
    set_topic_config,
    topics_of,
    write_settings,
)
from judge import java_records
from kafka import KafkaProducer

from sparkmirror.local import LocalCluster

ALIAS = "mended"
FLOW = f"{ALIAS}->{ALIAS}-to"
SHOUT = "select * except (value), concat(value, binary('!')) as value from records"
START_S, NOTICE_S = 180.0, 30.0
LIMIT = 3000
STOPS = {
    "mended-overtaken": "SOURCE_OFFSET_LOST",
    "mended-shorter": "SOURCE_TOPIC_RECREATED",
    "mended-longer": "SOURCE_TOPIC_RECREATED",
    "mended-large": "RECORD_TOO_LARGE",
}
ROWS = {"mended-overtaken": "F25", "mended-shorter": "F27", "mended-longer": "F27", "mended-large": "F34"}
BYTES = "bytes-fine"  # beside them, without a transform
TOPICS = (*STOPS, "mended-gone", "mended-skipped", "mended-fine", BYTES)
FIRST, SECOND, THIRD = numbered(10), numbered(10, first=10), numbered(3, first=100)
SHORT, LONG = numbered(4, first=200), numbered(25, first=300)
LARGE = [b"small", b"x" * 2 * LIMIT, b"behind"]
WANTED = {
    "mended-overtaken": [*FIRST, *SECOND[7:], *THIRD],
    "mended-shorter": [*FIRST, *SHORT, *THIRD],
    "mended-longer": [*FIRST, *LONG, *THIRD],
    "mended-large": [*FIRST, *LARGE, *THIRD],
    "mended-gone": FIRST,
    "mended-skipped": [*FIRST, *SECOND[7:], *THIRD],
}


def shouted(values: list[bytes]) -> list[bytes]:
    return [value + b"!" for value in values]


def values_of(cluster: LocalCluster, topic: str) -> list[bytes]:
    return [record.value or b"" for record in java_records(cluster.bootstrap, topic).get(0, [])]


def await_end(cluster: LocalCluster, topic: str, end: int, seconds: float = 60.0) -> None:
    """Waits until a topic's only partition ends there."""
    await_true(lambda: topic in topics_of(cluster), seconds, f"{topic} is created")
    await_true(lambda: log_ends(cluster, topic) == {0: end}, seconds, f"{topic} ends at {end}")


@dataclass
class Beside:
    """The topics that nothing happens to, one of them without a transform."""

    source: LocalCluster
    target: LocalCluster
    sent: list[bytes] = field(default_factory=list)

    def go_on(self, seconds: float = 60.0) -> None:
        """Sends some records and waits until they are copied."""
        values = numbered(5, first=len(self.sent))
        self.sent += values
        for topic in ("mended-fine", BYTES):
            produce(self.source, topic, 0, values)
        for topic in ("mended-fine", BYTES):
            await_end(self.target, f"{ALIAS}.{topic}", len(self.sent), seconds)


@dataclass
class Story:
    """What the run said, how the commands it named ended, and the run after them."""

    seconds: dict[str, float] = field(default_factory=dict)
    live: Outcome | None = None
    commands: dict[str, Outcome] = field(default_factory=dict)
    last: Outcome | None = None
    sent: list[bytes] = field(default_factory=list)

    def line(self, topic: str, state: str) -> str:
        """The last line about this state of a topic."""
        assert self.live is not None
        return [line for line in self.live.output.splitlines() if f"{topic}-0 {state}" in line][-1]


def spoil_source(source: LocalCluster, mirror: LiveMirror) -> None:
    """While nobody reads, so that nothing is copied of what is deleted."""
    workers = mirror.workers()
    for worker in workers:
        worker.suspend()
    try:
        for topic in ("mended-overtaken", "mended-skipped"):
            produce(source, topic, 0, SECOND)
            move_log_start(source, topic, 0, 17)
        for topic, values in (("mended-shorter", SHORT), ("mended-longer", LONG)):
            recreate_topic(source, topic)
            produce(source, topic, 0, values)
    finally:
        for worker in workers:
            worker.resume()


def await_state(story: Story, mirror: LiveMirror, topic: str, state: str) -> None:
    began = time.monotonic()
    mirror.await_said(f"{topic}-0 {state}", 2 * NOTICE_S)
    story.seconds[topic] = time.monotonic() - began


def command_of(story: Story, topic: str) -> list[str]:
    """The command that the stop of this topic named."""
    found = re.search(r"sparkmirror (offsets [^)]*)\)", story.line(topic, "stopped"))
    assert found is not None, story.line(topic, "stopped")
    return shlex.split(found[1])


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """One run under which everything happens, the commands that it named, and a run after them."""
    source, target, seen = source_cluster, target_cluster, Story()
    create_topics(source, dict.fromkeys(TOPICS, (1, {})))
    create_topics(target, {f"{ALIAS}.mended-large": (1, {"max.message.bytes": str(LIMIT)})})
    for topic in TOPICS:
        produce(source, topic, 0, FIRST)
    more = {"on.source.gap.skip.topics": "mended-skipped"}
    more |= {"transform.shout.topics": "mended-.*", "transform.shout.sql": SHOUT}
    settings = flow_settings(source, target, alias=ALIAS, topics=f"mended-.*, {BYTES}", more=more)
    path = write_settings(tmp_path_factory.mktemp("mended") / "mm2.properties", settings)
    beside = Beside(source, target, [*FIRST])
    with live_mirror(path) as mirror:
        for topic in TOPICS:
            await_end(target, f"{ALIAS}.{topic}", 10, START_S)
        with admin_of(source) as admin:
            admin.delete_topics(["mended-gone"])
        await_state(seen, mirror, "mended-gone", "waiting SOURCE")
        beside.go_on()
        spoil_source(source, mirror)
        for topic in ("mended-shorter", "mended-longer", "mended-overtaken"):
            await_state(seen, mirror, topic, f"stopped {STOPS[topic]}")
        await_end(target, f"{ALIAS}.mended-skipped", 13)
        beside.go_on()
        produce(source, "mended-large", 0, LARGE, batch=1)
        await_state(seen, mirror, "mended-large", "stopped RECORD_TOO_LARGE")
        beside.go_on()
        seen.live = mirror.stop()
    set_topic_config(target, f"{ALIAS}.mended-large", {"max.message.bytes": "1000000"})
    for topic in ("mended-overtaken", "mended-shorter", "mended-longer"):
        ended = hosted_command(*command_of(seen, topic), "--yes")
        seen.commands[topic] = Outcome(ended.returncode, ended.stdout + ended.stderr)
    for topic in WANTED.keys() - {"mended-gone"}:
        produce(source, topic, 0, THIRD)
    seen.last = run_once(path)
    seen.sent = beside.sent
    yield seen


@pytest.mark.fault("F26")
@pytest.mark.timeout(600)
def test_F26_a_deleted_source_topic_waits_alone(story: Story, target_cluster: LocalCluster) -> None:
    assert "topic mended-gone is gone" in story.line("mended-gone", "waiting")
    assert story.seconds["mended-gone"] < NOTICE_S
    assert story.live is not None and story.live.status == 0, story.live
    assert TRACEBACK not in story.live.output
    assert values_of(target_cluster, f"{ALIAS}.mended-gone") == shouted(FIRST)


@pytest.mark.parametrize("topic", [pytest.param(topic, marks=pytest.mark.fault(row)) for topic, row in ROWS.items()])
@pytest.mark.timeout(600)
def test_a_loss_stops_its_partition_alone_and_names_what_helps(story: Story, topic: str) -> None:
    assert story.seconds[topic] < NOTICE_S
    wanted = "max.message.bytes" if topic == "mended-large" else f"--topic {topic} --partition 0"
    assert wanted in story.line(topic, f"stopped {STOPS[topic]}")


@pytest.mark.parametrize("topic", list(WANTED))
@pytest.mark.timeout(600)
def test_after_the_named_command_exactly_what_is_left_is_copied(
    story: Story, target_cluster: LocalCluster, topic: str
) -> None:
    if topic in story.commands:
        assert story.commands[topic].status == 0, story.commands[topic].output
    assert story.last is not None and story.last.status == 0, story.last
    assert values_of(target_cluster, f"{ALIAS}.{topic}") == shouted(WANTED[topic])


@pytest.mark.timeout(600)
def test_topics_beside_go_on_with_and_without_a_transform(story: Story, target_cluster: LocalCluster) -> None:
    assert values_of(target_cluster, f"{ALIAS}.mended-fine") == shouted(story.sent)
    assert values_of(target_cluster, f"{ALIAS}.{BYTES}") == story.sent


# --- logs that change while it is found out what landed ------------------------------------------------------------


@pytest.mark.fault("F28")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["records deleted", pytest.param("created again", marks=pytest.mark.nightly)])
def test_a_copy_that_is_cut_while_it_is_read_holds_nobody_up(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name, tmp_path: Path, monkeypatch, how: str
) -> None:
    """A worker dies with a part of its records sent; the driver is held when it is about to read how many landed."""
    topic = topic_name("cut")
    remote = f"{topic}.{topic}"
    create_topics(source_cluster, {topic: (1, {})})
    made = numbered(6000, size=1000)
    produce(source_cluster, topic, 0, made)
    more = {"transform.shout.topics": topic, "transform.shout.sql": SHOUT}
    settings = flow_settings(source_cluster, target_cluster, alias=topic, topics=topic, more=more)
    path = write_settings(tmp_path / "mm2.properties", settings)
    died, held = tmp_path / "died", tmp_path / "held"
    monkeypatch.setenv("SPARKMIRROR_FAULTS", f"transform.batch_acked=kill@1:{died},transform.log_settled=hold@1:{held}")
    with live_mirror(path) as mirror:
        await_true(held.exists, START_S, "the driver is about to read the copy")
        if how == "created again":
            recreate_topic(target_cluster, remote)
            held.unlink()
            mirror.await_said(f"{topic}-0 stopped TARGET_TOPIC_RECREATED", 2 * NOTICE_S)
        else:
            move_log_start(target_cluster, remote, 0, 500)
            held.unlink()
            await_true(lambda: log_ends(target_cluster, remote)[0] >= len(made), 2 * NOTICE_S, "the rest is copied")
        assert mirror.stop().status == 0
    assert died.exists()
    assert values_of(target_cluster, remote) == (shouted(made[500:]) if how == "records deleted" else [])


# --- partitions that nobody leads ----------------------------------------------------------------------------------

UNLED, LED, LED_BYTES = "unled-down", "unled-fine", "bytes-led"


def create_placed(cluster: LocalCluster, brokers: dict[str, int]) -> None:
    """Topics of one partition, each on one broker."""
    with admin_of(cluster) as admin:
        wanted = {topic: {"assignments": {0: [broker]}} for topic, broker in brokers.items()}
        admin.create_topics(wanted, wait_for_metadata=True)


def send(cluster: LocalCluster, topic: str, values: list[bytes]) -> None:
    """To whichever broker leads."""
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap)) as producer:
        for value in values:
            producer.send(topic, value, partition=0)
        producer.flush()


@pytest.mark.nightly
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "side",
    [pytest.param("source", marks=pytest.mark.fault("F12")), pytest.param("target", marks=pytest.mark.fault("F13"))],
)
def test_a_partition_without_a_leader_waits_alone(
    source_cluster: LocalCluster, target_cluster: LocalCluster, three_brokers, tmp_path: Path, side: str
) -> None:
    own = three_brokers(f"unled-{side}")
    source, target = (own, target_cluster) if side == "source" else (source_cluster, own)
    alias = f"unled{side}"
    places = {UNLED: 3, LED: 1, LED_BYTES: 1}
    names = {topic: topic if side == "source" else f"{alias}.{topic}" for topic in places}
    create_placed(own, {names[topic]: broker for topic, broker in places.items()})
    if side == "target":
        create_topics(source, dict.fromkeys(places, (1, {})))
    more = {"transform.shout.topics": "unled-.*", "transform.shout.sql": SHOUT}
    settings = flow_settings(source, target, alias=alias, topics=", ".join(places), more=more)
    for key in [key for key in settings if key.endswith("replication.factor")]:
        settings[key] = "3" if side == "target" else settings[key]
    settings |= {"offset-syncs.topic.location": "target"}
    path = write_settings(tmp_path / "mm2.properties", settings)
    for topic in places:
        send(source, topic, FIRST)
    with live_mirror(path) as mirror:
        for topic in places:
            await_end(target, f"{alias}.{topic}", 10, START_S)
        own.kill(3)
        for topic in (LED, LED_BYTES) if side == "source" else places:
            send(source, topic, SECOND)
        mirror.await_said(f"{UNLED}-0 waiting {side.upper()}", 90.0)
        for topic in (LED, LED_BYTES):
            await_end(target, f"{alias}.{topic}", 20, 90.0)
        own.start(3)
        if side == "source":
            send(source, UNLED, SECOND)
        await_true(lambda: len(values_of(target, f"{alias}.{UNLED}")) == 20, 120.0, "it goes on")
        send(source, UNLED, THIRD)
        await_true(lambda: len(values_of(target, f"{alias}.{UNLED}")) == 23, 60.0, "it is copied as before")
        outcome = mirror.stop()
    gc.collect()  # sockets of kafka-python to the killed broker, while their warning is ignored
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
    assert values_of(target, f"{alias}.{UNLED}") == shouted([*FIRST, *SECOND, *THIRD])
    assert values_of(target, f"{alias}.{LED}") == shouted([*FIRST, *SECOND])
    assert values_of(target, f"{alias}.{LED_BYTES}") == [*FIRST, *SECOND]


# --- frozen processes ----------------------------------------------------------------------------------------------

FROZEN_S = 20.0
OWNED_BY_ANOTHER = 5


@contextmanager
def arriving(cluster: LocalCluster, topic: str) -> Iterator[list[bytes]]:
    """Records, some hundred a second, until the end of the block; those that were sent."""
    sent: list[bytes] = []
    is_over = threading.Event()

    def work() -> None:
        while not is_over.wait(0.1):
            values = numbered(30, first=len(sent))
            produce(cluster, topic, 0, values)
            sent.extend(values)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield sent
    finally:
        is_over.set()
        thread.join()


@dataclass
class Frozen:
    """One transformed topic of one partition, that records arrive in."""

    source: LocalCluster
    target: LocalCluster
    topic: str
    path: Path

    @property
    def remote(self) -> str:
        """The copy's name."""
        return f"{self.topic}.{self.topic}"

    def await_more(self) -> None:
        """Waits until more is copied than now."""
        end = log_ends(self.target, self.remote)[0] if self.remote in topics_of(self.target) else 0
        await_true(lambda: self.remote in topics_of(self.target), START_S, "it is created")
        await_true(lambda: log_ends(self.target, self.remote)[0] > end + 50, START_S, "it copies")

    def judge(self, sent: list[bytes]) -> None:
        """Everything is copied once, in order."""
        await_true(lambda: len(values_of(self.target, self.remote)) >= len(sent), 120.0, "everything is copied")
        assert values_of(self.target, self.remote) == shouted(sent)


@pytest.fixture
def frozen(source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name, tmp_path: Path) -> Frozen:
    topic = topic_name("frozen")
    create_topics(source_cluster, {topic: (1, {})})
    more = {"transform.shout.topics": topic, "transform.shout.sql": SHOUT}
    settings = flow_settings(source_cluster, target_cluster, alias=topic, topics=topic, more=more)
    return Frozen(source_cluster, target_cluster, topic, write_settings(tmp_path / "mm2.properties", settings))


@pytest.mark.nightly
@pytest.mark.fault("F07")
@pytest.mark.timeout(600)
def test_F07_workers_that_were_frozen_go_on_and_double_nothing(frozen: Frozen) -> None:
    with live_mirror(frozen.path) as mirror:
        with arriving(frozen.source, frozen.topic) as sent:
            for _ in range(2):
                frozen.await_more()
                workers = mirror.workers()
                for worker in workers:
                    worker.suspend()
                time.sleep(FROZEN_S)
                for worker in workers:
                    worker.resume()
            frozen.await_more()
        frozen.judge(sent)
        assert mirror.stop().status == 0, mirror.output


@pytest.mark.nightly
@pytest.mark.fault("F06")
@pytest.mark.timeout(600)
def test_F06_a_driver_that_wakes_up_after_another_took_over_ends_and_doubles_nothing(frozen: Frozen) -> None:
    """Its JVM and its workers were never frozen: what they send after the takeover must be refused."""
    with live_mirror(frozen.path, alone=True) as first, arriving(frozen.source, frozen.topic) as sent:
        frozen.await_more()
        driver = psutil.Process(first.pid)
        driver.suspend()
        with live_mirror(frozen.path, alone=True) as second:
            second.await_said(f"{frozen.topic}-0 copying", START_S)
            driver.resume()
            outcome = first.await_end()
            assert "taken over by" in outcome.output and outcome.status == OWNED_BY_ANOTHER, outcome.output
            frozen.await_more()
            frozen.await_more()
            assert second.stop().status == 0, second.output
    assert run_once(frozen.path).status == 0
    frozen.judge(sent)


@pytest.mark.nightly
@pytest.mark.fault("F01", "F03")
@pytest.mark.timeout(600)
def test_F01_F03_killed_drivers_and_workers_lose_and_double_nothing(frozen: Frozen) -> None:
    with arriving(frozen.source, frozen.topic) as sent:
        for _ in range(2):
            with live_mirror(frozen.path) as mirror:
                frozen.await_more()
                for worker in mirror.workers():
                    worker.kill()
                frozen.await_more()
                mirror.kill()
    assert run_once(frozen.path).status == 0
    frozen.judge(sent)


@pytest.mark.nightly
@pytest.mark.fault("F27")
@pytest.mark.timeout(600)
def test_F27_a_topic_that_is_replaced_while_nobody_copies_it_is_not_spliced(frozen: Frozen) -> None:
    """The mirror was killed, so that its last attempt has no end; the next one starts while the topic is gone."""
    produce(frozen.source, frozen.topic, 0, FIRST)
    with live_mirror(frozen.path) as mirror:
        await_end(frozen.target, frozen.remote, 10, START_S)
    with admin_of(frozen.source) as admin:
        admin.delete_topics([frozen.topic])
        await_true(lambda: frozen.topic not in admin.list_topics(), what="it is deleted")
    with live_mirror(frozen.path) as mirror:
        mirror.await_said(" running", START_S)
        create_topics(frozen.source, {frozen.topic: (1, {})})
        produce(frozen.source, frozen.topic, 0, LONG)
        mirror.await_said(f"{frozen.topic}-0 stopped SOURCE_TOPIC_RECREATED", 2 * NOTICE_S)
        assert mirror.stop().status == 0, mirror.output
    assert values_of(frozen.target, frozen.remote) == shouted(FIRST)
