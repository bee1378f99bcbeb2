"""`kafka-records` as it is written: rows become batches in columns, and every batch is acked by all in-sync replicas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from sparkmirror.clusters import Appender, ClusterClient, new_producer
from sparkmirror.datasource.arrow import from_arrow
from sparkmirror.datasource.connections import client_of
from sparkmirror.datasource.options import WriteOptions
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Columns, Producer, build_column_batch, murmur2

if TYPE_CHECKING:
    import pyarrow as pa

RECORD_OVERHEAD_BYTES = 32


@dataclass
class Receipts(WriterCommitMessage):
    """What one task appended: (topic, partition) → (first offset, next offset, records), all proven durable."""

    appended: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)


class Appending:
    """What one task does with its rows."""

    def __init__(self, options: WriteOptions, client: ClusterClient) -> None:
        self._options, self._client = options, client
        self._appender = Appender(client)
        self._producer = new_producer(client)
        self._sequences: dict[TopicPartition, int] = {}
        self._counts: dict[str, int] = {}
        self._keyless = 0
        self.receipts = Receipts()

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends rows in their order, one batch after the other in each partition."""
        columns, topics, partitions = from_arrow(batch)
        queues = {
            place: list(_chunks(selected(columns, rows), self._options.batch_bytes))
            for place, rows in self._placed(columns, topics, partitions).items()
        }
        while queues:
            heads = {place: queue.pop(0) for place, queue in queues.items()}
            self._send(heads)
            queues = {place: queue for place, queue in queues.items() if queue}

    def _send(self, chunks: Mapping[TopicPartition, tuple[Columns, int, int]]) -> None:
        stamped = {
            place: build_column_batch(
                columns, start, end, codec=self._options.codec, producer=Producer(*self._producer, self._sequence(place))
            )
            for place, (columns, start, end) in chunks.items()
        }
        for place, base in self._appender.send(stamped).items():
            _, start, end = chunks[place]
            self._sequences[place] = (self._sequence(place) + end - start) & 0x7FFFFFFF
            first, _, count = self.receipts.appended.get(place, (base, base, 0))
            self.receipts.appended[place] = first, base + end - start, count + end - start

    def _sequence(self, place: TopicPartition) -> int:
        return self._sequences.get(place, 0)

    def _placed(
        self, columns: Columns, topics: list[str | None], partitions: list[int | None]
    ) -> dict[TopicPartition, list[int]]:
        """Which rows go where."""
        placed: dict[TopicPartition, list[int]] = {}
        for row, (topic, partition, key) in enumerate(zip(topics, partitions, columns.keys, strict=True)):
            name = topic or self._options.topic
            if not name:
                raise ConfigInvalid("kafka-records", ["topic: expected a column topic without nulls, or the option topic"])
            index = self._partition(name, key) if partition is None else self._existing(name, partition)
            placed.setdefault(TopicPartition(name, index), []).append(row)
        return placed

    def _existing(self, topic: str, partition: int) -> int:
        """A partition that a row names, maybe added a moment ago; sending to one that is not there would wait for it."""
        if not 0 <= partition < self._count(topic):
            del self._counts[topic]
            count = self._count(topic)
            if not 0 <= partition < count:
                text = f"expected a partition of {topic} on {self._client.alias}, 0 to {count - 1}, found {partition}"
                raise ConfigInvalid("kafka-records", [f"partition: {text}"])
        return partition

    def _count(self, topic: str) -> int:
        """How many partitions a topic has."""
        if topic not in self._counts:
            found = self._client.view([topic]).topics.get(topic)
            if found is None or found.error:
                text = f"topic {topic} does not exist on {self._client.alias}; create it first"
                raise ConfigInvalid("kafka-records", [text])
            self._counts[topic] = found.partitions
        return self._counts[topic]

    def _partition(self, topic: str, key: bytes | None) -> int:
        """As Kafka's own producer does it: by the key; without one, the partitions in turn."""
        count = self._count(topic)
        if key is not None:
            return (murmur2(key) & 0x7FFFFFFF) % count
        self._keyless += 1
        return self._keyless % count


def selected(columns: Columns, rows: Sequence[int]) -> Columns:
    """These rows of the columns."""
    if len(rows) == len(columns):
        return columns
    return Columns(
        offsets=list(rows),
        timestamps=[columns.timestamps[row] for row in rows],
        keys=[columns.keys[row] for row in rows],
        values=[columns.values[row] for row in rows],
        headers=[columns.headers[row] for row in rows],
    )


def row_sizes(columns: Columns) -> Iterator[int]:
    """By how many bytes each row makes a batch larger, at most."""
    for key, value, headers in zip(columns.keys, columns.values, columns.headers, strict=True):
        more = RECORD_OVERHEAD_BYTES + len(key or b"") + len(value or b"")
        if headers:
            more += sum(len(name) + len(content or b"") + 10 for name, content in headers)
        yield more


def _chunks(columns: Columns, bytes_max: int) -> Iterator[tuple[Columns, int, int]]:
    """Runs of rows of at most so many bytes, or of one row."""
    start, size = 0, 0
    for row, more in enumerate(row_sizes(columns)):
        if size + more > bytes_max and row > start:
            yield columns, start, row
            start, size = row, 0
        size += more
    if start < len(columns):
        yield columns, start, len(columns)


def _write(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> Receipts:
    appending: Appending | None = None
    for batch in batches:
        if batch.num_rows:
            appending = appending or Appending(options, client_of(options.cluster))
            appending.append(batch)
    return appending.receipts if appending is not None else Receipts()


class BatchWriter(DataSourceArrowWriter):
    """Rows of a table."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Receipts:
        """In a task: appends its rows and returns what is durable."""
        return _write(self._options, iterator)


class StreamWriter(DataSourceStreamArrowWriter):
    """Rows of a stream. Nothing is left to do when a batch ends, so Spark may end it twice."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Receipts:
        """In a task: appends its rows and returns what is durable."""
        return _write(self._options, iterator)
