"""`sparkmirror failback` on real clusters: over, writing there, and home again. Java's tools judge."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from host import hosted_command
from integration.mirroring import PROGRAM, Outcome, create_topics, numbered, produce, run_cleanly
from integration.scenario import Pair, commit, java_offsets
from judge import java_records

from sparkmirror.local import LocalCluster

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
BEFORE, AWAY, AFTER = 40, 25, 10
WORDS = ("--quiet", "0.5", "--wait", "60")


def call(*words: str) -> Outcome:
    """`sparkmirror` with these words, as an operator types it."""
    ended = hosted_command(*words, seconds=240)
    return Outcome(ended.returncode, ended.stdout + ended.stderr)


@dataclass
class Trip:
    """Over and home again under one naming policy."""

    pair: Pair
    is_identity: bool
    said: dict[str, Outcome] = field(default_factory=dict)
    written: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def away(self) -> str:
        """What the backup calls the topic."""
        return self.pair.topic(1) if self.is_identity else self.pair.remote(1)

    @property
    def empty_away(self) -> str:
        """What the backup calls the topic that held nothing at the failover."""
        return self.pair.topic(2) if self.is_identity else self.pair.remote(2)

    def values(self, cluster: LocalCluster, topic: str) -> dict[int, list[bytes | None]]:
        """Java's consumer reads them."""
        return {p: [r.value for r in rows] for p, rows in java_records(cluster.bootstrap, topic).items()}


@pytest.fixture(scope="module", params=["default names", "same names"])
def trip(
    request: pytest.FixtureRequest, source_cluster: LocalCluster, target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Trip]:  # fmt: skip
    """A planned failover, records and progress on the backup, the way home killed in the middle, and the flow once more."""
    pair, folder = Pair(source_cluster, target_cluster, tmp_path_factory.mktemp("home")), tmp_path_factory.mktemp("killed")
    trip = Trip(pair, request.param == "same names")
    policy = {"replication.policy.class": IDENTITY} if trip.is_identity else {}
    path = pair.write({"emit.heartbeats.enabled": "false", "topics": f"test-topic-[12]-{pair.mark}", **policy})
    create_topics(pair.primary, {pair.topic(1): (2, {}), pair.topic(2): (1, {})})
    for partition in (0, 1):
        produce(pair.primary, pair.topic(1), partition, numbered(BEFORE), batch=7)
    commit(pair.primary, pair.group("reader"), pair.topic(1), {0: 15, 1: BEFORE})
    commit(pair.primary, pair.group("idle"), pair.topic(1), {0: 7})
    commit(pair.primary, pair.group("first"), pair.topic(2), {0: 0})
    run_cleanly(path)
    trip.said["too soon"] = call("failback", str(path), "--yes")
    trip.said["over"] = call("failover", str(path), "--yes", *WORDS)
    # The applications are on the backup now: they write, and one group reads on, past where the copy ended.
    produce(pair.backup, trip.away, 0, numbered(AWAY, first=1000), batch=5)
    produce(pair.backup, trip.away, 1, numbered(AWAY, first=2000), batch=5)
    commit(pair.backup, pair.group("reader"), trip.away, {0: BEFORE + 11, 1: BEFORE + AWAY})
    produce(pair.backup, trip.empty_away, 0, numbered(4, first=3000))
    commit(pair.backup, pair.group("first"), trip.empty_away, {0: 3})
    # Somebody wrote on the primary after all: that never reached the backup.
    produce(pair.primary, pair.topic(1), 0, numbered(3, first=9000))
    trip.said["abandoned"] = call("failover", str(path), "--abandon", "--yes")
    trip.said["plan"] = call("failback", str(path))
    trip.said["kept"] = call("failback", str(path), "--keep")
    killed_call(folder, "failback.step", 3, "failback", str(path), "--yes", "--keep", *WORDS)
    killed_call(folder, "failback.resumed", 1, "failback", str(path), "--yes", "--keep", *WORDS)
    trip.said["home"] = call_alone("failback", str(path), "--yes", "--keep", *WORDS)
    produce(pair.primary, pair.topic(1), 1, numbered(AFTER, first=5000))
    trip.said["again"] = run_cleanly(path)
    trip.said["verified"] = call("verify", str(path))
    yield trip


