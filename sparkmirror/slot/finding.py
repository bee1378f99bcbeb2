"""Runs the pure recovery generators inside a slot: each ask becomes a request on a control connection."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import Any

from sparkmirror.clusters import (
    CLIENT_REPLICA,
    DEBUG_REPLICA,
    EARLIEST,
    FETCH_API,
    FETCH_BY_NAME,
    LATEST,
    FetchedPartition,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    is_retriable,
    list_offsets_request,
    parse_fetch,
    read_offsets,
    refusal,
)
from sparkmirror.errors import BrokerRefused, ClusterUnreachable, ConnectionLost
from sparkmirror.ledger import AskEnds, AskPause, AskSource, AskTarget, Ends, SourceChunk
from sparkmirror.model import TopicPartition
from sparkmirror.slot.loop import Ask, Exchange, Procedure, Sleep
from sparkmirror.slot.side import ClusterSide
from sparkmirror.wire import read_batches
from sparkmirror.wire.error_codes import OFFSET_OUT_OF_RANGE

READ_BYTES = 4 << 20
RETRY_S = 0.1


class FindingOut:
    """Source and target of one partition, for the generators of `ledger/recovery.py`."""

    def __init__(
        self,
        source: ClusterSide,
        target: ClusterSide,
        partition: TopicPartition,
        target_partition: TopicPartition,
        *,
        read_committed: bool,
    ) -> None:
        self._source = source
        self._target = target
        self._partition = partition
        self._target_partition = target_partition
        self._read_committed = read_committed
        self.ends: Ends | None = None  # of the target, as they were seen last

    def run(self, asking: Generator[Any, Any, Any]) -> Procedure:
        """Drives `asking` to its end and returns its result; its own errors pass through."""
        answer: Any = None
        while True:
            try:
                ask = asking.send(answer)
            except StopIteration as end:
                return end.value
            answer = yield from self._answer(ask)

    def _answer(self, ask: Any) -> Procedure:
        while True:
            try:
                match ask:
                    case AskPause(seconds):
                        yield Sleep(seconds)
                        return None
                    case AskEnds():
                        self.ends = yield from read_ends(self._target, self._target_partition)
                        return self.ends
                    case AskTarget(offset):
                        view, part = yield from _fetch(self._target, self._target_partition, offset, 0)
                        return read_batches(view, part.start, part.end)
                    case AskSource(offset):
                        view, part = yield from _fetch(
                            self._source, self._partition, offset, int(self._read_committed)
                        )
                        batches = read_batches(view, part.start, part.end)
                        aborted = (part.aborted or []) if self._read_committed else None
                        return SourceChunk(batches, aborted, part.log_start)
            except (ConnectionLost, ClusterUnreachable):
                self._source.refresh()
                self._target.refresh()
            except BrokerRefused as error:
                if not is_retriable(error.error_code):
                    raise
                self._source.refresh()
                self._target.refresh()
            yield Sleep(RETRY_S)


def read_ends(side: ClusterSide, partition: TopicPartition) -> Procedure:
    """`Ends` of a partition, all from one leader on one connection."""
    pipelined = yield from side.pipelined(partition, "control")
    found = []
    for timestamp, replica in ((LATEST, DEBUG_REPLICA), (LATEST, CLIENT_REPLICA), (EARLIEST, CLIENT_REPLICA)):
        answer = yield Ask(pipelined, list_offsets_request(pipelined.connection, {partition: timestamp}, replica=replica))
        listed = read_offsets(answer)[partition]
        _check(side, listed.error, f"offsets of {partition}", f"Describe on topic {partition.topic}")
        found.append(listed)
    log_end, high_watermark, log_start = found
    return Ends(high_watermark.offset, log_end.offset, log_end.leader_epoch, log_start.offset)


def _fetch(side: ClusterSide, partition: TopicPartition, offset: int, isolation: int) -> Procedure:
    pipelined = yield from side.pipelined(partition, "control")
    body = encode_fetch(
        {partition.topic: [FetchFrom(partition.partition, offset)]}, FetchLimits(0, 0, READ_BYTES, READ_BYTES, isolation)
    )
    frame, at = yield Exchange(pipelined, FETCH_API, FETCH_BY_NAME, [body])
    try:
        part: FetchedPartition = parse_fetch(frame, at, by_id=False).partitions[0]
    except (ValueError, IndexError, struct.error) as error:
        raise ConnectionLost(f"{side.alias}: unreadable fetch answer: {error}") from error
    if part.error == OFFSET_OUT_OF_RANGE:  # beyond what the log holds: the caller sees it by the log start
        ends = yield from read_ends(side, partition)
        part.log_start, part.start, part.end = ends.log_start, 0, 0
    else:
        _check(side, part.error, f"fetch of {partition} at {offset}", f"Read on topic {partition.topic}")
    return memoryview(frame), part


def _check(side: ClusterSide, code: int, what: str, needs: str) -> None:
    if code:
        raise BrokerRefused(f"cluster {side.alias}: {what}: {refusal(code, side.who, needs)}", error_code=code)
