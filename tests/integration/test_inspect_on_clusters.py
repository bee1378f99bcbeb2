"""The inspector over real brokers: the golden cases of its contract in both modes, rights, and a flow that MM2 4.3.1 runs.

The oracle of a position's worth is Java: what its consumer reads on both sides from the group's positions on.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import (
    admin_of,
    await_true,
    batch_of,
    create_topics,
    log_ends,
    move_log_start,
    now_ms,
    numbered,
    produce,
    produce_raw,
    topic_configs,
    topics_of,
)
from integration.scenario import CONSOLE_CONSUMER, Pair, client_of, commit, java_offsets
from judge import group_violations, java_records
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourceType,
)
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import Committed, append_records, commit_offsets, committed_offsets
from sparkmirror.diagnose.inspector_rows import COLUMNS, HEADER, parse_csv_line
from sparkmirror.diagnose.inspector_verdicts import VERDICTS
from sparkmirror.local import LocalCluster, MirrorMaker, java_tool
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.wire import encode_offset_sync

IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}


@pytest.fixture(scope="module")
def guarded() -> Iterator[LocalCluster]:
    """A target whose authorizer allows everything that nobody forbade."""
    with LocalCluster("guarded", overrides=AUTHORIZER) as cluster:
        yield cluster


def run(*words: str) -> Result:
    return CliRunner().invoke(app, ["inspect", *words], env={"NO_COLOR": "1"})


def rows_of(text: str) -> dict[tuple[str, int], dict[str, str]]:
    """Rows of the original's form by group and partition; every line must be one."""
    header, *lines = text.splitlines()
    assert header == HEADER
    found = {}
    for line in lines:
        values = parse_csv_line(line)
        assert values is not None, line
        row = dict(zip(COLUMNS, values, strict=True))
        found[row["GROUP"], int(row["PARTITION"])] = row
    return found


# --- the golden cases --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """Source earliest, latest, committed; the target's offset; the verdicts with and without other partitions synced."""

    name: str
    earliest: int
    latest: int
    committed: int
    target: int | None
    verdicts: tuple[int, ...]
    has_sync: bool = True
    lags: tuple[str, str] | None = None


CASES = (
    Case("caught up", 0, 10, 10, 10, (1,), lags=("0", "0")),
    Case("at start", 0, 10, 0, 0, (1,), lags=("10", "10")),
    Case("beyond target end", 0, 10, 10, 999, (1,), lags=("0", "0")),
    Case("no sync known", 0, 10, 10, 10, (1,), has_sync=False),
    Case("never had data", 0, 0, 0, None, (2, 3)),
    Case("emptied by retention", 7, 7, 7, None, (2, 3)),
    Case("empty and out of range", 7, 7, 3, None, (2, 3)),
    Case("older than the log start", 5, 10, 4, None, (4, 5)),
    Case("exactly at the log start", 5, 10, 5, None, (6, 7)),
    Case("exactly at the end", 5, 10, 10, None, (6, 7)),
    Case("past the end", 5, 10, 11, None, (4, 5)),
)


@dataclass(frozen=True)
class Stage:
    """The cases on brokers: one partition each. `some` has positions on the target, `none` has not."""

    path: Path
    topic: str
    remote: str
    some: str
    none: str
    flow: str


