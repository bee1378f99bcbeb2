"""`kafka-records` on real clusters: every record shape through Spark and back, as a table and as a stream. Java judges."""

from __future__ import annotations

import hashlib
import hmac
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.mirroring import (
    admin_of,
    await_true,
    create_topics,
    flow_settings,
    log_ends,
    move_log_start,
    numbered,
    produce,
    produce_raw,
    run_cleanly,
    topics_of,
    write_settings,
)
from judge import compare, java_records
from kafka.admin import NewPartitions
from shapes import PARTITIONS, STARTED, batches_of_shapes

from sparkmirror.config import TransformSettings
from sparkmirror.errors import ConfigInvalid
from sparkmirror.local import LocalCluster
from sparkmirror.session import SparkSlots
from sparkmirror.spark import register

pytestmark = pytest.mark.timeout(600)
FORMAT = "kafka-records"
KEPT = {"retention.ms": "-1"}  # some records are older than any retention


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A Spark session with our data sources; its JVM is gone at the end."""
    from pyspark.sql import SparkSession

    spark = SparkSlots(master="local[3]", conf={"spark.sql.shuffle.partitions": "1"}, slots=2)
    session = SparkSession(spark.wait())
    register(session)
    yield session
    spark.stop()


@pytest.fixture(scope="module")
def shapes(source_cluster: LocalCluster) -> str:
    """A topic of every shape."""
    create_topics(source_cluster, {"rows-shapes": (PARTITIONS, KEPT)})
    produce_raw(source_cluster, "rows-shapes", batches_of_shapes())
    move_log_start(source_cluster, "rows-shapes", STARTED, 45)
    return "rows-shapes"


def reading(reader: Any, cluster: LocalCluster, **options: str) -> Any:
    """A table or a stream."""
    return reader.format(FORMAT).options(**{"kafka.bootstrap.servers": cluster.bootstrap, **options}).load()


def writing(writer: Any, cluster: LocalCluster, topic: str) -> Any:
    """A writer of one topic."""
    return writer.format(FORMAT).option("kafka.bootstrap.servers", cluster.bootstrap).option("topic", topic)


def copied_alike(source: LocalCluster, topic: str, target: LocalCluster, remote: str) -> list[str]:
    """What Java finds different."""
    return compare(java_records(source.bootstrap, topic), java_records(target.bootstrap, remote))


def told(action: Callable[[], Any]) -> str:
    """What Spark says of an action that must fail: it wraps what Python raised."""
    from pyspark.errors import PySparkException

    try:
        action()
    except PySparkException as error:
        return str(error)
    raise AssertionError("nothing was refused")


def test_a_table_of_every_shape_goes_round(
    session: Any, shapes: str, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    create_topics(target_cluster, {"rows-batch": (PARTITIONS, KEPT)})
    rows = reading(session.read, source_cluster, subscribe=shapes).drop("topic")
    writing(rows.write.mode("append"), target_cluster, "rows-batch").save()
    assert copied_alike(source_cluster, shapes, target_cluster, "rows-batch") == []


def test_a_stream_of_every_shape_goes_round(
    session: Any, shapes: str, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """In batches of 1500 offsets at most, with everything that was there at the start and nothing else."""
    create_topics(target_cluster, {"rows-stream": (PARTITIONS, KEPT)})
    rows = reading(
        session.readStream, source_cluster, subscribe=shapes, startingOffsets="earliest", maxOffsetsPerTrigger="1500"
    )
    query = (
        writing(rows.drop("topic").writeStream, target_cluster, "rows-stream")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    assert query.exception() is None
    assert copied_alike(source_cluster, shapes, target_cluster, "rows-stream") == []
    sizes = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert max(sizes) <= 1500 and len(sizes) > 1


def test_offsets_times_and_types_are_shown_as_java_shows_them(
    session: Any, shapes: str, source_cluster: LocalCluster
) -> None:
    rows = reading(session.read, source_cluster, subscribe=shapes).collect()
    found: dict[int, list[tuple[Any, ...]]] = {}
    for row in rows:
        found.setdefault(row.partition, []).append((row.offset, row.timestamp, row.key, row.value))
    wanted = {
        partition: [(record.offset, record.timestamp, record.key, record.value) for record in records]
        for partition, records in java_records(source_cluster.bootstrap, shapes).items()
        if records
    }
    assert {partition: [(o, t, _bytes(k), _bytes(v)) for o, t, k, v in part] for partition, part in found.items()} == wanted
    assert {row.topic for row in rows} == {shapes}


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(found)


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"startingOffsets": "earliest"}, list(range(10))),
        ({"startingOffsets": '{"rows-edges": {"0": 4}}'}, list(range(4, 10))),
        ({"startingOffsets": '{"rows-edges": {"0": -2}}', "endingOffsets": '{"rows-edges": {"0": 3}}'}, [0, 1, 2]),
        ({"startingTimestamp": "1700000006000"}, [6, 7, 8, 9]),
        ({"endingTimestamp": "1700000002000"}, [0, 1]),
        ({"startingTimestamp": "1800000000000"}, []),
    ],
    ids=["all", "from an offset", "between", "from a time", "until a time", "later than all"],
)
def test_a_table_begins_and_ends_where_it_is_told(
    options: dict[str, str], wanted: list[int], session: Any, source_cluster: LocalCluster, edges: str
) -> None:
    rows = reading(session.read, source_cluster, subscribe=edges, **options).select("offset").collect()
    assert [row.offset for row in rows] == wanted


@pytest.fixture(scope="module")
def edges(source_cluster: LocalCluster) -> str:
    """Ten records, a second apart."""
    from sparkmirror.wire import Record, build_batch

    create_topics(source_cluster, {"rows-edges": (1, KEPT)})
    records = [Record(at, 1_700_000_000_000 + at * 1000, None, b"%d" % at) for at in range(10)]
    produce_raw(source_cluster, "rows-edges", {0: [build_batch([record]) for record in records]})
    return "rows-edges"


def test_a_stream_follows_new_topics_and_partitions(
    session: Any, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    create_topics(source_cluster, {"rows-grows-a": (1, {})})
    create_topics(target_cluster, {"rows-grown": (3, {})})
    produce(source_cluster, "rows-grows-a", 0, numbered(10))
    rows = reading(session.readStream, source_cluster, subscribePattern="rows-grows-.*", startingOffsets="earliest")
    query = writing(rows.drop("topic").writeStream, target_cluster, "rows-grown")
    query = query.option("checkpointLocation", str(tmp_path)).trigger(processingTime="0 seconds").start()
    try:
        await_true(lambda: sum(log_ends(target_cluster, "rows-grown").values()) == 10, 120.0, "the first records")
        create_topics(source_cluster, {"rows-grows-b": (2, {})})
        produce(source_cluster, "rows-grows-b", 1, numbered(10))
        with admin_of(source_cluster) as admin:
            admin.create_partitions({"rows-grows-a": NewPartitions(total_count=3)})
        await_true(lambda: len(log_ends(source_cluster, "rows-grows-a")) == 3, 60.0, "more partitions")
        produce(source_cluster, "rows-grows-a", 2, numbered(5))
        await_true(lambda: log_ends(target_cluster, "rows-grown") == {0: 10, 1: 10, 2: 5}, 120.0, "all of them")
    finally:
        query.stop()
    assert query.exception() is None


def test_keys_decide_the_partition_as_in_java_where_none_is_named(
    session: Any, source_cluster: LocalCluster, target_cluster: LocalCluster
) -> None:
    from sparkmirror.local import console_produce

    create_topics(source_cluster, {"rows-by-java": (4, {})})
    create_topics(target_cluster, {"rows-by-key": (4, {})})
    keyed = {"parse.key": "true", "key.separator": ":"}
    lines = [f"key-{at}:value-{at}" for at in range(60)]
    console_produce(source_cluster.bootstrap, "rows-by-java", lines, reader=keyed)
    rows = reading(session.read, source_cluster, subscribe="rows-by-java").select("timestamp", "key", "value")
    writing(rows.coalesce(1).write.mode("append"), target_cluster, "rows-by-key").save()
    by_java, by_us = (
        {partition: sorted((r.key, r.value) for r in records) for partition, records in java_records(at, name).items()}
        for at, name in ((source_cluster.bootstrap, "rows-by-java"), (target_cluster.bootstrap, "rows-by-key"))
    )
    assert by_java == by_us


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "expected either subscribe"),
        ({"subscribe": "rows-edges", "subscribePattern": "x"}, "expected either subscribe"),
        ({"subscribe": "rows-not-there"}, "has no topic rows-not-there"),
        ({"subscribePattern": "("}, "is no regular expression"),
        ({"subscribe": "rows-edges", "startingOffsets": "soon"}, "expected earliest, latest or"),
        ({"subscribe": "rows-edges", "startingOffset": "earliest"}, "startingoffset: is not an option here"),
        ({"subscribe": "rows-edges", "kafka.bootstrap.servers": "nowhere"}, "kafka.bootstrap.servers: expected"),
        ({"subscribe": "rows-edges", "kafka.isolation.level": "some"}, "expected read_uncommitted or read_committed"),
        ({"subscribe": "rows-edges", "startingOffsets": '{"rows-edges": {"7": 1}}'}, "rows-edges-7, which are not read"),
    ],
)
def test_a_wrong_option_is_told_in_a_sentence(
    options: dict[str, str], words: str, session: Any, source_cluster: LocalCluster, edges: str
) -> None:
    assert words in told(lambda: reading(session.read, source_cluster, **options).collect())


def test_rows_that_are_no_records_are_refused_before_anything_is_written(
    session: Any, source_cluster: LocalCluster, target_cluster: LocalCluster, edges: str
) -> None:
    create_topics(target_cluster, {"rows-refused": (1, {})})
    rows = reading(session.read, source_cluster, subscribe=edges)
    for odd, words in (
        (rows.selectExpr("value", "offset as place"), "column place: is not a part of a record"),
        (rows.selectExpr("offset as value"), "column value: expected binary or string, found bigint"),
        (rows.select("partition"), "expected a column value or key, found neither"),
        (rows.selectExpr("value", "7 as partition"), "partition: expected a partition of rows-refused on "),
    ):
        writer = writing(odd.write.mode("append"), target_cluster, "rows-refused")
        assert words in told(writer.save)
    assert log_ends(target_cluster, "rows-refused") == {0: 0}


# --- the ledger --------------------------------------------------------------------------------------------------------


def test_the_ledger_tells_what_was_copied(
    session: Any, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """As a table and as a stream: every record's place on both sides."""
    create_topics(source_cluster, {"rows-told": (2, {})})
    for partition, count in ((0, 30), (1, 50)):
        produce(source_cluster, "rows-told", partition, numbered(count))
    settings = flow_settings(source_cluster, target_cluster, alias="told", topics="rows-told")
    run_cleanly(write_settings(tmp_path / "mm2.properties", settings))
    options = {"kafka.bootstrap.servers": target_cluster.bootstrap, "source": "told"}
    rows = session.read.format("kafka-ledger").options(**options).load()
    runs = rows.where("kind = 'run'").select("topic", "partition", "upstream", "downstream", "length").distinct().collect()
    assert {tuple(row) for row in runs} == {("rows-told", 0, 0, 0, 30), ("rows-told", 1, 0, 0, 50)}
    assert {row.target_topic for row in rows.where("kind = 'open'").collect()} == {"told.rows-told"}
    assert rows.where("kind = 'closed'").selectExpr("sum(upstream)").first()[0] == 80
    assert rows.where("kind = 'owner'").orderBy("time", ascending=False).first().state == "released"
    stream = session.readStream.format("kafka-ledger").options(**options).load()
    query = stream.writeStream.format("memory").queryName("told").trigger(availableNow=True)
    query = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    assert query.awaitTermination(120) and query.exception() is None
    assert session.table("told").count() == rows.count()


