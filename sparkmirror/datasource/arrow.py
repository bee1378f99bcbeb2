"""Columns of records as Arrow's, and back. Spark passes both without touching a row."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from sparkmirror.wire import Columns, Headers

# The table's columns as Spark's data definition language writes them; timestamps in ms, as Kafka keeps them: every value
# that Kafka can hold, which a TIMESTAMP of microseconds cannot.
KINDS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "bigint",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
}
NAMES = tuple(KINDS)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# What a column that is written may be; whoever reads rows and writes them again may leave the other two in.
WRITTEN = {
    "topic": ("string",),
    "partition": ("int", "bigint", "smallint", "tinyint"),
    "timestamp": ("bigint", "timestamp"),
    "key": ("binary", "string"),
    "value": ("binary", "string"),
    "headers": ("array<struct<key:string,value:binary>>",),
}
IGNORED = ("offset", "timestamp_type")
NO_HEADERS: Headers = ()


def schema_of(names: Sequence[str]) -> str:
    """These columns, as a table has them."""
    return ", ".join(f"{name} {KINDS[name]}" for name in names)


SCHEMA = schema_of(NAMES)


def to_arrow(
    columns: Columns, topic: str, partition: int, timestamp_type: int, names: Sequence[str] = NAMES
) -> pa.RecordBatch:
    """One batch of rows, all of one partition; these columns of them."""
    count = len(columns)
    made: dict[str, Callable[[], pa.Array]] = {
        "topic": lambda: pa.repeat(pa.scalar(topic, pa.string()), count),
        "partition": lambda: pa.repeat(pa.scalar(partition, pa.int32()), count),
        "offset": lambda: pa.array(columns.offsets, pa.int64()),
        "timestamp": lambda: pa.array(columns.timestamps, pa.int64()),
        "timestamp_type": lambda: pa.repeat(pa.scalar(timestamp_type, pa.int32()), count),
        "key": lambda: pa.array(columns.keys, pa.binary()),
        "value": lambda: pa.array(columns.values, pa.binary()),
        "headers": lambda: headers_to_arrow(columns.headers),
    }
    return pa.RecordBatch.from_arrays([made[name]() for name in names], list(names))


def headers_to_arrow(headers: Sequence[Headers]) -> pa.Array:
    """A column of headers."""
    if not any(headers):
        empty = pa.array([], HEADERS.value_type)
        return pa.ListArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), len(headers) + 1), empty)
    ends, names, values = [0], list[bytes](), list[bytes | None]()
    for entries in headers:
        for name, value in entries:
            names.append(name)
            values.append(value)
        ends.append(len(names))
    # A name need not be text: Spark carries the bytes of a string as they are, and so does this cast.
    texts = pa.array(names, pa.binary()).cast(pa.string(), safe=False)
    pairs = pa.StructArray.from_arrays([texts, pa.array(values, pa.binary())], ["key", "value"])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs)


def unfit_columns(fields: Sequence[tuple[str, str]]) -> Iterator[str]:
    """What is wrong with the columns (name, type) of rows that are to be written."""
    for name, kind in fields:
        if name not in WRITTEN and name not in IGNORED:
            yield f"column {name}: is not a part of a record; expected {', '.join(WRITTEN)}"
        elif name in WRITTEN and kind not in WRITTEN[name]:
            yield f"column {name}: expected {' or '.join(WRITTEN[name])}, found {kind}"
    if not {"key", "value"} & {name for name, _ in fields}:
        yield "expected a column value or key, found neither"


def from_arrow(batch: pa.RecordBatch) -> tuple[Columns, list[str | None], list[int | None]]:
    """The records of rows, their topics and their partitions; both None where the rows have no such column."""
    given = dict(zip(batch.schema.names, batch.columns, strict=True))
    count = batch.num_rows
    nothing: list[Any] = [None] * count
    columns = Columns(
        offsets=list(range(count)),
        timestamps=_timestamps(given.get("timestamp"), count),
        keys=_bytes(given["key"]) if "key" in given else nothing,
        values=_bytes(given["value"]) if "value" in given else nothing,
        headers=headers_from_arrow(given.get("headers"), count),
    )
    topics = given["topic"].to_pylist() if "topic" in given else nothing
    partitions = given["partition"].to_pylist() if "partition" in given else nothing
    return columns, topics, partitions


def _bytes(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _timestamps(column: pa.Array | None, count: int) -> list[int]:
    now_ms = int(time.time() * 1000)
    if column is None:
        return [now_ms] * count
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    found: list[int] = column.cast(pa.int64()).fill_null(now_ms).to_pylist()
    return found


def headers_from_arrow(column: pa.Array | None, count: int) -> list[Headers]:
    """The headers of so many rows; none where the column, or an entry of it, is null."""
    if column is None or column.null_count == count:
        return [NO_HEADERS] * count
    pairs: Any = column.flatten()
    if not len(pairs):
        return [NO_HEADERS] * count
    entries = [(name or b"", value) for name, value in zip(_bytes(pairs.field(0)), _bytes(pairs.field(1)), strict=True)]
    found: list[Headers] = []
    at = 0
    for length in column.value_lengths().fill_null(0).to_pylist():
        found.append(entries[at : at + length] if length else NO_HEADERS)
        at += length
    return found
