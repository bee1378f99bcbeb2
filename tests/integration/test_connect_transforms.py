"""Connect's transforms on rows, compared with Kafka's own classes on the same records, and with MirrorMaker 2 itself."""

from __future__ import annotations

import base64
import contextlib
import json
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from integration.connecting import LITERAL, chain_properties, moved, produce_for_chain
from integration.mirroring import await_true, log_ends, run_once
from integration.scenario import Pair
from judge import java_records
from judge.java_gateway import java_gateway
from judge.transforms import JavaChain, Plain
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf

from sparkmirror.config import ConnectTransform, TransformSettings, load, parse
from sparkmirror.config.connect_options import OptionRefused, header_value
from sparkmirror.config.connect_transforms import OPTIONS, PREDICATE_OPTIONS, SIDED
from sparkmirror.datasource.arrow import SCHEMA
from sparkmirror.datasource.functions import register_functions
from sparkmirror.local import LocalCluster, MirrorMaker
from sparkmirror.session import SparkSlots
from sparkmirror.spark import register
from sparkmirror.transforms.connect import connected
from sparkmirror.transforms.orders import Change
from sparkmirror.transforms.transforming import transformed
from sparkmirror.transforms.untouched import Use, use_of

pytestmark = pytest.mark.timeout(900)
BASE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
MM2_SECONDS = 180.0

RECORDS = [
    Plain(0, "A.orders", 0, 1_700_000_000_000, b"k", b"v"),
    Plain(1, "A.orders", 3, 1_709_210_096_007, None, None, (("x", b"1"), ("y", None), ("x", b"2"))),
    Plain(2, "A.orders-eu", 0, 0, b"", b"", (("y", b""),)),
    Plain(3, "ab", 1, -1, b"\xff", b"\x00\xfe", (("x", b"\xff\x00"), ("z", b"3"))),
    Plain(4, "__internal", 0, 4_102_444_799_999, b"k", b"v"),
    Plain(5, "A.B.C", 0, 951_782_400_000, b"k", b"v", (("é", b"1"),)),
    Plain(6, "A.orders\n", 0, 1_000_000_000_123, b"k", b"v"),
]
BODIES = [
    '{"id": 7, "name": "Ada", "card": {"number": "47", "cvc": 12}, "tags": ["a"], "ok": true, "rate": 12.50, "no": null}',
    '{"name":"\\u00e9 \\"q\\"","id":9007199254740993,"rate":-1e-3,"ok":false,"tags":[],"card":{}}',
    "{}",
    ' { "other" : [ 1 , { "x" : null } ] } ',
    '{"a.b":{"c":1},"a":{"b.c":2,"b":{"c":[0,{"d":1}]}}}',
]
OBJECTS = [
    Plain(at, "A.people", at % 2, 1_700_000_000_000 + at, body.encode(), body.encode()) for at, body in enumerate(BODIES)
]
TOMBSTONE = Plain(90, "A.people", 0, 1_700_000_000_000, None, None)


@pytest.fixture(scope="module")
def session() -> Iterator[Any]:
    """A Spark session whose time zone has gaps and overlaps, which must change nothing."""
    from pyspark.sql import SparkSession

    conf = {"spark.sql.shuffle.partitions": "1", "spark.sql.session.timeZone": "America/Sao_Paulo"}
    spark = SparkSlots(master="local[2]", conf=conf, slots=1)
    session = SparkSession(spark.wait())
    register(session)
    yield session
    spark.stop()


@pytest.fixture(scope="module")
def java() -> Iterator[JavaChain]:
    with java_gateway() as jvm:
        yield JavaChain(jvm)


