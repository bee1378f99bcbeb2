"""What becomes of the rows of one branch: the flow's own transforms, then Connect's, then the writer's columns."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.functions import arrow_udf

from sparkmirror.config import FlowSettings, TransformSettings
from sparkmirror.datasource.arrow import KINDS, NAMES
from sparkmirror.topology import policy_for
from sparkmirror.transforms.connect import connected
from sparkmirror.transforms.orders import QueryOrder, flow_of
from sparkmirror.transforms.transforming import transformed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CAST = {"topic": "string", "partition": "int", "offset": "bigint", "key": "binary", "value": "binary"}


def shaped(
    session: SparkSession,
    rows: DataFrame,
    flow: FlowSettings,
    order: QueryOrder,
    transforms: Sequence[TransformSettings],
) -> DataFrame:
    """The rows after their transforms; raises `ConfigInvalid` for one that cannot be used."""
    where = f"{order.settings.path}: {flow.name}"
    rows = transformed(session, rows, transforms, where=where, folder=flow.folder)
    if flow.connect_transforms:
        # Connect's transforms see the name of the topic on the target, and headers as the converter will write them.
        rows = rows.withColumn("topic", _remote_names(order)(F.col("topic")))
        if flow.has_simple_headers:
            rows = rows.withColumn("headers", F.transform("headers", _in_base64))
        rows = connected(rows, flow.connect_transforms)
    return rows


def as_written(rows: DataFrame, kept: Collection[str]) -> DataFrame:
    """The writer's columns, without those that it has itself."""
    cast = [F.col(name).cast(kind).alias(name) for name, kind in CAST.items() if name not in kept]
    return rows.select(*cast, *(F.col(name) for name in ("timestamp", "headers") if name not in kept))


def filled_up(rows: DataFrame) -> DataFrame:
    """Rows with all columns of a record: those that no transform uses are null."""
    there = set(rows.columns)
    return rows.select(
        *(F.col(name) if name in there else F.lit(None).cast(KINDS[name]).alias(name) for name in NAMES)
    )


def _in_base64(header: F.Column) -> F.Column:
    return F.struct(header["key"].alias("key"), F.base64(header["value"]).cast("binary").alias("value"))


def _remote_names(order: QueryOrder) -> F.Column:
    """Names on the target, by the flow's policy."""

    def named(topics: pa.Array) -> pa.Array:
        policy = policy_for(flow_of(order))
        found = topics.dictionary_encode()
        names = [policy.format_remote_topic(order.source, name) for name in found.dictionary.to_pylist()]
        return pa.DictionaryArray.from_arrays(found.indices, pa.array(names, pa.string())).cast(pa.string())

    return arrow_udf(named, "string")
