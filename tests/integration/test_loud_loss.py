"""What is lost is told at once, stops its own partition, and goes on by the command that was told (F25, F27–F29)."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from host import hosted_command
from judge import JudgeRecord, java_records, map_violations
from kafka.errors import TopicAlreadyExistsError
from mirroring import (
    IS_BUSY,
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
    partitions_of,
    produce,
    recreate_topic,
    run_cleanly,
    run_once,
    write_settings,
)

from sparkmirror.ledger import LedgerView
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

ALIAS = "loud"
LEDGER = "mm2-ledger.{}.internal"
# Promised where a core is there for us. Beside other tests, only what holds for every trouble: half a minute.
NOTICE_SECONDS_MAX = 30.0 if IS_BUSY else 5.0
REFRESH_SECONDS = 1.0
LONG_POLL_SECONDS = 1.2  # a fetch that waits at the broker while its asker sleeps is over by then
NOT_OURS = b"not ours"
STOPS = {
    "loud-overtaken": "SOURCE_OFFSET_LOST",
    "loud-shorter": "SOURCE_TOPIC_RECREATED",
    "loud-longer": "SOURCE_TOPIC_RECREATED",
    "loud-target-deleted": "TARGET_TOPIC_RECREATED",
    "loud-target-recreated": "TARGET_TOPIC_RECREATED",
    "loud-stranger": "TARGET_HAS_STRANGER",
}
ROWS = {
    "loud-overtaken": "F25", "loud-skipped": "F25", "loud-shorter": "F27", "loud-longer": "F27",
    "loud-target-deleted": "F28", "loud-target-recreated": "F28", "loud-stranger": "F29",
}  # fmt: skip
PREVIEWED = ("loud-overtaken", "loud-longer", "loud-target-deleted")
LIVE = "loud-overtaken"  # goes on by its command while the flow runs, the others when it is stopped
GO_ON = ("loud-skipped", "loud-target-trimmed", "loud-fine")
TOPICS = (*STOPS, *GO_ON)
FIRST, SECOND, THIRD = numbered(10), numbered(10, first=10), numbered(3, first=100)
SHORT, LONG = numbered(4, first=200), numbered(25, first=300)
WANTED = {
    "loud-overtaken": [*FIRST, *SECOND[7:], *THIRD],
    "loud-skipped": [*FIRST, *SECOND[7:], *THIRD],
    "loud-shorter": [*FIRST, *SHORT, *THIRD],
    "loud-longer": [*FIRST, *LONG, *THIRD],
    "loud-target-deleted": [*FIRST, *THIRD],
    "loud-target-recreated": [*FIRST, *THIRD],
    "loud-target-trimmed": [*SECOND, *THIRD],
    "loud-stranger": [*FIRST, NOT_OURS, *SECOND, *THIRD],
    "loud-fine": [*FIRST, *SECOND, *THIRD],
}


def by_row(topics: Iterable[str]) -> list[pytest.ParameterSet]:
    """Each topic as a parameter, with the row of the fault table that it stands for."""
    return [pytest.param(topic, marks=[pytest.mark.fault(ROWS[topic])] if topic in ROWS else []) for topic in topics]


def call(*words: str) -> Outcome:
    """`sparkmirror` with these words."""
    ended = hosted_command(*words)
    return Outcome(ended.returncode, ended.stdout + ended.stderr)



@dataclass
class Story:
    """What happened: how soon each stop was told, what the run said, how the commands and the last run ended."""

    seconds: dict[str, float] = field(default_factory=dict)
    live: Outcome | None = None
    previews: dict[str, Outcome] = field(default_factory=dict)
    ledger_ends: list[int] = field(default_factory=list)
    commands: dict[str, Outcome] = field(default_factory=dict)
    positions: dict[bytes, bytes | None] = field(default_factory=dict)
    beside_stranger: int = 0  # records in the copy that somebody else wrote to, before the last run
    last: Outcome | None = None


def spoil_source(source: LocalCluster, mirror: LiveMirror) -> None:
    """While the worker sleeps, so that it has copied nothing of what is deleted."""
    [worker] = mirror.workers()
    worker.suspend()
    try:
        time.sleep(LONG_POLL_SECONDS)
        for topic in ("loud-overtaken", "loud-skipped"):
            produce(source, topic, 0, SECOND)
            move_log_start(source, topic, 0, 17)
        for topic, values in (("loud-shorter", SHORT), ("loud-longer", LONG)):
            recreate_topic(source, topic)
            produce(source, topic, 0, values)
    finally:
        worker.resume()


def spoil_target(source: LocalCluster, target: LocalCluster) -> None:
    with admin_of(target) as admin:
        admin.delete_topics(["loud.loud-target-deleted"])
    with suppress(TopicAlreadyExistsError):  # the mirror may be quicker to create it again
        recreate_topic(target, "loud.loud-target-recreated")
    move_log_start(target, "loud.loud-target-trimmed", 0, 10)
    produce(target, "loud.loud-stranger", 0, [NOT_OURS])
    for topic in ("loud-target-trimmed", "loud-stranger", "loud-fine"):
        produce(source, topic, 0, SECOND)


def await_stops(story: Story, mirror: LiveMirror, topics: list[str], seconds: float) -> None:
    began = time.monotonic()
    for topic in topics:
        mirror.await_said(f"{topic}-0 stopped {STOPS[topic]}", seconds)
        story.seconds[topic] = time.monotonic() - began


def command_of(log: str, topic: str) -> list[str]:
    """The command that the stop of this topic told, cut out of the log."""
    line = [line for line in log.splitlines() if f"{topic}-0 stopped" in line][-1]
    found = re.search(r"sparkmirror (offsets [^)]*)\)", line)
    assert found is not None, line
    return shlex.split(found[1])


def ledger_end(target: LocalCluster) -> int:
    return log_ends(target, LEDGER.format(ALIAS))[0]


@pytest.fixture(scope="module")
def story(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Story]:
    """One run under which everything is spoilt, the commands it told, and a run after them."""
    source, target = source_cluster, target_cluster
    told = Story()
    create_topics(source, dict.fromkeys(TOPICS, (1, {})))
    for topic in TOPICS:
        produce(source, topic, 0, FIRST)
    more = {"on.source.gap.skip.topics": "loud-skipped"}
    settings = flow_settings(source, target, alias=ALIAS, topics="loud-.*", more=more)
    path = write_settings(tmp_path_factory.mktemp("my loud") / "mm2.properties", settings)
    with live_mirror(path) as mirror:
        for topic in TOPICS:
            await_true(lambda topic=topic: partitions_of(target, f"loud.{topic}") == 1, 180.0, f"{topic} is created")
            await_true(lambda topic=topic: log_ends(target, f"loud.{topic}") == {0: 10}, 180.0, f"{topic} is copied")
        spoil_source(source, mirror)
        await_stops(told, mirror, list(STOPS)[:3], NOTICE_SECONDS_MAX)
        spoil_target(source, target)
        await_stops(told, mirror, list(STOPS)[3:], NOTICE_SECONDS_MAX + REFRESH_SECONDS)
        for topic, end in (("loud-skipped", 13), ("loud-fine", 20), ("loud-target-trimmed", 20)):
            await_true(lambda topic=topic, end=end: log_ends(target, f"loud.{topic}") == {0: end}, what=f"{topic} goes on")
        told.previews[LIVE] = call(*command_of(mirror.output, LIVE))
        told.commands[LIVE] = call(*command_of(mirror.output, LIVE), "--yes")
        await_true(lambda: log_ends(target, f"loud.{LIVE}") == {0: 13}, what="the command goes on")
        told.live = mirror.stop()
    told.ledger_ends.append(ledger_end(target))
    for topic in PREVIEWED[1:]:
        told.previews[topic] = call(*command_of(told.live.output, topic))
    told.ledger_ends.append(ledger_end(target))
    for topic in STOPS.keys() - {LIVE}:
        told.commands[topic] = call(*command_of(told.live.output, topic), "--yes")
    for records in java_records(target.bootstrap, f"mm2-offsets.{ALIAS}.internal").values():
        told.positions |= {record.key or b"": record.value for record in records}
    told.beside_stranger = len(java_records(target.bootstrap, "loud.loud-stranger")[0])
    for topic in TOPICS:
        produce(source, topic, 0, THIRD)
    told.last = run_once(path)
    yield told


@pytest.mark.parametrize("topic", by_row(STOPS))
def test_a_loss_is_told_within_5_s_with_its_code_and_the_others_go_on(story: Story, topic: str) -> None:
    assert story.seconds[topic] < NOTICE_SECONDS_MAX + REFRESH_SECONDS
    assert story.live is not None and story.live.status == 0
    assert TRACEBACK not in story.live.output
    assert "loud-fine-0 stopped" not in story.live.output


@pytest.mark.fault("F25")
def test_a_gap_that_was_accepted_beforehand_is_told_once_and_counted(story: Story) -> None:
    assert story.live is not None
    warnings = [line for line in story.live.output.splitlines() if " WARN " in line and "loud-skipped-0: " in line]
    said = [line for line in warnings if "offsets 10 to 16" in line and "7 offsets are skipped" in line]
    assert len(said) == 1, warnings
    assert "gaps=1" in story.live.output
    assert "loud-skipped-0 stopped" not in story.live.output


def test_while_the_flow_runs_its_owner_is_asked_and_named(story: Story) -> None:
    preview, told = story.previews[LIVE].output, story.commands[LIVE].output
    assert "pid " in preview and "(running; it would be asked)" in preview
    assert "pid " in told and "(running; carried out by it, request " in told


def test_a_command_without_yes_tells_what_would_change_and_changes_nothing(story: Story) -> None:
    assert {topic: outcome.status for topic, outcome in story.previews.items()} == dict.fromkeys(PREVIEWED, 0)
    assert story.ledger_ends[0] == story.ledger_ends[1]
    assert "next upstream offset 10 -> 17" in story.previews["loud-overtaken"].output
    assert "offsets 10 to 16 (7) are never copied" in story.previews["loud-overtaken"].output
    for topic in PREVIEWED[1:]:
        assert "next upstream offset 10 -> 0" in story.previews[topic].output
        assert "the offset map restarts" in story.previews[topic].output


@pytest.fixture(scope="module")
def target(story: Story, target_cluster: LocalCluster) -> dict[str, list[JudgeRecord]]:
    """What Java reads of every copy at the end."""
    return {topic: java_records(target_cluster.bootstrap, f"loud.{topic}")[0] for topic in TOPICS}


@pytest.fixture(scope="module")
def ledger(story: Story, target_cluster: LocalCluster) -> LedgerView:
    view = LedgerView()
    for record in java_records(target_cluster.bootstrap, LEDGER.format(ALIAS))[0]:
        view.read(record.key or b"", record.value)
    return view


@pytest.mark.parametrize("topic", by_row(STOPS))
def test_the_command_that_was_told_goes_on_and_java_reads_every_record_once(
    story: Story, target: dict[str, list[JudgeRecord]], topic: str
) -> None:
    assert story.commands[topic].status == 0, story.commands[topic].output
    assert story.last is not None and story.last.status == 0, story.last
    assert [record.value for record in target[topic]] == WANTED[topic]


@pytest.mark.parametrize("topic", by_row(GO_ON))
def test_what_went_on_by_itself_is_read_by_java_once(target: dict[str, list[JudgeRecord]], topic: str) -> None:
    assert [record.value for record in target[topic]] == WANTED[topic]


@pytest.mark.parametrize("topic", by_row(topic for topic in TOPICS if topic != "loud-target-trimmed"))
def test_the_map_is_of_one_life_and_true(
    target: dict[str, list[JudgeRecord]], ledger: LedgerView, source_cluster: LocalCluster, topic: str
) -> None:
    history = ledger.of(TopicPartition(topic, 0))
    offset_map = OffsetMap(history.runs())
    source = java_records(source_cluster.bootstrap, topic)[0]
    assert map_violations(source, target[topic], offset_map.downstream) == []
    gaps = [(gap.upstream, gap.until) for gap in history.accepted_gaps()]
    assert gaps == ([(10, 17)] if topic in ("loud-overtaken", "loud-skipped") else [])
    assert not any(offset_map.covers(at) for first, until in gaps for at in range(first, until))


def mm2_key(topic: str) -> bytes:
    return f'["MirrorSourceConnector",{{"cluster":"{ALIAS}","partition":0,"topic":"{topic}"}}]'.encode()


@pytest.mark.parametrize(
    ("topic", "value"),
    [
        ("loud-overtaken", b'{"offset":19}'),
        ("loud-longer", None),
        ("loud-target-recreated", None),
        ("loud-skipped", b'{"offset":19}'),
    ],
)
def test_mm2_would_go_on_at_the_same_offset(story: Story, topic: str, value: bytes | None) -> None:
    assert story.positions[mm2_key(topic)] == value


def test_mm2_would_go_on_behind_what_came_after_the_stranger(story: Story) -> None:
    """The stranger may be seen before the next records are sent, or by the answer to them."""
    assert story.beside_stranger in (len(FIRST) + 1, len(FIRST) + 1 + len(SECOND))
    copied = story.beside_stranger - 1
    assert story.positions[mm2_key("loud-stranger")] == b'{"offset":%d}' % (copied - 1)


# --- while nobody looked ---------------------------------------------------------------------------------------

QUIET = {"quiet-some": 17, "quiet-all": 20}


@pytest.fixture(scope="module")
def quiet(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Outcome, Outcome]:
    """Retention overtakes a flow that is not running, and which skips."""
    source, target = source_cluster, target_cluster
    create_topics(source, dict.fromkeys(QUIET, (1, {})))
    settings = flow_settings(source, target, alias="quiet", topics="quiet-.*", more={"on.source.gap": "skip"})
    path = write_settings(tmp_path_factory.mktemp("quiet") / "mm2.properties", settings)
    for topic in QUIET:
        produce(source, topic, 0, FIRST)
    run_cleanly(path)
    for topic, start in QUIET.items():
        produce(source, topic, 0, SECOND)
        move_log_start(source, topic, 0, start)
    return path, run_cleanly(path), run_cleanly(path)


@pytest.mark.fault("F25")
@pytest.mark.parametrize(("topic", "count"), [("quiet-some", 7), ("quiet-all", 10)])
def test_a_flow_that_skips_goes_on_behind_what_was_deleted_while_it_was_stopped(
    quiet: tuple[Path, Outcome, Outcome], target_cluster: LocalCluster, topic: str, count: int
) -> None:
    _, first, second = quiet
    told = f"{topic}-0: the source deleted upstream offsets 10 to {9 + count} before they were copied; {count} offsets are"
    assert first.output.count(told) == 1
    assert told not in second.output
    found = java_records(target_cluster.bootstrap, f"quiet.{topic}")
    assert [record.value for record in found[0]] == [*FIRST, *SECOND[count:]]


def test_a_plan_shows_the_gaps(quiet: tuple[Path, Outcome, Outcome]) -> None:
    told = call("plan", str(quiet[0]), "--json")
    assert told.status == 0
    [flow] = json.loads(told.output)["flows"]
    gaps = {topic["topic"]: topic["starts"][0]["gaps"] for topic in flow["topics"] if topic["topic"] in QUIET}
    assert {topic: [(gap["first"], gap["last"]) for gap in found] for topic, found in gaps.items()} == {
        "quiet-some": [(10, 16)],
        "quiet-all": [(10, 19)],
    }
    assert "never copied, as accepted: partition 0 offsets 10 to 16" in call("plan", str(quiet[0])).output


def test_positions_may_be_set_back_on_purpose_and_everything_comes_again_behind(
    quiet: tuple[Path, Outcome, Outcome], target_cluster: LocalCluster
) -> None:
    path = str(quiet[0])
    moved = call("offsets", "reset", path, "--topic", "quiet-some", "--to", "18", "--yes")
    assert (moved.status, "2 copied offsets are copied again" in moved.output) == (0, True), moved.output
    assert call("offsets", "reset", path, "--topic", "quiet-some", "--to", "5").status == 2
    run_cleanly(quiet[0])
    found = java_records(target_cluster.bootstrap, "quiet.quiet-some")
    assert [record.value for record in found[0]] == [*FIRST, *SECOND[7:], *SECOND[8:]]


# --- what was copied and not proven ----------------------------------------------------------------------------

MANY = numbered(20_000, size=100)


@pytest.mark.fault("F25")
@pytest.mark.nightly
@pytest.mark.parametrize("choice", ["stop", "skip"])
def test_what_a_killed_run_had_copied_of_a_gap_is_not_copied_twice(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, choice: str
) -> None:
    """The source deletes what would tell which records the killed run had copied, up to the middle of its tail."""
    source, target, alias = source_cluster, target_cluster, f"killed-{choice}"
    create_topics(source, {alias: (1, {})})
    create_topics(target, {f"{alias}.{alias}": (1, {})})
    produce(source, alias, 0, MANY)
    settings = flow_settings(source, target, alias=alias, topics=alias, more={"on.source.gap": choice})
    path = write_settings(tmp_path / "mm2.properties", settings)
    with live_mirror(path) as mirror:
        await_true(lambda: log_ends(target, f"{alias}.{alias}")[0] > 0, 180.0, "copying began")
        mirror.kill()
    copied = log_ends(target, f"{alias}.{alias}")[0]
    move_log_start(source, alias, 0, copied - 10)
    after = run_once(path)
    print(f"{copied} were copied; then the run ended with {after.status}")
    if after.status:  # else everything that was copied was also proven
        assert (choice, "SOURCE_OFFSET_LOST" in after.output) == ("stop", True), after.output
        skipped = call("offsets", "skip", str(path), "--topic", alias, "--partition", "0", "--yes")
        assert skipped.status == 0, skipped.output
    produce(source, alias, 0, THIRD)
    run_cleanly(path)
    found = java_records(target.bootstrap, f"{alias}.{alias}")
    assert [record.value for record in found[0]] == [*MANY, *THIRD]
