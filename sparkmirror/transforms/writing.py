"""The sink of the transform query: a task writes an intent, appends the records once, and writes the receipts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from sparkmirror import failpoints
from sparkmirror.clusters import (
    LATEST,
    Appender,
    NewTopic,
    create_topics,
    describe_flow_request,
    describe_topic_configs,
    flow_producer,
    is_retriable,
    is_right_missing,
    list_offsets,
    raise_producer_epoch,
)
from sparkmirror.datasource.arrow import from_arrow
from sparkmirror.datasource.connections import client_of
from sparkmirror.datasource.functions import changed
from sparkmirror.datasource.options import CODECS
from sparkmirror.datasource.writer import selected
from sparkmirror.errors import (
    BrokerRefused,
    CorruptBatch,
    FlowOwnedByAnother,
    InternalError,
    RecordTooLarge,
    ReplicationError,
    TargetRefusedRecords,
    TargetRefusedTimestamp,
    TargetTopicRecreated,
)
from sparkmirror.ledger import (
    SEQUENCE_MODULUS,
    Intent,
    IntentTarget,
    LedgerRecord,
    Position,
    Receipt,
    Routed,
    Run,
    extend_runs,
    placed_runs,
)
from sparkmirror.model import TopicPartition
from sparkmirror.topology import policy_for
from sparkmirror.transforms.orders import (
    PARTS,
    Change,
    QueryEntry,
    QueryOrder,
    flow_of,
    remove_left_folders,
    take_range_file,
)
from sparkmirror.transforms.packing import (
    Packing,
    PackingStop,
    ReadyBatch,
    Sending,
    pack_columns,
    pack_rows,
    pack_whole,
    rows_at,
)
from sparkmirror.transforms.reporting import report, stop_partition
from sparkmirror.transforms.spool import Spool
from sparkmirror.wire import BatchView, Columns, Producer, murmur2, read_columns
from sparkmirror.wire.error_codes import INVALID_TIMESTAMP

if TYPE_CHECKING:
    import pyarrow as pa

MESSAGE_BYTES_MAX = 1_048_588  # Kafka's own default


class TransformProducer:
    """This process as a producer of one query: its id, its sequence numbers, its connections."""

    def __init__(self, order: QueryOrder) -> None:
        self.order = order
        self.flow = flow_of(order)
        self.policy = policy_for(self.flow)
        self.client = client_of(order.cluster(order.target))
        self.transactional_id = f"{order.query_id}-{uuid.uuid4().hex[:12]}"
        self.producer = raise_producer_epoch(self.client, self.transactional_id, None)
        self.appender = Appender(self.client)
        codec = self.flow.producer.get("compression.type")
        self.codec = None if codec is None else CODECS.get(codec, 0)
        self.sequences: dict[TopicPartition, int] = {}
        self.ends: dict[TopicPartition, int] = {}
        self.topics: dict[str, WrittenTopic] = {}

    def require_newest(self) -> None:
        """Raises if a newer query has started: its driver read the ledger after our intent, or we see its epoch here."""
        order, client = self.order, self.client
        node = client.coordinator(order.query_id, transactional=True)
        error, *found = flow_producer(client.ask_node(node, lambda _: describe_flow_request(order.query_id)))
        client.check(error, f"DescribeTransactions of {order.query_id}", f"Describe on transactional id {order.query_id}")
        if found != [order.producer_id, order.producer_epoch]:
            raise FlowOwnedByAnother(f"transform query: a newer query of {order.query_id} runs; this one stops writing")

    def topic(self, name: str, partitions: int) -> WrittenTopic:
        """The metadata of a target topic; a missing topic is created with this many partitions."""
        if name not in self.topics:
            found = self.client.view([name]).topics.get(name)
            if found is None or found.error:
                factor = self.flow.replication_factor
                refused = create_topics(self.client, [NewTopic(name, partitions, factor, {})])[name]
                if refused is not None:
                    raise TargetRefusedRecords(f"topic {name}, to which a transform sends records, is refused: {refused}")
                self.client.leader_node(TopicPartition(name, partitions - 1))
                count = partitions
            else:
                count = found.partitions
            settings = {entry.name: entry.value for entry in describe_topic_configs(self.client, [name]).get(name, [])}
            size = settings.get("max.message.bytes")
            self.topics[name] = WrittenTopic(count, int(size) if size else MESSAGE_BYTES_MAX)
        return self.topics[name]

    def end(self, target: TopicPartition) -> int:
        """A lower bound of the offsets that records sent now will get."""
        if target not in self.ends:
            self.ends[target] = list_offsets(self.client, [target], timestamp=LATEST)[target][0]
        return self.ends[target]


@dataclass(frozen=True)
class WrittenTopic:
    """How many partitions a topic has, and how large a batch may be."""

    partitions: int
    message_bytes_max: int


# One producer for each query that this process has served; a process serves one query at a time.
_PRODUCERS: dict[str, TransformProducer] = {}


def _producer_of(order: QueryOrder) -> TransformProducer:
    if order.name not in _PRODUCERS:
        _PRODUCERS.clear()
        remove_left_folders()
        _PRODUCERS[order.name] = TransformProducer(order)
    return _PRODUCERS[order.name]


@dataclass
class Appended(WriterCommitMessage):
    """How many records a task appended; their offsets are in the ledger."""

    records: int


class TransformWriter(DataSourceStreamArrowWriter):
    """The end of the query."""

    def __init__(self, order: QueryOrder) -> None:
        self._order = order

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Appended:
        """In a task: all rows of one range."""
        context = TaskContext.get()
        assert context is not None
        if context.attemptNumber() > 0:
            # Spark retried the task: the first attempt may still write (D9).
            raise InternalError("transform query: refused: started again by Spark")
        order, task = self._order, context.taskAttemptId()
        written: WrittenRange | None = None
        try:
            for batch in iterator:
                if batch.num_rows:
                    written = written or WrittenRange(
                        _producer_of(order), _named(take_range_file(order, task)), Spool(order, task)
                    )
                    written.append(batch)
            if written is None:
                # All rows were filtered out, or Spark had nothing to read: such a batch has one task without a range file.
                entry = take_range_file(order, task)
                written = WrittenRange(_producer_of(order), entry, Spool(order, task)) if entry is not None else None
            if written is not None:
                written.finish()
        except BaseException:
            _PRODUCERS.pop(order.name, None)  # what it sent may still land: its sequence numbers are not reused
            raise
        return Appended(written.records if written is not None else 0)


def _named(entry: QueryEntry | None) -> QueryEntry:
    if entry is None:
        raise InternalError("transform query: rows arrived without a range file that names their source partition")
    return entry


class WrittenRange:
    """One task: a range of one source partition."""

    def __init__(self, producer: TransformProducer, entry: QueryEntry, spool: Spool) -> None:
        self.records = 0
        self._producer, self._entry, self._spool = producer, entry, spool
        self._next = entry.start
        self._home_end: int | None = None
        self._due: list[LedgerRecord] = []  # receipts of what is proven, written with the next intent or at the end

    def append(self, batch: pa.RecordBatch) -> None:
        """Appends rows in order, as many at once as the memory limit allows."""
        at = 0
        while at < batch.num_rows:
            at += self._append_some(batch.slice(at))

    def _append_some(self, batch: pa.RecordBatch) -> int:
        """Intent, batches, receipts."""
        offsets = batch.column("offset").to_pylist()
        batches: list[BatchView] = []
        if self._producer.order.has_spool:
            batches, count = self._spool.pick_up(offsets)
            batch, offsets = batch.slice(0, count), offsets[:count]
        try:
            packing = self._packed(batch, offsets, batches)
        except CorruptBatch as error:
            raise self._stopped(CorruptBatch(f"{self._entry.place}: {error.message}", offset=error.offset)) from error
        until = offsets[-1] + 1 if packing.stop is None else packing.stop.upstream
        if packing.sendings:
            self._announce(packing.sendings, until)
            self._send(packing.sendings, until)
        self._next = until
        if packing.stop is not None:
            self._settle_due(until)
            raise self._stopped(self._with_place(packing.stop))
        return len(offsets)

    def finish(self) -> None:
        """Records that the whole range is done, including rows that were filtered out."""
        self._settle_due(self._entry.end)
        self._spool.clear()

    # --- what and where to ----------------------------------------------------------------------------------------

    def _packed(self, batch: pa.RecordBatch, offsets: list[int], batches: list[BatchView]) -> Packing:
        """Unchanged batches are sent as they are where possible."""
        order, entry = self._producer.order, self._entry
        count, names = len(offsets), batch.schema.names
        topics: list[str | None] = batch.column("topic").to_pylist() if "topic" in names else [entry.topic] * count
        partitions: list[int | None] = [entry.partition] * count
        if "partition" in names:
            partitions = batch.column("partition").to_pylist()
        changes = order.changes[entry.group] if order.changes else ()
        codec = self._codec(batches)
        if set(order.spooled) >= PARTS and not changes and None not in partitions:
            rows_of = self._rows_of([None] * count, offsets, topics, partitions)
            if len(rows_of) == 1 and all(view.codec == codec for view in batches):
                target = next(iter(rows_of))
                packing = pack_whole(batches, offsets, target, self._limit(target))
                if packing is not None:
                    return packing
            return pack_rows(rows_at(batches, offsets), rows_of, codec, self._limit)
        columns = self._columns(batch, offsets, batches, changes)
        rows_of = self._rows_of(columns.keys, offsets, topics, partitions)
        return pack_columns(columns, offsets, rows_of, codec, self._limit)

    def _columns(
        self, batch: pa.RecordBatch, offsets: list[int], batches: list[BatchView], changes: Sequence[Change]
    ) -> Columns:
        """The records of some rows: what did not come out of Spark comes from the spool, or is computed from that."""
        columns = from_arrow(batch)[0]
        if batches:
            found = Columns()
            for view in batches:
                read_columns(view, found, start=offsets[0], end=offsets[-1] + 1)
            if found.offsets != offsets:
                wanted = set(offsets)
                found = selected(found, [row for row, offset in enumerate(found.offsets) if offset in wanted])
            if len(found) != len(offsets):
                raise InternalError("transform query: rows arrived at offsets that were not read")
            made = {change.column: changed(change.steps, _part(found, change.origin), change.column) for change in changes}
            names = batch.schema.names
            columns.timestamps = columns.timestamps if "timestamp" in names else found.timestamps
            columns.keys = columns.keys if "key" in names else made.get("key", found.keys)
            columns.values = columns.values if "value" in names else made.get("value", found.values)
            columns.headers = columns.headers if "headers" in names else made.get("headers", found.headers)
        return columns

    def _codec(self, batches: Sequence[BatchView]) -> int:
        """The codec of the configuration file; without one, the codec of the source batches."""
        if self._producer.codec is not None:
            return self._producer.codec
        return batches[0].codec if batches else 0

    def _limit(self, target: TopicPartition) -> int:
        return self._producer.topic(target.topic, self._entry.partitions).message_bytes_max

    def _rows_of(
        self, keys: Sequence[bytes | None], offsets: list[int], topics: list[str | None], partitions: list[int | None]
    ) -> dict[TopicPartition, Sequence[int]]:
        """Usually all rows go to one partition, which is looked up once."""
        if len(set(topics)) == 1 and len(set(partitions)) == 1 and partitions[0] is not None:
            return {self._target(topics[0], partitions[0], keys[0], offsets[0]): range(len(offsets))}
        known: dict[tuple[str | None, int | None], list[int]] = {}
        found: dict[TopicPartition, list[int]] = {}
        for row, place in enumerate(zip(topics, partitions, strict=True)):
            rows = known.get(place)
            if rows is None:
                rows = found.setdefault(self._target(*place, keys[row], offsets[row]), [])
                if place[1] is not None:  # without a partition it is the key that decides
                    known[place] = rows
            rows.append(row)
        return dict(found)

    def _target(self, topic: str | None, partition: int | None, key: bytes | None, offset: int) -> TopicPartition:
        entry, producer = self._entry, self._producer
        name = topic or ""
        if name == entry.topic and not producer.order.names_are_final:
            name = entry.remote
        elif not producer.order.names_are_final and name:
            name = producer.policy.format_remote_topic(producer.order.source, name)
        if not name:
            raise self._stopped(TargetRefusedRecords(f"{entry.place}: offset {offset}: the transform names no topic"))
        if partition == entry.partition and name == entry.remote:
            return entry.home
        count = producer.topic(name, entry.partitions).partitions
        if partition is None:
            partition = (murmur2(key) & 0x7FFFFFFF) % count if key is not None else entry.partition % count
        if not 0 <= partition < count:
            text = f"the transform names partition {partition} of {name}, which has {count}"
            raise self._stopped(TargetRefusedRecords(f"{entry.place}: offset {offset}: {text}"))
        return TopicPartition(name, partition)

    def _stopped(self, error: ReplicationError) -> ReplicationError:
        stop_partition(self._producer.order, self._entry, error, self._next)
        return error

    def _with_place(self, stop: PackingStop) -> ReplicationError:
        """The same error as for a topic that is copied without a transform."""
        if not isinstance(stop.error, RecordTooLarge):
            return stop.error
        size, limit = stop.error.size, stop.error.limit
        text = f"{self._entry.place}: the record at upstream offset {stop.upstream} has {size} bytes after its transform"
        hint = f"raise max.message.bytes of topic {stop.target.topic} on the target"
        whole = f"{text}; {stop.target} takes {limit}"
        return RecordTooLarge(whole, offset=stop.upstream, size=size, limit=limit, hint=hint)

    # --- intent, batches, receipts --------------------------------------------------------------------------------

    def _announce(self, sendings: Mapping[TopicPartition, Sending], until: int) -> None:
        producer, entry = self._producer, self._entry
        targets = tuple(
            IntentTarget(target, producer.end(target), producer.sequences.get(target, 0), sending.ranges)
            for target, sending in sendings.items()
        )
        writer = (producer.transactional_id, *producer.producer)
        intent = Intent(entry.place, entry.attempt, self._next, until, *writer, targets)
        report(producer.order, [*self._due, intent])
        self._due = []
        if failpoints.ARMED:
            failpoints.point("transform.intent_acked")
        producer.require_newest()

    def _send(self, sendings: Mapping[TopicPartition, Sending], until: int) -> None:
        runs: dict[TopicPartition, list[Run]] = {target: [] for target in sendings}
        left = {target: list(sending.batches) for target, sending in sendings.items()}
        sent = dict.fromkeys(sendings, 0)
        size = 0
        while left:
            heads = {target: batches.pop(0) for target, batches in left.items()}
            bases, more = self._append(heads)
            size += more
            for target, base in bases.items():
                count = heads[target].count
                if base < self._producer.ends[target]:
                    raise self._stopped(self._shorter(target, base))
                for run in placed_runs(sendings[target].ranges, sent[target], count, base):
                    extend_runs(runs[target], *run)
                sent[target] += count
                self._producer.sequences[target] = (self._producer.sequences.get(target, 0) + count) % SEQUENCE_MODULUS
                self._producer.ends[target] = base + count
            left = {target: batches for target, batches in left.items() if batches}
            if failpoints.ARMED:
                failpoints.point("transform.batch_acked")
        self._prove(sendings, runs, until, size)

    def _shorter(self, target: TopicPartition, base: int) -> ReplicationError:
        return TargetTopicRecreated(
            f"{self._entry.place}: {target} put a record at offset {base}, expected {self._producer.ends[target]} or more: "
            "the topic was deleted and created again, or lost its end"
        )

    def _append(self, heads: Mapping[TopicPartition, ReadyBatch]) -> tuple[dict[TopicPartition, int], int]:
        """The base offsets of the batches, and their size in bytes."""
        producer = self._producer
        batches = {
            target: ready.made(Producer(*producer.producer, producer.sequences.get(target, 0)))
            for target, ready in heads.items()
        }
        try:
            return producer.appender.send_once(batches), sum(map(len, batches.values()))
        except BrokerRefused as error:
            if is_retriable(error.error_code) or is_right_missing(error.error_code):
                raise
            kind = TargetRefusedTimestamp if error.error_code == INVALID_TIMESTAMP else TargetRefusedRecords
            raise self._stopped(kind(f"{self._entry.place}: {error.message}")) from error

    def _prove(
        self, sendings: Mapping[TopicPartition, Sending], runs: Mapping[TopicPartition, list[Run]], until: int, size: int
    ) -> None:
        """Runs elsewhere come first in the ledger: where the receipt is, they are."""
        entry = self._entry
        home = runs.get(entry.home, [])
        for target, found in runs.items():
            if target != entry.home:
                self._due.append(Routed(entry.place, entry.attempt, target, entry.source_topic_id, tuple(found)))
        if home:
            self._home_end = home[-1].downstream + home[-1].length
        count = sum(sending.count for sending in sendings.values())
        newest = max(sending.newest for sending in sendings.values())
        self.records += count
        at = Position(until, self._downstream(), 0)
        self._due.append(
            Receipt(entry.place, entry.attempt, at, -1, count, size, tuple(home), newest_timestamp=max(newest, -1))
        )

    def _downstream(self) -> int:
        """Where the copy ends; read from the target if no record of this range went there."""
        if self._home_end is None:
            self._home_end = list_offsets(self._producer.client, [self._entry.home], timestamp=LATEST)[self._entry.home][0]
        return self._home_end

    def _settle_due(self, upstream: int) -> None:
        """The last receipt holds the upstream offset up to which the range is done."""
        entry = self._entry
        at = Position(upstream, self._downstream(), 0)
        if self._due and isinstance(self._due[-1], Receipt):
            self._due[-1] = replace(self._due[-1], position=at)
        else:
            self._due.append(Receipt(entry.place, entry.attempt, at, -1, 0, 0, ()))
        report(self._producer.order, self._due)
        self._due = []


def _part(columns: Columns, name: str) -> Sequence[Any]:
    parts: dict[str, Sequence[Any]] = {"key": columns.keys, "value": columns.values, "headers": columns.headers}
    return parts[name]
