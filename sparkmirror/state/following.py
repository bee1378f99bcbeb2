"""An internal topic read to its end into a table, and read on from there the next time.

The end is the high watermark, as for any consumer: an answer is wanted most while replicas are missing, so a reader does
not wait for them.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from sparkmirror.clusters import ClusterClient, partition_ends, read_range, read_to_end
from sparkmirror.errors import ClusterError
from sparkmirror.model import TopicPartition
from sparkmirror.state.internal_topics import ForeignRecords, Table
from sparkmirror.wire import read_records
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

A = TypeVar("A", bound=Table)

# How long what was read is kept. Compaction removes tombstones a day after they were written (delete.retention.ms), and a
# reader that was away for longer would never see them.
KEPT_S_MAX = 3600.0
NOT_SEEN = -1


def read_settled(client: ClusterClient, topic: str, table: Table) -> ForeignRecords:
    """Every partition of an internal topic to its settled end into a table; a topic that does not exist is empty."""
    foreign, view = ForeignRecords(), client.view([topic]).topics.get(topic)
    for index in range(view.partitions if view is not None and not view.error else 0):
        place = TopicPartition(topic, index)
        for record in read_to_end(client, place):
            foreign.add(table.take(place, record))
    return foreign


class DeadlineReached(ClusterError):
    """The answer was not complete in time; a part of it is never returned."""

    code, http_status = "DEADLINE_REACHED", 504


class FollowedTopic(Generic[A]):
    """Partition 0 of an internal topic and what its records add up to so far.

    A topic that was created again, or that may have lost records, is read again from its start. `missing` makes the error
    for a topic that does not exist; without it such a topic counts as empty.
    """

    def __init__(
        self, topic: str, begin: Callable[[], A], missing: Callable[[str, str], ClusterError] | None = None
    ) -> None:
        self.table = begin()
        self.foreign = ForeignRecords()
        self._partition = TopicPartition(topic, 0)
        self._begin, self._missing = begin, missing
        self._next, self._end = 0, NOT_SEEN
        self._incarnation: tuple[bytes, int] | None = None  # another topic id or leader epoch may mean other records
        self._read_at = 0.0

    def read_on(self, client: ClusterClient, deadline: float = math.inf) -> A:
        """The table at the end of the topic."""
        self._end = NOT_SEEN
        topic_id = client.retry(lambda: self._topic_id(client))
        if topic_id is None:
            self._restart(0, None)
            return self.table
        self._end, _, leader_epoch, first = partition_ends(client, self._partition)
        is_old = time.monotonic() - self._read_at > KEPT_S_MAX
        if (topic_id, leader_epoch) != self._incarnation or is_old or not first <= self._next <= self._end:
            self._restart(first, (topic_id, leader_epoch))
        self._read_to_end(client, deadline)
        self._read_at = time.monotonic()
        return self.table

    def late(self, cluster: str) -> DeadlineReached:
        """The error for a deadline that passes now."""
        topic = self._partition.topic
        found = f"was read only to offset {self._next} of {self._end} in time"
        if self._end == NOT_SEEN:
            found = "did not answer in time: its end is unknown"
        return DeadlineReached(f"cluster {cluster}: topic {topic} {found}", hint="give a longer timeout_s")

    def _topic_id(self, client: ClusterClient) -> bytes | None:
        topic = self._partition.topic
        found = client.view([topic]).topics.get(topic)
        if found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION:
            if self._missing is not None:
                raise self._missing(client.alias, topic)
            return None
        client.check(found.error, f"topic {topic}", f"Describe on topic {topic}")
        return found.topic_id

    def _restart(self, first: int, incarnation: tuple[bytes, int] | None) -> None:
        self.table, self._next, self._incarnation = self._begin(), first, incarnation

    def _read_to_end(self, client: ClusterClient, deadline: float) -> None:
        for batch in read_range(
            client, self._partition, self._next, self._end, read_committed=False, is_whole=False, deadline=deadline
        ):
            for record in read_records(batch):
                if record.offset >= self._next:
                    self.foreign.add(self.table.take(self._partition, record))
            self._next = batch.last_offset + 1
        if self._next < self._end and time.monotonic() > deadline:
            raise self.late(client.alias)
        self._next = self._end
