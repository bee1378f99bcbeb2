"""MirrorMaker 2's `MirrorClient` and `RemoteClusterUtils`, and exact answers where sparkmirror did the copying."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass
from types import TracebackType
from typing import Self, TypeVar

from sparkmirror.client.chains import is_remote, shortest_way, upstream_clusters
from sparkmirror.client.properties import read_properties
from sparkmirror.client.refusals import CheckpointsMissing, LedgerMissing
from sparkmirror.clusters import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import Basis
from sparkmirror.state import CheckpointTable, FollowedTopic, LedgerTable, Table
from sparkmirror.topology import ReplicationPolicy, ledger_topic

T = TypeVar("T")
A = TypeVar("A", bound=Table)

TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RemoteOffset:
    """Where a group of the source resumes here: the next offset to read, and what the group committed with it."""

    offset: int
    metadata: str


@dataclass(frozen=True, slots=True)
class RemotePosition:
    """Where a reader of a source partition resumes: partition and next offset on the asked cluster, and why there.

    `missing` is how many upstream offsets from its position on were never copied.
    """

    partition: TopicPartition
    offset: int
    basis: Basis
    missing: int = 0


class MirrorClient:
    """Reads what was mirrored to one cluster, usually a target. Writes nothing. For one thread at a time.

    `properties` are those of Java's MirrorClient: `bootstrap.servers`, security keys (also behind `admin.` or `consumer.`),
    `replication.policy.*`, and `source.cluster.alias` for the policy that keeps names. Others are left alone. A policy of
    your own is given as `policy`. Raises `ConfigInvalid`; connects at the first request.
    """

    def __init__(self, properties: Mapping[str, str], *, policy: ReplicationPolicy | None = None) -> None:
        self._settings, self._policy = read_properties(properties, policy)
        self._client = ClusterClient(self._settings)
        self._checkpoints: dict[str, FollowedTopic[CheckpointTable]] = {}
        self._ledgers: dict[str, FollowedTopic[LedgerTable]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and drops what was read; the next request connects again."""
        self._client.close()
        self._checkpoints.clear()
        self._ledgers.clear()

    @property
    def policy(self) -> ReplicationPolicy:
        """How topics are named."""
        return self._policy

    @property
    def malformed_records(self) -> int:
        """How many records of the checkpoints and ledgers read so far were skipped because they are foreign records."""
        of_checkpoints = sum(topic.foreign.total for topic in self._checkpoints.values())
        return of_checkpoints + sum(topic.foreign.total for topic in self._ledgers.values())

    # --- names -------------------------------------------------------------------------------------------------

    def replication_hops(self, alias: str) -> int:
        """The fewest flows between a cluster and this one, −1 if its heartbeats do not arrive."""
        return shortest_way(self._policy, self._topics(), alias)

    def heartbeat_topics(self) -> set[str]:
        """Topics of heartbeats, this cluster's own among them."""
        return {topic for topic in self._topics() if self._policy.is_heartbeats_topic(topic)}

    def checkpoint_topics(self) -> set[str]:
        """Topics of checkpoints."""
        return {topic for topic in self._topics() if self._policy.is_checkpoints_topic(topic)}

    def upstream_clusters(self) -> set[str]:
        """Every cluster whose heartbeats arrive here, however many hops away."""
        return upstream_clusters(self._policy, self._topics())

    def remote_topics(self, source: str | None = None) -> set[str]:
        """Topics that came from elsewhere; with `source` only those that came straight from it."""
        remote = {topic for topic in self._topics() if is_remote(self._policy, topic)}
        return remote if source is None else {topic for topic in remote if self._policy.topic_source(topic) == source}

    def _topics(self) -> list[str]:
        view = self._client.retry(lambda: self._client.view(None))
        return [topic.name for topic in view.topics.values() if not topic.is_internal]

    # --- positions ---------------------------------------------------------------------------------------------

    def remote_consumer_offsets(
        self, group: str, source_alias: str, timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, RemoteOffset]:
        """Where a group of the source resumes here, by its checkpoints: remote partition to offset and metadata.

        Raises `CheckpointsMissing`, and `DeadlineReached` rather than return a part.
        """
        topic = self._policy.checkpoints_topic(source_alias)
        if topic not in self._checkpoints:
            self._checkpoints[topic] = FollowedTopic(topic, CheckpointTable, CheckpointsMissing)
        last = self._read_on(self._checkpoints[topic], timeout_s).last
        return {at: RemoteOffset(found.downstream_offset, found.metadata) for at, found in last.of(group).items()}

    def translate_exact(
        self, source_alias: str, positions: Mapping[TopicPartition, int], timeout_s: float = TIMEOUT_S
    ) -> dict[TopicPartition, RemotePosition]:
        """Where a reader resumes here, for any position on the source (the next offset to read), by our own ledger.

        A partition of which nothing is known is not in the result. The first call reads the ledger, later ones only what
        is new. Raises `LedgerMissing` and `DeadlineReached`.
        """
        topic = ledger_topic(source_alias)
        if topic not in self._ledgers:
            self._ledgers[topic] = FollowedTopic(topic, LedgerTable, LedgerMissing)
        ledger = self._read_on(self._ledgers[topic], timeout_s)
        found = {partition: remote_position(ledger, partition, upstream) for partition, upstream in positions.items()}
        return {partition: position for partition, position in found.items() if position is not None}

    def _read_on(self, topic: FollowedTopic[A], timeout_s: float) -> A:
        client, deadline = self._client, time.monotonic() + timeout_s
        reading = _start(lambda: topic.read_on(client, deadline))
        is_in_time = False
        try:
            is_in_time = bool(wait([reading], timeout_s).done)
        finally:
            if not is_in_time:
                self._leave_to(reading)
        if is_in_time:
            return reading.result()
        raise topic.late(client.alias)

    def _leave_to(self, reading: Future[A]) -> None:
        """A reader past its deadline may still be running: it keeps its client and logs, and new ones are created."""
        reading.add_done_callback(lambda _, client=self._client: client.close())  # type: ignore[misc]  # a bound default
        self._client = ClusterClient(self._settings)
        self._checkpoints, self._ledgers = {}, {}


def remote_position(ledger: LedgerTable, partition: TopicPartition, upstream: int) -> RemotePosition | None:
    """Where a reader at this upstream position resumes; None if the ledger has no copy of it."""
    history = ledger.history(partition)
    newest = history.newest if history is not None else None
    found = ledger.translate(partition, upstream) if newest is not None else None
    if newest is None or found is None:
        return None
    remote = TopicPartition(newest.target_topic, partition.partition)
    return RemotePosition(remote, found.downstream, found.basis, found.missing)


def _start(action: Callable[[], T]) -> Future[T]:
    """`action` on a thread of its own.

    A silent broker holds a request for half a minute; a caller with a deadline does not wait for that.
    """
    answer: Future[T] = Future()

    def work() -> None:
        try:
            answer.set_result(action())
        except BaseException as error:  # noqa: BLE001  border of a thread: whoever waits gets it
            answer.set_exception(error)

    threading.Thread(target=work, name="sparkmirror-client", daemon=True).start()
    return answer


def translate_offsets(
    properties: Mapping[str, str], source_alias: str, group: str, timeout_s: float = TIMEOUT_S
) -> dict[TopicPartition, RemoteOffset]:
    """One request without a kept client: Java's `RemoteClusterUtils.translateOffsets`."""
    with MirrorClient(properties) as client:
        return client.remote_consumer_offsets(group, source_alias, timeout_s)
