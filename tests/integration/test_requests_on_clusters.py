"""Requests to a running owner, on real clusters: carried out once, the others never stop. Java's consumer judges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from faults.staging import Flow, await_said
from faults.workload import MirrorProcess, wait_until
from host import hosted_command
from integration.mirroring import (
    Outcome,
    create_topics,
    flow_settings,
    numbered,
    produce,
    says_stopped,
    set_topic_config,
    write_settings,
)
from judge import java_records

from sparkmirror.ledger import Attempt
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition

ALIAS = "asked"
LOAD, LARGE, RAISED = "asked-load", "asked-large", "asked-raised"
TOO_LARGE, AT = b"x" * 200_000, 5
STARTED = {LARGE: [*numbered(AT), TOO_LARGE, *numbered(4, first=50)], RAISED: [*numbered(AT), TOO_LARGE]}


def call(*words: str) -> Outcome:
    """`sparkmirror` with these words, as an operator types it."""
    ended = hosted_command(*words, seconds=240)
    return Outcome(ended.returncode, ended.stdout + ended.stderr)


@dataclass
class Story:
    """What was asked and answered, the attempts of partitions that nobody asked about, and how the runs ended."""

    path: Path
    told: dict[str, dict[str, Any]] = field(default_factory=dict)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    attempts: dict[str, dict[TopicPartition, Attempt]] = field(default_factory=dict)
    owners: dict[str, str] = field(default_factory=dict)
    said_before_restart: str = ""

    def ask(self, name: str, *words: str, status: int = 0) -> None:
        """A command that must end so; its JSON is kept."""
        outcome = self.outcomes[name] = call(*words, "--json")
        assert outcome.status == status, outcome.output
        self.told[name] = json.loads(outcome.output)

    def move(self, name: str, verb: str, topic: str, partition: int, *words: str) -> None:
        """A change of positions under an id of its own."""
        place = ("--topic", topic, "--partition", str(partition))
        self.ask(name, "offsets", verb, str(self.path), *place, *words, "--request-id", name, "--yes")


def attempts(flow: Flow) -> dict[TopicPartition, Attempt]:
    """The attempt at each partition now."""
    found = {partition: flow.ledger().of(partition).newest for partition in flow.partitions}
    return {partition: order.attempt for partition, order in found.items() if order is not None}


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """Live moves under load, a restart after the limit was raised, and an owner that is killed before it answers."""
    source, target = source_cluster, target_cluster
    create_topics(source, {LOAD: (3, {})} | {topic: (1, {"max.message.bytes": "1000000"}) for topic in STARTED})
    create_topics(target, {f"{ALIAS}.{topic}": (1, {"max.message.bytes": "100000"}) for topic in STARTED})
    for topic, values in STARTED.items():
        produce(source, topic, 0, values)
    folder = tmp_path_factory.mktemp("asked")
    settings = flow_settings(source, target, alias=ALIAS, topics="asked-.*", more={"offset.lag.max": "0"})
    path = write_settings(folder / "mm2.properties", settings)
    told, flow, killed = Story(path), Flow(source, target, alias=ALIAS, topic=LOAD, partitions=3), folder / "killed"
    with flow.load(2000) as load, MirrorProcess(path, faults=f"request.before_answer=kill@6:{killed}") as first:
        for topic in STARTED:
            wait_until(lambda: says_stopped(first.output, f"{topic}-0", "RECORD_TOO_LARGE"), f"{topic} stops", 120)  # noqa: B023
        flow.await_copying(why=lambda: first.output)
        told.attempts["before"] = attempts(flow)
        told.outcomes["preview"] = call("offsets", "reset", str(path), "--topic", LOAD, "--partition", "0")
        told.move("skip", "skip", LARGE, 0, "--to", str(AT + 1))
        told.move("reset", "reset", LOAD, 0)
        told.attempts["reset"] = attempts(flow)
        told.move("set", "set", LOAD, 1, "--to", "500")
        told.attempts["set"] = attempts(flow)
        place = (str(path), "--topic", LOAD, "--partition", "0")
        told.outcomes["refused"] = call("offsets", "set", *place, "--to", "999999999", "--yes")
        first_told = told.told["reset"]
        told.move("reset", "reset", LOAD, 0)  # the same request once more
        told.told["again"], told.told["reset"] = told.told["reset"], first_told
        set_topic_config(target, f"{ALIAS}.{RAISED}", {"max.message.bytes": "1000000"})
        told.ask("restart", "restart", str(path), "--topic", RAISED)
        told.said_before_restart = first.output
        flow.await_copying(why=lambda: first.output)
        with MirrorProcess(path, "--standby") as second, ThreadPoolExecutor(1) as pool:
            await_said(second, "standby", 120)
            asking = pool.submit(told.move, "kill", "set", LOAD, 0, "--to", "1000")
            wait_until(killed.exists, f"the owner is about to answer: {first.output}", 60)
            assert first.wait(60) != 0
            asking.result(120)
            told.owners = {"first": str(first.process.pid), "second": str(second.process.pid)}
            flow.await_copying(why=lambda: second.output)
            load.finish()
            flow.await_copied(lambda: second.output)
            told.ask("history", "history", str(path))
            assert second.interrupt() == 0, second.output
    yield told


def copied(source: LocalCluster, topic: str, partition: int) -> list[bytes | None]:
    return [record.value for record in java_records(source.bootstrap, topic)[partition]]


def moved(story: Story, name: str) -> tuple[int, int]:
    """From which next offset to which."""
    [move] = story.told[name]["moves"]
    return move["old_next_offset"], move["next_offset"]


def test_java_reads_each_record_as_often_as_was_asked_for(
    story: Story, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    found = {at: copied(target_cluster, f"{ALIAS}.{LOAD}", at) for at in range(3)}
    wanted = {at: copied(source_cluster, LOAD, at) for at in range(3)}
    (reset, zero), (kill, thousand), (back, five_hundred) = moved(story, "reset"), moved(story, "kill"), moved(story, "set")
    assert (zero, thousand, five_hundred) == (0, 1000, 500) and min(reset, kill, back) > 1000
    assert found[0] == wanted[0][:reset] + wanted[0][:kill] + wanted[0][1000:]
    assert found[1] == wanted[1][:back] + wanted[1][500:]
    assert found[2] == wanted[2]


def test_a_record_that_the_target_refuses_is_skipped_while_the_flow_runs(story: Story, target_cluster: LocalCluster) -> None:
    values = [record.value for record in java_records(target_cluster.bootstrap, f"{ALIAS}.{LARGE}")[0]]
    assert values == [value for value in STARTED[LARGE] if value != TOO_LARGE]
    assert moved(story, "skip") == (AT, AT + 1)


def test_restart_goes_on_once_the_limit_was_raised(story: Story, target_cluster: LocalCluster) -> None:
    values = [record.value for record in java_records(target_cluster.bootstrap, f"{ALIAS}.{RAISED}")[0]]
    assert values == STARTED[RAISED]
    rows = story.told["restart"]["partitions"]
    if not rows:  # the mirror had looked at the settings between the change and the request, and resumed by itself
        assert f"{RAISED}-0 resumed: RECORD_TOO_LARGE" in story.said_before_restart
    else:
        assert [(row["topic"], row["partition"]) for row in rows if row["state"] != "stopped"] == [(RAISED, 0)], rows


def test_partitions_that_nobody_asked_about_keep_their_attempts(story: Story) -> None:
    before, reset, set_ = (story.attempts[name] for name in ("before", "reset", "set"))
    zero, one, two = sorted(before)
    assert (reset[one], reset[two]) == (before[one], before[two])
    assert (set_[zero], set_[two]) == (reset[zero], before[two])
    assert reset[zero] != before[zero] and set_[one] != before[one]


def test_the_same_request_once_more_gets_the_first_answer(story: Story) -> None:
    first, again = story.told["reset"], story.told["again"]
    assert again["moves"] == first["moves"] and again["owner"] == first["owner"] and first["moves"]
    assert again["undo_file"] != first["undo_file"]


def test_a_preview_asks_nobody_and_names_the_owner(story: Story) -> None:
    outcome = story.outcomes["preview"]
    assert outcome.status == 0, outcome.output
    assert f"/pid {story.owners['first']}/" in outcome.output and "(running; it would be asked)" in outcome.output
    assert "request reset" not in outcome.output and "nothing was changed; --yes applies it" in outcome.output


def test_what_cannot_be_done_is_refused_with_the_reason_and_stops_nothing(story: Story) -> None:
    outcome = story.outcomes["refused"]
    assert outcome.status == 2, outcome.output
    assert "found 999999999" in outcome.output and "refused by" in outcome.output


def test_a_request_whose_owner_was_killed_is_carried_out_once_by_the_next_one(story: Story) -> None:
    assert f"/pid {story.owners['second']}/" in story.told["kill"]["owner"]
    [entry] = [entry for entry in story.told["history"]["entries"] if entry["request_id"] == "kill"]
    assert (entry["state"], entry["verb"], entry["partition"]) == ("done", "offsets.set", 0)


def test_the_history_tells_who_asked_for_what_and_what_became_of_it(story: Story) -> None:
    entries = {entry["request_id"]: entry for entry in story.told["history"]["entries"]}
    assert [entries[name]["state"] for name in ("skip", "reset", "set", "kill")] == ["done"] * 4
    assert "refused" in [entry["state"] for entry in entries.values()]
    assert all("@" in entry["who"] and entry["command"].startswith("sparkmirror ") for entry in entries.values())
    assert len(entries) == len(story.told["history"]["entries"]) == 6
