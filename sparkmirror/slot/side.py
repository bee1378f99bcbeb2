"""One cluster as a slot sees it: metadata, and pipelined connections to its brokers, opened on demand."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkmirror.clusters import (
    Address,
    ClusterView,
    ConnectionPool,
    Leader,
    PipelinedConnection,
    metadata_request,
    metadata_version,
    principal_of,
    read_metadata,
)
from sparkmirror.config import ClusterSettings
from sparkmirror.errors import ClusterError, ClusterUnreachable, LoginRefused
from sparkmirror.model import TopicPartition
from sparkmirror.slot.loop import Ask, Dial, Loop, Procedure, Sleep

CONNECT_TIMEOUT_S = 10.0
# Connections whose requests are answered at once, or after half a second: one that hangs is left for another, so that the
# driver hears of this slot before it takes it for dead (10 s after it can hear anything itself).
SILENCE_S = {"control": 8.0, "ledger tail": 8.0}
DISTRUST_S = 30.0
BACKOFF_FIRST_S, BACKOFF_MAX_S = 0.05, 2.0
REFRESH_GAP_S = 0.1
POLL_S = 0.01


class ClusterSide:
    """Connections and leaders of one cluster."""

    def __init__(self, loop: Loop, settings: ClusterSettings) -> None:
        self.alias = settings.alias
        self.who = principal_of(settings.security)  # for whom rights are to be granted
        self.view: ClusterView | None = None
        self.trouble = ""  # why the cluster, or a broker of it, cannot be reached now; empty while it can
        self.is_login_refused = False  # whether that is because it refuses the login
        self._loop = loop
        self._pool = ConnectionPool(settings, connect_timeout_s=CONNECT_TIMEOUT_S)  # dials; the loop owns the connections
        self._connections: dict[tuple[Address, str], PipelinedConnection] = {}
        self._opening: set[tuple[Address, str]] = set()
        self._failures: dict[tuple[Address, str], tuple[int, float]] = {}
        self._refusals: dict[Address, str] = {}  # why a broker did not let us in when it was asked last
        self._distrusted: dict[Address, float] = {}  # brokers that hung, and until when another one is asked first
        self._topics: set[str] = set()
        self._is_refreshing = False
        self._refreshed_at = -1e9

    def renew(self, settings: ClusterSettings) -> None:
        """Connects with these settings from now on. Connections in use end as if their login ended: when all is answered."""
        if settings == self._pool.settings:
            return
        self.who, self._pool = principal_of(settings.security), self._pool.renewed(settings)
        for pipelined in self._connections.values():
            pipelined.connection.renew_at = min(pipelined.connection.renew_at, self._loop.now)
        self._failures.clear()
        if not self._pool.brokers:
            self.view = None
        self.refresh()

    # --- metadata ----------------------------------------------------------------------------------------------

    def watch(self, topics: Iterable[str]) -> None:
        """Names topics whose leaders are needed."""
        new = set(topics) - self._topics
        if new:
            self._topics |= new
            self.refresh()

    def refresh(self, lost: PipelinedConnection | None = None, *purposes: str) -> None:
        """Asks for metadata soon; calls in between are one.

        The broker of a `lost` connection is asked last for a while; its other connections of these purposes are dropped.
        """
        if lost is not None:
            self._distrust(lost.connection.address, purposes)
        if not self._is_refreshing:
            self._is_refreshing = True
            self._loop.spawn(self._refresh())

    def _refresh(self) -> Procedure:
        wait = self._refreshed_at + REFRESH_GAP_S - self._loop.now
        if wait > 0:
            yield Sleep(wait)
        self._refreshed_at = self._loop.now
        self._is_refreshing = False  # a call from now on means: ask once more
        try:
            pipelined = yield from self.any_connection("control")
            answer = yield Ask(pipelined, metadata_request(sorted(self._topics), metadata_version(pipelined.connection)))
            self.view = read_metadata(answer)
            self._pool.learn(self.view)
            self.trouble = ""
            self._refusals.clear()  # a broker that is gone for good is no news any more
        except ClusterError as error:
            self.trouble = error.message
            yield Sleep(BACKOFF_MAX_S / 4)
            self.refresh()

    def leader(self, partition: TopicPartition) -> Leader | None:
        """The leader as the newest metadata says."""
        return self.view.leader(partition) if self.view is not None else None

    def topic_id(self, topic: str) -> bytes | None:
        """The topic's id, or None while it is unknown or gone."""
        found = self.view.topics.get(topic) if self.view is not None else None
        return found.topic_id if found is not None and found.error == 0 else None

    # --- pipelined connections ---------------------------------------------------------------------------------

    def open_pipelined(self, node: int, purpose: str) -> PipelinedConnection | None:
        """The connection for a purpose, or None while it is being made or waits after a failure."""
        address = self.view.brokers.get(node) if self.view is not None else None
        if address is None:
            return None
        key = (address, purpose)
        pipelined = self._connections.get(key)
        if pipelined is not None and self._loop.is_open(pipelined):
            return pipelined
        if key not in self._opening and self._loop.now >= self._failures.get(key, (0, 0.0))[1]:
            self._opening.add(key)
            self._loop.spawn(self._open(key))
        return None

    def _open(self, key: tuple[Address, str]) -> Procedure:
        try:
            pipelined = yield Dial(lambda: self._pool.dial(key[0]))
            pipelined.silence_s = SILENCE_S.get(key[1], pipelined.silence_s)
            self._connections[key] = pipelined
            self._failures.pop(key, None)
            self._refusals.pop(key[0], None)
            self.trouble, self.is_login_refused = "", False
        except ClusterError as error:
            count = self._failures.get(key, (0, 0.0))[0] + 1
            pause = min(BACKOFF_FIRST_S * 2**count, BACKOFF_MAX_S)
            self._failures[key] = (count, self._loop.now + pause)
            self._refusals[key[0]] = error.message
            self.trouble, self.is_login_refused = self._said(), isinstance(error, LoginRefused)
            self.refresh()
        finally:
            self._opening.discard(key)

    def _said(self) -> str:
        """What every broker said that cannot be reached now, each once."""
        return "; ".join(sorted(set(self._refusals.values())))

    def _distrust(self, address: Address, purposes: Iterable[str]) -> None:
        self._distrusted[address] = self._loop.now + DISTRUST_S
        for purpose in ("control", *purposes):
            pipelined = self._connections.get((address, purpose))
            if pipelined is not None:
                self._loop.drop(pipelined)

    def pipelined(self, partition: TopicPartition, purpose: str) -> Procedure:
        """Waits for a connection to the partition's leader."""
        while True:
            leader = self.leader(partition)
            if leader is None:
                self.watch([partition.topic])
                self.refresh()
            else:
                pipelined = self.open_pipelined(leader.node, purpose)
                if pipelined is not None:
                    return pipelined
            yield Sleep(POLL_S)

    def node_connection(self, node: int, purpose: str) -> Procedure:
        """Waits for a connection to a broker."""
        while True:
            pipelined = self.open_pipelined(node, purpose)
            if pipelined is not None:
                return pipelined
            if self.view is None or node not in self.view.brokers:
                self.refresh()
            yield Sleep(POLL_S)

    def any_connection(self, purpose: str) -> Procedure:
        """A connection to any broker that answers; raises when none does."""
        now = self._loop.now
        for address in sorted(self._pool.addresses, key=lambda a: self._distrusted.get(a, 0.0) > now):
            key = (address, purpose)
            while key in self._opening:
                yield Sleep(POLL_S)
            pipelined = self._connections.get(key)
            if pipelined is None or not self._loop.is_open(pipelined):
                self._opening.add(key)
                yield from self._open(key)
                pipelined = self._connections.get(key)
            if pipelined is not None and self._loop.is_open(pipelined):
                return pipelined
        # As `_open` says it: the same trouble in two wordings would be news again and again.
        raise ClusterUnreachable(self._said() or f"cluster {self.alias}: every broker closes its connections at once")

    def ask_any(self, build: Any) -> Procedure:
        """Any broker's answer to the request that `build` makes for a connection."""
        pipelined = yield from self.any_connection("control")
        answer = yield Ask(pipelined, build(pipelined.connection))
        return answer
