"""Functions for transforms, by name in SQL: headers, masks and keyed hashes. `mask` for texts is Spark's own."""

from __future__ import annotations

import functools
import hashlib
import hmac
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.functions import arrow_udf

from sparkmirror.datasource.arrow import headers_from_arrow, headers_to_arrow
from sparkmirror.datasource.json_text import json_path, masked, replaced
from sparkmirror.errors import ConfigError
from sparkmirror.wire import Headers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HEADERS = "array<struct<key: string, value: binary>>"
# Written in SQL, it becomes part of the plan: no row passes Python. The last header of a name counts, as in Kafka's client.
# (Spark does not nest functions in SQL that have lambdas, so that only this one is written so.)
HEADER = (
    f"create or replace temporary function header(headers {HEADERS}, name string) returns binary return "
    "try_element_at(reverse(headers), nullif(int(array_position(reverse(headers.key), name)), 0)).value"
)


def register_functions(session: SparkSession, wanted: str | None = None) -> dict[str, Any]:
    """Makes the functions available in the SQL of a session; only those that this text names, if there is one.

    Returns those that are Python's as Spark keeps them, by name.
    """
    if wanted is None or "header" in wanted.lower():
        session.sql(HEADER)
    found = {}
    for name, (function, kind) in _functions().items():
        if wanted is None or name in wanted.lower():
            registered: Any = session.udf.register(name, arrow_udf(function, kind))
            found[name] = registered._judf
    return found


def changed(steps: Sequence[Sequence[str]], column: Sequence[Any], name: str) -> list[Any]:
    """What functions make of a part of records, each a name and its texts, as if Spark had called them."""
    found = headers_to_arrow(column) if name == "headers" else pa.array(column, pa.binary())
    for function, *texts in steps:
        found = _functions()[function][0](found, *(pa.repeat(pa.scalar(text, pa.string()), len(found)) for text in texts))
    made: list[Any] = headers_from_arrow(found, len(found)) if name == "headers" else found.cast(pa.binary()).to_pylist()
    return made


def _functions() -> dict[str, tuple[Callable[..., pa.Array], str]]:
    """What a transform may call by name, and what kind of column comes of it."""
    return {
        "json_mask": (json_mask, "string"),
        "json_set": (json_set, "string"),
        "hash_keyed": (hash_keyed, "string"),
        "set_header": (set_header, HEADERS),
        "drop_header": (drop_header, HEADERS),
    }


def set_header(headers: pa.Array, names: pa.Array, values: pa.Array) -> pa.Array:
    """`set_header(headers, 'origin', value)`: one header of that name, at the end."""
    rows = zip(_without(headers, names), _names(names), _bytes(values), strict=True)
    return headers_to_arrow([[*kept, (name, value)] for kept, name, value in rows])


def drop_header(headers: pa.Array, names: pa.Array) -> pa.Array:
    """`drop_header(headers, 'origin')`: no header of that name."""
    return headers_to_arrow(_without(headers, names))


def _without(headers: pa.Array, names: pa.Array) -> list[Headers]:
    rows = zip(headers_from_arrow(headers, len(headers)), _names(names), strict=True)
    return [[entry for entry in entries if entry[0] != name] if entries else entries for entries, name in rows]


def _names(column: pa.Array) -> list[bytes]:
    return [name or b"" for name in _bytes(column)]


def json_mask(values: pa.Array, paths: pa.Array) -> pa.Array:
    """`json_mask(value, '$.card.number')`: the value with what lies there made unreadable."""
    pairs = zip(_bytes(values), _texts(paths), strict=True)
    return _column([None if text is None or path is None else masked(text, _path(path)) for text, path in pairs])


def json_set(values: pa.Array, paths: pa.Array, news: pa.Array) -> pa.Array:
    """`json_set(value, '$.state', '"gone"')`: the value with this JSON in its place."""
    rows = zip(_bytes(values), _texts(paths), _bytes(news), strict=True)
    return _column(
        [
            None if text is None or path is None or new is None else replaced(text, _path(path), new)
            for text, path, new in rows
        ]
    )


def hash_keyed(values: pa.Array, references: pa.Array) -> pa.Array:
    """`hash_keyed(value, 'file:/run/secrets/key')`: HMAC-SHA256 in hex; the key is read where it is used."""
    found = zip(_bytes(values), _texts(references), strict=True)
    return pa.array(
        [
            None if value is None or reference is None else hmac.new(_secret(reference), value, hashlib.sha256).hexdigest()
            for value, reference in found
        ],
        pa.string(),
    )


def _column(texts: Sequence[bytes | None]) -> pa.Array:
    return pa.array(texts, pa.binary()).cast(pa.string())


def _bytes(column: pa.Array) -> list[bytes | None]:
    found: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return found


def _texts(column: pa.Array) -> list[str | None]:
    found: list[str | None] = column.cast(pa.string()).to_pylist()
    return found


@functools.lru_cache(maxsize=1024)
def _path(text: str) -> tuple[str | int, ...]:
    return json_path(text)


@functools.lru_cache(maxsize=64)
def _secret(reference: str) -> bytes:
    """`file:PATH` or `env:NAME`: a secret in the SQL itself would appear in Spark's plan."""
    kind, _, name = reference.partition(":")
    if kind == "file" and name:
        return Path(name).read_bytes().strip()
    if kind == "env" and os.environ.get(name):
        return os.environ[name].encode()
    raise ConfigError(
        f"hash_keyed: expected file:PATH of a readable file or env:NAME of a variable that is set, found {reference!r}"
    )
