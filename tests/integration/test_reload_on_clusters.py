"""A running mirror takes a changed file: the procedures of the reference document, under load. Java's tools judge."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from integration.mirroring import (
    TRACEBACK,
    LiveMirror,
    await_true,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    produce,
    topics_of,
    write_settings,
)
from judge import compare, java_records

from sparkmirror.clusters import ClusterClient, Committed, commit_offsets, committed_offsets
from sparkmirror.config.values import ClusterSettings
from sparkmirror.local import LocalCluster
from sparkmirror.local.tools import consumer_groups
from sparkmirror.model import TopicPartition

TAKEN_S_MAX = 30.0  # a change is taken within 5 s on two idle cores
ALIAS = "reloaded"
PARTITIONS = 2
STEMS = ("orders", "events", "invoices", "deprecated")


@dataclass
class Load:
    """Writes to every topic of the source until it is told to stop."""

    cluster: LocalCluster
    topics: tuple[str, ...]
    _stop: threading.Event = field(default_factory=threading.Event)
    _sent: int = 0

    def run(self) -> None:
        """Some records at a time."""
        while not self._stop.wait(0.05):
            for topic in self.topics:
                produce(self.cluster, topic, self._sent % PARTITIONS, numbered(20, first=self._sent * 20))
            self._sent += 1

    @contextmanager
    def going(self) -> Iterator[None]:
        """For as long as the block runs."""
        thread = threading.Thread(target=self.run)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join(30)


@dataclass
class Running:
    """A mirror whose file is changed while it runs."""

    source: LocalCluster
    target: LocalCluster
    path: Path
    settings: dict[str, str]
    mirror: LiveMirror

    def topic(self, stem: str) -> str:
        """A topic of this test alone."""
        return f"{ALIAS}-{stem}"

    def write(self, *, in_place: bool = False, **changes: str) -> int:
        """Changes keys of the flow in the file, as a rename of a new one, and says how much was said before."""
        said = len(self.mirror.output)
        self.settings |= {f"{ALIAS}->{ALIAS}-to.{key.replace('_', '.')}": value for key, value in changes.items()}
        fresh = self.path if in_place else self.path.with_name("new")
        fresh.write_text("".join(f"{key} = {value}\n" for key, value in self.settings.items()), "latin-1")
        if not in_place:
            fresh.replace(self.path)
        return said

    def await_said(self, words: str, after: int) -> None:
        """Waits until the log says so."""
        self.mirror.await_said(words, TAKEN_S_MAX, after=after)

    def copied(self, stem: str) -> dict[int, int]:
        """How far the copy of a topic goes."""
        return log_ends(self.target, f"{ALIAS}.{self.topic(stem)}")

    def await_copied(self, *stems: str) -> None:
        """Waits until Java reads the same records in each topic and in its copy."""
        for stem in stems:
            sent = java_records(self.source.bootstrap, self.topic(stem))
            copy = f"{ALIAS}.{self.topic(stem)}"
            try:
                await_true(lambda sent=sent, copy=copy: compare(sent, java_records(self.target.bootstrap, copy)) == [], 60)
            except AssertionError:
                print(self.mirror.output[-5000:])
                raise

    def attempts(self, stem: str) -> int:
        """How often the log says that the topic's first partition began to be copied."""
        return len(re.findall(rf"{self.topic(stem)}-0\b[^\n]* copying", self.mirror.output))


@pytest.fixture(scope="module")
def running(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("reloaded") / "mm2.properties"
    create_topics(source_cluster, {f"{ALIAS}-{stem}": (PARTITIONS, {}) for stem in STEMS})
    more = {
        "groups": f"{ALIAS}-first", "emit.checkpoints.interval.seconds": "1", "sync.group.offsets.enabled": "true",
        "sync.group.offsets.interval.seconds": "1",
    }  # fmt: skip
    topics = f"{ALIAS}-orders.*, {ALIAS}-deprecated.*"
    settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics=topics, more=more)
    with live_mirror(write_settings(path, settings)) as mirror:
        mirror.await_said(f"{ALIAS}-orders-0", 120)
        yield Running(source_cluster, target_cluster, path, dict(settings), mirror)


