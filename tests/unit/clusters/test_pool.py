"""The pool: who gets which connection, and when one is closed."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from sparkmirror.clusters import Address, Connection, ConnectionPool, pool
from sparkmirror.config.values import ClusterSettings
from sparkmirror.errors import BrokerRefused, ConnectionLost

BROKER, OTHER = Address("a", 9092), Address("b", 9092)


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Connection]]:
    """Every connection that was made, each to the end of a pair of sockets."""
    made: list[Connection] = []
    ends: list[socket.socket] = []

    def connect(address: Address, **_: Any) -> Connection:
        ours, theirs = socket.socketpair()
        ends.append(theirs)
        made.append(Connection(ours, address, "A"))
        return made[-1]

    monkeypatch.setattr(pool, "connect", connect)
    yield made
    for connection in made:
        connection.close()
    for end in ends:
        end.close()


@pytest.fixture
def connections(dialled: list[Connection]) -> ConnectionPool:
    return ConnectionPool(ClusterSettings("A", (("a", 9092),), {}))


def same(connection: Connection) -> Connection:
    return connection


def is_closed(connection: Connection) -> bool:
    return connection.sock.fileno() < 0


def test_a_connection_serves_one_caller_after_the_other(connections: ConnectionPool, dialled: list[Connection]) -> None:
    assert connections.talk(BROKER, same) is connections.talk(BROKER, same)
    assert len(dialled) == 1


def test_a_caller_that_waits_holds_nobody_up(connections: ConnectionPool, dialled: list[Connection]) -> None:
    first, second = connections.talk(BROKER, lambda one: (one, connections.talk(BROKER, same)))
    assert first is not second
    assert connections.talk(BROKER, same) in (first, second)
    assert len(dialled) == 2


def test_a_connection_whose_login_is_about_to_end_is_not_lent_again(
    connections: ConnectionPool, dialled: list[Connection]
) -> None:
    old = connections.talk(BROKER, same)
    old.renew_at = time.monotonic()
    assert connections.talk(BROKER, same) is not old
    assert is_closed(old)


def test_a_connection_that_nobody_used_for_long_is_closed(
    connections: ConnectionPool, dialled: list[Connection], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = connections.talk(BROKER, same)
    monkeypatch.setattr(pool, "IDLE_S_MAX", -1.0)
    connections.talk(OTHER, same)
    assert is_closed(old)


def test_a_lost_connection_takes_the_idle_ones_to_its_broker_with_it(
    connections: ConnectionPool, dialled: list[Connection]
) -> None:
    def lose(connection: Connection) -> None:
        raise ConnectionLost("the broker is gone")

    connections.talk(BROKER, lambda _: connections.talk(BROKER, same))
    kept = connections.talk(OTHER, same)
    with pytest.raises(ConnectionLost):
        connections.talk(BROKER, lose)
    assert [is_closed(connection) for connection in dialled] == [True, True, False]
    assert connections.talk(OTHER, same) is kept


def test_a_refusal_keeps_the_connection(connections: ConnectionPool, dialled: list[Connection]) -> None:
    def refuse(connection: Connection) -> None:
        raise BrokerRefused("no", error_code=29)

    with pytest.raises(BrokerRefused):
        connections.talk(BROKER, refuse)
    connections.talk(BROKER, same)
    assert len(dialled) == 1


def test_a_connection_with_an_answer_still_to_come_is_closed(connections: ConnectionPool, dialled: list[Connection]) -> None:
    def be_interrupted(connection: Connection) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        connections.talk(BROKER, be_interrupted)
    assert is_closed(dialled[0])


def test_closing_closes_what_is_lent_and_what_is_idle(connections: ConnectionPool, dialled: list[Connection]) -> None:
    connections.talk(OTHER, same)
    lent = connections.talk(BROKER, lambda one: (connections.close(), one)[1])
    assert all(is_closed(connection) for connection in dialled)
    assert connections.talk(BROKER, same) is not lent


def test_a_broker_that_was_asked_and_does_not_answer_is_silent(
    connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [float(math.ceil(time.monotonic()))]
    monkeypatch.setattr(pool.clock, "now", lambda: now[0])

    def waits(connection: Connection) -> float:
        now[0] += 7.0
        return connections.silent_s

    connections.talk(BROKER, same)
    now[0] += 50.0
    assert connections.silent_s == 0.0  # nobody asked
    assert connections.talk(BROKER, waits) == 7.0
    assert connections.silent_s == 0.0


def test_a_cluster_is_silent_from_its_first_lost_connection_until_any_broker_answers(
    connections: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [float(math.ceil(time.monotonic()))]
    monkeypatch.setattr(pool.clock, "now", lambda: now[0])

    def lost(connection: Connection) -> None:
        raise ConnectionLost("gone")

    def refused(connection: Connection) -> None:
        raise BrokerRefused("no", error_code=29)

    for _ in range(3):
        now[0] += 2.0
        with pytest.raises(ConnectionLost):
            connections.talk(BROKER, lost)
    assert connections.silent_s == 4.0
    with pytest.raises(BrokerRefused):  # a refusal is an answer, too
        connections.talk(OTHER, refused)
    assert connections.silent_s == 0.0
