"""`sparkmirror failover` on real clusters. Kafka's own tools say where groups continue and what they read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kafka
import pytest
from faults.workload import MirrorProcess
from host import hosted_command
from integration.mirroring import (
    PROGRAM,
    LiveMirror,
    Outcome,
    await_true,
    create_topics,
    live_mirror,
    log_ends,
    numbered,
    produce,
    topics_of,
)
from integration.scenario import Pair, commit, java_formatted, java_offsets
from judge import group_violations, java_records

from sparkmirror.errors import InternalError
from sparkmirror.local import LocalCluster, consumer_groups

RECORDS = 60
QUICK = ("--quiet", "1", "--wait", "60")


def call(*words: str) -> Outcome:
    """`sparkmirror` with these words, as an operator types it."""
    ended = hosted_command(*words, seconds=240)
    return Outcome(ended.returncode, ended.stdout + ended.stderr)


@dataclass
class Applications:
    """Two topics of two partitions, and groups that have read some of them, on the primary."""

    pair: Pair
    offsets: dict[str, dict[int, dict[int, int]]] = field(default_factory=dict)

    def prepare(self) -> None:
        """Topics, records and groups: one at the end, one at the beginning, two in between."""
        for number in (1, 2):
            create_topics(self.pair.primary, {self.pair.topic(number): (2, {})})
            for partition in (0, 1):
                produce(self.pair.primary, self.pair.topic(number), partition, numbered(RECORDS), batch=7)
        self.read("end", {1: {0: RECORDS, 1: RECORDS}, 2: {0: RECORDS, 1: RECORDS}})
        self.read("start", {1: {0: 0, 1: 0}})
        self.read("middle", {1: {0: 17, 1: 33}, 2: {0: 5, 1: RECORDS}})
        self.read("one", {2: {1: 41}})

    def read(self, name: str, offsets: dict[int, dict[int, int]]) -> None:
        """A group that has read so far."""
        self.offsets[name] = offsets
        for number, wanted in offsets.items():
            commit(self.pair.primary, self.pair.group(name), self.pair.topic(number), wanted)

    def violations(self) -> list[str]:
        """By Java: whether each group on the backup goes on exactly behind what it has read."""
        found = []
        for number in (1, 2):
            source = java_records(self.pair.primary.bootstrap, self.pair.topic(number))
            target = java_records(self.pair.backup.bootstrap, self.pair.remote(number))
            for name, offsets in self.offsets.items():
                placed = java_offsets(self.pair.backup, self.pair.group(name), self.pair.remote(number))
                for partition, at in offsets.get(number, {}).items():
                    if partition not in placed:
                        found.append(f"{name} has no position in {self.pair.remote(number)}-{partition}")
                        continue
                    wrong = group_violations(
                        source[partition], target[partition], at_source=at, at_target=placed[partition]
                    )
                    found += [f"{name} in {self.pair.remote(number)}-{partition}: {text}" for text in wrong]
        return found

    def copied(self) -> Mapping[int, bool]:
        """Whether each topic of the primary is on the backup, record for record."""
        found = {}
        for number in (1, 2):
            here = java_records(self.pair.primary.bootstrap, self.pair.topic(number))
            there = java_records(self.pair.backup.bootstrap, self.pair.remote(number))
            found[number] = {p: [r.value for r in rows] for p, rows in here.items()} == {
                p: [r.value for r in rows] for p, rows in there.items()
            }
        return found


@dataclass
class Planned:
    """What a planned failover said at each of its stages."""

    apps: Applications
    path: Path
    said: dict[str, Outcome] = field(default_factory=dict)
    report: Path = Path()
    before: tuple[object, ...] = ()
    after: tuple[object, ...] = ()


def await_groups_seen(mirror: LiveMirror | MirrorProcess, pair: Pair) -> None:
    """Waits until everything of topic 1 and 2 is on the backup."""
    for number in (1, 2):
        await_true(
            lambda number=number: _ends(pair.backup, pair.remote(number)) >= 2 * RECORDS,  # type: ignore[misc]
            120,
            f"{pair.remote(number)} is copied: {mirror.output}",
        )


def _ends(cluster: LocalCluster, topic: str) -> int:
    return sum(log_ends(cluster, topic).values()) if topic in topics_of(cluster) else 0


@pytest.fixture(scope="module")
def planned(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Planned]:
    """A planned failover of a running flow while one producer and one consumer are late to stop."""
    pair = Pair(source_cluster, target_cluster, tmp_path_factory.mktemp("planned"))
    apps = Applications(pair)
    apps.prepare()
    path = pair.write({"sync.group.offsets.enabled": "true", "emit.heartbeats.enabled": "false"})
    story = Planned(apps, path, report=path.with_name("report.json"))
    with live_mirror(path) as mirror:
        await_groups_seen(mirror, pair)
        story.before = shown_state(pair)
        story.said["drill"] = call("drill", str(path), "--report", str(path.with_name("drill.json")))
        story.said["drill again"] = call("drill", str(path), "--last", str(path.with_name("drill.json")))
        story.after = shown_state(pair)
        story.said["dry run"] = call("failover", str(path))
        options = {"group_id": pair.group("middle"), "enable_auto_commit": False, "auto_offset_reset": "earliest"}
        with closing(kafka.KafkaConsumer(pair.topic(1), bootstrap_servers=pair.primary.bootstrap, **options)) as consumer:
            await_true(lambda: consumer.poll(100) or consumer.assignment(), 60, "the consumer joins")
            story.said["reading"] = call("failover", str(path), "--yes", "--quiet", "0.5", "--wait", "1")
        produce(pair.primary, pair.topic(1), 0, numbered(9, first=1000))
        story.said["done"] = call("failover", str(path), "--yes", *QUICK, "--report", str(story.report))
        story.said["mirror"] = mirror.await_end(90)
    story.said["again"] = call("failover", str(path), "--yes")
    story.said["once"] = call("run", str(path), "--once")
    for verb in ("plan", "doctor", "status"):
        story.said[verb] = call(verb, str(path))
    story.said["take over"] = call("run", str(path), "--take-over")
    with live_mirror(path, "--standby") as standby:
        standby.await_said("was failed over", 60)
        story.said["standby"] = Outcome(standby.stop().status, standby.output)
    yield story


def shown_state(pair: Pair) -> tuple[object, ...]:
    """What a drill must leave as it was: groups with their offsets, and topics, on both clusters, as Java shows them."""
    groups = []
    for cluster in (pair.primary, pair.backup):
        shown = consumer_groups(cluster.bootstrap, "--list").split()
        listed = sorted(group for group in shown if pair.mark in group and not group.startswith("connect-"))
        groups.append({name: java_offsets(cluster, name, pair.topic(1)) for name in listed if cluster is pair.primary})
        groups.append({name: () for name in listed if "drill" in name})
    topics = [{t for t in topics_of(cluster) if pair.mark in t} for cluster in (pair.primary, pair.backup)]
    return groups, topics


def test_a_drill_measures_and_leaves_everything_as_it_was(planned: Planned) -> None:
    status, output = planned.said["drill"]
    assert status == 0, output
    assert "a failover now would take" in output and "4 groups would read 0 records again" in output
    assert "(last time 0)" in planned.said["drill again"].output
    assert planned.before == planned.after


def test_the_plan_names_each_step_and_changes_nothing(planned: Planned) -> None:
    status, output = planned.said["dry run"]
    assert status == 0, output
    for step in ("producers", "copied", "consumers", "stop", "groups", "access", "record"):
        assert f". {step}: " in output
    assert "nothing was changed; --yes carries it out" in output


def test_a_consumer_that_still_reads_is_named_and_nothing_is_changed(planned: Planned) -> None:
    status, output = planned.said["reading"]
    assert status == 4, output
    assert f"{planned.apps.pair.group('middle')} still read" in output and "nothing was changed" in output


def test_each_group_continues_exactly_and_everything_is_copied(planned: Planned) -> None:
    status, output = planned.said["done"]
    assert status == 0, output
    assert planned.apps.copied() == {1: True, 2: True}
    assert planned.apps.violations() == []
    assert "reads 0 records again" in output and f"bootstrap.servers={planned.apps.pair.backup.bootstrap}" in output


def test_the_report_says_what_java_finds(planned: Planned) -> None:
    report = json.loads(planned.report.read_text())
    pair = planned.apps.pair
    assert [step["name"] for step in report["done"]["steps"]] == report["steps"]
    for group in report["groups"]:
        assert (group["records_again"], group["proven"]) == (0, True), group
        for position in group["positions"]:
            placed = java_offsets(pair.backup, group["group"], position["remote"])
            assert placed[position["partition"]] == position["remote_offset"]


def test_the_owner_ends_with_the_reason_and_no_run_copies_again(planned: Planned) -> None:
    for name in ("mirror", "once", "take over"):
        status, output = planned.said[name]
        assert (status, "failed over (planned)" in output) == (5, True), f"{name}: {output}"
    for name in ("standby", "plan", "doctor", "status"):
        assert "failed over (planned)" in planned.said[name].output, planned.said[name].output
    assert planned.said["plan"].status == 4
    assert planned.said["standby"].status == 0


def test_a_second_failover_says_that_it_was_done(planned: Planned) -> None:
    status, output = planned.said["again"]
    assert (status, "was failed over before" in output) == (0, True), output


# --- killed at each of its steps -----------------------------------------------------------------------------------

STOP, ACCESS = 5, 7  # by number, in a planned failover


def killed_call(folder: Path, point: str, count: int, *words: str) -> None:
    """The command, killed −9 when it comes to the point."""
    marker = folder / f"{point}.{count}"
    faults = os.environ | {"SPARKMIRROR_FAULTS": f"{point}=kill@{count}:{marker}"}
    ended = subprocess.run([PROGRAM, *words], env=faults, timeout=180, capture_output=True, text=True, check=False)
    assert (ended.returncode, marker.exists()) == (-signal.SIGKILL, True), ended.stdout + ended.stderr


@pytest.mark.fault("F45")
@pytest.mark.nightly
def test_F45_a_failover_that_is_killed_at_each_step_ends_as_if_it_had_not_been(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    pair = Pair(source_cluster, target_cluster, tmp_path)
    apps = Applications(pair)
    apps.prepare()
    path = pair.write({"emit.heartbeats.enabled": "false"})
    command = ("failover", str(path), "--yes", "--quiet", "0.5", "--wait", "60")
    with MirrorProcess(path, faults=f"request.before_answer=kill@1:{tmp_path / 'owner'}") as mirror:
        await_groups_seen(mirror, pair)
        # The owner dies before it answers: then the command takes the flow and stops it.
        killed_call(tmp_path, "failover.step", STOP, *command)
        assert mirror.wait(60) == -signal.SIGKILL
    killed_call(tmp_path, "failover.group_placed", 2, *command)
    killed_call(tmp_path, "failover.step", ACCESS, *command)
    status, output = call(*command)
    assert (status, "is failed over at" in output) == (0, True), output
    assert apps.copied() == {1: True, 2: True}
    assert apps.violations() == []
    first, second = call("failover", str(path), "--abandon"), call("failover", str(path), "--abandon", "--yes")
    assert (first.status, second.status) == (0, 0), first.output + second.output
    produce(pair.primary, pair.topic(1), 1, numbered(5, first=500))
    ended = call("run", str(path), "--once")  # taken back, it copies on where it was
    assert ended.status == 0, ended.output
    assert apps.copied() == {1: True, 2: True}


# --- the source is gone --------------------------------------------------------------------------------------------


@dataclass
class Unplanned:
    """What an unplanned failover said after the source's only broker was killed, and what Java found later."""

    pair: Pair
    said: dict[str, Outcome] = field(default_factory=dict)
    seen: dict[str, dict[int, int]] = field(default_factory=dict)  # by group: its newest checkpoint, as Java reads it
    report: dict[str, Any] = field(default_factory=dict)