def stage(source: LocalCluster, target: LocalCluster, folder: Path, more: Mapping[str, str]) -> Stage:
    pair = Pair(source, target, folder)
    topic = pair.topic(1)
    remote = topic if more is IDENTITY else pair.remote(1)
    syncs = f"mm2-offset-syncs.{pair.target}.internal"
    create_topics(source, {topic: (len(CASES), {}), syncs: (1, {"cleanup.policy": "compact"})})
    create_topics(target, {remote: (len(CASES), {})})
    some, none = pair.group("some"), pair.group("none")
    for partition, case in enumerate(CASES):
        if case.latest:
            batch = batch_of([b"%d of %d" % (number, partition) for number in range(case.latest)])
            produce_raw(source, topic, {partition: [batch]})
            produce_raw(target, remote, {partition: [batch]})
        if case.earliest:
            move_log_start(source, topic, partition, case.earliest)
    commit(source, some, topic, {partition: case.committed for partition, case in enumerate(CASES)})
    commit(source, none, topic, {p: case.committed for p, case in enumerate(CASES) if case.target is None})
    commit(target, some, remote, {p: case.target for p, case in enumerate(CASES) if case.target is not None})
    places = [TopicPartition(topic, p) for p, case in enumerate(CASES) if case.has_sync and case.latest]
    with client_of(source) as client:
        ends = {place: CASES[place.partition].latest - 1 for place in places}
        entries = [encode_offset_sync(OffsetSync(place, last, last)) for place, last in ends.items()]
        append_records(client, TopicPartition(syncs, 0), entries, now_ms())
    return Stage(pair.write({"sync.group.offsets.enabled": "true", **more}), topic, remote, some, none, pair.flow)


