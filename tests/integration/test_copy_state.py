"""What a run leaves behind for the next one and for MirrorMaker 2, and what transactions look like on the target.

Three flows copy the same topics in each of three runs: one as MM2 does by default, one with its offset syncs on the
target, one that reads committed records only. Between the first two runs the source grows, before the third not.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from judge import JudgeRecord, batches, compare, java_records
from kafka import KafkaProducer
from kafka.partitioner.default import murmur2
from mirroring import (
    Outcome,
    create_topics,
    flow_settings,
    log_ends,
    numbered,
    produce,
    run_cleanly,
    transaction,
    transactional,
    write_settings,
)

from sparkmirror.local import LocalCluster

Records = dict[int, list[JudgeRecord]]
Ends = dict[str, dict[int, int]]

PLAIN, MIXED = "state-plain", "state-mixed"
FLOWS = ("state", "located", "committed")
ISOLATIONS = ("state", "committed")
COMMITTED, OPEN, INTERLEAVED = range(3)  # partitions of the mixed topic


@dataclass
class Runs:
    """What was seen after each run."""

    outcomes: list[Outcome] = field(default_factory=list)
    ends: list[Ends] = field(default_factory=list)


def fill(source: LocalCluster, run: int) -> None:
    """Some plain records, and one transaction after another."""
    produce(source, PLAIN, 0, numbered(500 + run), batch=50)
    produce(source, PLAIN, 2, numbered(3), batch=1)
    with transactional(source, "state-fill") as producer:
        for at, is_commit in enumerate((True, False, True, False)):
            values = [b"run %d, %s %d" % (run, b"kept" if is_commit else b"dropped", at)] * 3
            transaction(producer, MIXED, values, commit=is_commit, partition=COMMITTED)
            produce(source, MIXED, COMMITTED, [b"plain between"])


def interleave(source: LocalCluster) -> None:
    """Two transactions at once in one partition, the first of which is aborted."""
    with transactional(source, "state-a") as aborting, transactional(source, "state-b") as committing:
        for producer in (aborting, committing):
            producer.begin_transaction()
        for turn in range(4):
            for producer, name in ((aborting, b"dropped"), (committing, b"kept")):
                producer.send(MIXED, b"%s %d" % (name, turn), partition=INTERLEAVED)
                producer.flush()
        aborting.abort_transaction()
        committing.send(MIXED, b"kept after the other's end", partition=INTERLEAVED)
        committing.flush()
        committing.commit_transaction()
        transaction(aborting, MIXED, [b"kept, by the one that aborted before"], commit=True, partition=INTERLEAVED)


@pytest.fixture(scope="module")
def open_transaction(source_cluster: LocalCluster) -> Iterator[KafkaProducer]:
    """A transaction that is open during the first run, with records of others behind its own."""
    create_topics(source_cluster, {PLAIN: (3, {}), MIXED: (3, {})})
    with transactional(source_cluster, "state-open") as producer:
        produce(source_cluster, MIXED, OPEN, [b"before the open one"])
        producer.begin_transaction()
        producer.send(MIXED, b"in the open one", partition=OPEN)
        producer.flush()
        produce(source_cluster, MIXED, OPEN, [b"behind the open one"])
        yield producer


@pytest.fixture(scope="module")
def runs(
    open_transaction: KafkaProducer,
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    tmp_path_factory: pytest.TempPathFactory,
) -> Runs:
    """The three runs."""
    more = {"located": {"offset-syncs.topic.location": "target"}}
    flows = [
        flow_settings(source_cluster, target_cluster, alias=alias, topics="state-.*", more=more.get(alias))
        for alias in FLOWS
    ]
    flows[2]["committed.consumer.isolation.level"] = "read_committed"
    path = write_settings(tmp_path_factory.mktemp("state") / "mm2.properties", *flows)
    done = Runs()
    interleave(source_cluster)
    for run in range(3):
        if run < 2:
            fill(source_cluster, run)
        if run == 1:
            open_transaction.commit_transaction()
        done.outcomes.append(run_cleanly(path))
        done.ends.append(
            {
                f"{alias}.{topic}": log_ends(target_cluster, f"{alias}.{topic}")
                for alias in FLOWS
                for topic in (PLAIN, MIXED)
            }
        )
    return done


@pytest.fixture(scope="module")
def source(runs: Runs, source_cluster: LocalCluster) -> dict[str, Records]:
    """The source's topics as Java reads them at the end."""
    return {topic: java_records(source_cluster.bootstrap, topic) for topic in (PLAIN, MIXED)}


@pytest.fixture(scope="module")
def target(runs: Runs, target_cluster: LocalCluster) -> dict[str, Records]:
    """The remote topics as Java reads them at the end."""
    names = [f"{alias}.{topic}" for alias in FLOWS for topic in (PLAIN, MIXED)]
    return {name: java_records(target_cluster.bootstrap, name) for name in names}


def counts(records: Records) -> dict[int, int]:
    return {partition: len(found) for partition, found in records.items()}


@pytest.mark.parametrize("alias", FLOWS)
def test_two_runs_copy_every_record_once(
    source: dict[str, Records], target: dict[str, Records], runs: Runs, alias: str
) -> None:
    """MirrorSourceTaskTest testSeekBehaviorDuringStart: a stored position is the last copied one."""
    assert runs.ends[0][f"{alias}.{PLAIN}"] == {0: 500, 1: 0, 2: 3}
    assert counts(source[PLAIN]) == {0: 1001, 1: 0, 2: 6}
    assert compare(source[PLAIN], target[f"{alias}.{PLAIN}"]) == []