def chain(*steps: str) -> tuple[ConnectTransform, ...]:
    """Steps as `TYPE key=value key=value`; `if=PREDICATE(option)` and `unless=…` are their conditions."""
    lines = [f"A->B.transforms = {', '.join(f's{at}' for at in range(len(steps)))}"]
    predicates = []
    for at, step in enumerate(steps):
        kind, *options = step.split(" ")
        lines.append(f"A->B.transforms.s{at}.type = org.apache.kafka.connect.transforms.{kind}")
        for option in options:
            name, _, text = option.partition("=")
            text = text.replace("_", " ") if name == "value.literal" else text
            if name not in ("if", "unless"):
                lines.append(f"A->B.transforms.s{at}.{name} = {text}".replace("\\", "\\\\"))
                continue
            predicates.append(f"p{at}")
            called, _, value = text.removesuffix(")").partition("(")
            lines.append(f"A->B.transforms.s{at}.predicate = p{at}\nA->B.transforms.s{at}.negate = {name == 'unless'}")
            lines.append(f"A->B.predicates.p{at}.type = org.apache.kafka.connect.transforms.predicates.{called}")
            if value:
                wanted = "pattern" if called == "TopicNameMatches" else "name"
                lines.append(f"A->B.predicates.p{at}.{wanted} = {value}".replace("\\", "\\\\"))
    text = BASE + "\n".join(lines) + f"\nA->B.predicates = {', '.join(predicates)}\n"
    return parse(text, "mm2.properties", {}).flows[0].connect_transforms


def rows_of(session: Any, records: Sequence[Plain]) -> Any:
    rows = [
        (r.topic, r.partition, r.offset, r.timestamp, 0, r.key, r.value, [(n, c) for n, c in r.headers]) for r in records
    ]
    return session.createDataFrame(rows, SCHEMA)


def through(session: Any, records: Sequence[Plain], transforms: Sequence[ConnectTransform]) -> dict[int, Plain]:
    """What comes out of our chain, by offset."""
    rows = rows_of(session, records)
    out = connected(rows, transforms)
    assert out.schema.simpleString() == rows.schema.simpleString()
    plan = out._jdf.queryExecution().executedPlan().toString()
    assert not [word for word in ("Exchange", "Sort", "Generate", "Aggregate") if word in plan]
    assert out._jdf.queryExecution().analyzed().deterministic()
    found = out.collect()
    assert len(found) == len({row.offset for row in found})
    return {row.offset: plain(row) for row in found}


def plain(row: Any) -> Plain:
    headers = tuple((header.key, _bytes(header.value)) for header in row.headers or ())
    return Plain(row.offset, row.topic, row.partition, row.timestamp, _bytes(row.key), _bytes(row.value), headers)


def _bytes(found: Any) -> bytes | None:
    return None if found is None else bytes(found)


BYTE_CHAINS = [
    (r"RegexRouter regex=A\.(.*) replacement=B.$1-new",),
    ("RegexRouter regex=.* replacement=all",),
    ("RegexRouter regex=a|ab replacement=X",),
    ("RegexRouter regex=(a)(b)? replacement=$2$1$11",),
    ("RegexRouter regex=(?i)a\\.(?<rest>[^-]+) replacement=${rest}\\$\\x",),
    (r"RegexRouter regex=\QA.orders replacement=quoted",),
    (r"RegexRouter regex=(.*\\)?(A)\.orders replacement=$2",),
    ("RegexRouter regex=^A.*$ replacement=$0$0",),
    ("RegexRouter regex=nothing replacement=x",),
    ("RegexRouter regex=[^.]*+.* replacement=x",),
    ("TimestampRouter",),
    ("TimestampRouter topic.format=${timestamp}/${topic}/${topic} timestamp.format=yyyy-MM-dd'T'HH.mm.ss.SSS",),
    ("TimestampRouter timestamp.format=yy.y.yyy.yyyyyy.M.L.LL.d.D.DDD.F.u.uu.H.k.kk.K.KK.h.hh.m.s.S.SSSSS",),
    ("TimestampRouter topic.format=fixed",),
    ("TimestampRouter topic.format=${topic}${timestamp} timestamp.format='a'''",),
    ("DropHeaders headers=x",),
    ("DropHeaders headers=x,é,none",),
    ("InsertHeader header=x value.literal=eu-west",),
    ("InsertHeader header=é value.literal=null",),
    ("InsertHeader header=x value.literal=1.5", "InsertHeader header=x value.literal=a_b", "DropHeaders headers=y"),
    ("Filter",),
    ("Filter if=RecordIsTombstone",),
    ("Filter unless=RecordIsTombstone",),
    ("Filter if=HasHeaderKey(x)",),
    ("Filter unless=HasHeaderKey(é)",),
    (r"Filter if=TopicNameMatches(A\..*)",),
    ("Filter if=TopicNameMatches(a|A.orders)",),
    ("Filter unless=TopicNameMatches(.*)",),
    (r"RegexRouter regex=A\.(.*) replacement=$1 if=HasHeaderKey(x)", "Filter if=TopicNameMatches(orders)"),
    ("InsertHeader header=new value.literal=1 unless=RecordIsTombstone", "DropHeaders headers=y,x if=HasHeaderKey(new)"),
    ("DropHeaders headers=x", "Filter if=HasHeaderKey(x)", "TimestampRouter", r"RegexRouter regex=.*-(\d+) replacement=$1"),
]


