"""Pause, stop and resume on real clusters, under load and with owners that are killed. Java's consumer judges."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults.staging import Flow, await_said
from faults.workload import MirrorProcess, wait_until
from host import hosted_command
from integration.mirroring import await_true, create_topics, flow_settings, log_ends, numbered, produce, write_settings
from integration.scenario import commit
from judge import java_records

from sparkmirror.local import LocalCluster

ALIAS, LOAD, CALM, GROUP = "held", "held-load", "held-calm", "held-readers"
CALM_VALUES = numbered(10)
REMOTE = f"{ALIAS}.{LOAD}"
WATCHED_S = 1.0  # a receipt comes once a second; the load writes in each of its milliseconds
# A command waits for the turn of a process; the answer says how long the owner took.
OWNER_S_MAX = 8.0


@dataclass
class Story:
    """What was answered, what the target held then and a second later, and what was there in the end."""

    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    ends: dict[str, tuple[Mapping[int, int], Mapping[int, int]]] = field(default_factory=dict)
    beats: dict[str, int] = field(default_factory=dict)
    checkpoints: dict[str, int] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Stage:
    """The clusters, and an operator at a shell."""

    source: LocalCluster
    target: LocalCluster
    path: Path
    story: Story

    def ask(self, name: str, verb: str, *words: str) -> None:
        """A command that must be answered; its JSON is kept."""
        ended = hosted_command(verb, str(self.path), *words, "--json", seconds=240)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        self.story.told[name] = json.loads(ended.stdout)

    def watch(self, name: str) -> None:
        """Where the copies end, twice."""
        before = log_ends(self.target, REMOTE)
        until = time.monotonic() + WATCHED_S
        await_true(lambda: time.monotonic() > until, what="a while")
        self.story.ends[name] = before, log_ends(self.target, REMOTE)

    def pause(self, name: str, verb: str, *words: str) -> None:
        """Ends the copying, and watches."""
        self.ask(name, verb, *words)
        self.watch(name)

    def heartbeats(self) -> int:
        """How many this flow has written."""
        found = java_records(self.target.bootstrap, "heartbeats").values()
        return sum(ALIAS.encode() in (record.key or b"") for records in found for record in records)

    def checkpoints(self) -> int:
        """How many records their topic holds."""
        return sum(log_ends(self.target, f"{ALIAS}.checkpoints.internal").values())


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    source, target = source_cluster, target_cluster
    create_topics(source, {LOAD: (3, {}), CALM: (1, {})})
    produce(source, CALM, 0, CALM_VALUES[:5])
    folder = tmp_path_factory.mktemp("held")
    more = {"emit.checkpoints.interval.seconds": "1", "refresh.groups.interval.seconds": "1", "groups": GROUP}
    more |= {"emit.heartbeats.enabled": "true"}
    settings = flow_settings(source, target, alias=ALIAS, topics="held-.*", more=more)
    path = write_settings(folder / "mm2.properties", settings)
    story, flow, killed = Story(), Flow(source, target, alias=ALIAS, topic=LOAD, partitions=3), folder / "killed"
    stage = Stage(source, target, path, story)
    with flow.load(1500) as load:
        with MirrorProcess(path, faults=f"request.before_answer=kill@5:{killed}") as first:
            flow.await_copying(why=lambda: first.output)
            stage.pause("partition", "pause", "--topic", LOAD, "--partition", "0")
            stage.ask("resume partition", "resume", "--topic", LOAD, "--partition", "0")
            flow.await_copying(why=lambda: first.output)
            stage.pause("topic", "stop", "--topic", LOAD)
            produce(source, CALM, 0, CALM_VALUES[5:])
            await_true(lambda: log_ends(target, f"{ALIAS}.{CALM}") == {0: 10}, what="the other topic goes on")
            stage.ask("resume topic", "resume", "--topic", LOAD)
            flow.await_copying(why=lambda: first.output)
            with MirrorProcess(path, "--standby") as second:
                await_said(second, "standby", 120)
                stage.pause("flow", "pause")  # the first is killed when it is about to answer
                assert killed.exists() and first.wait(60) != 0
                story.owners = {"first": str(first.process.pid), "second": str(second.process.pid)}
                story.said["second"] = second.output
                second.kill()
        stage.watch("nobody")
        with MirrorProcess(path) as third:
            await_said(third, "paused", 120)
            stage.watch("next owner")
            stage.ask("checkpoint", "stop", "--connector", "checkpoint")
            stage.ask("heartbeat", "pause", "--connector", "heartbeat")
            story.beats["paused"] = stage.heartbeats()
            commit(source, GROUP, LOAD, {0: 10})
            stage.ask("resume flow", "resume")
            flow.await_copying(why=lambda: third.output)
            story.beats["still paused"] = stage.heartbeats()
            story.checkpoints["stopped"] = stage.checkpoints()
            stage.ask("resume heartbeat", "resume", "--connector", "heartbeat")
            stage.ask("resume checkpoint", "resume", "--connector", "checkpoint")
            wait_until(lambda: stage.heartbeats() > story.beats["paused"], "heartbeats again", 60)
            wait_until(lambda: stage.checkpoints() > story.checkpoints["stopped"], "checkpoints again", 60)
            load.finish()
            flow.await_copied(lambda: third.output)
            story.history = json.loads(hosted_command("history", str(path), "--json", seconds=240).stdout)["entries"]
            assert third.interrupt() == 0, third.output
            story.said["third"] = third.output
    yield story


def grown(story: Story, name: str) -> set[int]:
    """The partitions whose copies grew while they were watched."""
    before, after = story.ends[name]
    return {partition for partition in before if after[partition] != before[partition]}


def test_java_reads_each_record_once(story: Story, source_cluster: LocalCluster, target_cluster: LocalCluster) -> None:
    flow = Flow(source_cluster, target_cluster, alias=ALIAS, topic=LOAD, partitions=3)
    assert flow.judge() > 10_000
    copied = java_records(target_cluster.bootstrap, f"{ALIAS}.{CALM}")[0]
    assert [record.value for record in copied] == CALM_VALUES


def test_nothing_is_written_once_the_command_has_returned_and_the_others_go_on(story: Story) -> None:
    assert 0 not in grown(story, "partition") and grown(story, "partition")
    for name in ("topic", "flow", "nobody", "next owner"):
        assert grown(story, name) == set(), name
    assert story.told["topic"]["text"] == f"topic {LOAD} is stopped: 3 partitions"
    assert all(told["open_partitions"] == 0 for told in story.told.values())


def test_an_owner_that_dies_before_its_answer_leaves_the_pause_to_the_next(story: Story) -> None:
    [wish] = story.told["flow"]["wishes"]
    assert (wish["topic"], wish["state"]) == (None, "paused")
    assert f"/pid {story.owners['second']}/" in story.told["flow"]["owner"]
    assert story.ends["nobody"][0] == story.ends["flow"][1] == story.ends["next owner"][1]


def test_the_next_owner_says_who_paused_it_and_how_to_resume(story: Story) -> None:
    [wish] = story.told["flow"]["wishes"]
    assert f"the flow is paused since {wish['time']} by {wish['who']} (to resume: sparkmirror resume " in story.said["third"]


def test_heartbeats_and_checkpoints_stop_alone(story: Story) -> None:
    assert story.beats["paused"] == story.beats["still paused"] > 0
    assert story.told["resume flow"]["changed"][0]["connector"] == "source"
    assert {wish["connector"] for wish in story.told["resume flow"]["wishes"]} == {"checkpoint", "heartbeat"}
    assert story.checkpoints["stopped"] == 0


def test_history_has_each_request_with_who_and_what(story: Story) -> None:
    asked = [(entry["verb"], entry["state"]) for entry in story.history]
    assert asked == [
        *[("pause", "done"), ("resume", "done"), ("stop", "done"), ("resume", "done"), ("pause", "done")],
        *[("stop", "done"), ("pause", "done"), ("resume", "done"), ("resume", "done"), ("resume", "done")],
    ]
    assert all(entry["who"] and entry["command"].startswith("sparkmirror ") for entry in story.history)
    took = {entry["text"]: (entry["answered_ms"] - entry["time_ms"]) / 1000 for entry in story.history[:4]}
    assert max(took.values()) < OWNER_S_MAX, took
