"""Brokers that go and come back while a run goes on: it says so, heals by itself, and copies everything once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from judge import compare, java_records
from mirroring import (
    LiveMirror,
    await_true,
    batch_of,
    create_topics,
    flow_settings,
    live_mirror,
    log_ends,
    numbered,
    partitions_of,
    produce,
    produce_raw,
    run_once,
    segment_files,
    write_settings,
)

from sparkmirror.errors import ClusterUnreachable, ConnectionLost
from sparkmirror.local import LocalCluster, open_clusters

HEAL_SECONDS_MAX = 60.0
OUTAGE_SECONDS = 5.0  # with the start of a broker longer than the 10 s after which a silent slot counts as dead
PAUSE_SECONDS = 0.02  # between two rounds of load, so that it does not eat the machine


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[LocalCluster, LocalCluster]]:
    """Two clusters whose brokers may be stopped."""
    with open_clusters(LocalCluster("outage-source"), LocalCluster("outage-target")) as (source, target):
        yield source, target


@pytest.fixture(scope="module")
def mirror(
    pair: tuple[LocalCluster, LocalCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LiveMirror]:
    """One run through all outages."""
    create_topics(pair[0], {"outage-first": (1, {})})
    produce(pair[0], "outage-first", 0, numbered(5))
    settings = flow_settings(*pair, alias="outage", topics="outage-.*")
    with live_mirror(write_settings(tmp_path_factory.mktemp("outage") / "mm2.properties", settings)) as running:
        await_copied(*pair, "outage-first", 60.0)
        yield running
        outcome = running.stop()
    assert outcome.status == 0, outcome.output


def await_copied(source: LocalCluster, target: LocalCluster, topic: str, seconds: float = HEAL_SECONDS_MAX) -> None:
    """Waits until the remote topic is at least as long as the source's; a fence may have left markers in it."""
    wanted, remote = log_ends(source, topic), f"outage.{topic}"

    def is_there() -> bool:
        found = log_ends(target, remote) if partitions_of(target, remote) == len(wanted) else {}
        return len(found) == len(wanted) and all(found[at] >= end for at, end in wanted.items())

    await_true(is_there, seconds, f"{topic} is copied")


def judge(source: LocalCluster, target: LocalCluster, topic: str) -> None:
    """Both sides hold the same; where markers stand for the last records, these may still be on their way."""
    wanted = java_records(source.bootstrap, topic)
    deadline = time.monotonic() + HEAL_SECONDS_MAX
    while differences := compare(wanted, java_records(target.bootstrap, f"outage.{topic}")):
        is_short = all("records on the source" in line for line in differences)
        assert is_short and time.monotonic() < deadline, differences


@contextmanager
def load(source: LocalCluster, topic: str, partitions: int) -> Iterator[None]:
    """Records of increasing number arrive in every partition until the block ends, but for those that an outage takes."""
    ending, failed = threading.Event(), list[BaseException]()

    def write() -> None:
        number = 0
        try:
            while not ending.wait(PAUSE_SECONDS):
                rows = {at: [batch_of(numbered(10, first=number, size=100))] for at in range(partitions)}
                with suppress(ClusterUnreachable, ConnectionLost):
                    produce_raw(source, topic, rows)
                number += 10
        except BaseException as error:  # noqa: BLE001  told by the test's own thread
            failed.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        ending.set()
        writer.join()
    assert failed == []


def has_grown(target: LocalCluster, topic: str, since: int) -> Callable[[], bool]:
    return lambda: min(log_ends(target, f"outage.{topic}").values()) > since


@pytest.mark.fault("F13")
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_target_that_restarts_during_the_copy_gets_every_record_once(
    mirror: LiveMirror, pair: tuple[LocalCluster, LocalCluster], how: str
) -> None:
    source, target = pair
    topic = f"outage-target-{how}"
    create_topics(source, {topic: (3, {})})
    with load(source, topic, 3):
        await_true(lambda: partitions_of(target, f"outage.{topic}") == 3, 180.0, "the topic is created")
        await_true(has_grown(target, topic, 100), 180.0, "copying goes on")
        getattr(target, how)(1)
        threading.Event().wait(OUTAGE_SECONDS)
        target.start(1)
        end = max(log_ends(target, f"outage.{topic}").values())
        await_true(has_grown(target, topic, end + 100), HEAL_SECONDS_MAX, "copying goes on again")
    await_copied(source, target, topic)
    judge(source, target, topic)