@pytest.mark.parametrize("steps", BYTE_CHAINS, ids=" + ".join)
def test_topics_headers_and_conditions_are_as_in_kafka(session: Any, java: JavaChain, steps: tuple[str, ...]) -> None:
    transforms = chain(*steps)
    wanted = {record.offset: java.apply(transforms, record, json=False) for record in RECORDS}
    assert through(session, RECORDS, transforms) == {at: record for at, record in wanted.items() if record is not None}


def test_any_time_is_written_as_in_java(session: Any, java: JavaChain, rng: random.Random) -> None:
    transforms = chain("TimestampRouter topic.format=${timestamp} timestamp.format=yyyy.yy.M.d.D.F.u.H.k.K.h.m.s.SSS")
    records = [Plain(at, timestamp=rng.randrange(5_000_000_000_000)) for at in range(300)]
    wanted = {record.offset: java.apply(transforms, record, json=False) for record in records}
    assert through(session, records, transforms) == wanted


def test_options_are_those_of_kafka(java: JavaChain) -> None:
    classes = {kind + ("$Value" if kind in SIDED else ""): options for kind, options in OPTIONS.items()}
    classes |= {f"predicates.{kind}": options for kind, options in PREDICATE_OPTIONS.items()}
    ours = {kind: {name: option.required for name, option in options.items()} for kind, options in classes.items()}
    assert ours == {kind: java.options(kind) for kind in classes}


LITERALS = [
    "eu-west", "null", "true", "false", "12", "-3", "0", "1.5", "-0.25", "123456", "-999999999999999999",
    "4.3.1", "3_apples", '"q"', '"1"', "é:x", "a,b", "x:1", "12345678-1234-1234-1234-123456789012", "10.0.0.1:9092", "TRUE",
    "a\\b", "}", ":", "0.001", "12.3456", "nullable", "true}", "1_000", "-", "-a", "1-2-3",
]  # fmt: skip


def accepted_literals(rng: random.Random, count: int) -> list[str]:
    """Texts of signs that mean something to Kafka, those that we refuse left out."""
    found: list[str] = []
    while len(found) < count:
        text = "".join(rng.choices('0123456789.+-eE:,[]{}"\\ aTZ', k=rng.choice([2, 4, 10, 13]))).strip()
        with contextlib.suppress(OptionRefused):
            header_value(text)
            found.append(text)
    return found


def test_header_bytes_are_those_of_kafkas_simple_header_converter(java: JavaChain, rng: random.Random) -> None:
    wanted, found = {}, {}
    for text in [literal.replace("_", " ") for literal in LITERALS] + accepted_literals(rng, 400):
        transform = ConnectTransform("h", "InsertHeader", {"header": "h", "value.literal": text}, None, False)
        out = java.apply([transform], Plain(0), json=False)
        assert out is not None
        wanted[text], found[text] = out.headers[0][1], header_value(text)
    assert found == wanted