@pytest.fixture(scope="module")
def unplanned(target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Unplanned]:
    """Topic 1 is copied whole; topic 2 stops at a record that is too large, with five behind it."""
    folder = tmp_path_factory.mktemp("unplanned")
    with LocalCluster("lost") as source:
        pair = Pair(source, target_cluster, folder)
        story = Unplanned(pair)
        create_topics(source, {pair.topic(1): (2, {}), pair.topic(2): (1, {"max.message.bytes": "1000000"})})
        create_topics(target_cluster, {pair.remote(2): (1, {"max.message.bytes": "100000"})})
        for partition in (0, 1):
            produce(source, pair.topic(1), partition, numbered(RECORDS), batch=7)
        produce(source, pair.topic(2), 0, [*numbered(7), b"x" * 200_000, *numbered(5, first=50)])
        commit(source, pair.group("night"), pair.topic(1), {0: 41, 1: RECORDS})
        commit(source, pair.group("stopped"), pair.topic(2), {0: 3})
        path = pair.write({"emit.heartbeats.enabled": "false", "sync.topic.configs.enabled": "false"})
        with live_mirror(path) as mirror:
            await_true(lambda: _ends(target_cluster, pair.remote(1)) >= 2 * RECORDS, 120, f"copied: {mirror.output}")
            mirror.await_stopped(f"{pair.topic(2)}-0", "RECORD_TOO_LARGE", 60)
            await_true(lambda: len(_checkpoints(pair)) >= 3, 60, f"checkpoints: {mirror.output}")
            await_true(lambda: _last_lag(path) == 6, 60, "the ledger knows what is not copied")
            source.kill(1)
            story.said["planned"] = call("failover", str(path), "--yes")
            story.said["plan"] = call("failover", str(path), "--unplanned")
            story.said["done"] = call("failover", str(path), "--unplanned", "--yes", "--json")
            assert story.said["done"].status == 3, story.said["done"].output
            story.report = json.loads(story.said["done"].output)
            mirror.await_end(90)
        source.start(1)
        story.said["once"] = call("run", str(path), "--once")
        yield story


