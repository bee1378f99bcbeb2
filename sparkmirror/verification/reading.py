"""A range of one log as a stream of batches, fetched ahead of whoever compares them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from sparkmirror.clusters import ClusterClient, clock, partition_ends, read_raw
from sparkmirror.clusters.log import RawRead
from sparkmirror.comparison import Piece
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.model import TopicPartition
from sparkmirror.wire import AbortedTransactions

IDLE_S_MAX = 10.0  # a log that should hold more and brings nothing for so long is not available
PAUSE_S = 0.05


class LogStream:
    """The batches with offsets from `start` up to `end`, markers and aborted ones too; what is deleted is left out.

    One fetch is always on its way while the last one is compared, so two answers are held at most.
    """

    def __init__(
        self, client: ClusterClient, partition: TopicPartition, start: int, end: int, *, read_committed: bool
    ) -> None:
        self.first = 0
        self.partition = partition
        self._client, self._start, self._end = client, start, end
        self._read_committed = read_committed
        self._fetcher = ThreadPoolExecutor(1, thread_name_prefix=f"fetch {partition}")

    def close(self) -> None:
        """Waits for the fetch that is on its way."""
        self._fetcher.shutdown(cancel_futures=True)

    def _fetch(self, offset: int) -> Future[RawRead]:
        return self._fetcher.submit(
            read_raw, self._client, self.partition, offset, read_committed=self._read_committed
        )

    def __iter__(self) -> Iterator[Piece]:
        at, heard_at = self._start, clock.now()
        coming = self._fetch(at) if at < self._end else None
        while coming is not None:
            read = coming.result()
            self.first = max(self.first, read.log_start)
            if read.batches:
                at, heard_at = read.batches[-1].last_offset + 1, clock.now()
                coming = self._fetch(at) if at < self._end else None
                yield from self._pieces(read)
                continue
            _, log_end, _, log_start = partition_ends(self._client, self.partition)
            self.first = max(self.first, log_start)
            at = max(at, log_start)
            if at >= min(self._end, log_end):
                return
            if clock.now() - heard_at > IDLE_S_MAX:
                where = f"cluster {self._client.alias}: {self.partition}"
                raise ClusterUnreachable(f"{where} gave nothing at {at} for {IDLE_S_MAX:g} s")
            clock.pause(PAUSE_S)
            coming = self._fetch(at)

    def _pieces(self, read: RawRead) -> Iterator[Piece]:
        aborted = AbortedTransactions((read.aborted or []) if self._read_committed else [])
        for batch in read.batches:
            is_dropped = aborted.drops(batch)
            if batch.base_offset >= self._end:
                return
            yield Piece("control" if batch.is_control else "aborted" if is_dropped else "data", batch)
