"""What transforms would do to the newest records of a topic; nothing is written."""

from __future__ import annotations

import logging
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, list_offsets
from sparkmirror.config import FlowSettings, SentSettings, Settings, TransformSettings
from sparkmirror.datasource.registering import register
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import TopicPartition
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.topology import policy_for
from sparkmirror.transforms.orders import QueryOrder
from sparkmirror.transforms.shaping import as_written, shaped


@dataclass(frozen=True, slots=True)
class Shown:
    """A record as it is shown."""

    topic: str
    partition: int | None
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class TriedRecord:
    """One record before and after; `after` is none if it would be left out."""

    offset: int
    before: Shown
    after: Shown | None


@dataclass(frozen=True, slots=True)
class Trial:
    """What was tried and what came of it."""

    names: tuple[str, ...]
    records: tuple[TriedRecord, ...]
    plan: str


def try_transforms(
    settings: Settings, flow: FlowSettings, transforms: tuple[TransformSettings, ...], topic: str, limit: int
) -> Trial:
    """Runs the transforms on the newest records, on a Spark of its own in this process."""
    logging.getLogger("SQLQueryContextLogger").disabled = True  # Spark's second, longer word about a mistake in SQL
    ranges = _newest(flow, topic, limit)
    spark = SparkSlots(master="local[1]", conf={"spark.sql.shuffle.partitions": "1"}, slots=1)
    try:
        session = SparkSession(spark.wait())
        register(session)
        return _tried(session, settings, flow, transforms, topic, ranges)
    finally:
        spark.stop()


def _newest(flow: FlowSettings, topic: str, limit: int) -> dict[TopicPartition, tuple[int, int]]:
    """The last offsets of each partition, so many in all."""
    with closing(ClusterClient(flow.source)) as client:
        found = client.view([topic]).topics.get(topic)
        if found is None or found.error:
            text = f"cluster {flow.source.alias} has no topic {topic}, or {client.who} may not describe it"
            raise ConfigInvalid(str(flow.name), [f"--topic: {text}"])
        partitions = [TopicPartition(topic, index) for index in sorted(found.leaders)]
        starts = list_offsets(client, partitions, timestamp=EARLIEST)
        ends = list_offsets(client, partitions, timestamp=LATEST)
    filled = [p for p in partitions if starts[p][0] < ends[p][0]][:limit]
    share = max(limit // max(len(filled), 1), 1)
    return {p: (max(starts[p][0], ends[p][0] - share), ends[p][0]) for p in filled}


def _tried(
    session: SparkSession,
    settings: Settings,
    flow: FlowSettings,
    transforms: tuple[TransformSettings, ...],
    topic: str,
    ranges: dict[TopicPartition, tuple[int, int]],
) -> Trial:
    records: list[TriedRecord] = []
    plan = ""
    where = f"{settings.path}: {flow.name}"
    order = QueryOrder.of_trial(SentSettings.of(settings, flow.name, settings.path), flow.name)
    # Connect's transforms name topics as the target does.
    name = policy_for(flow).format_remote_topic(flow.name.source, topic) if flow.connect_transforms else topic
    for partition, (start, end) in ranges.items():
        # One partition at a time: an offset then names one record, whatever the transform makes of the rest of it.
        options = {"config": settings.path, "cluster": flow.source.alias, "subscribe": topic}
        options["startingOffsets"] = _edge(ranges, partition, start)
        options["endingOffsets"] = _edge(ranges, partition, end)
        rows = session.read.format("kafka-records").options(**options).load()
        out = as_written(shaped(session, rows, flow, order, transforms), ())
        plan = str(out._jdf.queryExecution().optimizedPlan().toString()).rstrip()
        try:
            before = {row.offset: replace(_shown(row), topic=name) for row in rows.collect()}
            after = {row.offset: _shown(row) for row in out.collect()}
        except PySparkException as error:
            raise ConfigInvalid(where, [f"{partition}: {_reason(error)}"]) from error
        records += [TriedRecord(offset, shown, after.get(offset)) for offset, shown in before.items()]
    names = (*(t.name for t in transforms), *(t.name for t in flow.connect_transforms))
    return Trial(names, tuple(records), plan)


def _edge(ranges: dict[TopicPartition, tuple[int, int]], wanted: TopicPartition, offset: int) -> str:
    """This partition from or to an offset; the others from their end to their end."""
    others = {str(p.partition): end for p, (_, end) in ranges.items()}
    return '{"%s": {%s}}' % (  # noqa: UP031  braces
        wanted.topic,
        ", ".join(f'"{index}": {offset if int(index) == wanted.partition else end}' for index, end in others.items()),
    )


def _shown(row: Any) -> Shown:
    headers = tuple((entry.key, _bytes(entry.value)) for entry in row.headers or ())
    return Shown(row.topic, row.partition, int(row.timestamp), _bytes(row.key), _bytes(row.value), headers)


def _bytes(found: Any) -> bytes | None:
    if found is None:
        return None
    return found.encode() if isinstance(found, str) else bytes(found)


def _reason(error: PySparkException) -> str:
    """The last line of a Python traceback that Spark passes on says what happened."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = [line for line in lines if not line.startswith(("at ", "JVM", "File ", "Traceback"))]
    return text[-1] if text else type(error).__name__