FIELD_CHAINS = [
    ("HoistField$Value field=all",),
    ("HoistField$Key field=a\"b",),
    ("ExtractField$Value field=card",),
    ("ExtractField$Key field=name",),
    ("ExtractField$Value field=no",),
    ("ExtractField$Value field=a.b",),
    ("ExtractField$Value field=a.b.c field.syntax.version=V2",),
    ("ExtractField$Value field=a.`b.c` field.syntax.version=V2",),
    ("ExtractField$Value field=card.number field.syntax.version=v2",),
    ("MaskField$Value fields=id,name,card,tags,ok,rate,no,missing",),
    ("MaskField$Key fields=name,id,rate replacement=12.9",),
    ("MaskField$Value fields=name replacement=***",),
    ("ReplaceField$Value exclude=card,name",),
    ("ReplaceField$Value include=id,card,rate renames=id:number,card:paid_with",),
    ("ReplaceField$Key exclude=id include=id,name renames=name:id",),
    ("ReplaceField$Value",),
    ("ValueToKey fields=id,missing,tags",),
    ("InsertField$Value topic.field=t! partition.field=p? offset.field=o timestamp.field=ts static.field=s static.value=é",),
    ("InsertField$Key static.field=id static.value=fixed",),
    ("InsertField$Value topic.field=name offset.field=name",),
    ("ReplaceField$Value renames=card:c", "HoistField$Value field=f", "ExtractField$Value field=f.c field.syntax.version=V2",
     "RegexRouter regex=A\\.(.*) replacement=$1 unless=RecordIsTombstone", "Filter if=RecordIsTombstone"),
    ("ValueToKey fields=name if=TopicNameMatches(.*ople)", "InsertField$Value topic.field=t unless=HasHeaderKey(x)"),
    ("RegexRouter regex=.* replacement=elsewhere", "InsertField$Value topic.field=t", "MaskField$Value fields=t"),
]  # fmt: skip


@pytest.mark.parametrize("steps", FIELD_CHAINS, ids=" + ".join)
def test_fields_are_as_in_kafka_with_schemaless_json(session: Any, java: JavaChain, steps: tuple[str, ...]) -> None:
    transforms = chain(*steps)
    records = OBJECTS if "replacement=12.9" not in steps[0] else OBJECTS[:2]
    wanted = {record.offset: java.apply(transforms, record, json=True) for record in records}
    found = through(session, records, transforms)
    assert {at: said(out) for at, out in found.items()} == {at: said(out) for at, out in wanted.items() if out is not None}


def said(record: Plain) -> tuple[Any, ...]:
    """A record whose key and value are what their JSON says."""
    parts = [None if part is None else json.loads(part) for part in (record.key, record.value)]
    return record.topic, record.partition, record.timestamp, record.headers, *parts


@pytest.mark.parametrize(
    "step",
    ["HoistField$Value field=all", "ExtractField$Value field=a", "MaskField$Value fields=a", "ReplaceField$Value exclude=a",
     "ValueToKey fields=a", "InsertField$Value topic.field=t", "HoistField$Key field=k", "MaskField$Key fields=a"],
)  # fmt: skip
def test_nulls_pass_or_fail_as_in_kafka(session: Any, java: JavaChain, step: str) -> None:
    transforms = chain(step)
    try:
        wanted = java.apply(transforms, TOMBSTONE, json=True)
    except Py4JJavaError as error:
        assert "DataException" in str(error)
        with pytest.raises(Exception, match=r"transforms\.s0 .*: the (key|value) is null; to leave such records alone"):
            through(session, [TOMBSTONE], transforms)
    else:
        assert wanted is not None
        assert through(session, [TOMBSTONE], transforms) == {TOMBSTONE.offset: wanted}


@pytest.mark.parametrize(
    ("step", "value", "told"),
    [
        ("MaskField$Value fields=a", b"\xff{}", "transforms.s0 (MaskField$Value): the value is no text in UTF-8"),
        ("MaskField$Value fields=a", b"plain", "transforms.s0 (MaskField$Value): the value is no JSON at character 0"),
        (
            "ReplaceField$Value exclude=a",
            b"[1]",
            "transforms.s0 (ReplaceField$Value): the value is no JSON object but a list",
        ),
        ("ValueToKey fields=a", b"3", "transforms.s0 (ValueToKey): the value is no JSON object but a number"),
        ("MaskField$Value fields=a replacement=x", b'{"a":1}', "holds in field a a number, and the replacement is none"),
        ("MaskField$Value fields=a replacement=x", b'{"a":[]}', "holds in field a neither a number nor a string"),
        ("ExtractField$Value field=a.b field.syntax.version=V2", b'{"a":1}', "holds in field a what is no JSON object"),
    ],
)
def test_a_value_that_cannot_be_changed_is_told_with_the_name_of_the_transform(
    session: Any, java: JavaChain, step: str, value: bytes, told: str
) -> None:
    transforms, record = chain(step), Plain(0, value=value)
    with pytest.raises(Py4JJavaError):
        java.apply(transforms, record, json=True)
    with pytest.raises(Exception) as caught:  # Spark wraps it in one of several classes
        through(session, [record], transforms)
    assert told in str(caught.value)


