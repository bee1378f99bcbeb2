"""`kafka-records` as it is read: offset ranges of partitions, planned on the driver, fetched and decoded in tasks."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from sparkmirror.clusters import EARLIEST, ClusterClient, list_offsets, read_range
from sparkmirror.datasource import options as opt
from sparkmirror.datasource.arrow import to_arrow
from sparkmirror.datasource.connections import client_of
from sparkmirror.datasource.options import ReadOptions
from sparkmirror.datasource.planning import Offsets, admit, bytes_per_offset, partitions_of, resolve
from sparkmirror.errors import SourceOffsetLost
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Columns, read_columns

if TYPE_CHECKING:
    import pyarrow as pa

# Rows that are handed to Spark at once.
ROWS_MAX, BYTES_MAX = 10_000, 8 << 20
WEIGHTS_S = 60.0

Written = dict[str, dict[str, int]]


@dataclass
class Range(InputPartition):
    """Offsets of one partition, the end not included."""

    topic: str
    partition: int
    start: int
    end: int


def read_rows_of(
    client: ClusterClient, wanted: Range, *, read_committed: bool, fail_on_loss: bool
) -> Iterator[pa.RecordBatch]:
    """The records of a range, some thousand rows at a time."""
    for columns, kind in _columns_of(client, wanted, read_committed=read_committed, fail_on_loss=fail_on_loss):
        yield to_arrow(columns, wanted.topic, wanted.partition, kind)


def _columns_of(
    client: ClusterClient, wanted: Range, *, read_committed: bool, fail_on_loss: bool
) -> Iterator[tuple[Columns, int]]:
    """The same as columns, with their type of timestamp."""
    place, start = TopicPartition(wanted.topic, wanted.partition), wanted.start
    while True:
        try:
            for columns, kind in _columns(client, place, start, wanted.end, read_committed):
                yield columns, kind
                start = columns.offsets[-1] + 1
            return
        except SourceOffsetLost:
            if fail_on_loss:
                raise
            start = max(start, list_offsets(client, [place], timestamp=EARLIEST)[place][0])


def _columns(
    client: ClusterClient, place: TopicPartition, start: int, end: int, committed: bool
) -> Iterator[tuple[Columns, int]]:
    columns, kind, size = Columns(), 0, 0
    for batch in read_range(client, place, start, end, read_committed=committed):
        if len(columns) and (len(columns) >= ROWS_MAX or size >= BYTES_MAX or kind != int(batch.is_log_append_time)):
            yield columns, kind
            columns, size = Columns(), 0
        kind = int(batch.is_log_append_time)
        read_columns(batch, columns, start=start, end=end)
        size += batch.size
    if len(columns):
        yield columns, kind


class BatchReader(DataSourceReader):
    """One table, from one edge to the other."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options

    def partitions(self) -> Sequence[InputPartition]:
        """One range per partition that has something to read."""
        options = self._options
        with closing(ClusterClient(options.cluster.settings())) as client:
            wanted = partitions_of(client, options)
            committed = options.read_committed
            starts = resolve(client, options.start, wanted, read_committed=committed, default=opt.EARLIEST)
            ends = resolve(client, options.end, wanted, read_committed=committed, default=opt.LATEST)
        return [Range(p.topic, p.partition, starts[p], ends[p]) for p in wanted if starts[p] < ends[p]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task: the rows of one range; without any, Spark asks once for none."""
        if isinstance(partition, Range):
            yield from _read(self._options, partition)


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The same as a stream; new partitions are followed from their start."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._last: Offsets | None = None  # where a query with the trigger availableNow ends
        self._weights: dict[TopicPartition, float] = {}
        self._weighed_at = -WEIGHTS_S

    # --- on the driver -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where the first batch starts."""
        options, client = self._options, client_of(self._options.cluster)
        wanted = partitions_of(client, options)
        found = resolve(client, options.start, wanted, read_committed=options.read_committed, default=opt.LATEST)
        return written(found)

    def getDefaultReadLimit(self) -> ReadLimit:
        """The narrower of the two limits that the options may set."""
        if self._options.rows_max is not None:
            return ReadMaxRows(self._options.rows_max)
        if self._options.bytes_max is not None:
            return ReadMaxBytes(self._options.bytes_max)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """What comes later is for the next run."""
        self._last = self._ends()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        options, at = self._options, read(start)
        ends = self._ends() if self._last is None else self._last
        new = [partition for partition in ends if partition not in at]
        if new:
            client = client_of(options.cluster)
            at |= {p: offset for p, (offset, _) in list_offsets(client, new, timestamp=EARLIEST).items()}
        ends = {p: max(offset, at[p]) for p, offset in ends.items()}
        match limit:
            case ReadMaxRows(rows):
                ends = admit(at, ends, rows)
            case ReadMaxBytes(size):
                ends = admit(at, ends, size, self._weighed(at, ends))
        if options.rows_max is not None and options.bytes_max is not None:
            ends = admit(at, ends, options.bytes_max, self._weighed(at, ends))
        return written(at | ends)

    def _ends(self) -> Offsets:
        options, client = self._options, client_of(self._options.cluster)
        wanted = partitions_of(client, options)
        return resolve(client, opt.OffsetEdge(opt.LATEST), wanted, read_committed=options.read_committed, default=opt.LATEST)

    def _weighed(self, at: Mapping[TopicPartition, int], ends: Offsets) -> dict[TopicPartition, float]:
        now, client = time.monotonic(), client_of(self._options.cluster)
        if now - self._weighed_at > WEIGHTS_S:
            self._weights, self._weighed_at = {}, now
        for partition, end in ends.items():
            if partition not in self._weights and at[partition] < end:
                self._weights[partition] = bytes_per_offset(client, partition, at[partition])
        return self._weights

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One range per partition that has something to read; one that appeared since starts at its beginning."""
        starts, ends = read(start), read(end)
        new = [p for p in ends if p not in starts]
        if new:
            client = client_of(self._options.cluster)
            starts |= {p: offset for p, (offset, _) in list_offsets(client, new, timestamp=EARLIEST).items()}
        return [Range(p.topic, p.partition, starts[p], ends[p]) for p in sorted(ends) if starts[p] < ends[p]]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is kept outside Spark's checkpoint."""

    # --- in a task -----------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range; without any, Spark asks once for none."""
        if isinstance(partition, Range):
            yield from _read(self._options, partition)


def _read(options: ReadOptions, wanted: Range) -> Iterator[pa.RecordBatch]:
    client = client_of(options.cluster)
    yield from read_rows_of(client, wanted, read_committed=options.read_committed, fail_on_loss=options.fail_on_loss)


def written(offsets: Mapping[TopicPartition, int]) -> Written:
    """Offsets as Spark keeps them, in the form of its own connector."""
    found: Written = {}
    for partition in sorted(offsets):
        found.setdefault(partition.topic, {})[str(partition.partition)] = offsets[partition]
    return found


def read(offsets: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The same back."""
    return {TopicPartition(t, int(p)): offset for t, partitions in offsets.items() for p, offset in partitions.items()}