@pytest.fixture(scope="module")
def identity(source_cluster: LocalCluster, guarded: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return stage(source_cluster, guarded, tmp_path_factory.mktemp("identity"), IDENTITY)


@pytest.fixture(scope="module")
def renaming(source_cluster: LocalCluster, guarded: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return stage(source_cluster, guarded, tmp_path_factory.mktemp("renaming"), {})


ALL = ("--include-inactive-groups", "--include-ok-groups")


def assert_case(row: Mapping[str, str], case: Case, verdict: int) -> None:
    """Every column that the case fixes."""
    expected = VERDICTS[verdict]
    assert row["MESSAGE"] == expected.text, case.name
    assert row["IS OK"] == str(expected.is_ok).lower()
    assert row["BLOCKING COMPONENT"] == (expected.blocking or "-")
    ends = row["SOURCE TOPIC EARLIEST OFFSET"], row["SOURCE TOPIC LATEST OFFSET"], row["SOURCE GROUP OFFSET"]
    assert ends == (str(case.earliest), str(case.latest), str(case.committed))
    assert row["SOURCE GROUP LAG"] == str(case.latest - case.committed)
    assert row["SOURCE HAS DATA"] == str(case.earliest != case.latest).lower()
    assert row["SOURCE GROUP VALID"] == str(case.earliest <= case.committed <= case.latest).lower()
    assert row["SOURCE GROUP STATE"] == "Empty"


@pytest.mark.parametrize("mode", [(), ("--compat", "strict")], ids=["corrected", "strict"])
def test_golden_cases_have_their_verdicts_where_names_stay(identity: Stage, mode: tuple[str, ...]) -> None:
    result = run("--mm2-config", str(identity.path), "--format", "csv", *ALL, *mode)
    rows = rows_of(result.stdout)
    assert len(rows) == len(CASES) + 7
    for partition, case in enumerate(CASES):
        row = rows[identity.some, partition]
        assert_case(row, case, case.verdicts[0])
        assert row["TARGET GROUP OFFSET"] == ("-" if case.target is None else str(case.target))
        if case.lags is not None:
            assert (row["SOURCE GROUP LAG"], row["TARGET GROUP LAG"]) == case.lags
        if case.target is None or not case.has_sync:
            assert row["TARGET GROUP LAG TO SOURCE"] == "-"
        else:
            assert row["TARGET GROUP LAG TO SOURCE"] == str(10 - case.target)
        if case.target is None:
            # The original counts a group that the target does not know as known there: 2, 4, 6 in the place of 3, 5, 7.
            assert_case(rows[identity.none, partition], case, case.verdicts[0 if mode else 1])
    states = {row["TARGET GROUP STATE"] for row in rows.values()}
    assert states == ({"Unknown"} if mode else {"Empty", "Dead"})
    assert result.exit_code == (0 if mode else 4)


def test_golden_cases_where_names_change(renaming: Stage) -> None:
    rows = rows_of(run("--mm2-config", str(renaming.path), "--format", "csv", *ALL).stdout)
    for partition, case in enumerate(CASES):
        assert_case(rows[renaming.some, partition], case, case.verdicts[0])
        if case.target is None:
            assert_case(rows[renaming.none, partition], case, case.verdicts[1])
    strict = rows_of(run("--mm2-config", str(renaming.path), "--compat", "strict", *ALL).stdout)
    assert {row["MESSAGE"] for row in strict.values()} == {VERDICTS[number].text for number in (2, 4, 6)}
    for partition, case in enumerate(CASES):
        # The original looks the position up under the source's name, which the target does not have.
        without = {1: 6}.get(case.verdicts[0], case.verdicts[0])
        assert_case(strict[renaming.some, partition], case, without)
        assert strict[renaming.some, partition]["TARGET GROUP OFFSET"] == "-"


def test_only_errors_are_printed_unless_all_is_asked_for(identity: Stage) -> None:
    words = ("--mm2-config", str(identity.path), "--format", "csv", "--emit-summary")
    result = run(*words, "--include-inactive-groups")
    header, *lines = result.stdout.splitlines()
    rows = rows_of("\n".join([header, *(line for line in lines if " partitions in state: " not in line)]))
    assert {row["MESSAGE"] for row in rows.values()} == {VERDICTS[6].text, VERDICTS[7].text}
    assert [line for line in lines if " partitions in state: " in line] == [
        "2 partitions in state: Source has data: true, Source group: Empty, Target has data: true, "
        f"Target group: {state}, ok: false, Blocking component: REPLICATION, Message: {VERDICTS[number].text}"
        for state, number in (("Dead", 7), ("Empty", 6))
    ]
    assert run(*words).stdout == HEADER + "\n"  # nobody reads: groups without members are left out


def test_more_is_known_than_the_columns_say(renaming: Stage) -> None:
    result = run(str(renaming.path), "--json", *ALL)
    found = json.loads(result.stdout)
    assert (found["schema"], found["complete"], found["status"], result.exit_code) == (1, True, 4, 4)
    rows = {(row["group"], row["source"]["partition"]): row for row in found["rows"]}
    assert list(rows) == sorted(rows)
    causes = {CASES[p].name: row["finding"]["cause"] for (group, p), row in rows.items() if group == renaming.some}
    assert causes == {
        "caught up": "exact", "at start": "exact", "beyond target end": "beyond-end", "no sync known": "exact",
        "never had data": "empty", "emptied by retention": "empty", "empty and out of range": "empty",
        "older than the log start": "too-old", "exactly at the log start": "untranslatable",
        "exactly at the end": "unknown-group", "past the end": "recreated",
    }  # fmt: skip
    proof = rows[renaming.some, 2]["proof"]
    assert (proof["result"], proof["records"]) == ("beyond end", 989)
    extended = list(csv.DictReader(io.StringIO(run(str(renaming.path), "--format", "csv-ext", *ALL).stdout)))
    assert [row["CAUSE"] for row in extended] == [row["finding"]["cause"] for row in found["rows"]]
    assert [row["MESSAGE"] for row in extended] == [row["verdict"]["message"] for row in found["rows"]]


# --- what cannot be read -----------------------------------------------------------------------------------------


@contextlib.contextmanager
def ruled(cluster: LocalCluster, kind: ResourceType, name: str, *allowed: ACLOperation) -> Iterator[None]:
    """Everybody may do only this with a resource: where one right is written, nothing else is allowed any more."""
    resource = ResourcePattern(kind, name, ACLResourcePatternType.LITERAL)
    rules = [ACL("User:ANONYMOUS", "*", operation, ACLPermissionType.ALLOW, resource) for operation in allowed]
    rules.append(ACL("User:nobody", "*", ACLOperation.READ, ACLPermissionType.ALLOW, resource))
    with admin_of(cluster) as admin:
        assert not admin.create_acls(rules)["failed"]
        try:
            yield
        finally:
            admin.delete_acls([rule_filter(resource)])


def rule_filter(resource: ResourcePattern) -> Any:
    return ACLFilter(None, None, ACLOperation.ANY, ACLPermissionType.ANY, resource)


def test_group_that_may_not_be_read_has_no_verdict_and_ends_the_originals_loop(
    identity: Stage, guarded: LocalCluster
) -> None:
    words = ("--mm2-config", str(identity.path), "--format", "csv", *ALL)
    with ruled(guarded, ResourceType.GROUP, identity.none):
        await_true(lambda: "needs" in run(*words).stderr, 120, "the broker knows the rule")
        result = run(*words)
        assert f"needs Describe on group {identity.none}" in result.stderr
        assert {group for group, _ in rows_of(result.stdout)} == {identity.some}
        strict = rows_of(run(*words, "--compat", "strict").stdout)
        assert result.exit_code == 4  # an error is worse than an open question
        assert run(*words, "--group", ".*none.*").exit_code == 2
        assert run(*words, "--group", ".*none.*", "--exit-zero").exit_code == 0
    for partition, case in enumerate(CASES):
        if case.target is None:
            assert_case(strict[identity.none, partition], case, case.verdicts[1])
            assert_case(strict[identity.some, partition], case, case.verdicts[1])
        else:
            assert strict[identity.some, partition]["MESSAGE"] == VERDICTS[7].text
    await_true(lambda: "needs" not in run(*words).stderr, 120, "the rule is gone")


def test_records_that_may_not_be_read_leave_positions_unproven(renaming: Stage, guarded: LocalCluster) -> None:
    def look() -> Any:
        result = run(str(renaming.path), "--json", *ALL)
        return json.loads(result.stdout), result.stderr

    with ruled(guarded, ResourceType.TOPIC, renaming.remote, ACLOperation.DESCRIBE, ACLOperation.DESCRIBE_CONFIGS):
        await_true(lambda: "needs Read" in look()[1], 120, "the broker knows the rule")
        found, said = look()
        assert f"needs Read on topic {renaming.remote}" in said
        assert not found["complete"]
        row = next(row for row in found["rows"] if row["source"]["partition"] == 0)
        assert (row["verdict"]["number"], row["finding"]["cause"]) == (1, "unproven")
        assert "needs Read" in row["proof"]["reason"]
    await_true(lambda: "needs Read" not in look()[1], 120, "the rule is gone")


def test_cluster_that_is_away_is_told_at_once_with_what_is_known(identity: Stage, tmp_path: Path) -> None:
    text = identity.path.read_text()
    target = identity.flow.partition("->")[2]
    away = tmp_path / "away.properties"
    away.write_text("".join(
        f"{target}.bootstrap.servers = 127.0.0.1:1\n" if line.startswith(f"{target}.bootstrap") else f"{line}\n"
        for line in text.splitlines()
    ))  # fmt: skip
    result = run(str(away), *ALL)
    assert result.exit_code == 4  # the source alone shows a position past its topic's end, worse than what is unknown
    assert "18 positions: 18 unknown" in result.stdout
    assert f"cluster {target} is unreachable" in result.stderr
    assert "2 groups inspected" in result.stdout
    assert json.loads(run(str(away), "--json").stdout)["flows"][0]["notes"][0]["kind"] == "unreachable"


def test_malformed_records_are_told_by_offset_and_skipped_alone(renaming: Stage, source_cluster: LocalCluster) -> None:
    topic = f"mm2-offset-syncs.{renaming.flow.partition('->')[2]}.internal"
    [place] = [TopicPartition(topic, 0)]
    at = log_ends(source_cluster, topic)[0]
    with client_of(source_cluster) as client:
        append_records(client, place, [(b"\x7f\x7fno sync", b"x"), (b"\0\x01t\0\0\0\0", None)], now_ms())
    result = run(str(renaming.path), *ALL, "--format", "csv")
    assert f"{topic}-0 offset {at}: offset sync key" in result.stderr
    assert f"{topic}-0 offset {at + 1}: a tombstone" in result.stderr
    assert rows_of(result.stdout)[renaming.some, 1]["TARGET GROUP LAG TO SOURCE"] == "10"


# --- a flow that MirrorMaker 2 runs ------------------------------------------------------------------------------

FILLED = 600


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_flow_of_mirror_maker_is_healthy_and_every_position_is_what_java_reads(
    source_cluster: LocalCluster, guarded: LocalCluster, tmp_path: Path
) -> None:
    pair = Pair(source_cluster, guarded, tmp_path)
    topic, remote = pair.topic(1), pair.remote(1)
    create_topics(pair.primary, {topic: (2, {})})
    for partition in range(2):
        produce(pair.primary, topic, partition, [b"%d of %d" % (n, partition) for n in range(FILLED)], batch=37)
    read = {pair.group(str(at)): at for at in (0, 1, 222, 333, 444, 599, 600)}
    for group, at in read.items():
        commit(pair.primary, group, topic, {0: at, 1: FILLED - at})
    settings = pair.settings({"sync.group.offsets.enabled": "true", "emit.heartbeats.enabled": "false"})
    path = pair.write({"sync.group.offsets.enabled": "true", "emit.heartbeats.enabled": "false"})

    def rows(*words: str) -> dict[tuple[str, int], Any]:
        found = json.loads(run(str(path), "--json", *ALL, *words).stdout)
        return {(row["group"], row["source"]["partition"]): row for row in found["rows"]}

    with MirrorMaker(settings) as mm2:
        await_true(
            lambda: remote in topics_of(pair.backup) and set(log_ends(pair.backup, remote).values()) == {FILLED}
            and all(len(offsets(pair.backup, group, remote)) == 2 for group in read),
            120, "everything is copied and every group synced",
        )  # fmt: skip
        assert_as_java_reads(pair, rows(), topic, remote)
        result = run(str(path), *ALL)
        assert result.exit_code == 0, result.stdout
        assert "MirrorMaker 2, last written" in result.stdout
        # Section 5, point 2: under the default policy the original calls every position an error, also synced ones.
        strict = rows_of(run("--mm2-config", str(path), "--compat", "strict", "--include-inactive-groups").stdout)
        assert {row["MESSAGE"] for row in strict.values()} == {VERDICTS[6].text}
        assert len(strict) == 2 * len(read)
        # Point 9: a group that goes back on the source is not moved back on the target.
        back, witness = pair.group("444"), pair.group("222")
        before = java_offsets(pair.backup, back, remote)
        commit(pair.primary, back, topic, {0: 100})
        await_true(lambda: rows()[back, 0]["checkpoint"]["upstream"] == 100, 60, "MM2 has noticed that it went back")
        commit(pair.primary, witness, topic, {0: FILLED})
        await_true(lambda: offsets(pair.backup, witness, remote)[0] == FILLED, 60, "a round of commits later")
        assert java_offsets(pair.backup, back, remote) == before
        found = rows()
        assert_as_java_reads(pair, found, topic, remote)
        assert (found[back, 0]["finding"]["cause"], found[back, 0]["finding"]["severity"]) == ("rewound", "error")
        assert found[back, 0]["proof"]["records"] == before[0] - 100
        mm2.stop()
    # A group that the target does not know: an error of this group alone, which the original words as if others were synced.
    late = pair.group("late")
    commit(pair.primary, late, topic, {0: 5})
    words = ("--mm2-config", str(path), "--include-inactive-groups", "--format", "csv", "--group", ".*late.*")
    assert rows_of(run(*words).stdout)[late, 0]["MESSAGE"] == VERDICTS[7].text
    assert rows_of(run(*words, "--compat", "strict").stdout)[late, 0]["MESSAGE"] == VERDICTS[6].text
    assert rows("--group", ".*late.*")[late, 0]["finding"]["cause"] == "unknown-group"
    assert_translated(pair, path, [*read, late], topic, remote)


def assert_translated(pair: Pair, path: Path, groups: Sequence[str], topic: str, remote: str) -> None:
    """Where MM2's syncs are rough, `translate` is exact all the same."""
    words = [word for group in groups for word in ("--group", group)]
    result = CliRunner().invoke(app, ["translate", str(path), "--json", *words])
    found = json.loads(result.stdout)
    assert (result.exit_code, len(found["positions"])) == (0, 2 * len(groups) - 1), result.output
    source, target = java_records(pair.primary.bootstrap, topic), java_records(pair.backup.bootstrap, remote)
    for position in found["positions"]:
        here, there = position["from"], position["to"]
        assert (there["topic"], there["partition"], position["sureness"]) == (remote, here["partition"], "proven")
        ours, theirs = source[here["partition"]], target[here["partition"]]
        assert group_violations(ours, theirs, at_source=here["offset"], at_target=there["offset"]) == []


def offsets(cluster: LocalCluster, group: str, topic: str) -> dict[int, int]:
    """What a group has committed, to wait for: starting Java takes a second."""
    with client_of(cluster) as client:
        found = committed_offsets(client, [group])[group].committed
    return {place.partition: at.offset for place, at in found.items() if place.topic == topic and at is not None}


def assert_as_java_reads(pair: Pair, rows: Mapping[tuple[str, int], Any], topic: str, remote: str) -> None:
    """Every proof says what Java's consumer finds behind both positions."""
    source, target = java_records(pair.primary.bootstrap, topic), java_records(pair.backup.bootstrap, remote)
    for (group, partition), row in rows.items():
        proof = row["proof"]
        told = group_violations(
            source[partition], target[partition], at_source=row["source"]["offset"], at_target=row["target"]["offset"]
        )
        expected = {
            "exact": [],
            "behind": [f"it reads {proof['records']} records again"],
            "ahead": [f"it never reads {proof['records']} records"],
        }
        assert told == expected[proof["result"]], (group, partition, proof)
        assert (proof["certain"], proof["counted"], proof["basis"]) == (True, True, "records")


# --- many groups -------------------------------------------------------------------------------------------------

MANY_GROUPS, MANY_PARTITIONS, MANY_RECORDS = 200, 50, 4_000


def stage_many(pair: Pair, rng: random.Random) -> dict[tuple[str, int], tuple[int, int]]:
    """A topic that was copied as it is, its syncs, and groups at positions of their own, each up to 100 behind."""
    topic, remote, syncs = pair.topic(1), pair.remote(1), f"mm2-offset-syncs.{pair.target}.internal"
    create_topics(pair.primary, {topic: (MANY_PARTITIONS, {}), syncs: (1, {"cleanup.policy": "compact"})})
    create_topics(pair.backup, {remote: (MANY_PARTITIONS, {})})
    notes = []
    for partition in range(MANY_PARTITIONS):
        values = numbered(MANY_RECORDS, size=200)
        batches = [batch_of(values[at : at + 100], codec="lz4") for at in range(0, MANY_RECORDS, 100)]
        produce_raw(pair.primary, topic, {partition: batches})
        produce_raw(pair.backup, remote, {partition: batches})
        place = TopicPartition(topic, partition)
        notes += [encode_offset_sync(OffsetSync(place, at, at)) for at in range(0, MANY_RECORDS, 100)]
    with client_of(pair.primary) as client:
        append_records(client, TopicPartition(syncs, 0), notes, now_ms())
    places = {}
    for number in range(MANY_GROUPS):
        group = pair.group(f"{number:04}")
        for partition in range(MANY_PARTITIONS):
            upstream = rng.randint(0, MANY_RECORDS)
            places[group, partition] = upstream, max(upstream - rng.choice((0, 0, rng.randint(1, 100))), 0)
        commit(pair.primary, group, topic, {p: places[group, p][0] for p in range(MANY_PARTITIONS)})
        commit(pair.backup, group, remote, {p: places[group, p][1] for p in range(MANY_PARTITIONS)})
    return places


def measured(path: Path, out: Path) -> tuple[int, float, int]:
    """Runs the command as a user does; its status, seconds, and the most memory that it took, in MB."""
    program = str(Path(sys.executable).with_name("sparkmirror"))
    began = time.monotonic()
    with subprocess.Popen([program, "inspect", str(path), "--json", *ALL, "--output-path", str(out)]) as process:
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, memory_mb = time.monotonic() - began, used.ru_maxrss >> 10
    print(f"{seconds:.1f} s, {used.ru_utime + used.ru_stime:.1f} s of CPU, {memory_mb} MB")
    return process.returncode, seconds, memory_mb


@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_200_groups_of_50_partitions_are_proven_in_a_minute_and_300_mb(
    source_cluster: LocalCluster, guarded: LocalCluster, tmp_path: Path, rng: random.Random
) -> None:
    pair = Pair(source_cluster, guarded, tmp_path)
    places = stage_many(pair, rng)
    status, seconds, memory_mb = measured(pair.write({"sync.group.offsets.enabled": "true"}), tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert (status, len(rows)) == (0, MANY_GROUPS * MANY_PARTITIONS)
    for row in rows:
        upstream, downstream = places[row["group"], row["source"]["partition"]]
        again = upstream - downstream
        proof = row["proof"]
        assert (proof["result"], proof["records"]) == (("behind", again) if again else ("exact", None)), row
    assert seconds < 60
    assert memory_mb < 300


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_ten_thousand_groups_take_no_more_memory(
    source_cluster: LocalCluster, guarded: LocalCluster, tmp_path: Path, rng: random.Random
) -> None:
    pair, groups = Pair(source_cluster, guarded, tmp_path), 10_000
    topic, remote = pair.topic(1), pair.remote(1)
    create_topics(pair.primary, {topic: (1, {})})
    create_topics(pair.backup, {remote: (1, {})})
    batches = [batch_of(numbered(100)) for _ in range(100)]
    produce_raw(pair.primary, topic, {0: batches})
    produce_raw(pair.backup, remote, {0: batches})
    with client_of(pair.primary) as source, client_of(pair.backup) as target:
        for number in range(groups):
            name, at = pair.group(f"{number:05}"), Committed(number, "")
            assert set(commit_offsets(source, name, {TopicPartition(topic, 0): at}).values()) == {0}
            assert set(commit_offsets(target, name, {TopicPartition(remote, 0): at}).values()) == {0}
    status, _, memory_mb = measured(pair.write({"sync.group.offsets.enabled": "true"}), tmp_path / "rows.json")
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert (status, len(rows)) == (0, groups)
    assert {row["proof"]["result"] for row in rows} == {"exact"}
    assert memory_mb < 300


@pytest.mark.nightly
def test_looking_creates_no_topic_where_kafkas_own_consumer_does(
    own_cluster: Callable[..., LocalCluster], tmp_path: Path
) -> None:
    """Section 5, point 3: the original reads the syncs topic with an ordinary consumer."""
    cluster = own_cluster(overrides={"auto.create.topics.enable": "true"})
    pair = Pair(cluster, cluster, tmp_path)
    pair.fill(1, partitions=1)
    commit(cluster, pair.group("g"), pair.topic(1), {0: 3})
    path, before = pair.write(), topics_of(cluster)
    assert run(str(path), *ALL).exit_code == 4  # nothing was copied
    assert CliRunner().invoke(app, ["translate", str(path), "--group", pair.group("g")]).exit_code == 2
    assert topics_of(cluster) == before
    syncs = f"mm2-offset-syncs.{pair.target}.internal"
    java_tool(CONSOLE_CONSUMER, ["--bootstrap-server", cluster.bootstrap, "--topic", syncs, "--timeout-ms", "10000"])
    assert topics_of(cluster) == before | {syncs}
    assert "cleanup.policy" not in topic_configs(cluster, syncs)  # the broker's own: its records are deleted one day
