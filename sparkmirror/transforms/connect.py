"""Connect's own transforms as Spark expressions: what Kafka 4.3.1 does to a record, done to a row.

Topics, headers, timestamps and predicates are expressions of Spark alone. The fields of JSON keys and values pass through
Python, which changes their text where it must and nowhere else. Spark may call a Python function for rows that a condition
around it leaves out, so that the condition goes into the function: a record that a transform is not for is never read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf

from sparkmirror.config import ConnectPredicate, ConnectTransform
from sparkmirror.config.connect_options import date_parts, field_path, header_value, rename_pairs
from sparkmirror.config.parsing import split_list
from sparkmirror.datasource.functions import HEADERS
from sparkmirror.transforms import json_fields

DAY_MS = 86_400_000
QUOTATION = re.compile(r"\\Q.*?(\\E|\Z)|\\.", re.DOTALL)
# Fields of InsertField and the columns they are filled from, in the order in which Kafka fills them.
METADATA = {"topic.field": "topic", "partition.field": "partition", "offset.field": "offset", "timestamp.field": "timestamp"}

# The text of a key or a value, and what becomes of it; None is none.
Change = Callable[[str | None], str | None]


def connected(rows: DataFrame, transforms: Sequence[ConnectTransform]) -> DataFrame:
    """The rows after the chain; `topic` is that of the target, as Connect's transforms see it. None or one row for each.

    A key or value that a transform cannot change fails the query with a message that begins `transforms.NAME (TYPE): `.
    """
    for transform in transforms:
        applies = _applies(transform.predicate, negate=transform.negate)
        rows = _COMPILED[transform.type.partition("$")[0]](rows, transform, applies)
    return rows


def _applies(predicate: ConnectPredicate | None, *, negate: bool) -> Column:
    if predicate is None:
        return F.lit(True)
    match predicate.type:
        case "TopicNameMatches":
            found = F.col("topic").rlike(_whole(predicate.options["pattern"]))
        case "HasHeaderKey":
            found = F.exists("headers", lambda header: header["key"] == F.lit(predicate.options["name"]))
        case _:
            found = F.col("value").isNull()
    found = F.coalesce(found, F.lit(False))
    return ~found if negate else found


def _first(regex: str) -> str:
    """Java's replaceFirst on a name that the whole regex matches: the first match of it then begins at the start."""
    return rf"\A(?:{regex}{_unquoting(regex)})"


def _whole(regex: str) -> str:
    """Java's matches()."""
    return rf"{_first(regex)}\z"


def _unquoting(regex: str) -> str:
    """The end of a quotation that the regex leaves open, which would otherwise include what is appended to it."""
    is_open = any(token[0].startswith(r"\Q") and not token[1] for token in QUOTATION.finditer(regex))
    return r"\E" if is_open else ""


