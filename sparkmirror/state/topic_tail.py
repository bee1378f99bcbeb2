"""Every record of an internal topic, each once, and those that come later: over restarts of brokers and of the topic."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.clusters import ClusterClient, partition_ends, read_range
from sparkmirror.errors import CorruptBatch
from sparkmirror.model import TopicPartition
from sparkmirror.wire import Record, read_records
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION


class TopicTail:
    """Where a reader of a topic is; each `read` goes on from there to the end. For one thread at a time."""

    def __init__(self, client: ClusterClient, topic: str, first: int = 0) -> None:
        self.is_missing = False  # whether the topic was not there at the last look
        self.was_recreated = False  # whether the last look found another topic under the name, which is read from its start
        self._client, self._topic, self._first = client, topic, first
        self._topic_id = b""
        self._next: dict[int, int] = {}

    def read(self) -> Iterator[tuple[TopicPartition, Record]]:
        """The records up to the high watermarks of now; raises ClusterError where they cannot be read.

        What was yielded is not yielded again, also after an error. A batch that cannot be read is a record without key and
        value.
        """
        client, topic = self._client, self._topic
        found = client.view([topic]).topics.get(topic)
        self.is_missing = found is None or found.error == UNKNOWN_TOPIC_OR_PARTITION
        self.was_recreated = False
        if found is None or self.is_missing:
            return
        client.check(found.error, f"topic {topic}", f"Describe on topic {topic}")
        if self._topic_id and found.topic_id != self._topic_id:
            self._next, self._first, self.was_recreated = {}, 0, True
        self._topic_id = found.topic_id
        for index in range(found.partitions):
            yield from self._read_partition(index)

    def _read_partition(self, index: int) -> Iterator[tuple[TopicPartition, Record]]:
        place = TopicPartition(self._topic, index)
        high_watermark, _, _, log_start = partition_ends(self._client, place)
        at = max(self._next.get(index, self._first), log_start)
        self._next[index] = at
        for batch in read_range(self._client, place, at, high_watermark, read_committed=False, is_whole=False):
            try:
                records = list(read_records(batch))
            except CorruptBatch:
                records = [Record(batch.base_offset, -1, None, None)]
            for record in records:
                if record.offset >= at:
                    self._next[index] = record.offset + 1
                    yield place, record
            self._next[index] = batch.last_offset + 1