def test_a_record_that_a_condition_leaves_out_is_not_read(session: Any) -> None:
    """And no other byte of a record that is changed becomes another one."""
    records = [
        Plain(0, "A.raw", value=b"\xff no JSON"),
        Plain(1, "A.json", value=b' { "a" : 1.50 ,\n"b":[ 1 ] , "c" :"x" } '),
        Plain(2, "A.raw", key=b"\xfe", value=None),
    ]
    found = through(session, records, chain("MaskField$Value fields=b if=TopicNameMatches(A.json)"))
    assert found == {0: records[0], 1: Plain(1, "A.json", value=b' { "a" : 1.50 ,\n"b":[] , "c" :"x" } '), 2: records[2]}
    found = through(session, records, chain("ValueToKey fields=a if=TopicNameMatches(A.json)"))
    assert [found[at].key for at in range(3)] == [None, b'{"a":1.50}', b"\xfe"]
    steps = ("Filter if=TopicNameMatches(A.raw)", "InsertField$Value offset.field=o")
    assert found_values(through(session, records, chain(*steps))) == [b' { "a" : 1.50 ,\n"b":[ 1 ] , "c" :"x","o":1 } ']


def found_values(found: dict[int, Plain]) -> list[bytes | None]:
    return [record.value for _, record in sorted(found.items())]


def rows_through_file(session: Any, pair: Pair, file: Path, number: int) -> dict[int, list[Plain]]:
    """The records of a test topic of the source after the chain of the flow in a file, by partition."""
    from pyspark.sql import functions as F

    [flow] = load(str(file)).enabled_flows(None)
    options = {"kafka.bootstrap.servers": pair.primary.bootstrap, "subscribe": pair.topic(number)}
    rows = session.read.format("kafka-records").options(**options).load()
    remote = rows.withColumn("topic", F.concat(F.lit(f"{pair.source}."), F.col("topic")))
    found: dict[int, list[Plain]] = {}
    for row in sorted(connected(remote, flow.connect_transforms).collect(), key=lambda row: row.offset):
        found.setdefault(row.partition, []).append(plain(row))
    return found


def copied(cluster: LocalCluster, topic: str) -> dict[int, list[tuple[Any, ...]]]:
    """What Java reads in a topic; offsets are the target's own."""
    return {
        partition: [(r.timestamp, r.key, r.value, r.headers) for r in records]
        for partition, records in java_records(cluster.bootstrap, topic).items()
    }


def through_mm2(pair: Pair, properties: dict[str, str], counts: dict[str, int]) -> None:
    """Runs MirrorMaker 2 until each topic of the target has so many records."""
    with MirrorMaker(properties, name=f"connect-{pair.mark}") as mm2:

        def is_done() -> bool:
            mm2.check()
            return all(sum(log_ends(pair.backup, topic).values()) >= count for topic, count in counts.items())

        try:
            await_true(is_done, MM2_SECONDS, str(counts))
        except AssertionError as error:
            errors = [line for line in mm2.log_file.read_text(errors="replace").splitlines() if "Exception" in line]
            raise AssertionError(f"{error}\n" + "\n".join(errors[-20:])) from error
        mm2.stop()


ALL_COLUMNS = {"topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers"}


