"""The blocking client of the driver: finds brokers, leaders and coordinators, asks, and asks again where that may help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkmirror.clusters import clock
from sparkmirror.clusters.connection import Address, Connection
from sparkmirror.clusters.error_codes import is_retriable
from sparkmirror.clusters.metadata import (
    ClusterView,
    Leader,
    find_coordinator_request,
    metadata_request,
    metadata_version,
    read_metadata,
)
from sparkmirror.clusters.pool import ConnectionPool
from sparkmirror.clusters.rights import is_right_missing, refusal
from sparkmirror.clusters.security.settings import principal_of
from sparkmirror.config import ClusterSettings
from sparkmirror.errors import BrokerRefused, ClusterUnreachable, ConnectionLost
from sparkmirror.model import TopicPartition
from sparkmirror.wire.error_codes import LEADER_NOT_AVAILABLE

T = TypeVar("T")

REQUEST_TIMEOUT_S = 30.0
# Questions that a broker answers from memory. Whoever watches a cluster must see within 30 s that it is silent, and an
# owner that waits for one must not itself be silent for the 15 s after which others take it for dead.
LOOK_TIMEOUT_S = 10.0
# How long an action is tried again before the caller hears of it: an election takes less, an operator must see more.
RETRY_S = 10.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 1.0


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one request may take, and how long an action is tried again before the caller hears of it."""

    request_s: float = REQUEST_TIMEOUT_S
    retry_s: float = RETRY_S


PATIENCE = Patience()


class ClusterClient:
    """One cluster as the driver sees it. Safe to share between threads."""

    def __init__(self, settings: ClusterSettings, patience: Patience = PATIENCE, *, any_release: bool = False) -> None:
        self.alias = settings.alias
        self.who = principal_of(settings.security)  # for whom rights are to be granted
        self.cluster_id = ""  # as last heard; "" before
        self.group_nodes: dict[str, int] = {}  # who coordinates a group, as last heard
        self.look_s = min(patience.request_s, LOOK_TIMEOUT_S)  # for metadata and offsets
        self._patience = patience
        self._pool = ConnectionPool(settings, any_release=any_release)
        self.leaders = Leaders(self)

    def renew(self, settings: ClusterSettings) -> None:
        """Connects with these settings from now on; who waits for an answer still gets it. Any thread may ask for it."""
        before = self._pool
        if settings != before.settings:
            self.who, self._pool = principal_of(settings.security), before.renewed(settings)
            before.retire()

    @property
    def silent_s(self) -> float:
        """For how long no broker has answered although one was asked; 0 while nobody asks or the last answer was one."""
        return self._pool.silent_s

    # --- asking one broker -------------------------------------------------------------------------------------

    def ask_node(self, node: int, build: Callable[[Connection], Any], *, timeout_s: float | None = None) -> Any:
        """The answer of the broker with this node id to the request that `build` makes for its versions."""
        return self.talk(node, lambda connection: self._call(connection, build, timeout_s))

    def ask_any(self, build: Callable[[Connection], Any], *, timeout_s: float | None = None) -> Any:
        """The answer of whichever broker answers first in turn; names every address that did not."""
        failures: list[str] = []
        for address in self._pool.addresses:
            try:
                return self._pool.talk(address, lambda connection: self._call(connection, build, timeout_s))
            except (ClusterUnreachable, ConnectionLost) as error:
                failures.append(error.message.removeprefix("cluster ").removeprefix(f"{self.alias} at "))
        raise ClusterUnreachable(
            f"cluster {self.alias} is unreachable: " + "; ".join(failures),
            hint=f"check {self.alias}.bootstrap.servers and that a broker listens there",
        )

    def talk(self, node: int, action: Callable[[Connection], T]) -> T:
        """Runs `action` alone on a connection to the broker with this node id."""
        if node not in self._pool.brokers:
            self.view(())
        address = self._pool.brokers.get(node)
        if address is None:
            raise ClusterUnreachable(f"cluster {self.alias}: broker {node} is not in the metadata")
        return self._pool.talk(address, action)

    def _call(self, connection: Connection, build: Callable[[Connection], Any], timeout_s: float | None) -> Any:
        limit_s = self._patience.request_s if timeout_s is None else timeout_s
        return connection.call(build(connection), timeout_s=limit_s)

    # --- metadata ----------------------------------------------------------------------------------------------

    def view(self, topics: Collection[str] | None) -> ClusterView:
        """Fresh metadata of the named topics (None: all)."""
        view = read_metadata(self.ask_any(lambda c: metadata_request(topics, metadata_version(c)), timeout_s=self.look_s))
        self._pool.learn(view)
        self.cluster_id = view.cluster_id
        return view

    def leader_node(self, partition: TopicPartition) -> int:
        """The node that leads a partition by fresh metadata; waits through an election."""

        def look() -> int:
            [node] = self.leaders.look_up([partition])
            return node

        return self.retry(look)

    def coordinator(self, key: str, *, transactional: bool) -> int:
        """The node that coordinates a group or a transactional id."""

        def look() -> int:
            answer = self.ask_any(lambda c: find_coordinator_request(c, key, transactional=transactional))
            needs = f"Describe on {'transactional id' if transactional else 'group'} {key}"
            self.check(answer.error_code, f"coordinator of {key}", needs)
            self._pool.brokers.setdefault(answer.node_id, Address(answer.host, answer.port))
            return int(answer.node_id)

        return self.retry(look)

    # --- trying again ------------------------------------------------------------------------------------------

    def check(self, code: int, what: str, needs: str = "") -> None:
        """Raises for any error code but 0; `needs` is the right that it takes, as in "Read on topic orders"."""
        if code:
            message = f"cluster {self.alias}: {what}: {refusal(code, self.who, needs)}"
            raise BrokerRefused(message, error_code=code, needs=needs if is_right_missing(code) else "")

    def retry(self, action: Callable[[], T], *, timeout_s: float | None = None) -> T:
        """`action` until it succeeds, fails for good, or `timeout_s` has passed."""
        limit_s = self._patience.retry_s if timeout_s is None else timeout_s
        deadline, pause = clock.now() + limit_s, BACKOFF_FIRST_S
        while True:
            try:
                return action()
            except (ConnectionLost, ClusterUnreachable, BrokerRefused) as error:
                if isinstance(error, BrokerRefused) and not is_retriable(error.error_code):
                    raise
                if clock.now() + pause > deadline:
                    raise
            clock.pause(pause)
            pause = min(pause * 2, BACKOFF_MAX_S)

    def close(self) -> None:
        """Drops every connection."""
        self._pool.close()


