"""Every reason that stops a partition until somebody decides names one command, ready to be copied to a shell."""

from __future__ import annotations

import shlex
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.cli.app import app
from sparkmirror.config import parse
from sparkmirror.control import RunOptions, place_of
from sparkmirror.errors import (
    ContentDiffers,
    OrderBroken,
    ReplicationError,
    SourceOffsetLost,
    SourceTopicRecreated,
    SourceTruncated,
    TargetHasStranger,
    TargetRefusedRecords,
    TargetTopicRecreated,
)
from sparkmirror.ledger import Position
from sparkmirror.model import TopicPartition
from sparkmirror.status import MirroredTopic
from sparkmirror.status.remedies import Remedies

P = TopicPartition("orders", 2)
FLOWS = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


@pytest.mark.parametrize(
    ("error", "command"),
    [
        (SourceOffsetLost, "sparkmirror offsets skip /etc/mm2.properties --topic orders --partition 2"),
        (TargetHasStranger, "sparkmirror offsets skip /etc/mm2.properties --topic orders --partition 2"),
        (SourceTopicRecreated, "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 2"),
        (TargetTopicRecreated, "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 2"),
        (SourceTruncated, "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 2 --to latest"),
        (ContentDiffers, "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 2 --to 41"),
        (OrderBroken, "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 2 --to 41"),
    ],
)
def test_a_stop_names_the_command_that_goes_on(error: type[ReplicationError], command: str) -> None:
    told = Remedies("/etc/mm2.properties").with_hint(error("what happened"), P, 41)
    assert told.hint.endswith(f": {command}")
    assert told.message == "what happened"


def test_a_hint_that_says_more_is_left_as_it_is() -> None:
    told = Remedies("f").with_hint(SourceTruncated("what happened", hint="this helps"), P, 41)
    assert told.hint == "this helps"
    assert Remedies("f").with_hint(TargetRefusedRecords("what happened"), P, 41).hint == ""


TOPIC = MirroredTopic(
    topic="orders", remote="A.orders", partitions=3, source_topic_id="s", target_topic_id="t", source_compacts=False,
    target_compacts=False, target_log_append_time=False,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"source_topic_id": "other"}, "the source topic was deleted and created again"),
        ({"target_topic_id": "other"}, "target topic A.orders was deleted and created again"),
        ({"remote": "orders", "target_topic_id": "other"}, "copied to topic A.orders before, and the replication policy"),
    ],
)
def test_a_partition_whose_topics_are_others_now_says_in_which_way(changed: dict[str, str], words: str) -> None:
    order: Any = SimpleNamespace(
        partition=P, position=Position(5, 5, 0), source_topic_id="s", target_topic_id="t", target_topic="A.orders"
    )
    assert Remedies("f").recreated(order, TOPIC) is None
    told = Remedies("f").recreated(order, replace(TOPIC, **changed))
    assert told is not None and words in told.message
    assert "sparkmirror offsets reset f" in told.hint


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FLOWS, ["/etc/my mm2.properties"]),
        (FLOWS + "B->A.enabled = true\n", ["/etc/my mm2.properties", "--flow", "A->B"]),
    ],
    ids=["one flow", "several flows"],
)
def test_the_command_is_understood_by_a_shell_and_by_the_program(text: str, words: list[str]) -> None:
    settings = parse(text, "/etc/my mm2.properties", {})
    flow = settings.enabled_flows(None)[0]
    remedies = Remedies(place_of(settings, flow, RunOptions(), slots=1).file_words)
    for command in (remedies.skip(P), remedies.reset(P, 41)):
        program, noun, verb, *rest = shlex.split(command)
        assert (program, noun, rest[: len(words)]) == ("sparkmirror", "offsets", words)
        assert verb in {command.name or command.callback.__name__ for command in _group("offsets")}


def _group(name: str) -> list:  # type: ignore[type-arg]
    [found] = [group for group in app.registered_groups if group.name == name]
    assert found.typer_instance is not None
    return list(found.typer_instance.registered_commands)
