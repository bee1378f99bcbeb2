"""Transforms as plans: what the user wrote, compiled and judged before a record passes through it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from sparkmirror.config import TransformSettings
from sparkmirror.datasource.arrow import unfit_columns
from sparkmirror.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VIEW = "records"
# A record is known by its offset, whatever becomes of it; what else is missing was left out by mistake more often than not.
KEPT = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
# Each partition is read, changed and written by one task, in its order: nothing may bring rows of several together.
REFUSED = {
    "Aggregate": "an aggregation",
    "Deduplicate": "a deduplication",
    "Distinct": "a distinct",
    "Except": "an except",
    "Generate": "an explode, which makes several records of one",
    "GlobalLimit": "a limit",
    "Intersect": "an intersect",
    "Join": "a join",
    "LocalLimit": "a limit",
    "Offset": "an offset clause",
    "RebalancePartitions": "a repartition",
    "Repartition": "a repartition",
    "RepartitionByExpression": "a repartition",
    "Sample": "a sample",
    "Sort": "a sort",
    "Union": "a union",
    "Window": "a window function",
}


def transformed(
    session: SparkSession, rows: DataFrame, transforms: Sequence[TransformSettings], *, where: str, folder: str
) -> DataFrame:
    """The rows after the transforms, one after the other; raises `ConfigInvalid` for one that cannot be used.

    `where` is the file and the flow, for messages; `folder` is where modules of functions are looked for too.
    """
    for transform in transforms:
        called = _called(transform)
        if transform.sql:
            out = _by_sql(session, rows, transform.sql, where, called)
        else:
            out = _by_function(rows, transform.function, where, called, folder)
        problems = [*_column_problems(out), *_plan_problems(rows, out)]
        if problems:
            raise ConfigInvalid(where, [f"{called}: {problem}" for problem in problems])
        rows = out
    return rows


def _called(transform: TransformSettings) -> str:
    """The key, or the option of the command line, that the user wrote."""
    part = "sql" if transform.sql else "function"
    return transform.name if transform.name.startswith("-") else f"transform.{transform.name}.{part}"


def _by_sql(session: SparkSession, rows: DataFrame, sql: str, where: str, called: str) -> DataFrame:
    rows.createOrReplaceTempView(VIEW)
    try:
        return session.sql(sql)
    except PySparkException as error:
        raise ConfigInvalid(where, [f"{called}: {_first_line(error)}"]) from error
    finally:
        session.catalog.dropTempView(VIEW)


def _by_function(rows: DataFrame, function: str, where: str, called: str, folder: str) -> DataFrame:
    module, _, name = function.partition(":")
    try:
        with _importable(folder):
            made = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise ConfigInvalid(where, [f"{called}: {function} cannot be imported: {error}"]) from error
    try:
        out = made(rows)
    except Exception as error:  # border to the user's own code: whatever it raises is reported with its name
        text = _first_line(error) or type(error).__name__
        raise ConfigInvalid(where, [f"{called}: {function} raised {type(error).__name__}: {text}"]) from error
    if not isinstance(out, DataFrame):
        found = type(out).__name__
        raise ConfigInvalid(where, [f"{called}: {function} returned {found}, expected a DataFrame"])
    return out


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder or ".")
    try:
        yield
    finally:
        sys.path.remove(folder or ".")


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else ""


def _column_problems(out: DataFrame) -> Iterator[str]:
    fields = [(field.name, field.dataType.simpleString()) for field in out.schema.fields]
    names = [name for name, _ in fields]
    missing = [name for name in KEPT if name not in names]
    if missing:
        yield (
            f"the output has no column {', '.join(missing)}; expected {', '.join(KEPT)} "
            "(write `select * except (value), … as value from records`)"
        )
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        yield f"the output has two columns {', '.join(twice)} (write `select * except ({', '.join(twice)}), …`)"
    if not missing and not twice:
        yield from unfit_columns(fields)


def _plan_problems(rows: DataFrame, out: DataFrame) -> Iterator[str]:
    plan, inputs = out._jdf.queryExecution().analyzed(), rows._jdf.queryExecution().analyzed()
    found = {name for name in _operators(plan) if name in REFUSED} - {name for name in _operators(inputs) if name in REFUSED}
    for name in sorted(found):
        yield f"has {REFUSED[name]}; a record may be left out, changed or sent elsewhere, each one alone"
    if plan.subqueriesAll().size():
        yield "has a subquery; a record may be left out, changed or sent elsewhere, each one alone"
    if not plan.deterministic():
        yield "gives another result each time (rand, uuid or the like); after a crash the same records must come out again"


def _operators(plan: Any) -> Iterator[str]:
    yield str(plan.nodeName())
    children = plan.children()
    for at in range(children.size()):
        yield from _operators(children.apply(at))