class Leaders:
    """Who leads which partition of a cluster, as last heard."""

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._known: dict[TopicPartition, int] = {}

    def look_up(self, partitions: Collection[TopicPartition]) -> dict[int, list[TopicPartition]]:
        """The partitions by who leads them, by fresh metadata; raises for one that nobody leads."""
        view = self._client.view({partition.topic for partition in partitions})
        found = {partition: require_leader(self._client, view, partition).node for partition in partitions}
        self._known |= found
        return grouped(found)

    def known(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Who leads them as last heard, by one look at those of which nothing was heard; without those that nobody leads."""
        known = self._known
        found = {partition: known[partition] for partition in partitions if partition in known}
        unknown = [partition for partition in partitions if partition not in found]
        if unknown:
            view = self._client.view({partition.topic for partition in unknown})
            found |= {partition: leader.node for partition in unknown if (leader := view.leader(partition)) is not None}
            self._known |= found
        return found

    def of(self, partition: TopicPartition) -> int:
        """Who leads a partition as last heard, else by fresh metadata; waits through an election if nobody does."""
        node = self._known.get(partition)
        return node if node is not None else self._client.leader_node(partition)

    def forget(self) -> None:
        """After trouble: the next one who asks for a leader gets fresh metadata."""
        self._known = {}


def require_leader(client: ClusterClient, view: ClusterView, partition: TopicPartition) -> Leader:
    """Who leads a partition; raises if nobody does, or if we may not know."""
    leader = view.leader(partition)
    if leader is None:
        topic = view.topics.get(partition.topic)
        code = topic.error if topic is not None and is_right_missing(topic.error) else LEADER_NOT_AVAILABLE
        client.check(code, f"leader of {partition}", f"Describe on topic {partition.topic}")
    assert leader is not None
    return leader


def grouped(leaders: Mapping[TopicPartition, int]) -> dict[int, list[TopicPartition]]:
    """Partitions by the node that leads them."""
    found: dict[int, list[TopicPartition]] = {}
    for partition, node in leaders.items():
        found.setdefault(node, []).append(partition)
    return found


def by_topic(partitions: Sequence[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers grouped by topic, in the order given."""
    grouped: dict[str, list[int]] = {}
    for partition in partitions:
        grouped.setdefault(partition.topic, []).append(partition.partition)
    return grouped