# --- functions ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "wanted"),
    [
        ("header(headers, 'k')", b"second"),
        ("header(headers, 'none')", None),
        ("header(drop_header(headers, 'k'), 'k')", None),
        ("size(drop_header(headers, 'k'))", 1),
        ("header(set_header(headers, 'k', cast('new' as binary)), 'k')", b"new"),
        ("size(set_header(headers, 'k', cast('new' as binary)))", 2),
        ("header(set_header(null, 'k', cast('new' as binary)), 'k')", b"new"),
        ("size(set_header(set_header(drop_header(headers, 'other'), 'a', key), 'b', key))", 4),
        ("json_mask(value, '$.card')", '{"card":"***", "n":1.50}'),
        ("json_set(value, '$.n', '[]')", '{"card":"4711", "n":[]}'),
        ("json_mask(cast(null as string), '$.card')", None),
        ("hash_keyed(key, 'file:SECRET')", hmac.new(b"pa55", b"key", hashlib.sha256).hexdigest()),
        ("mask(string(key))", "xxx"),
    ],
)
def test_functions_do_what_they_say(expression: str, wanted: Any, session: Any, tmp_path: Path) -> None:
    row = session.sql(
        "select cast('key' as binary) as key, cast('{\"card\":\"4711\", \"n\":1.50}' as binary) as value, "
        "array(named_struct('key', 'k', 'value', cast('first' as binary)), "
        "named_struct('key', 'other', 'value', cast(null as binary)), "
        "named_struct('key', 'k', 'value', cast('second' as binary))) as headers"
    )
    (tmp_path / "secret").write_text("pa55\n")
    [found] = row.selectExpr(f"{expression.replace('SECRET', str(tmp_path / 'secret'))} as found").collect()
    assert (_bytes(found.found) if isinstance(wanted, bytes) else found.found) == wanted


