"""A slot's access to the ledger: follows it from the driver's offset, and appends to it."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Sequence

from sparkmirror.clusters import (
    FETCH_API,
    FETCH_BY_NAME,
    PRODUCE_API,
    PRODUCE_BY_NAME,
    FetchFrom,
    FetchLimits,
    PipelinedConnection,
    encode_fetch,
    encode_produce,
    parse_fetch,
    parse_produce,
)
from sparkmirror.errors import ClusterError
from sparkmirror.ledger import LedgerRecord, decode, encode
from sparkmirror.model import TopicPartition
from sparkmirror.slot.loop import Exchange, Procedure, Sleep
from sparkmirror.slot.side import ClusterSide
from sparkmirror.wire import Record, build_batch, read_batches, read_records

TAIL, APPEND = "ledger tail", "ledger append"
POLL_MS = 500
READ_BYTES = 1 << 20
RETRY_S = 0.1


class SlotLedger:
    """Reads and writes one flow's ledger from inside the event loop."""

    def __init__(self, side: ClusterSide, topic: str, offset: int) -> None:
        self._side = side
        self._partition = TopicPartition(topic, 0)
        self._offset = offset
        self._tail: PipelinedConnection | None = None
        self.malformed = 0

    def follow(self, take: Callable[[list[LedgerRecord]], None]) -> Procedure:
        """Passes every new record to `take`, for ever."""
        while True:
            try:
                records = yield from self._poll()
            except ClusterError:
                # Its broker may hang: what is appended there would wait for as long as replicas may take.
                self._side.refresh(self._tail, APPEND)
                yield Sleep(RETRY_S)
                continue
            if records:
                take(records)

    def _poll(self) -> Procedure:
        pipelined = self._tail = yield from self._side.pipelined(self._partition, TAIL)
        limits = FetchLimits(POLL_MS, 1, READ_BYTES, READ_BYTES, 0)
        body = encode_fetch({self._partition.topic: [FetchFrom(0, self._offset)]}, limits)
        frame, at = yield Exchange(pipelined, FETCH_API, FETCH_BY_NAME, [body])
        try:
            part = parse_fetch(frame, at, by_id=False).partitions[0]
        except (ValueError, IndexError, struct.error):
            pipelined.broken = "unreadable fetch answer"
            return []
        if part.error:
            self._side.refresh()
            yield Sleep(RETRY_S)
            return []
        found: list[LedgerRecord] = []
        for batch in read_batches(memoryview(frame), part.start, part.end):
            if not batch.is_control:
                found.extend(self._decode(batch))
            self._offset = max(self._offset, batch.last_offset + 1)
        return found

    def _decode(self, batch: object) -> list[LedgerRecord]:
        found: list[LedgerRecord] = []
        for record in read_records(batch):  # type: ignore[arg-type]
            if record.offset < self._offset or record.key is None or record.value is None:
                continue
            try:
                found.append(decode(record.key, record.value))
            except ValueError:
                self.malformed += 1
        return found

    def append(self, records: Sequence[LedgerRecord], may_write: Callable[[], bool]) -> Procedure:
        """Appends until acked; returns False if the right to write ended before that. Harmless twice."""
        stamp_ms = int(time.time() * 1000)
        entries = [Record(i, stamp_ms, *encode(record), ()) for i, record in enumerate(records)]
        parts = encode_produce({self._partition.topic: [(0, build_batch(entries))]})
        while may_write():
            try:
                pipelined = yield from self._side.pipelined(self._partition, APPEND)
                if not may_write():
                    return False
                frame, at = yield Exchange(pipelined, PRODUCE_API, PRODUCE_BY_NAME, parts)
                if parse_produce(frame, at, by_id=False)[0].error == 0:
                    return True
            except (ClusterError, ValueError, IndexError, struct.error):
                pass  # the outcome is unknown: the same records again are harmless
            self._side.refresh()
            yield Sleep(RETRY_S)
        return False