def test_the_only_worker_that_is_killed_is_replaced_and_every_record_copied_once(
    mirror: LiveMirror, pair: tuple[LocalCluster, LocalCluster]
) -> None:
    source, target = pair
    topic = "outage-worker"
    create_topics(source, {topic: (3, {})})
    with load(source, topic, 3):
        await_true(lambda: partitions_of(target, f"outage.{topic}") == 3, 180.0, "the topic is created")
        await_true(has_grown(target, topic, 100), 180.0, "copying goes on")
        [worker] = mirror.workers()
        worker.kill()
        end = max(log_ends(target, f"outage.{topic}").values())
        await_true(has_grown(target, topic, end + 100), HEAL_SECONDS_MAX, "copying goes on again")
    await_copied(source, target, topic)
    judge(source, target, topic)


def test_a_source_that_goes_away_is_told_and_copied_on_when_it_is_back(
    mirror: LiveMirror, pair: tuple[LocalCluster, LocalCluster]
) -> None:
    source, target = pair
    topic = "outage-source"
    create_topics(source, {topic: (2, {})})
    for partition in range(2):
        produce(source, topic, partition, numbered(300))
    await_copied(source, target, topic)
    said = len(mirror.output)
    source.stop(1)
    mirror.await_said("waiting", after=said)
    assert "outage" in mirror.output[said:]
    source.start(1)
    for partition in range(2):
        produce(source, topic, partition, numbered(300))
    await_copied(source, target, topic)
    judge(source, target, topic)
    said = len(mirror.output)
    mirror.await_said("outage->outage-to running", 60.0, after=said)


@pytest.mark.fault("F12")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_source_that_restarts_during_the_copy_is_copied_on_without_a_gap(
    mirror: LiveMirror, pair: tuple[LocalCluster, LocalCluster], how: str, row
) -> None:
    source, target = pair
    topic = f"outage-source-{how}"
    create_topics(source, {topic: (2, {})})
    with load(source, topic, 2):
        await_true(lambda: partitions_of(target, f"outage.{topic}") == 2, 60.0, "the topic is created")
        await_true(has_grown(target, topic, 100), 60.0, "copying goes on")
        getattr(source, how)(1)
        source.start(1)
        began = time.monotonic()
        end = max(log_ends(target, f"outage.{topic}").values())
        await_true(has_grown(target, topic, end + 100), 2 * HEAL_SECONDS_MAX, "copying goes on again")
    await_copied(source, target, topic, 2 * HEAL_SECONDS_MAX)
    row.recovered = time.monotonic() - began
    judge(source, target, topic)
    count = sum(log_ends(source, topic).values())
    row.seen = f"source {'restarted' if how == 'stop' else 'killed'} under load: {count} records copied, no gap, none twice"


def test_a_corrupt_batch_stops_its_partition_with_offset_and_reason(
    pair: tuple[LocalCluster, LocalCluster], tmp_path: Path
) -> None:
    source, target = pair
    topic = "corrupt"
    create_topics(source, {topic: (2, {})})
    for partition in range(2):
        produce(source, topic, partition, numbered(50, size=100), batch=10)
    segment = segment_files(source, topic, 0)[0]
    source.stop(1)
    data = bytearray(segment.read_bytes())
    data[len(data) * 5 // 10] ^= 0x01  # in the records of the third batch of five
    segment.write_bytes(data)
    source.start(1)
    settings = flow_settings(source, target, alias="rotten", topics=topic)
    outcome = run_once(write_settings(tmp_path / "mm2.properties", settings))
    said = "\n".join(line for line in outcome.output.splitlines() if "corrupt-0" in line)
    assert outcome.status == 4, outcome.output
    assert "CORRUPT_BATCH" in said
    assert "offset 20" in said
    assert log_ends(target, "rotten.corrupt") == {0: 20, 1: 50}
