"""Appending ready-made batches to partitions of any leaders, each acked by all its in-sync replicas."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters.client import ClusterClient, grouped
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.produce import PRODUCE_API, PRODUCE_BY_NAME, ProducedPartition, encode_produce, parse_produce
from sparkmirror.clusters.rights import refusal
from sparkmirror.errors import BrokerRefused, ClusterError, ConnectionLost, InternalError
from sparkmirror.model import TopicPartition

Batch = bytes | bytearray | memoryview
REQUEST_TIMEOUT_S = 60.0
# How long a batch is sent again before its task fails: an election or a restart of a broker takes less.
RETRY_S = 60.0


class Appender:
    """Sends at most one batch per partition at a time; the caller stamps producer and sequence into it."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client

    def send(self, batches: Mapping[TopicPartition, Batch]) -> dict[TopicPartition, int]:
        """The offset of each batch's first record. What got no answer is sent again as it is: sequences tell it apart."""
        left, found = dict(batches), dict[TopicPartition, int]()

        def attempt() -> None:
            try:
                self._send_once(left, found)
            except ClusterError:
                self._client.leaders.forget()
                raise

        self._client.retry(attempt, timeout_s=RETRY_S)
        return found

    def send_once(self, batches: Mapping[TopicPartition, Batch]) -> dict[TopicPartition, int]:
        """As `send`, but nothing is sent again: after any trouble only the log tells what was appended."""
        found = dict[TopicPartition, int]()
        try:
            self._send_once(dict(batches), found)
        except ClusterError:
            self._client.leaders.forget()
            raise
        return found

    def _send_once(self, left: dict[TopicPartition, Batch], found: dict[TopicPartition, int]) -> None:
        """Moves what was appended from `left` to `found`; raises the last trouble, after every leader was asked."""
        trouble: Exception | None = None
        known = self._client.leaders.known(left)
        leaders = {p: known[p] if p in known else self._client.leader_node(p) for p in left}
        for node, partitions in grouped(leaders).items():
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

    def _exchange(
        self, node: int, batches: Mapping[TopicPartition, Batch]
    ) -> dict[TopicPartition, ProducedPartition]:
        topics: dict[bytes | str, list[tuple[int, Batch]]] = {}
        for partition, batch in batches.items():
            topics.setdefault(partition.topic, []).append((partition.partition, batch))
        parts = encode_produce(topics)
        frame, at = self._client.talk(
            node, lambda c: c.exchange(PRODUCE_API, PRODUCE_BY_NAME, parts, timeout_s=REQUEST_TIMEOUT_S)
        )
        verdicts = {TopicPartition(str(v.topic), v.partition): v for v in parse_produce(frame, at, by_id=False)}
        if verdicts.keys() != batches.keys():
            raise InternalError(f"batches for {sorted(batches)} sent, verdicts on {sorted(verdicts)}")
        return verdicts

    def _refused(self, partition: TopicPartition, verdict: ProducedPartition) -> BrokerRefused:
        text = refusal(verdict.error, self._client.who, f"Write on topic {partition.topic}")
        words = f" ({verdict.message})" if verdict.message else ""
        return BrokerRefused(
            f"cluster {self._client.alias}: append to {partition}: {text}{words}", error_code=verdict.error
        )