def test_a_run_without_news_writes_nothing(runs: Runs) -> None:
    assert runs.ends[2] == runs.ends[1]
    assert "records=0" in runs.outcomes[2].output.splitlines()[-1]


@pytest.mark.fault("F33")
def test_aborted_records_are_copied_uncommitted(source: dict[str, Records], target: dict[str, Records]) -> None:
    assert any(b"dropped" in (record.value or b"") for record in source[MIXED][COMMITTED])
    assert compare(source[MIXED], target[f"state.{MIXED}"]) == []


@pytest.mark.fault("F33")
def test_aborted_records_are_not_copied_committed(
    runs: Runs, source_cluster: LocalCluster, target: dict[str, Records]
) -> None:
    committed = java_records(source_cluster.bootstrap, MIXED, "read_committed")
    assert [record.value for record in committed[INTERLEAVED]] == [
        *(b"kept %d" % turn for turn in range(4)),
        b"kept after the other's end",
        b"kept, by the one that aborted before",
    ]
    assert compare(committed, target[f"committed.{MIXED}"]) == []


@pytest.mark.fault("F33")
def test_records_behind_an_open_transaction_wait_for_its_end(runs: Runs) -> None:
    first, second = (ends[f"committed.{MIXED}"][OPEN] for ends in runs.ends[:2])
    assert (first, second) == (1, 3)
    assert runs.ends[0][f"state.{MIXED}"][OPEN] == 3


@pytest.mark.fault("F33")
def test_markers_are_not_copied(runs: Runs, target: dict[str, Records], target_cluster: LocalCluster) -> None:
    found = batches(target_cluster.log_dirs[1], f"state.{MIXED}", COMMITTED)
    assert [batch for batch in found if batch.is_control or batch.is_transactional] == []
    for alias in FLOWS:
        records = target[f"{alias}.{MIXED}"][COMMITTED]
        assert [record.offset for record in records] == list(range(len(records)))


Positions = dict[str, dict[bytes, list[tuple[int, bytes | None]]]]


@pytest.fixture(scope="module")
def positions(runs: Runs, target_cluster: LocalCluster) -> Positions:
    """The records of MM2's topics of positions, by alias and key, as (partition, value)."""
    found: Positions = {}
    for alias in ISOLATIONS:
        for partition, records in java_records(target_cluster.bootstrap, f"mm2-offsets.{alias}.internal").items():
            for record in records:
                places = found.setdefault(alias, {}).setdefault(record.key or b"", [])
                places.append((partition, record.value))
    return found


def mm2_key(alias: str, topic: str, partition: int) -> bytes:
    return f'["MirrorSourceConnector",{{"cluster":"{alias}","partition":{partition},"topic":"{topic}"}}]'.encode()


@pytest.mark.parametrize("alias", ISOLATIONS)
def test_positions_are_the_bytes_that_mm2_would_write(
    source: dict[str, Records], positions: Positions, alias: str
) -> None:
    found = positions[alias]
    for partition, records in source[PLAIN].items():
        key = mm2_key(alias, PLAIN, partition)
        if not records:
            assert key not in found
            continue
        assert {place for place, _ in found[key]} == {(murmur2(key) & 0x7FFFFFFF) % 25}
        assert found[key][-1][1] == b'{"offset":%d}' % records[-1].offset


@pytest.mark.parametrize("alias", ISOLATIONS)
def test_the_position_behind_a_transaction_is_its_last_record_or_marker(
    positions: Positions, source_cluster: LocalCluster, alias: str
) -> None:
    end = log_ends(source_cluster, MIXED)[INTERLEAVED]
    last = json.loads(positions[alias][mm2_key(alias, MIXED, INTERLEAVED)][-1][1] or b"{}")["offset"]
    assert end - 2 <= last < end


def decode_sync(record: JudgeRecord) -> tuple[str, int, int, int]:
    """Topic, partition, upstream and downstream offset, by MM2's layout."""
    key, value = record.key or b"", record.value or b""
    (length,) = struct.unpack_from(">h", key)
    assert (len(key), len(value)) == (2 + length + 4, 16)
    return key[2 : 2 + length].decode(), *struct.unpack_from(">i", key, 2 + length), *struct.unpack(">qq", value)


@pytest.mark.parametrize("alias", FLOWS)
def test_every_offset_sync_names_one_record_on_both_sides(
    runs: Runs,
    source: dict[str, Records],
    target: dict[str, Records],
    source_cluster: LocalCluster,
    target_cluster: LocalCluster,
    alias: str,
) -> None:
    is_located = alias == "located"
    cluster = target_cluster if is_located else source_cluster
    topic = f"mm2-offset-syncs.{alias if is_located else f'{alias}-to'}.internal"
    [syncs] = java_records(cluster.bootstrap, topic).values()
    upstream = {
        (topic, at, record.offset): record
        for topic in source
        for at, found in source[topic].items()
        for record in found
    }
    downstream = {
        (topic, at, record.offset): record
        for topic in source
        for at, found in target[f"{alias}.{topic}"].items()
        for record in found
    }
    seen: dict[tuple[str, int], int] = {}
    for topic, partition, up, down in map(decode_sync, syncs):
        one, other = upstream[topic, partition, up], downstream[topic, partition, down]
        assert one._replace(offset=0, timestamp_type="") == other._replace(offset=0, timestamp_type="")
        seen[topic, partition] = down
    for topic in source:
        for partition, found in target[f"{alias}.{topic}"].items():
            if found:
                assert seen[topic, partition] == found[-1].offset, "the newest sync is the last record's"