def killed_call(folder: Path, point: str, count: int, *words: str) -> None:
    """The command, killed −9 when it comes to the point."""
    marker = folder / f"{point}.{count}"
    faults = {"SPARKMIRROR_FAULTS": f"{point}=kill@{count}:{marker}"}
    status, said = call_alone(*words, **faults)
    assert (status, marker.exists()) == (-signal.SIGKILL, True), said


def call_alone(*words: str, **env: str) -> Outcome:
    """In a process of its own, which may start Spark."""
    ended = subprocess.run(
        [PROGRAM, *words], env=os.environ | env, timeout=240, capture_output=True, text=True, check=False
    )
    return Outcome(ended.returncode, ended.stdout + ended.stderr)


def test_without_a_failover_there_is_no_way_back(trip: Trip) -> None:
    status, output = trip.said["too soon"]
    assert (status, "was not failed over" in output) == (2, True), output
    assert trip.said["over"].status == 0, trip.said["over"].output


def test_what_never_reached_the_target_is_said_first(trip: Trip) -> None:
    status, output = trip.said["plan"]
    assert status == 2, output
    assert f"{trip.pair.topic(1)}-0 {BEFORE} to {BEFORE + 2}" in output and "--keep" in output
    assert trip.said["kept"].status == 0, trip.said["kept"].output


def test_everything_is_home_once_and_nothing_is_copied_back(trip: Trip) -> None:
    status, output = trip.said["home"]
    assert status == 3 or status == 0, output
    home = trip.values(trip.pair.primary, trip.pair.topic(1))
    away = trip.values(trip.pair.backup, trip.away)
    diverged = home[0][BEFORE : BEFORE + 3]
    assert home[0] == away[0][:BEFORE] + diverged + away[0][BEFORE:]
    assert home[1] == away[1]
    assert (len(away[0]), len(away[1])) == (BEFORE + AWAY, BEFORE + AWAY + AFTER)
    assert trip.said["again"].status == 0


def test_groups_continue_at_home_where_they_were_away(trip: Trip) -> None:
    found = java_offsets(trip.pair.primary, trip.pair.group("reader"), trip.pair.topic(1))
    home = java_records(trip.pair.primary.bootstrap, trip.pair.topic(1))
    read = trip.values(trip.pair.backup, trip.away)
    unread = [record.value for record in home[0] if record.offset >= found[0]]
    assert unread == read[0][BEFORE + 11 :]
    assert [r.value for r in home[1] if r.offset >= found[1]] == read[1][BEFORE + AWAY :]
    assert java_offsets(trip.pair.primary, trip.pair.group("idle"), trip.pair.topic(1))[0] == 7


def test_what_was_written_into_the_copy_of_an_empty_topic_comes_home(trip: Trip) -> None:
    home = trip.values(trip.pair.primary, trip.pair.topic(2))
    assert home == trip.values(trip.pair.backup, trip.empty_away) and len(home[0]) == 4
    assert java_offsets(trip.pair.primary, trip.pair.group("first"), trip.pair.topic(2))[0] == 3


def test_a_failover_is_not_taken_back_over_what_applications_wrote(trip: Trip) -> None:
    status, output = trip.said["abandoned"]
    assert (status, "applications wrote into the copies" in output) == (2, True), output
    assert f"{trip.pair.topic(1)}-0 {AWAY}" in output and f"{trip.pair.topic(2)}-0 4" in output


def test_what_came_home_is_no_difference(trip: Trip) -> None:
    assert trip.said["verified"].status == 0, trip.said["verified"].output
