"""Groups over a change of programs: Java MirrorMaker 2, sparkmirror, MirrorMaker 2 and sparkmirror again, one file.

At every moment of every stage a group on the target must stand where it does not skip a record it has not read on the
source, and it never moves back.
"""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from integration.mirroring import await_true, create_topics, live_mirror, log_ends, produce, topics_of
from integration.scenario import Pair, client_of, commit, java_formatted
from judge import compare, java_records

from sparkmirror.clusters import committed_offsets
from sparkmirror.local import LocalCluster, MirrorMaker

PARTITIONS = 2
STAGE = 600  # records per partition and stage


class Watch:
    """Looks at groups on the target all the time, and notes every position of each."""

    def __init__(self, cluster: LocalCluster, groups: Sequence[str], topic: str) -> None:
        self._cluster, self._groups, self._topic = cluster, groups, topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.seen: dict[tuple[str, int], list[int]] = {}

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        with client_of(self._cluster) as client:
            while not self._stop.wait(0.1):
                for group, offsets in committed_offsets(client, self._groups).items():
                    for place, found in offsets.committed.items():
                        if place.topic == self._topic and found is not None:
                            history = self.seen.setdefault((group, place.partition), [])
                            if history[-1:] != [found.offset]:
                                history.append(found.offset)

    def last(self) -> dict[tuple[str, int], int]:
        """The newest position of each."""
        return {place: history[-1] for place, history in self.seen.items()}


class Stages:
    """What each stage does to source and groups, the same whoever mirrors."""

    def __init__(self, pair: Pair, rng: random.Random, groups: Sequence[str]) -> None:
        self.pair, self.groups, self._rng = pair, groups, rng
        self.filled = 0
        self.read: dict[tuple[str, int], int] = {(g, p): 0 for g in groups for p in range(PARTITIONS)}

    def fill(self) -> None:
        """More records in every partition."""
        for partition in range(PARTITIONS):
            values = [b"%d of %d" % (number, partition) for number in range(self.filled, self.filled + STAGE)]
            produce(self.pair.primary, self.pair.topic(1), partition, values, batch=37)
        self.filled += STAGE

    def read_on(self) -> None:
        """Every group goes on by a random step, never past the end."""
        for group in self.groups:
            for partition in range(PARTITIONS):
                self.read[group, partition] = self._rng.randint(self.read[group, partition] + 1, self.filled)
            commit(self.pair.primary, group, self.pair.topic(1), {p: self.read[group, p] for p in range(PARTITIONS)})

    def await_copied(self) -> None:
        """Everything is on the target."""
        remote = self.pair.remote(1)
        await_true(
            lambda: remote in topics_of(self.pair.backup)
            and set(log_ends(self.pair.backup, remote).values()) == {self.filled},
            90,
            f"{self.filled} records per partition",
        )


def steady(watch: Watch, rounds: int = 12) -> None:
    """Waits until no group moves for some rounds of a second."""
    seen: list[dict[tuple[str, int], int]] = []

    def is_steady() -> bool:
        threading.Event().wait(0.5)
        seen.append(watch.last())
        return len(seen) > rounds and all(one == seen[-1] for one in seen[-rounds:]) and bool(seen[-1])

    await_true(is_steady, 180.0, "groups come to rest")


@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_groups_survive_mm2_and_sparkmirror_taking_turns(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, rng: random.Random
) -> None:
    pair = Pair(source_cluster, target_cluster, tmp_path)
    create_topics(pair.primary, {pair.topic(1): (PARTITIONS, {})})
    stages = Stages(pair, rng, [pair.group(str(number)) for number in range(6)])
    path = pair.write(
        {
            "sync.group.offsets.enabled": "true",
            f"{pair.target}.offset.flush.interval.ms": "1000",
            "emit.heartbeats.enabled": "false",
            "sync.topic.acls.enabled": "false",
        }
    )
    stages.fill()
    stages.read_on()
    with Watch(pair.backup, stages.groups, pair.remote(1)) as watch:
        for number in range(4):
            if number % 2 == 0:
                with MirrorMaker(path.read_text(), name=f"stage{number}") as mm2:
                    stages.await_copied()
                    steady(watch)
                    mm2.stop()
                assert_nothing_skipped(watch, stages)
            else:
                with live_mirror(path) as mirror:
                    stages.await_copied()
                    await_true(lambda: exact(watch, stages), 180.0, "every group in our own stretch at its very position")
                    assert mirror.stop().status == 0
                assert_nothing_skipped(watch, stages)
            if number < 3:
                stages.fill()
                stages.read_on()
    for place, history in watch.seen.items():
        assert history == sorted(history), f"{place} moved back: {history}"
    source = java_records(pair.primary.bootstrap, pair.topic(1))
    assert compare(source, java_records(pair.backup.bootstrap, pair.remote(1))) == []
    lines = java_formatted(pair.backup, f"{pair.source}.checkpoints.internal", "CheckpointFormatter")
    by_place: dict[str, list[int]] = {}
    for line in lines:
        match = re.match(r"Checkpoint\{consumerGroupId=(.*), upstreamOffset=\d+, downstreamOffset=(\d+), ", line)
        assert match, line
        by_place.setdefault(match[1], []).append(int(match[2]))
    assert by_place
    for place, ends in by_place.items():
        assert ends == sorted(ends), f"checkpoints of {place} went back: {ends}"


def exact(watch: Watch, stages: Stages) -> bool:
    """Whether every group that reads what sparkmirror copied stands exactly where it stands on the source.

    What MM2 copied is translated by MM2's own syncs and rule, as MM2 does it.
    """
    ours = {place: offset for place, offset in stages.read.items() if offset >= stages.filled - STAGE}
    return bool(ours) and {place: watch.last().get(place) for place in ours} == ours


def assert_nothing_skipped(watch: Watch, stages: Stages) -> None:
    """Offsets are the same on both sides here, so a group may be behind its position on the source, never ahead."""
    for place, offset in watch.last().items():
        assert offset <= stages.read[place], f"{place} skips records: {offset} where it has read {stages.read[place]}"
