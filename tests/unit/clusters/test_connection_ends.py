"""What is said of a connection that ended, and of an answer that came late."""

from __future__ import annotations

import itertools
import socket
from contextlib import closing

import pytest
from fake.cluster import FakeCluster

from sparkmirror.clusters import Address, ClusterClient, clock, connection
from sparkmirror.config.values import ClusterSettings
from sparkmirror.errors import ClusterError, ConnectionLost

API, VERSION = 3, 12


def test_a_broker_that_is_gone_is_not_suspected_of_another_security_protocol(fake_cluster: FakeCluster) -> None:
    with closing(ClusterClient(ClusterSettings("A", ((fake_cluster.host, fake_cluster.port),), {}))) as client:
        client.view(())
        fake_cluster.close()
        with pytest.raises(ClusterError) as gone:
            client.view(())
    assert "security protocol" not in gone.value.message


def test_a_talk_that_was_understood_and_ends_is_a_closed_connection() -> None:
    ours, theirs = socket.socketpair()
    with theirs, closing(connection.Connection(ours, Address("127.0.0.1", 1), "A")) as made:
        theirs.sendall(b"\0\0\0\5" + b"\0\0\0\1" + b"\0")  # an answer without a body
        made.exchange(API, VERSION, [], timeout_s=5)
        theirs.shutdown(socket.SHUT_WR)
        with pytest.raises(ConnectionLost) as lost:
            made.exchange(API, VERSION, [], timeout_s=5)
    assert lost.value.message == "A at 127.0.0.1:1: the broker closed the connection"


def test_an_answer_that_lay_there_when_the_process_woke_up_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """A frozen process must not call a whole answer too slow."""
    hours = itertools.count(0.0, 3600.0)
    monkeypatch.setattr(clock, "now", lambda: next(hours))
    ours, theirs = socket.socketpair()
    with theirs, closing(connection.Connection(ours, Address("127.0.0.1", 1), "A")) as made:
        theirs.sendall(b"\0\0\0\5" + b"\0\0\0\1" + b"\0")
        frame, at = made.exchange(API, VERSION, [], timeout_s=5)
    assert (bytes(frame), at) == (b"\0\0\0\1\0", 5)