def _checkpoints(pair: Pair) -> list[str]:
    with suppress(InternalError):
        return java_formatted(pair.backup, f"{pair.source}.checkpoints.internal", "CheckpointFormatter")
    return []


def _last_lag(path: Path) -> int | None:
    found = call("offsets", "list", str(path), "--json")
    rows = json.loads(found.output)["flows"][0]["positions"] if found.status == 0 else []
    return sum(row.get("lag") or 0 for row in rows)


def test_a_planned_failover_without_the_source_is_refused_with_the_command_that_works(unplanned: Unplanned) -> None:
    status, output = unplanned.said["planned"]
    assert (status, "--unplanned" in output) == (2, True), output


def test_an_unplanned_failover_places_groups_at_their_last_checkpoint(unplanned: Unplanned) -> None:
    status, output = unplanned.said["done"]
    assert status == 3, output  # six records are lost
    pair = unplanned.pair
    assert java_offsets(pair.backup, pair.group("night"), pair.remote(1)) == {0: 41, 1: RECORDS}
    assert java_offsets(pair.backup, pair.group("stopped"), pair.remote(2)) == {0: 3}


def test_what_may_be_lost_is_said_with_offset_and_time_and_is_what_java_finds(unplanned: Unplanned) -> None:
    pair, output = unplanned.pair, unplanned.said["plan"].output
    assert f"{pair.topic(2)}-0: records after offset 6 are not on {pair.target}; at the last look" in output
    assert "there were 6" in output and "records that were written later were never seen by the mirror" in output
    missing = {(p["topic"], p["partition"]): p["not_copied"] for p in unplanned.report["partitions"] if p["not_copied"]}
    here = java_records(pair.primary.bootstrap, pair.topic(2))[0]
    there = java_records(pair.backup.bootstrap, pair.remote(2))[0]
    assert missing == {(pair.topic(2), 0): len(here) - len(there)}


def test_the_flow_does_not_start_when_the_source_comes_back(unplanned: Unplanned) -> None:
    status, output = unplanned.said["once"]
    assert (status, "failed over (unplanned)" in output) == (5, True), output
