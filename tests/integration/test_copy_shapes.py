"""Records and batches of every shape arrive as they were: one run copies them all, Java's consumer judges each.

The topic `shapes` holds one shape in each partition, so that one reading of it judges many; what needs a topic's own
settings has a topic of its own.
"""

from __future__ import annotations

import itertools
from contextlib import suppress

import pytest
from judge import JudgeBatch, JudgeRecord, batches, compare, java_records
from kafka import KafkaProducer
from mirroring import (
    Outcome,
    await_true,
    batch_of,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    numbered,
    partitions_of,
    produce,
    produce_raw,
    run_cleanly,
    segment_files,
    set_broker_config,
    topics_of,
    write_settings,
)
from shapes import (
    BAD_HEADER,
    CODECS,
    EMPTY,
    HEADERS,
    MEGABYTE,
    MIXED,
    NULLS,
    PARTITION_OF_CODEC,
    STARTED,
    TIMES,
    WIDE,
    batches_of_shapes,
)

from sparkmirror.local import LocalCluster, console_produce

ALIAS = "shapes"
Records = dict[int, list[JudgeRecord]]

LONG_NAME = "shapes-" + "n" * (249 - len("shapes.") - len("shapes-"))
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "shapes": (20, {}),
    "shapes-many": (32, {}),
    "shapes.with.dots_and-dashes": (1, {}),
    LONG_NAME: (1, {}),
    "shapes-appended": (1, {"message.timestamp.type": "LogAppendTime"}),
    "shapes-small": (3, {}),
    "shapes-singles": (2, {}),
    "shapes-java": (1, {}),
    "shapes-compacted": (
        1,
        {"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01"},
    ),
}
SMALL_BYTES = 3000
SINGLES = 1000

def fill_compacted(source: LocalCluster) -> int:
    """Twenty keys written many times over, of which compaction leaves the newest; returns the bytes written.

    The first record's batch is its producer's last, so compaction empties it and keeps it.
    """
    topic = "shapes-compacted"
    with KafkaProducer(bootstrap_servers=source.bootstrap, enable_idempotence=True, linger_ms=0) as producer:
        producer.send(topic, b"written over by another producer", b"emptied", partition=0)
        producer.flush()
    rounds = [batch_of(numbered(20), keys=[b"k%d" % at for at in range(20)]) for _ in range(10)]
    rounds += [batch_of(numbered(1), keys=[b"emptied"]), batch_of([None], keys=[b"k3"])]
    produce_raw(source, topic, {0: rounds})
    return sum(map(len, rounds))


def await_compaction(source: LocalCluster, before: int) -> None:
    """Rolls the first segment by another key, then waits until the cleaner has rewritten it."""
    topic = "shapes-compacted"
    numbers = iter(range(10_000))

    def is_rolled() -> bool:
        produce_raw(source, topic, {0: [batch_of([b"filler"], keys=[b"filler-%d" % next(numbers)])]})
        return len(segment_files(source, topic, 0)) > 1

    def is_cleaned() -> bool:
        with suppress(FileNotFoundError):  # while the cleaner puts the new segment in the old one's place
            return sum(path.stat().st_size for path in segment_files(source, topic, 0)) < before // 2
        return False

    await_true(is_rolled, 180.0, "a second segment")
    await_true(is_cleaned, 180.0, "the source is compacted")


