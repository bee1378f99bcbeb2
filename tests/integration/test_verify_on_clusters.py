"""verify on flows that sparkmirror and MirrorMaker 2 copied: healthy ones are clean, each damage is found and named.

Java's consumer reads both sides and says that each damage is there.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from host import start_hosted
from integration import damage
from integration.mirroring import (
    Outcome,
    await_true,
    batch_of,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    produce_raw,
    recreate_topic,
    run_cleanly,
    segment_files,
    set_topic_config,
    topics_of,
    transaction,
    transactional,
    write_settings,
)
from judge import java_records
from typer.testing import CliRunner

from sparkmirror.cli.app import app
from sparkmirror.config import load
from sparkmirror.errors import SparkmirrorError
from sparkmirror.local import LocalCluster, MirrorMaker
from sparkmirror.local.java import QUICK_START
from sparkmirror.verification import planning, running
from sparkmirror.wire import Record, build_batch

pytestmark = pytest.mark.timeout(600)

COUNT, EACH = 12_000, 100
ALONE = 6_000  # this record is a batch of its own
CUT = 300  # the source deletes so many
NOW, HOUR_MS = int(time.time() * 1000), 3_600_000
GZIP = 1
COMPACTING = {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"}
MM2_QUICK = {"offset.flush.interval.ms": "1000", "offset.lag.max": "100", "sync.topic.acls.enabled": "false"}


def record(number: int, time_ms: int = NOW) -> Record:
    """A record of which every field differs from its neighbours', and whose size does not."""
    name = b"%06d" % number
    return Record(number, time_ms + number % EACH, b"key " + name, b"value " + name, ((b"header", name),))


def batches_of(first: int, count: int, time_ms: int = NOW) -> list[bytearray]:
    records = [record(number, time_ms) for number in range(first, first + count)]
    return [build_batch(records[at : at + EACH]) for at in range(0, count, EACH)]


@dataclass
class Stage:
    """Both flows of the same topics: ours and MirrorMaker 2's."""

    source: LocalCluster
    target: LocalCluster
    folder: Path
    mark: str = field(default_factory=lambda: secrets.token_hex(3))

    def topic(self, stem: str) -> str:
        return f"{stem}-{self.mark}"

    def remote(self, stem: str, flow: str = "ours") -> str:
        return f"{self.alias(flow)}.{self.topic(stem)}"

    def alias(self, flow: str) -> str:
        return f"{flow}{self.mark}"

    def settings(self, flow: str, topics: str = ".*", more: dict[str, str] | None = None) -> Path:
        """The file of a flow; only topics of this stage."""
        found = flow_settings(
            self.source, self.target, alias=self.alias(flow), topics=f"({topics})-{self.mark}",
            more={"consumer.isolation.level": "read_committed", **(more or {})},
        )  # fmt: skip
        return write_settings(self.folder / f"{flow}-{time.monotonic_ns()}.properties", found | MM2_QUICK)

    def verify(self, path: Path, *words: str) -> tuple[int | None, Any, str]:
        """Exit status, JSON and what it said on stderr."""
        if running.SparkWork is InThisProcess:
            result = CliRunner().invoke(app, ["verify", str(path), "--json", *words])
            error = result.exception if isinstance(result.exception, SparkmirrorError) else None
            status, text = getattr(error, "exit_status", result.exit_code), result.stdout
            said = result.stderr + (str(error) if error is not None else "")  # as the program prints it
        else:
            out, err = (path.with_name(f"{time.monotonic_ns()}.{end}") for end in ("json", "err"))
            run = start_hosted(["verify", str(path), "--json", *words], stdout=out, stderr=err, spark=True)
            status = run.wait(150.0)
            run.kill()
            text, said = out.read_text(), err.read_text()
        assert "Traceback" not in said, said
        return status, json.loads(text) if text.strip() else None, said


class InThisProcess:
    """In the place of Spark: one task after the other, on whoever asks for its result."""

    def __init__(self, spark: object, function: Callable[..., Iterator[Any]], failed: object, items: list[Any], at: int):
        self._results = (result for item in items for result in function([item]))
        self._left = len(items)

    @property
    def is_over(self) -> bool:
        return not self._left

    def poll(self, timeout_s: float) -> Any:
        self._left -= 1
        return next(self._results)

    def stop(self) -> None:
        """Nothing runs."""