@pytest.mark.parametrize(
    ("sql", "kept", "read"),
    [
        ("select * from records", ALL_COLUMNS, set()),
        ("select * from records where length(key) > 2", ALL_COLUMNS, {"key"}),
        ("select * except (value), json_mask(value, '$.a') as value from records", ALL_COLUMNS - {"value"}, {"value"}),
        ("select * except (value), key as value from records", ALL_COLUMNS - {"value"}, {"key"}),
        ("select * except (topic), concat(topic, '-', partition) as topic from records", ALL_COLUMNS - {"topic"},
         {"topic", "partition"}),
        ("select * except (key, value), value as key, key as value from records", ALL_COLUMNS - {"key", "value"},
         {"key", "value"}),
        ("select * except (offset), offset + 0L as offset from records", ALL_COLUMNS - {"offset"}, {"offset"}),
        ("select r.* from (select * from records where value is not null) r where header(headers, 'x') is null", ALL_COLUMNS,
         {"value", "headers"}),
    ],
)  # fmt: skip
def test_spark_is_given_only_what_a_transform_looks_at(session: Any, sql: str, kept: set[str], read: set[str]) -> None:
    rows = session.createDataFrame([], SCHEMA)
    out = transformed(session, rows, [TransformSettings("t", (), sql, "", 0)], where="file", folder="")
    assert use_of(rows, out) == Use(frozenset(kept), frozenset(read))


MASK = "select * except (value), json_mask(value, '$.a') as value from records"
MASKED = Change("value", "value", (("json_mask", "$.a"),))


@pytest.mark.parametrize(
    ("sql", "read", "changes"),
    [
        (MASK, set(), [MASKED]),
        (f"{MASK} where length(key) > 2", {"key"}, [MASKED]),
        (f"{MASK} where value is not null", {"value"}, [MASKED]),
        # Two functions, in the order in which they are called; and two columns.
        ("select * except (key, value), hash_keyed(key, 'env:K') as key, "
         "json_set(json_mask(value, '$.a'), '$.b', '1') as value from records", set(),
         [Change("key", "key", (("hash_keyed", "env:K"),)),
          Change("value", "value", (("json_mask", "$.a"), ("json_set", "$.b", "1")))]),
        ("select * except (value), json_mask(value, '$.b') as value from (select * except (value), json_mask(value, '$.a') "
         "as value from records)", set(), [Change("value", "value", (("json_mask", "$.a"), ("json_mask", "$.b")))]),
        ("select * except (headers), drop_header(headers, 'x') as headers from records", set(),
         [Change("headers", "headers", (("drop_header", "x"),))]),
        # Somebody looks at the result, something else than a text is given, or another function has a hand in it.
        ("select * from (select * except (value), json_mask(value, '$.a') as value from records) where length(value) > 3",
         {"value"}, [MASKED]),
        ("select * except (value), json_mask(value, concat('$.', string(key))) as value from records", {"key", "value"}, []),
        ("select * except (value), json_mask(value, string(null)) as value from records", {"value"}, []),
        ("select * except (value), json_mask(upper(string(value)), '$.a') as value from records", {"value"}, []),
        ("select * except (value), upper(json_mask(value, '$.a')) as value from records", {"value"}, []),
        ("select * except (headers), set_header(headers, 'x', value) as headers from records", {"headers", "value"}, []),
    ],
)  # fmt: skip
def test_what_only_our_own_functions_change_is_left_to_the_writer(
    session: Any, sql: str, read: set[str], changes: list[Change]
) -> None:
    ours = register_functions(session)
    rows = session.createDataFrame([], SCHEMA)
    out = transformed(session, rows, [TransformSettings("t", (), sql, "", 0)], where="file", folder="")
    found = use_of(rows, out, ours)
    assert (found.read, sorted(found.changes, key=lambda change: change.column)) == (read, changes)


def test_a_function_of_the_users_own_with_the_name_of_ours_is_called_by_spark(session: Any) -> None:
    def json_mask(values: pa.Array, paths: pa.Array) -> pa.Array:
        return values.cast(pa.string())

    ours = register_functions(session)
    rows = session.createDataFrame([], SCHEMA)
    own = arrow_udf(json_mask, "string")
    out = rows.withColumn("value", own(F.col("value"), F.lit("$.a")))
    assert use_of(rows, out, ours).changes == ()
    assert use_of(rows, out, ours).read == {"value"}