def test_a_secret_that_is_not_there_is_told_by_its_name(session: Any) -> None:
    words = told(lambda: session.sql("select hash_keyed('x', 'env:NOT_SET_ANYWHERE')").collect())
    assert "expected file:PATH of a readable file or env:NAME of a variable that is set" in words


# --- transforms --------------------------------------------------------------------------------------------------------

KEEP = "select * except (value), "
FUNCTIONS = """
def upper(rows):
    return rows.withColumn("value", rows.value.cast("string"))
def nothing(rows):
    return None
def wrong(rows):
    raise KeyError("no such thing")
"""


def changed(session: Any, cluster: LocalCluster, topic: str, folder: Path, sql: str = "", function: str = "") -> Any:
    """A topic's rows after one transform."""
    from sparkmirror.transforms.transforming import transformed

    rows = reading(session.read, cluster, subscribe=topic)
    wanted = TransformSettings("x", (topic,), sql, function, 0)
    return transformed(session, rows, [wanted], where="mm2.properties: A->B", folder=str(folder))


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("selec * from records", "transform.x.sql: [PARSE_SYNTAX_ERROR]"),
        ("select * except (value), valeu as value from records", "transform.x.sql: [UNRESOLVED_COLUMN"),
        ("select * from orders", "transform.x.sql: [TABLE_OR_VIEW_NOT_FOUND]"),
        ("select topic, key, value from records", "has no column partition, offset, timestamp, headers; expected topic"),
        ("select *, value from records", "the output has two columns value (write `select * except (value), …`)"),
        (KEEP + "length(value) as value from records", "column value: expected binary or string, found int"),
        (KEEP + "value, 1 as extra from records", "column extra: is not a part of a record"),
        ("select * from records order by key", "has a sort"),
        ("select * from records limit 3", "has a limit"),
        ("select distinct * from records", "has a distinct"),
        ("select * from records union all select * from records", "has a union"),
        ("select r.* from records r join records s on r.key = s.key", "has a join"),
        ("select /*+ REPARTITION(3) */ * from records", "has a repartition"),
        (KEEP + "max(value) over (partition by key) as value from records", "has a window function"),
        (KEEP + "explode(array(value, value)) as value from records", "has an explode"),
        ("select * from records where offset > (select min(offset) from records)", "has a subquery"),
        ("select * from records where rand() < 0.5", "gives another result each time"),
    ],
)  # fmt: skip
def test_a_transform_that_cannot_be_used_is_refused_before_a_record_passes(
    sql: str, words: str, session: Any, source_cluster: LocalCluster, edges: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigInvalid) as caught:
        changed(session, source_cluster, edges, tmp_path, sql)
    assert words in "\n".join(caught.value.problems)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("not_there:f", "transform.x.function: not_there:f cannot be imported: No module named"),
        ("changes:not_there", "cannot be imported: module 'changes' has no attribute"),
        ("changes:nothing", "returned NoneType, expected a DataFrame"),
        ("changes:wrong", "raised KeyError"),
    ],
)
def test_a_function_that_cannot_be_used_is_refused(
    function: str, words: str, session: Any, source_cluster: LocalCluster, edges: str, tmp_path: Path
) -> None:
    (tmp_path / "changes.py").write_text(FUNCTIONS)
    sys.modules.pop("changes", None)
    with pytest.raises(ConfigInvalid) as caught:
        changed(session, source_cluster, edges, tmp_path, function=function)
    assert words in "\n".join(caught.value.problems)