def test_topics_are_added_removed_and_added_again_under_load_and_nothing_else_stops(running: Running) -> None:
    """Documents 001 and 003: "update topic pattern", "update exclusion pattern", each followed by a restart there."""
    with Load(running.source, tuple(map(running.topic, STEMS))).going():
        await_true(lambda: sum(running.copied("deprecated").values()) > 100, 60, running.mirror.output)
        await_true(lambda: running.attempts("orders") > 0, 60, running.mirror.output)
        before = running.attempts("orders")
        said = running.write(topics=f"{ALIAS}-orders.*, {ALIAS}-deprecated.*, {ALIAS}-events.*")
        running.await_said("configuration file: took", said)
        await_true(lambda: f"{ALIAS}.{running.topic('events')}" in topics_of(running.target), 60, "events are there")
        said = running.write(in_place=True, topics_exclude=running.topic("deprecated"))
        running.await_said("configuration file: took", said)
        stopped = await_true(lambda: _settled(running, "deprecated"), 60, "deprecated stands still")
        events = running.copied("events")
        await_true(lambda: sum(running.copied("events").values()) > sum(events.values()) + 200, 60, "the others go on")
        assert running.copied("deprecated") == stopped
        said = running.write(topics_exclude="nothing")
        running.await_said("configuration file: took", said)
        await_true(lambda: sum(running.copied("deprecated").values()) > sum(stopped.values()), 60, "it goes on")
        assert running.attempts("orders") == before
    running.await_copied("orders", "events", "deprecated")
    assert f"{ALIAS}.{running.topic('invoices')}" not in topics_of(running.target)


def _settled(running: Running, stem: str) -> dict[int, int] | None:
    """Its end, once it stays where it is while others grow by many records."""
    before, others = running.copied(stem), sum(running.copied("orders").values())
    await_true(lambda: sum(running.copied("orders").values()) > others + 200, 60, "orders are copied")
    return before if running.copied(stem) == before else None


def test_groups_that_are_named_later_are_placed_and_those_before_stay(running: Running) -> None:
    partition = TopicPartition(running.topic("orders"), 0)
    produce(running.source, *partition, numbered(10))
    with closing(_client(running.source)) as client:
        for group in ("first", "second"):
            commit_offsets(client, f"{ALIAS}-{group}", {partition: Committed(5, "")})
    with closing(_client(running.target)) as client:
        await_true(lambda: _is_placed(client, "first"), 60, running.mirror.output)
        assert not _is_placed(client, "second")
        said = running.write(groups=f"{ALIAS}-first, {ALIAS}-second")
        running.await_said("configuration file: took", said)
        await_true(lambda: _is_placed(client, "second"), 60, running.mirror.output)
    listed = consumer_groups(running.target.bootstrap, "--list").split()
    assert {name for name in listed if name.startswith(ALIAS)} == {f"{ALIAS}-first", f"{ALIAS}-second"}


def _client(cluster: LocalCluster) -> ClusterClient:
    host, port = cluster.bootstrap.split(":")
    return ClusterClient(ClusterSettings("judge", ((host, int(port)),), {}))


def _is_placed(client: ClusterClient, group: str) -> bool:
    name = f"{ALIAS}-{group}"
    return any(found is not None for found in committed_offsets(client, [name])[name].committed.values())


def test_a_file_with_an_error_changes_nothing_and_a_slot_that_dies_then_starts_with_what_was_taken(running: Running) -> None:
    said = running.write(topics=f"{ALIAS}-.*", topics_exclude="nothing", refresh_topics_interval_seconds="many")
    running.await_said("was changed and cannot be used: line ", said)
    assert "found `many`" in running.mirror.output[said:]
    for worker in running.mirror.workers():
        worker.kill()
    produce(running.source, running.topic("orders"), 1, numbered(50))
    running.await_copied("orders")
    assert f"{ALIAS}.{running.topic('invoices')}" not in topics_of(running.target)
    said = running.write(refresh_topics_interval_seconds="1")
    running.await_said("configuration file: the flow runs with what it says", said)
    await_true(lambda: f"{ALIAS}.{running.topic('invoices')}" in topics_of(running.target), 60, "invoices are there")
    running.await_copied("invoices")
    for worker in running.mirror.workers():
        worker.kill()
    produce(running.source, running.topic("invoices"), 1, numbered(50))
    running.await_copied("invoices")


def test_what_cannot_be_taken_is_said_with_both_values_and_a_hangup_reads_the_file_at_once(running: Running) -> None:
    said = running.write(**{"tasks.max": "3", "offset.lag.max": "7"})
    running.mirror._child.send(signal.SIGHUP)
    running.await_said("SIGHUP: reading the configuration file again", said)
    running.await_said("offset.lag.max: (not written) → 7", said)
    running.await_said("tasks.max: (not written) → 3 (the number of Spark's tasks", said)
    del running.settings[f"{ALIAS}->{ALIAS}-to.tasks.max"]
    said = running.write()
    running.await_said("configuration file: the flow runs with what it says", said)
    produce(running.source, running.topic("orders"), 0, numbered(10))
    running.await_copied(*STEMS)
    outcome = running.mirror.stop()
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