def test_what_may_do_anything_is_given_everything(session: Any) -> None:
    rows = session.createDataFrame([], SCHEMA)
    assert use_of(rows, rows.distinct()) == Use(frozenset(), frozenset(ALL_COLUMNS))


@pytest.mark.nightly
@pytest.mark.parametrize("literal", ["null", LITERAL])
def test_mirrormaker_2_makes_the_same_records_of_a_chain(
    session: Any, source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path, literal: str
) -> None:
    """With its own converter of headers MirrorMaker 2 can only insert null; a text needs another one, which encodes all
    other headers anew."""
    pair = Pair(source_cluster, target_cluster, tmp_path)
    more = chain_properties(pair, literal)
    file = pair.write(more)
    produce_for_chain(pair)
    ours = {number: rows_through_file(session, pair, file, number) for number in (1, 2, 3)}
    assert {row.topic for number, parts in ours.items() for rows in parts.values() for row in rows} == {
        moved(pair, number) for number in (1, 2, 3)
    }
    simple = {f"{pair.flow}.header.converter": "org.apache.kafka.connect.storage.SimpleHeaderConverter"}
    counts = {moved(pair, number): sum(len(rows) for rows in parts.values()) for number, parts in ours.items()}
    through_mm2(pair, pair.settings(more | (simple if literal != "null" else {})), counts)
    for number, parts in ours.items():
        wanted = {
            partition: [(r.timestamp, r.key, r.value, headers_of_mm2(r.headers, literal)) for r in rows]
            for partition, rows in parts.items()
        }
        assert copied(target_cluster, moved(pair, number)) == wanted
    assert sum(log_ends(target_cluster, pair.remote(1)).values()) == 0
    assert heartbeat_headers(pair) == {(("origin", None if literal == "null" else literal.encode()),)}


def heartbeat_headers(pair: Pair) -> set[Any]:
    """Headers of the heartbeats of the flow: MirrorMaker 2 sends its own records through the chain too."""
    [beats] = java_records(pair.backup.bootstrap, "heartbeats").values()
    return {beat.headers for beat in beats if beat.key is not None and pair.source.encode() in beat.key}


def headers_of_mm2(headers: tuple[tuple[str, bytes | None], ...], literal: str) -> tuple[tuple[str, bytes | None], ...]:
    """Our headers as MirrorMaker 2 writes them: its converter for texts makes base64 of all that came from the source."""
    if literal == "null":
        return headers
    return (*((name, None if old is None else base64.b64encode(old)) for name, old in headers[:-1]), headers[-1])


@pytest.mark.nightly
def test_mirrormaker_2_stops_at_a_header_with_text(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """Which is why ours cannot be compared with it: its ByteArrayConverter takes bytes alone."""
    pair = Pair(source_cluster, target_cluster, tmp_path)
    produce_for_chain(pair)
    with MirrorMaker(pair.settings(chain_properties(pair, LITERAL)), name=f"connect-{pair.mark}") as mm2:
        told = "Invalid schema type for ByteArrayConverter: STRING"
        log = mm2.log_file
        await_true(lambda: log.exists() and told in log.read_text(errors="replace"), MM2_SECONDS, told)


SIMPLE = "org.apache.kafka.connect.storage.SimpleHeaderConverter"


@pytest.mark.nightly
def test_the_same_file_copies_the_same_records_here(
    source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path
) -> None:
    """RegexRouter, Filter with predicates and InsertHeader, each program on a pair of its own with the same records."""
    pairs = [Pair(source_cluster, target_cluster, tmp_path) for _ in range(2)]
    files = []
    for pair in pairs:
        produce_for_chain(pair)
        files.append(chain_properties(pair, LITERAL) | {f"{pair.flow}.header.converter": SIMPLE})
    theirs, ours = pairs
    done = run_once(ours.write(files[1]))
    assert done.status == 0, done.output
    counts = {moved(theirs, n): sum(log_ends(target_cluster, moved(ours, n)).values()) for n in (1, 2, 3)}
    assert all(counts.values())
    through_mm2(theirs, theirs.settings(files[0]), counts)
    for number in (1, 2, 3):
        assert copied(target_cluster, moved(ours, number)) == copied(target_cluster, moved(theirs, number))