def test_sql_and_functions_change_rows(session: Any, source_cluster: LocalCluster, edges: str, tmp_path: Path) -> None:
    (tmp_path / "changes.py").write_text(FUNCTIONS)
    sys.modules.pop("changes", None)
    assert changed(session, source_cluster, edges, tmp_path, function="changes:upper").first().value == "0"
    sql = KEEP + "concat('n=', string(value)) as value from records where offset % 2 = 0"
    assert [row.value for row in changed(session, source_cluster, edges, tmp_path, sql).collect()] == [
        "n=0", "n=2", "n=4", "n=6", "n=8"
    ]  # fmt: skip


def topics_of_tried(cluster: LocalCluster) -> set[str]:
    return {name for name in topics_of(cluster) if any(word in name for word in ("tried", "rows-people", "french"))}


def test_try_shows_before_and_after_and_writes_nothing(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    create_topics(source_cluster, {"rows-people": (1, {})})
    people = [b'{"name":"Ada","card":"4711","country":"%s"}' % country for country in (b"de", b"us", b"fr")]
    produce(source_cluster, "rows-people", 0, people)
    settings = flow_settings(source_cluster, target_cluster, alias="tried", topics="rows-people") | {
        "tried->tried-to.transform.pii.topics": "rows-peo.*",
        "tried->tried-to.transform.pii.sql": "select * except (value), json_mask(value, '$.card') as value from records "
        "where get_json_object(string(value), '$.country') <> 'us'",
        "tried->tried-to.transform.route.topics": "rows-people",
        "tried->tried-to.transform.route.order": "1",
        "tried->tried-to.transform.route.sql": "select * except (topic), if(value like '%fr%', 'french', topic) as topic "
        "from records",
    }
    path = write_settings(tmp_path / "mm2.properties", settings)
    before = topics_of_tried(target_cluster)
    program = str(Path(sys.executable).with_name("sparkmirror"))
    done = subprocess.run(
        [program, "try", str(path), "--topic", "rows-people"], capture_output=True, text=True, timeout=240,
        env=os.environ | {"COLUMNS": "200"}, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '{"name":"Ada","card":"4711","country":"de"}' in done.stdout
    assert '{"name":"Ada","card":"***","country":"de"}' in done.stdout
    assert "3 records through pii, route: 1 changed, 1 left out, 1 sent elsewhere, 0 as they are" in done.stdout
    assert "french-0" in done.stdout and "Project" in done.stdout
    assert topics_of_tried(target_cluster) == before
    refused = subprocess.run(
        [program, "try", str(path), "--topic", "other"], capture_output=True, text=True, timeout=240, check=False
    )
    assert refused.returncode == 2
    assert "no transform of tried->tried-to is for other" in refused.stderr
