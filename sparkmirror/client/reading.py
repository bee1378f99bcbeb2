"""Reading an internal topic to its end, within a deadline, and reading on from there the next time.

The end is the high watermark, as for any consumer: the ledger's own readers wait until nothing is in flight, a client
must not, because an answer is wanted most while replicas are missing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Generic, Protocol, TypeVar

from sparkmirror.client.refusals import DeadlineReached
from sparkmirror.clusters import ClusterClient, partition_ends, read_raw
from sparkmirror.errors import ClusterError
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Record, read_records
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

__all__ = ["KeptLog", "S", "Standings", "start"]

T = TypeVar("T")

# How long what was read is kept. Compaction removes tombstones a day after they were written (delete.retention.ms), and a
# reader that was away for longer would never hear of them.
KEPT_S_MAX = 3600.0
PAUSE_S = 0.02
NOT_SEEN = -1
LONGER = "give a longer timeout_s"


class Standings(Protocol):
    """What the records of a topic add up to."""

    def take(self, record: Record) -> None:
        """The next record."""


S = TypeVar("S", bound=Standings)


class KeptLog(Generic[S]):
    """Partition 0 of an internal topic and what its records add up to so far."""

    def __init__(self, topic: str, begin: Callable[[], S], missing: Callable[[str, str], ClusterError]) -> None:
        self.standings = begin()
        self._partition = TopicPartition(topic, 0)
        self._begin = begin
        self._missing = missing
        self._next, self._end = 0, NOT_SEEN
        self._life: tuple[bytes, int] | None = None
        self._read_at = 0.0

    def read_on(self, client: ClusterClient, deadline: float) -> S:
        """The standings at the end of the topic; a topic that may have lost records or was created anew is read anew."""
        self._end = NOT_SEEN
        life, first, self._end = self._look(client)
        is_old = time.monotonic() - self._read_at > KEPT_S_MAX
        if life != self._life or is_old or not first <= self._next <= self._end:
            self.standings, self._next, self._life = self._begin(), first, life
        while self._next < self._end:
            if time.monotonic() > deadline:
                raise self.late(client.alias)
            self._take_some(client)
        self._read_at = time.monotonic()
        return self.standings

    def late(self, cluster: str) -> DeadlineReached:
        """The error for a deadline reached now."""
        topic = self._partition.topic
        if self._end == NOT_SEEN:
            return DeadlineReached(f"cluster {cluster} did not tell in time where {topic} ends", hint=LONGER)
        return DeadlineReached(
            f"cluster {cluster}: {topic} was read only to offset {self._next} of {self._end} in time", hint=LONGER
        )

    def _look(self, client: ClusterClient) -> tuple[tuple[bytes, int], int, int]:
        """The topic's life (another id or leader epoch may mean other records), its first offset and its end."""
        topic = self._partition.topic

        def identity() -> bytes:
            found = client.view([topic]).topics.get(topic)
            if found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION:
                raise self._missing(client.alias, topic)
            client.check(found.error, f"topic {topic}")
            return found.topic_id

        topic_id = client.retry(identity)
        high_watermark, _, leader_epoch, log_start = partition_ends(client, self._partition)
        return (topic_id, leader_epoch), log_start, high_watermark

    def _take_some(self, client: ClusterClient) -> None:
        batches = read_raw(client, self._partition, self._next).batches
        for batch in batches:
            if not batch.is_control:
                for record in read_records(batch):
                    if record.offset >= self._next:
                        self.standings.take(record)
            self._next = batch.last_offset + 1
        if not batches:
            time.sleep(PAUSE_S)


def start(action: Callable[[], T]) -> Future[T]:
    """`action` on a thread of its own.

    A silent broker holds a request for half a minute; whoever asked with a deadline does not wait for that.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(action())
        except BaseException as error:  # noqa: BLE001  border of a thread: whoever waits gets it
            answer.set_exception(error)

    threading.Thread(target=work, name="sparkmirror-client", daemon=True).start()
    return answer
