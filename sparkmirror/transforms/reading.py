"""The source of the transform query: the partitions that the driver lists, each from its position in the ledger."""

from __future__ import annotations

import bisect
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from sparkmirror.clusters import (
    LATEST,
    ClusterView,
    list_offsets,
    metadata_request,
    metadata_version,
    read_metadata,
    read_range,
)
from sparkmirror.datasource.arrow import NAMES, to_arrow
from sparkmirror.datasource.connections import client_of
from sparkmirror.datasource.planning import Offsets, admit, bytes_per_offset
from sparkmirror.datasource.reader import read, written
from sparkmirror.errors import ReplicationError, SourceTopicRecreated
from sparkmirror.model import TopicPartition
from sparkmirror.transforms.orders import PARTS, QueryEntry, QueryOrder, flow_of, read_entries, write_range_file
from sparkmirror.transforms.reporting import stop_partition
from sparkmirror.transforms.spool import lay_down
from sparkmirror.wire import BatchView, Columns, read_columns, read_rows

if TYPE_CHECKING:
    from sparkmirror.clusters import ClusterClient

# Of one batch, all partitions together: Spark takes half a second for each, however much it holds. What is done of a batch
# when it fails counts, and a drain waits for its end.
BATCH_BYTES_MAX = 256 << 20
# What Spark is given at once: rows with whole records, rows that are little more than an offset.
WHOLE_ROWS_MAX, ROWS_MAX, BYTES_MAX = 10_000, 50_000, 8 << 20
WEIGHTS_S = 60.0
# How long to retry planning a batch: longer than one request, so that a partition that loses its leader is left out.
PLAN_S = 20.0


@dataclass
class TransformRange(InputPartition):
    """What one task reads."""

    entry: QueryEntry


