"""The data source `kafka-ledger`: what was copied, from where to where, as a table and as a stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, InputPartition

from sparkmirror.clusters import read_range
from sparkmirror.datasource.connections import client_of
from sparkmirror.datasource.options import ReadOptions
from sparkmirror.datasource.reader import BatchReader, Range, StreamReader
from sparkmirror.ledger import (
    Closed,
    Gap,
    LedgerRecord,
    Open,
    Owner,
    OwnerAnswer,
    OwnerRequest,
    Receipt,
    SourceEnds,
    State,
    Wish,
    decode,
)
from sparkmirror.model import TopicPartition
from sparkmirror.wire import read_records

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

SCHEMA = (
    "kind string, time bigint, topic string, partition int, target_topic string, attempt string, upstream bigint, "
    "downstream bigint, length bigint, records bigint, bytes bigint, source_end bigint, state string, code string, "
    "reason string"
)
NAMES = tuple(column.split()[0] for column in SCHEMA.split(", "))

Row = tuple[Any, ...]


def ledger_rows(record: LedgerRecord, time: int) -> Iterator[Row]:
    """The rows of one ledger record; heartbeats and orders between driver and slots have none."""
    match record:
        case Owner():
            yield _row("owner", time, state="released" if record.released else "owning", reason=record.name)
        case Open():
            place, at = _place(record) | {"target_topic": record.target_topic}, record.position
            yield _row("open", time, **place, upstream=at.upstream, downstream=at.downstream)
        case Receipt():
            place, at = _place(record), record.position
            for run in record.runs:
                yield _row("run", time, **place, upstream=run.upstream, downstream=run.downstream, length=run.length)
            counts = {"records": record.records, "bytes": record.record_bytes, "source_end": record.source_end}
            yield _row("receipt", time, **place, upstream=at.upstream, downstream=at.downstream, **counts)
        case Closed():
            at = record.position
            yield _row("closed", time, **_place(record), upstream=at.upstream, downstream=at.downstream)
        case Gap():
            length = record.until - record.upstream
            yield _row("gap", time, **_place(record), upstream=record.upstream, length=length, reason=record.reason)
        case State():
            message = {"state": record.state, "code": record.code, "reason": record.text}
            yield _row("state", time, **_place(record), **message)
        case OwnerRequest():
            partition = record.partition if record.partition >= 0 else None
            place = {"topic": record.topic or None, "partition": partition}
            yield _row("request", time, **place, state=record.verb, code=record.id, reason=record.command or record.who)
        case OwnerAnswer():
            yield _row("answer", time, state=record.state, code=record.id, reason=record.text)
        case Wish():
            place = {"topic": record.topic or None, "partition": record.partition if record.partition >= 0 else None}
            yield _row("wish", time, **place, state=record.state, code=record.connector, reason=record.who)
        case SourceEnds():
            for found in record.ends:
                yield _row("ends", time, topic=record.topic, partition=found.partition, source_end=found.end)


def _place(record: Any) -> dict[str, Any]:
    attempt = ".".join(map(str, record.attempt))
    return {"topic": record.partition.topic, "partition": record.partition.partition, "attempt": attempt}


def _row(kind: str, time: int, **values: Any) -> Row:
    known: dict[str, Any] = {"kind": kind, "time": time} | values
    return tuple(known.get(name) for name in NAMES)


def _read(options: ReadOptions, wanted: InputPartition) -> Iterator[Row]:
    if not isinstance(wanted, Range):
        return
    place = TopicPartition(wanted.topic, wanted.partition)
    for batch in read_range(client_of(options.cluster), place, wanted.start, wanted.end, read_committed=False):
        for record in read_records(batch):
            if record.key is None or record.value is None or not wanted.start <= record.offset < wanted.end:
                continue
            try:
                decoded = decode(record.key, record.value)
            except ValueError as error:
                yield _row("foreign", record.timestamp, reason=str(error))
            else:
                yield from ledger_rows(decoded, record.timestamp)


class LedgerReader(BatchReader):
    """The ledger as it is now."""

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """In a task: the rows of one range."""
        yield from _read(self._options, partition)


class LedgerStream(StreamReader):
    """The ledger as it grows."""

    def read(self, partition: InputPartition) -> Iterator[Row]:
        """In a task: the rows of one range."""
        yield from _read(self._options, partition)


class KafkaLedger(DataSource):
    """`spark.read.format("kafka-ledger")` and `readStream`; the cluster is the target's, `source` the source's alias."""

    @classmethod
    def name(cls) -> str:
        """What `format` wants."""
        return "kafka-ledger"

    def schema(self) -> str:
        """One table for all kinds of rows."""
        return SCHEMA

    def reader(self, schema: StructType) -> LedgerReader:
        """The ledger as it is now."""
        return LedgerReader(ReadOptions.of_ledger(self.options))

    def streamReader(self, schema: StructType) -> LedgerStream:
        """The ledger as it grows, from its beginning."""
        return LedgerStream(ReadOptions.of_ledger(self.options))