@pytest.fixture
def in_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is not about Spark, which takes its time to start."""
    monkeypatch.setattr(running, "SparkWork", InThisProcess)
    monkeypatch.setattr(running, "SparkSlots", Mock)


def fill(stage: Stage) -> None:
    """Plain records, transactions of which every second one is aborted, keys that compaction takes, and some to be cut."""
    create_topics(
        stage.source,
        {
            stage.topic("plain"): (2, {}), stage.topic("open"): (1, {}), stage.topic("cut"): (1, {}),
            stage.topic("keys"): (1, {"cleanup.policy": "compact"}), stage.topic("stamped"): (1, {}),
        },
    )  # fmt: skip
    plain = [*batches_of(0, ALONE), build_batch([record(ALONE)], codec=GZIP), *batches_of(ALONE + 1, COUNT - ALONE - 1)]
    produce_raw(stage.source, stage.topic("plain"), {0: plain, 1: batches_of(0, 500)})
    produce_raw(stage.source, stage.topic("cut"), {0: batches_of(0, 1000)})
    produce_raw(stage.source, stage.topic("stamped"), {0: batches_of(0, 300, NOW - 3 * HOUR_MS)})
    rows = [[Record(0, NOW, b"key %d" % (at % 40), b"row %d of %d" % (row, at)) for at in range(EACH)] for row in range(10)]
    produce_raw(stage.source, stage.topic("keys"), {0: [build_batch(records) for records in rows]})
    with transactional(stage.source, f"verify-{stage.mark}") as producer:
        for number in range(6):
            transaction(producer, stage.topic("open"), [b"%d" % number] * 5, commit=number % 2 == 0)


def compacted(cluster: LocalCluster, topic: str) -> None:
    """Waits until compaction took records of the copy."""
    numbers = iter(range(10_000))
    before = sum(path.stat().st_size for path in segment_files(cluster, topic, 0))
    set_topic_config(cluster, topic, COMPACTING)

    def is_rolled() -> bool:
        produce_raw(cluster, topic, {0: [batch_of([b""], keys=[b"filler %d" % next(numbers)])]})
        return len(segment_files(cluster, topic, 0)) > 1

    def is_cleaned() -> bool:
        try:
            return sum(path.stat().st_size for path in segment_files(cluster, topic, 0)) < before / 2
        except FileNotFoundError:
            return False

    await_true(is_rolled, 60.0, "a second segment")
    await_true(is_cleaned, 60.0, "compaction")


@pytest.fixture(scope="module")
def stage(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory) -> Iterator[Stage]:
    """Topics that both copied; the copy of the compacted topic is compacted further than its source."""
    found = Stage(source_cluster, target_cluster, tmp_path_factory.mktemp("verify"))
    fill(found)
    create_topics(found.target, {found.remote("stamped"): (1, {"message.timestamp.type": "LogAppendTime"})})
    run_cleanly(found.settings("ours"))
    move_log_start(found.source, found.topic("cut"), 0, CUT)
    move_log_start(found.target, found.remote("plain"), 1, 50)
    yield found


def by_partition(report: Any) -> dict[tuple[str, int], Any]:
    [flow] = report["flows"]
    return {(p["source"]["topic"], p["source"]["partition"]): p for p in flow["partitions"]}


def java_difference(stage: Stage, flow: str, topic: str, ours: int, theirs: int) -> set[str]:
    """The fields of two records that Java's consumer reads differently."""
    source = {r.offset: r for r in java_records(stage.source.bootstrap, stage.topic(topic))[0]}[ours]
    target = {r.offset: r for r in java_records(stage.target.bootstrap, stage.remote(topic, flow))[0]}[theirs]
    return {name for name in ("key", "value", "headers", "timestamp") if getattr(source, name) != getattr(target, name)}


def test_a_healthy_copy_is_the_same_and_what_is_missing_is_explained(stage: Stage) -> None:
    path = stage.settings("ours")
    status, report, said = stage.verify(path)
    assert status == 0, (said, report)
    found = by_partition(report)
    assert found[stage.topic("plain"), 0]["records_equal"] == COUNT
    assert found[stage.topic("plain"), 1]["explained"] == {"deleted on the target": 50}
    assert found[stage.topic("cut"), 0]["explained"] == {"deleted on the source": CUT}
    transactions = found[stage.topic("open"), 0]
    assert transactions["explained"] == {"aborted transactions": 15, "control records": 6}
    assert transactions["records_equal"] == 15
    [stamped] = found[stage.topic("stamped"), 0]["ranges"]
    assert (stamped["records_equal"], stamped["timestamps_not_compared"]) == (300, 300)


def test_a_second_run_reads_only_what_is_new(stage: Stage, in_this_process: None) -> None:
    path = stage.settings("ours", "stamped")
    stage.verify(path)
    produce_raw(stage.source, stage.topic("stamped"), {0: batches_of(300, 100)})
    run_cleanly(stage.settings("ours"))
    status, report, said = stage.verify(path)
    found = by_partition(report)[stage.topic("stamped"), 0]
    assert (status, found["records_equal"], found["verified_before"]) == (0, 100, 300), said
    for words, count in ((["--full"], 400), (["--full", "--since", "1h"], 100)):
        status, report, _ = stage.verify(path, *words)
        assert (status, by_partition(report)[stage.topic("stamped"), 0]["records_equal"]) == (0, count), words