def _filter(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    return rows.where(~applies)


def _regex_router(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    regex, replacement = transform.options["regex"], transform.options["replacement"]
    topic = F.col("topic")
    routed = F.regexp_replace(topic, _first(regex), replacement)
    return rows.withColumn("topic", F.when(applies & topic.rlike(_whole(regex)), routed).otherwise(topic))


def _timestamp_router(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    topic = F.col("topic")
    named = F.replace(F.lit(transform.options["topic.format"]), F.lit("${topic}"), topic)
    stamped = F.replace(named, F.lit("${timestamp}"), _formatted(F.col("timestamp"), transform.options["timestamp.format"]))
    return rows.withColumn("topic", F.when(applies, stamped).otherwise(topic))


def _formatted(ms: Column, pattern: str) -> Column:
    """SimpleDateFormat in UTC. Spark's own formatting has other letters and the time zone of the session."""
    of_day = F.pmod(ms, F.lit(DAY_MS).cast("bigint"))
    date = F.date_from_unix_date(_div(ms - of_day, DAY_MS).cast("int"))
    parts = [
        _padded(_date_number(text, date, of_day), text, count) if count else F.lit(text)
        for text, count in date_parts(pattern)
    ]
    return F.concat(F.lit(""), *parts)


def _padded(number: Column, letter: str, count: int) -> Column:
    """At least so many digits; a year of two letters has two digits."""
    shown = F.pmod(number, F.lit(100)) if (letter, count) == ("y", 2) else number
    return F.format_string(f"%0{count}d", shown.cast("bigint"))


def _date_number(letter: str, date: Column, of_day: Column) -> Column:
    hour = _div(of_day, 3_600_000)
    match letter:
        case "y":
            return F.year(date)
        case "M" | "L":
            return F.month(date)
        case "d":
            return F.dayofmonth(date)
        case "D":
            return F.dayofyear(date)
        case "F":
            return _div(F.dayofmonth(date) - 1, 7) + 1
        case "u":
            return F.weekday(date) + 1
        case "H":
            return hour
        case "k":
            return F.pmod(hour - 1, F.lit(24)) + 1
        case "K":
            return F.pmod(hour, F.lit(12))
        case "h":
            return F.pmod(hour - 1, F.lit(12)) + 1
        case "m":
            return F.pmod(_div(of_day, 60_000), F.lit(60))
        case "s":
            return F.pmod(_div(of_day, 1_000), F.lit(60))
        case _:
            return F.pmod(of_day, F.lit(1_000))


def _div(number: Column, by: int) -> Column:
    return F.call_function("div", number, F.lit(by))


def _insert_header(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    value = F.lit(header_value(transform.options["value.literal"])).cast("binary")
    added = F.array(F.struct(F.lit(transform.options["header"]).alias("key"), value.alias("value")))
    return _with_headers(rows, applies, F.concat(_headers(), added))


def _drop_headers(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    names = list(split_list(transform.options["headers"]))
    return _with_headers(rows, applies, F.filter(_headers(), lambda header: ~header["key"].isin(names)))


def _headers() -> Column:
    return F.coalesce(F.col("headers"), F.array().cast(HEADERS))


def _with_headers(rows: DataFrame, applies: Column, headers: Column) -> DataFrame:
    return rows.withColumn("headers", F.when(applies, headers.cast(HEADERS)).otherwise(F.col("headers")))


def _side(transform: ConnectTransform) -> str:
    return "key" if transform.type.endswith("$Key") else "value"


def _hoist_field(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    change = partial(json_fields.hoisted, field=transform.options["field"])
    return _with_change(rows, transform, applies, change)


def _extract_field(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    path = field_path(transform.options["field"], transform.options["field.syntax.version"])
    return _with_change(rows, transform, applies, partial(json_fields.extracted, path=path))


def _mask_field(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    fields, replacement = split_list(transform.options["fields"]), transform.options.get("replacement")
    change = partial(json_fields.fields_masked, fields=tuple(dict.fromkeys(fields)), replacement=replacement)
    return _with_change(rows, transform, applies, change)


def _replace_field(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    lists = {name: split_list(transform.options[name]) for name in ("exclude", "include", "renames")}
    change = partial(
        json_fields.fields_replaced,
        exclude=lists["exclude"],
        include=lists["include"],
        renames=rename_pairs(lists["renames"]),
    )
    return _with_change(rows, transform, applies, change)


def _value_to_key(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    change = partial(json_fields.picked, fields=split_list(transform.options["fields"]))
    made = _changing(_called(transform, "value"), change)(F.col("value"), applies)
    return rows.withColumn("key", F.when(applies, made).otherwise(F.col("key")))


def _insert_field(rows: DataFrame, transform: ConnectTransform, applies: Column) -> DataFrame:
    options, side = transform.options, _side(transform)
    # `!` and `?` say whether a schema must have the field; JSON without schemas has no such thing.
    names = [(_bare(options[option]), column) for option, column in METADATA.items() if option in options]
    constants = [(_bare(options["static.field"]), options["static.value"])] if "static.field" in options else []
    metadata = F.struct(*[F.col(column).alias(f"f{at}") for at, (_, column) in enumerate(names)], F.lit(0).alias("end"))
    udf = _inserting(_called(transform, side), [name for name, _ in names], constants)
    return rows.withColumn(side, F.when(applies, udf(F.col(side), applies, metadata)).otherwise(F.col(side)))


def _bare(name: str) -> str:
    return name[:-1] if name.endswith(("!", "?")) else name


def _called(transform: ConnectTransform, side: str) -> str:
    return f"transforms.{transform.name} ({transform.type}): the {side}"


def _with_change(rows: DataFrame, transform: ConnectTransform, applies: Column, change: Change) -> DataFrame:
    side = _side(transform)
    made = _changing(_called(transform, side), change)(F.col(side), applies)
    return rows.withColumn(side, F.when(applies, made).otherwise(F.col(side)))


def _changing(called: str, change: Change) -> Any:
    """A function of Spark: contents after the change, nothing where it does not apply."""

    def changed(contents: pa.Array, applies: pa.Array) -> pa.Array:
        pairs = zip(contents.cast(pa.binary()).to_pylist(), applies.to_pylist(), strict=True)
        return pa.array([_one(called, change, content) if use else None for content, use in pairs], pa.binary())

    return arrow_udf(changed, "binary")


def _inserting(called: str, names: Sequence[str], constants: Sequence[tuple[str, str]]) -> Any:
    """A function of Spark: contents with metadata of their records; what a record has not is not put in."""

    def changed(contents: pa.Array, applies: pa.Array, metadata: pa.Array) -> pa.Array:
        columns = [metadata.field(at).to_pylist() for at in range(len(names))]
        out: list[bytes | None] = []
        for at, (content, use) in enumerate(zip(contents.cast(pa.binary()).to_pylist(), applies.to_pylist(), strict=True)):
            found = [(name, column[at]) for name, column in zip(names, columns, strict=True) if column[at] is not None]
            change = partial(json_fields.inserted, values=[*found, *constants])
            out.append(_one(called, change, content) if use else None)
        return pa.array(out, pa.binary())

    return arrow_udf(changed, "binary")


def _one(called: str, change: Change, content: bytes | None) -> bytes | None:
    try:
        made = change(None if content is None else content.decode())
        return None if made is None else made.encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{called} is no text in UTF-8: {error.reason} at byte {error.start}") from error
    except ValueError as error:
        raise ValueError(f"{called} {error}") from error


_Compiled = Callable[[DataFrame, ConnectTransform, Column], DataFrame]
_COMPILED: dict[str, _Compiled] = {
    "DropHeaders": _drop_headers,
    "ExtractField": _extract_field,
    "Filter": _filter,
    "HoistField": _hoist_field,
    "InsertField": _insert_field,
    "InsertHeader": _insert_header,
    "MaskField": _mask_field,
    "RegexRouter": _regex_router,
    "ReplaceField": _replace_field,
    "TimestampRouter": _timestamp_router,
    "ValueToKey": _value_to_key,
}
