"""Connections to the brokers of one cluster: dialled when needed, lent to one caller at a time, renewed and closed here."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import TypeVar

from sparkmirror.clusters import clock
from sparkmirror.clusters.connection import Address, Connection, connect
from sparkmirror.clusters.metadata import ClusterView
from sparkmirror.config import ClusterSettings
from sparkmirror.errors import ClusterUnreachable, ConnectionLost, SparkmirrorError

T = TypeVar("T")

CONNECT_TIMEOUT_S = 5.0
# Brokers close what is idle for ten minutes (connections.max.idle.ms), and whoever asks next loses a request by it.
IDLE_S_MAX = 300.0


class ConnectionPool:
    """Safe to share between threads: who waits long for an answer holds nobody up, the next caller has a connection too."""

    def __init__(
        self, settings: ClusterSettings, *, connect_timeout_s: float = CONNECT_TIMEOUT_S, any_release: bool = False
    ) -> None:
        self.brokers: dict[int, Address] = {}
        self.settings, self._connect_timeout_s, self._any_release = settings, connect_timeout_s, any_release
        self._bootstrap = [Address(host, port) for host, port in settings.bootstrap_servers]
        self._idle: dict[Address, list[tuple[Connection, float]]] = {}  # since when; the last one is lent first
        self._lent: set[Connection] = set()
        self._lock = threading.Lock()
        self._asked: dict[object, float] = {}  # since when somebody waits for an answer
        self._heard_at = self._failed_at = clock.now()

    @property
    def addresses(self) -> list[Address]:
        """Where a broker may answer: those of the newest metadata first."""
        return list(dict.fromkeys([*self.brokers.values(), *self._bootstrap]))

    def learn(self, view: ClusterView) -> None:
        """Takes the brokers of fresh metadata."""
        self.brokers = dict(view.brokers)

    def dial(self, address: Address) -> Connection:
        """A new connection of the caller's own."""
        settings = self.settings
        return connect(
            address,
            alias=settings.alias,
            security=settings.security,
            timeout_s=self._connect_timeout_s,
            any_release=self._any_release,
        )

    def renewed(self, settings: ClusterSettings) -> ConnectionPool:
        """A pool with other settings. The same brokers are known to it unless they may be reached elsewhere now."""
        timeout_s, any_release = self._connect_timeout_s, self._any_release
        made = ConnectionPool(settings, connect_timeout_s=timeout_s, any_release=any_release)
        if _listener(settings) == _listener(self.settings):
            made.brokers = dict(self.brokers)
        return made

    def retire(self) -> None:
        """Closes what is idle now, and what is lent as soon as it is given back."""
        with self._lock:
            idle = [connection for waiting in self._idle.values() for connection, _ in waiting]
            self._lent.clear()
            self._idle.clear()
        for connection in idle:
            connection.close()

    @property
    def silent_s(self) -> float:
        """For how long no broker has answered although one was asked; 0 while nobody asks or the last answer was one."""
        asked = min(list(self._asked.values()), default=math.inf)
        if self._failed_at > self._heard_at:
            asked = min(asked, self._failed_at)
        return max(clock.now() - max(asked, self._heard_at), 0.0)

    def talk(self, address: Address, action: Callable[[Connection], T]) -> T:
        """Runs `action` alone on a connection. One that was lost takes the idle ones to the same broker with it."""
        asked, began = object(), clock.now()
        self._asked[asked] = began
        try:
            found = self._talk(address, action)
        except (ConnectionLost, ClusterUnreachable):
            if self._failed_at <= self._heard_at:
                self._failed_at = clock.now()
            raise
        except SparkmirrorError:
            self._heard_at = clock.now()
            raise
        else:
            self._heard_at = clock.now()
            return found
        finally:
            del self._asked[asked]

    def _talk(self, address: Address, action: Callable[[Connection], T]) -> T:
        connection = self._take(address)
        is_sound = False
        try:
            found = action(connection)
            is_sound = True
        except SparkmirrorError as error:
            is_sound = not isinstance(error, ConnectionLost)  # a refusal is an answer, too
            raise
        finally:
            self._give_back(address, connection, is_sound)
        return found

    def _take(self, address: Address) -> Connection:
        with self._lock:
            self._close_idle()
            waiting = self._idle.get(address)
            connection = waiting.pop()[0] if waiting else None
        connection = connection or self.dial(address)
        with self._lock:
            self._lent.add(connection)
        return connection

    def _give_back(self, address: Address, connection: Connection, is_sound: bool) -> None:
        with self._lock:
            is_open = connection in self._lent  # not closed meanwhile
            self._lent.discard(connection)
            if is_sound and is_open:
                self._idle.setdefault(address, []).append((connection, clock.now()))
                return
            lost = [connection] if is_sound else [connection, *(c for c, _ in self._idle.pop(address, []))]
        for other in lost:
            other.close()

    def _close_idle(self) -> None:
        oldest = clock.now() - IDLE_S_MAX
        for address, waiting in self._idle.items():
            for connection, since in waiting:
                if since < oldest or connection.is_outlived:
                    connection.close()
            self._idle[address] = [(c, since) for c, since in waiting if since >= oldest and not c.is_outlived]

    def close(self) -> None:
        """Closes every connection, also those that are lent."""
        with self._lock:
            found = [*self._lent, *(connection for waiting in self._idle.values() for connection, _ in waiting)]
            self._lent.clear()
            self._idle.clear()
        for connection in found:
            connection.close()


def _listener(settings: ClusterSettings) -> object:
    """What decides at which of their addresses brokers are reached."""
    return settings.bootstrap_servers, settings.security.get("security.protocol")