def test_a_sample_reads_a_share_of_the_ranges(stage: Stage, in_this_process: None) -> None:
    status, report, said = stage.verify(stage.settings("ours", "plain"), "--full", "--sample", "25")
    found = by_partition(report)[stage.topic("plain"), 0]
    assert status == 0, said
    assert found["ranges_not_sampled"] >= 5 and found["records_equal"] < COUNT


def test_what_was_verified_before_an_interruption_is_kept(
    stage: Stage, in_this_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(planning, "RANGE_RECORDS_MIN", 1000)
    settings = load(str(stage.settings("ours", "open|plain")))
    options = running.VerifyOptions(planning.VerifyScope((stage.topic("plain"),), is_full=True))
    seen: list[running.Progress] = []
    stopped = running.verify(settings, settings.enabled_flows(None), options, seen.append, lambda: len(seen) > 3)
    assert (stopped.status, stopped.is_interrupted) == (130, True)
    [flow] = stopped.flows
    assert 0 < flow.records < COUNT
    assert seen[2].seconds_left is not None
    rest = replace(options, scope=replace(options.scope, is_full=False))
    again = running.verify(settings, settings.enabled_flows(None), rest, seen.append, lambda: False)
    [found] = again.flows
    plain = [partition for partition in found.partitions if partition.plan.source.partition == 0]
    assert (again.status, plain[0].records + plain[0].verified_before) == (0, COUNT)
    assert plain[0].verified_before > 0


def test_a_copy_that_was_compacted_further_is_clean(stage: Stage, in_this_process: None) -> None:
    path = stage.settings("ours", "keys")
    end = log_ends(stage.target, stage.remote("keys"))[0]
    compacted(stage.target, stage.remote("keys"))
    status, report, said = stage.verify(path, "--full")
    found = by_partition(report)[stage.topic("keys"), 0]
    assert found["explained"]["compacted on the target"] > 500, (said, found)
    # The filler that made the broker roll its segment is nobody's copy.
    assert status == 4 and set(found["differences"]) == {"extra"}, found
    assert all(one["downstream_offset"] >= end for one in found["first"])


CHANGES = {
    1_050: (damage.flip_bit, "changed", {"value"}),
    2_060: (damage.change_header, "changed", {"headers"}),
    3_070: (damage.shift_timestamp, "changed", {"timestamp"}),
    4_050: (damage.swap, "swapped", {"key", "value", "headers", "timestamp"}),
    5_050: (damage.double, "doubled", {"key", "value", "headers", "timestamp"}),
}


def test_each_damage_of_our_copy_is_named_with_its_offset(stage: Stage, tmp_path: Path) -> None:
    remote = stage.remote("plain")
    for offset, (change, _, fields) in CHANGES.items():
        damage.damage(stage.target, remote, offset, change)
        assert java_difference(stage, "ours", "plain", offset, offset) == fields
    damage.hide(stage.target, remote, ALONE)
    assert ALONE not in {r.offset for r in java_records(stage.target.bootstrap, remote)[0]}
    page = tmp_path / "report.html"
    status, report, said = stage.verify(stage.settings("ours", "plain"), "--full", "--html", str(page))
    assert status == 4, said
    found = by_partition(report)[stage.topic("plain"), 0]
    named = [(one["kind"], one["upstream_offset"], one["downstream_offset"]) for one in found["first"]]
    assert named == [
        ("changed", 1_050, 1_050), ("changed", 2_060, 2_060), ("changed", 3_070, 3_070),
        ("swapped", 4_050, 4_050), ("doubled", 5_049, 5_050), ("missing", ALONE, None),
    ]  # fmt: skip
    assert [set(one["fields"]) for one in found["first"][:3]] == [{"value"}, {"headers"}, {"timestamp"}]
    assert found["records_equal"] == COUNT - 7
    assert "5050" in page.read_text() and "<script" not in page.read_text()


def test_somebody_who_writes_to_a_copy_is_found(stage: Stage, in_this_process: None) -> None:
    end = log_ends(stage.target, stage.remote("cut"))[0]
    produce_raw(stage.target, stage.remote("cut"), {0: [build_batch([record(999)]), build_batch([record(5)])]})
    status, report, _ = stage.verify(stage.settings("ours", "cut"))
    found = by_partition(report)[stage.topic("cut"), 0]
    assert status == 4
    assert [(one["kind"], one["downstream_offset"]) for one in found["first"]] == [("doubled", end), ("extra", end + 1)]


@pytest.mark.nightly
def test_a_copy_of_mirror_maker_is_compared_by_its_records(stage: Stage) -> None:
    path = stage.settings("mm2", "plain|open|cut")
    plain = stage.remote("plain", "mm2")
    with MirrorMaker(path.read_text(), name="verified", jvm_options=QUICK_START) as mm2:
        def is_copied() -> bool:
            mm2.check()
            wanted = {plain: COUNT + 500, stage.remote("cut", "mm2"): 1000 - CUT, stage.remote("open", "mm2"): 15}
            there = topics_of(stage.target)
            return all(t in there and sum(log_ends(stage.target, t).values()) >= n for t, n in wanted.items())

        await_true(is_copied, 180.0, "MirrorMaker 2 copies")
        status, report, said = stage.verify(path, "--topics", stage.topic("plain"))  # while it runs
        assert status == 0, f"{said} {by_partition(report)}"
        mm2.stop()
    status, report, said = stage.verify(path, "--full")
    assert status == 0, (said, report)
    found = by_partition(report)
    assert found[stage.topic("plain"), 0]["records_equal"] == COUNT
    assert found[stage.topic("cut"), 0]["records_equal"] == 1000 - CUT
    assert found[stage.topic("open"), 0]["records_equal"] == 15
    status, report, _ = stage.verify(path)
    assert (status, report["flows"][0]["records_equal"]) == (0, 0)

    # A mirror that spoils what it copies: a producer of our own writes on.
    more = [record(number) for number in range(COUNT, COUNT + 600)]
    produce_raw(stage.source, stage.topic("plain"), {0: [build_batch(more)]})
    copy = list(more)
    damage.flip_bit(copy, 50)
    damage.change_header(copy, 150)
    damage.shift_timestamp(copy, 250)
    damage.swap(copy, 350)
    del copy[450]
    copy.insert(500, copy[499])
    produce_raw(stage.target, plain, {0: [build_batch(copy)]})
    for at, fields in ((50, {"value"}), (150, {"headers"}), (250, {"timestamp"})):
        assert java_difference(stage, "mm2", "plain", COUNT + at, COUNT + at) == fields
    status, report, said = stage.verify(path)
    found = by_partition(report)[stage.topic("plain"), 0]
    named = [(one["kind"], one["upstream_offset"], one["downstream_offset"]) for one in found["first"]]
    assert status == 4, said
    assert named == [
        ("changed", COUNT + 50, COUNT + 50), ("changed", COUNT + 150, COUNT + 150), ("changed", COUNT + 250, COUNT + 250),
        ("swapped", COUNT + 350, COUNT + 350), ("missing", COUNT + 450, None), ("doubled", COUNT + 500, COUNT + 500),
    ]  # fmt: skip


def refused(stage: Stage, path: Path, *words: str) -> Outcome:
    """A run that must say one sentence and no success."""
    status, _, said = stage.verify(path, *words)
    return Outcome(status, said)


def test_bad_input_is_one_sentence_and_no_success(stage: Stage, tmp_path: Path, in_this_process: None) -> None:
    path = stage.settings("ours")
    future = refused(stage, path, "--since", "2199-01-01T00:00:00Z")
    assert future.status == 1 and "expected a time in the past" in future.output
    page = refused(stage, path, "--html", str(tmp_path / "none" / "report.html"))
    assert page.status == 1 and "cannot be written: No such file or directory" in page.output
    topic = refused(stage, path, "--topics", "nobody-has-this")
    assert topic.status == 2 and "no topic that" in topic.output
    nothing = refused(stage, stage.settings("nobody"))
    assert nothing.status == 2 and "nothing says that anything was copied" in nothing.output
    text = path.read_text().replace(stage.target.bootstrap, "127.0.0.1:1")
    dead = tmp_path / "dead.properties"
    dead.write_text(text)
    gone = refused(stage, dead)
    assert gone.status == 2 and "unreachable" in gone.output


def test_a_copied_topic_that_is_gone_or_created_again_is_no_success(stage: Stage, in_this_process: None) -> None:
    recreate_topic(stage.target, stage.remote("stamped"))
    status, report, _ = stage.verify(stage.settings("ours", "stamped"))
    assert status == 4
    assert by_partition(report)[stage.topic("stamped"), 0]["not_compared"] == [
        "the target topic was re-created since it was copied"
    ]


def test_topics_that_pass_transforms_are_left_out_by_name(stage: Stage, in_this_process: None) -> None:
    path = stage.settings("ours", "plain|cut", {"transform.mask.topics": stage.topic("plain"), "transform.mask.sql":
                                                "SELECT * FROM records"})  # fmt: skip
    status, report, said = stage.verify(path, "--topics", stage.topic("plain"))
    assert status == 3, said
    [left_out] = report["flows"][0]["left_out"]
    assert left_out["topic"] == stage.topic("plain") and "transforms (mask)" in left_out["reason"]