@pytest.fixture(scope="module")
def copied(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Outcome:
    """The one run."""
    set_broker_config(source_cluster, {"log.cleaner.backoff.ms": "200"})
    create_topics(source_cluster, TOPICS)
    create_topics(target_cluster, {"shapes.shapes-small": (3, {"max.message.bytes": str(SMALL_BYTES)})})
    written = fill_compacted(source_cluster)
    produce_raw(source_cluster, "shapes", batches_of_shapes())
    move_log_start(source_cluster, "shapes", STARTED, 45)
    produce_raw(source_cluster, "shapes-many", {partition: [batch_of([b"x"] * 3)] for partition in (0, 7, 31)})
    produce(source_cluster, "shapes.with.dots_and-dashes", 0, numbered(10))
    produce(source_cluster, LONG_NAME, 0, numbered(10))
    produce(source_cluster, "shapes-appended", 0, numbered(30), batch=10)
    too_long = [batch_of(numbered(20, size=1000), codec=codec) for codec in ("none", "gzip", "zstd")]
    produce_raw(source_cluster, "shapes-small", {at: [batch] * 2 for at, batch in enumerate(too_long)})
    singles = {partition: [batch_of([value]) for value in numbered(SINGLES)] for partition in (0, 1)}
    produce_raw(source_cluster, "shapes-singles", singles)
    for codec in ("snappy", "lz4", "zstd"):
        lines = [f"{codec} {at}" for at in range(20)]
        producer = {"compression.type": codec, "linger.ms": "0"}
        console_produce(source_cluster.bootstrap, "shapes-java", lines, producer=producer)
    await_compaction(source_cluster, written)
    settings = flow_settings(source_cluster, target_cluster, alias=ALIAS, topics="shapes.*")
    path = write_settings(tmp_path_factory.mktemp("shapes") / "mm2.properties", settings)
    return run_cleanly(path)


@pytest.fixture(scope="module")
def shapes(copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster) -> tuple[Records, Records]:
    """The topic of shapes on both sides, as Java reads it."""
    return both(source_cluster, target_cluster, "shapes")


def both(source: LocalCluster, target: LocalCluster, topic: str) -> tuple[Records, Records]:
    return java_records(source.bootstrap, topic), java_records(target.bootstrap, f"{ALIAS}.{topic}")


def same(sides: tuple[Records, Records], partition: int, *, count: int) -> None:
    """The partition holds so many records, and the same on both sides."""
    source, target = sides
    assert len(source[partition]) == count
    assert compare({partition: source[partition]}, {partition: target[partition]}) == []


def target_batches(target: LocalCluster, topic: str, partition: int) -> list[JudgeBatch]:
    found = batches(target.log_dirs[1], f"{ALIAS}.{topic}", partition)
    assert all(batch.is_valid for batch in found)
    return found


def test_null_and_empty_keys_and_values_stay_apart(shapes: tuple[Records, Records]) -> None:
    same(shapes, NULLS, count=32)


def test_headers_keep_order_repeats_nulls_and_odd_names(shapes: tuple[Records, Records]) -> None:
    """MirrorSourceTaskTest testSerde, testPoll."""
    same(shapes, HEADERS, count=10)


def test_header_names_that_are_not_utf8_keep_their_bytes(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    sections = [
        segment_files(cluster, topic, BAD_HEADER)[0].read_bytes()[61:]
        for cluster, topic in ((source_cluster, "shapes"), (target_cluster, "shapes.shapes"))
    ]
    assert b"\xff\xfe" in sections[0]
    assert sections[0] == sections[1]


@pytest.mark.fault("F35")
def test_timestamps_stay_equal_whatever_they_are(shapes: tuple[Records, Records]) -> None:
    same(shapes, TIMES, count=20)
    assert -1 in {record.timestamp for record in shapes[1][TIMES]}


def test_an_empty_partition_stays_empty(shapes: tuple[Records, Records]) -> None:
    same(shapes, EMPTY, count=0)


def test_records_of_no_byte_and_of_a_megabyte_are_copied(shapes: tuple[Records, Records]) -> None:
    same(shapes, MEGABYTE, count=3)
    assert [len(record.value or b"") for record in shapes[1][MEGABYTE]] == [0, 1_000_000, 5]


def test_a_log_that_starts_inside_a_batch_is_copied_from_its_start(shapes: tuple[Records, Records]) -> None:
    same(shapes, STARTED, count=55)
    assert shapes[0][STARTED][0].offset == 45
    assert shapes[1][STARTED][0].offset == 0


@pytest.mark.parametrize("codec", list(CODECS))
def test_batches_of_every_codec_are_copied(shapes: tuple[Records, Records], codec: str) -> None:
    same(shapes, PARTITION_OF_CODEC[codec], count=80)


def test_mixed_codecs_in_one_partition_keep_their_order(shapes: tuple[Records, Records]) -> None:
    same(shapes, MIXED, count=5 * 3 * 5 * 2 + 30 * 5)


def test_a_batch_of_thousands_of_records_is_copied(shapes: tuple[Records, Records]) -> None:
    same(shapes, WIDE, count=2000)


def test_compressed_batches_that_java_wrote_are_copied(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    same(both(source_cluster, target_cluster, "shapes-java"), 0, count=60)


def test_codecs_are_kept(copied: Outcome, target_cluster: LocalCluster) -> None:
    assert {batch.codec for batch in target_batches(target_cluster, "shapes", MIXED)} == set(CODECS)


def test_many_partitions_keep_their_numbers(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    """MirrorSourceTaskTest testPoll: partition numbers are kept."""
    found = log_ends(target_cluster, f"{ALIAS}.shapes-many")
    assert found == log_ends(source_cluster, "shapes-many")
    assert {partition: end for partition, end in found.items() if end} == {0: 3, 7: 3, 31: 3}


@pytest.mark.parametrize("topic", ["shapes.with.dots_and-dashes", LONG_NAME], ids=["dots", "249 characters"])
def test_topics_with_odd_names_are_copied(copied: Outcome, target_cluster: LocalCluster, topic: str) -> None:
    assert log_ends(target_cluster, f"{ALIAS}.{topic}") == {0: 10}


@pytest.mark.fault("F35")
def test_log_append_times_become_create_times(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source, target = both(source_cluster, target_cluster, "shapes-appended")
    assert {record.timestamp_type for record in source[0]} == {"LogAppendTime"}
    assert {record.timestamp_type for record in target[0]} == {"CreateTime"}
    assert compare(source, target) == []


@pytest.mark.fault("F34")
def test_batches_too_large_for_the_target_are_split(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source, target = both(source_cluster, target_cluster, "shapes-small")
    assert [len(records) for records in source.values()] == [40, 40, 40]
    assert compare(source, target) == []
    sizes = [batch.size for batch in target_batches(target_cluster, "shapes-small", 0)]
    assert max(sizes) <= SMALL_BYTES < 20 * 1000


def test_batches_of_one_record_are_merged(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source, target = both(source_cluster, target_cluster, "shapes-singles")
    assert [len(records) for records in source.values()] == [SINGLES, SINGLES]
    assert compare(source, target) == []
    assert len(target_batches(target_cluster, "shapes-singles", 0)) <= SINGLES // 20


@pytest.mark.fault("F33")
def test_gaps_of_a_compacted_topic_are_closed(
    copied: Outcome, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    source, target = both(source_cluster, target_cluster, "shapes-compacted")
    offsets = [record.offset for record in source[0]]
    assert offsets[0] > 100, "nothing was compacted"
    assert any(after - before > 1 for before, after in itertools.pairwise(offsets))
    assert compare(source, target) == []
    assert [record.offset for record in target[0]] == list(range(len(offsets)))


def test_the_source_has_a_batch_that_compaction_emptied(copied: Outcome, source_cluster: LocalCluster) -> None:
    found = batches(source_cluster.log_dirs[1], "shapes-compacted", 0)
    assert any(batch.count == 0 for batch in found), "the run did not meet an emptied batch"


def test_only_the_wanted_topics_were_created(copied: Outcome, target_cluster: LocalCluster) -> None:
    ours = {name for name in topics_of(target_cluster) if name.startswith(f"{ALIAS}.")}
    assert ours == {f"{ALIAS}.{topic}" for topic in TOPICS} | {f"{ALIAS}.checkpoints.internal"}


def test_partition_counts_are_those_of_the_source(copied: Outcome, target_cluster: LocalCluster) -> None:
    assert {topic: partitions_of(target_cluster, f"{ALIAS}.{topic}") for topic in TOPICS} == {
        topic: partitions for topic, (partitions, _) in TOPICS.items()
    }


def test_no_transaction_marker_or_other_batch_lies_between(copied: Outcome, target_cluster: LocalCluster) -> None:
    """The ends equal the number of records: nothing but records was written."""
    ends = log_ends(target_cluster, f"{ALIAS}.shapes-singles")
    assert ends == {0: SINGLES, 1: SINGLES}
