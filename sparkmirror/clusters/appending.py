"""Appending ready-made batches to partitions of any leaders, each acked by all its in-sync replicas."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters.client import ClusterClient, require_leader
from sparkmirror.clusters.connection import Connection
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.produce import PRODUCE_API, PRODUCE_BY_NAME, ProducedPartition, encode_produce, parse_produce
from sparkmirror.clusters.rights import refusal
from sparkmirror.errors import BrokerRefused, ClusterError, ConnectionLost, InternalError
from sparkmirror.model import TopicPartition

__all__ = ["Appender"]

Batch = bytes | bytearray | memoryview
REQUEST_TIMEOUT_S = 60.0
# How long a batch is sent again before its task fails: an election or a restart of a broker takes less.
RETRY_S = 60.0


class Appender:
    """Sends at most one batch per partition at a time; the caller stamps producer and sequence into it.

    Leaders are looked up once, and again after trouble; each has a connection of its own until `close`.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._leaders: dict[TopicPartition, int] = {}
        self._connections: dict[int, Connection] = {}

    def send(self, batches: Mapping[TopicPartition, Batch]) -> dict[TopicPartition, int]:
        """The offset of each batch's first record. What got no answer is sent again as it is: sequences tell it apart."""
        left, found = dict(batches), dict[TopicPartition, int]()

        def attempt() -> None:
            try:
                self._send_once(left, found)
            except ClusterError:
                self.close()
                raise

        self._client.retry(attempt, timeout_s=RETRY_S)
        return found

    def send_once(self, batches: Mapping[TopicPartition, Batch]) -> dict[TopicPartition, int]:
        """As `send`, but nothing is sent again: after any trouble only the log tells what was appended."""
        found = dict[TopicPartition, int]()
        try:
            self._send_once(dict(batches), found)
        except ClusterError:
            self.close()
            raise
        return found

    def _send_once(self, left: dict[TopicPartition, Batch], found: dict[TopicPartition, int]) -> None:
        """Moves what was appended from `left` to `found`; raises the last trouble, after every leader was asked."""
        trouble: Exception | None = None
        for node, partitions in self._by_leader(left).items():
            try:
                verdicts = self._exchange(node, {partition: left[partition] for partition in partitions})
            except ConnectionLost as error:
                trouble = error
                continue
            for partition, verdict in verdicts.items():
                if verdict.error == 0:
                    found[partition] = verdict.base_offset
                    del left[partition]
                else:
                    trouble = self._refused(partition, verdict)
                    if not is_retriable(verdict.error):
                        raise trouble
        if trouble is not None:
            raise trouble

    def _by_leader(self, batches: Mapping[TopicPartition, Batch]) -> dict[int, list[TopicPartition]]:
        unknown = [partition for partition in batches if partition not in self._leaders]
        if unknown:
            view = self._client.view({partition.topic for partition in unknown})
            self._leaders |= {p: require_leader(self._client, view, p).node for p in unknown}
        grouped: dict[int, list[TopicPartition]] = {}
        for partition in batches:
            grouped.setdefault(self._leaders[partition], []).append(partition)
        return grouped

    def _exchange(
        self, node: int, batches: Mapping[TopicPartition, Batch]
    ) -> dict[TopicPartition, ProducedPartition]:
        topics: dict[bytes | str, list[tuple[int, Batch]]] = {}
        for partition, batch in batches.items():
            topics.setdefault(partition.topic, []).append((partition.partition, batch))
        connection = self._connection(node, next(iter(batches)))
        parts = encode_produce(topics)
        frame, at = connection.exchange(PRODUCE_API, PRODUCE_BY_NAME, parts, timeout_s=REQUEST_TIMEOUT_S)
        verdicts = {TopicPartition(str(v.topic), v.partition): v for v in parse_produce(frame, at, by_id=False)}
        if verdicts.keys() != batches.keys():
            raise InternalError(f"batches for {sorted(batches)} sent, verdicts on {sorted(verdicts)}")
        return verdicts

    def _connection(self, node: int, partition: TopicPartition) -> Connection:
        """Ours to this leader; a new one before the broker ends the session of the old one."""
        found = self._connections.get(node)
        if found is not None and found.is_outlived:
            self._connections.pop(node).close()
            found = None
        if found is None:
            found = self._connections[node] = self._client.dial_leader(partition)
        return found

    def close(self) -> None:
        """Drops the connections and what is known of leaders; the next send finds both anew."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
        self._leaders.clear()

    def _refused(self, partition: TopicPartition, verdict: ProducedPartition) -> BrokerRefused:
        told = refusal(verdict.error, self._client.who, f"Write on topic {partition.topic}")
        words = f" ({verdict.message})" if verdict.message else ""
        return BrokerRefused(
            f"cluster {self._client.alias}: append to {partition}: {told}{words}", error_code=verdict.error
        )