class TransformReader(DataSourceStreamReader):
    """One branch of the query. Spark's own record of offsets counts for nothing: a new query starts by the ledger."""

    def __init__(self, order: QueryOrder) -> None:
        self._order = order
        self._weights: dict[TopicPartition, float] = {}
        self._weighed_at = -WEIGHTS_S

    # --- on the driver -------------------------------------------------------------------------------------------

    def initialOffset(self) -> dict[str, Any]:
        """Where the first batch starts."""
        return written({place: entry.start for place, entry in self._entries()[0].items()})

    def getDefaultReadLimit(self) -> ReadLimit:
        """`latestOffset` sets its own."""
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        """How far the next batch goes."""
        at = read(start)
        entries, is_ending = self._entries()
        if is_ending or not entries:
            return start
        client = self._source()
        committed = flow_of(self._order).reads_committed
        at |= {place: entry.start for place, entry in entries.items() if place not in at}

        def admitted() -> Offsets:
            view = client.view({place.topic for place in entries})
            led = [place for place, entry in entries.items() if _is_readable(view, entry)]
            found = list_offsets(client, led, timestamp=LATEST, read_committed=committed)
            ends = {place: max(_bounded(entries[place], offset), at[place]) for place, (offset, _) in found.items()}
            return admit(at, ends, BATCH_BYTES_MAX, self._weighed(client, at, ends))

        return written(at | client.retry(admitted, timeout_s=PLAN_S))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """One range for each partition that has something to read."""
        starts, ends = read(start), read(end)
        entries, _ = self._entries()
        ranges = []
        for place in sorted(ends):
            entry = entries.get(place)
            if entry is not None and starts.get(place, entry.start) < ends[place]:
                ranges.append(TransformRange(replace(entry, start=starts.get(place, entry.start), end=ends[place])))
        return ranges

    def commit(self, end: dict[str, Any]) -> None:
        """The ledger knows."""

    def _entries(self) -> tuple[dict[TopicPartition, QueryEntry], bool]:
        entries, is_ending = read_entries(self._order.folder)
        return {place: entry for place, entry in entries.items() if entry.group == self._order.group}, is_ending

    def _source(self) -> ClusterClient:
        return client_of(self._order.cluster(self._order.source))

    def _weighed(self, client: ClusterClient, at: Offsets, ends: Offsets) -> Mapping[TopicPartition, float]:
        now = time.monotonic()
        if now - self._weighed_at > WEIGHTS_S:
            self._weights, self._weighed_at = {}, now
        for place, end in ends.items():
            if place not in self._weights and at[place] < end:
                self._weights[place] = bytes_per_offset(client, place, at[place])
        return self._weights

    # --- in a task -----------------------------------------------------------------------------------------------

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one range, without those that landed before; without any range, Spark asks once for none."""
        if not isinstance(partition, TransformRange):
            return
        order, entry, context = self._order, partition.entry, TaskContext.get()
        assert context is not None
        write_range_file(order, context.taskAttemptId(), entry)
        committed = flow_of(order).reads_committed
        client = self._source()
        found = read_range(client, entry.place, entry.start, entry.end, read_committed=committed)
        names = order.carried or NAMES
        try:
            for number, batches in enumerate(_parts(found, ROWS_MAX if PARTS.isdisjoint(names) else WHOLE_ROWS_MAX)):
                _require_same_topic(client, entry)
                if order.has_spool:
                    lay_down(order, context.taskAttemptId(), number, batches)
                columns = _columns(batches, entry, names)
                kind = int(batches[0].is_log_append_time)
                batch = to_arrow(columns, entry.topic, entry.partition, kind, names)
                left = _without(batch, entry.done) if entry.done else batch
                if left.num_rows:
                    yield left
        except ReplicationError as error:
            stop_partition(order, entry, error, entry.start)
            raise


def _parts(batches: Iterable[BatchView], rows_max: int) -> Iterator[list[BatchView]]:
    """Batches that become one Arrow batch, all of one timestamp type."""
    part: list[BatchView] = []
    rows = size = 0
    for batch in batches:
        is_other = bool(part) and part[0].is_log_append_time != batch.is_log_append_time
        if part and (rows >= rows_max or size >= BYTES_MAX or is_other):
            yield part
            part, rows, size = [], 0, 0
        if batch.count:
            part.append(batch)
            rows, size = rows + batch.count, size + batch.size
    if part:
        yield part


def _columns(batches: Sequence[BatchView], entry: QueryEntry, names: Sequence[str]) -> Columns:
    """The wanted columns of the records; for many batches the header gives all offsets."""
    columns = Columns()
    start, end = entry.start, entry.end
    is_light = PARTS.isdisjoint(names)
    for batch in batches:
        if not is_light:
            read_columns(batch, columns, start=start, end=end)
        elif batch.is_dense:
            columns.offsets += range(max(batch.base_offset, start), min(batch.last_offset + 1, end))
        else:
            columns.offsets += [offset for offset, _, _ in read_rows(batch) if start <= offset < end]
    return columns


def _is_readable(view: ClusterView, entry: QueryEntry) -> bool:
    """Whether the partition has a leader and its topic is the one that was copied; if not, the driver reports it."""
    topic = view.topics.get(entry.topic)
    return topic is not None and topic.topic_id.hex() == entry.source_topic_id and view.leader(entry.place) is not None


def _require_same_topic(client: ClusterClient, entry: QueryEntry) -> None:
    """Asked after a read, of the leader that answered it: ids do not come back, so what was read is of this topic."""

    def look() -> ClusterView:
        node = client.leader_node(entry.place)
        return read_metadata(client.ask_node(node, lambda c: metadata_request([entry.topic], metadata_version(c))))

    topic = client.retry(look).topics[entry.topic]
    client.check(topic.error, f"metadata of {entry.topic}", f"Describe on topic {entry.topic}")
    found = topic.topic_id.hex()
    if found != entry.source_topic_id:
        raise SourceTopicRecreated(
            f"{entry.place}: the source topic was deleted and created again (id {found}, expected "
            f"{entry.source_topic_id}); copied up to upstream offset {entry.start}"
        )


def _bounded(entry: QueryEntry, end: int) -> int:
    return end if entry.until is None else min(end, entry.until)


def _without(batch: pa.RecordBatch, done: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """The rows whose offsets are in none of the ranges."""
    starts = [start for start, _ in done]

    def is_new(offset: int) -> bool:
        at = bisect.bisect_right(starts, offset) - 1
        return at < 0 or offset >= starts[at] + done[at][1]

    return batch.filter(pa.array([is_new(offset) for offset in batch.column("offset").to_pylist()], pa.bool_()))
