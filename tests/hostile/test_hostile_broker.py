"""A server that is no broker, or a bad one: every answer ends in a clear error, in bounded time, never in a hang."""

from __future__ import annotations

import contextlib
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sparkmirror.clusters import (
    METADATA_VERSIONS,
    Address,
    ClusterClient,
    PipelinedConnection,
    connect,
    connection,
    metadata_request,
)
from sparkmirror.config.values import ClusterSettings
from sparkmirror.errors import ClusterError, ClusterUnreachable, ConnectionLost

Talk = Callable[[socket.socket, bytes], None]
SECONDS_MAX = 10.0


class HostileServer:
    """Reads each request whole and lets `talk` answer it; at most a few connections."""

    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = Address("127.0.0.1", self._server.getsockname()[1])
        self._sockets: list[socket.socket] = []
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                self._sockets.append(sock)
                threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, struct.error):
            while True:
                (size,) = struct.unpack(">i", sock.recv(4, socket.MSG_WAITALL))
                self._talk(sock, sock.recv(size, socket.MSG_WAITALL))

    def close(self) -> None:
        """Ends everything: the accepting thread first, so that no connection is accepted and forgotten."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._accepting.join(SECONDS_MAX)
        for sock in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                sock.close()


@pytest.fixture
def server() -> Iterator[Callable[[Talk], HostileServer]]:
    with contextlib.ExitStack() as opened:
        yield lambda talk: opened.enter_context(contextlib.closing(HostileServer(talk)))


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def correlation(request: bytes) -> bytes:
    """The correlation id of a request, to be given back."""
    return request[4:8]


def closes(sock: socket.socket, request: bytes) -> None:
    sock.shutdown(socket.SHUT_RDWR)


def says(data: bytes) -> Talk:
    return lambda sock, request: sock.sendall(data)


def breaks_off(sock: socket.socket, request: bytes) -> None:
    sock.sendall(struct.pack(">i", 100) + correlation(request) + bytes(20))
    sock.shutdown(socket.SHUT_RDWR)


def answers_another(sock: socket.socket, request: bytes) -> None:
    sock.sendall(frame(struct.pack(">i", 77) + bytes(40)))


def talks_nonsense(seed: int) -> Talk:
    noise = random.Random(seed)
    return lambda sock, request: sock.sendall(frame(correlation(request) + noise.randbytes(noise.randint(0, 60))))


def trickles(sock: socket.socket, request: bytes) -> None:
    sock.sendall(struct.pack(">i", 1 << 20) + correlation(request))
    while True:
        sock.sendall(b"\0")
        time.sleep(0.02)


TALKS = {
    "closes at once": closes,
    "negative length": says(struct.pack(">i", -12)),
    "length of 2 GB": says(struct.pack(">i", 0x7FFFFFFF) + bytes(1000)),
    "length too short for an id": says(struct.pack(">i", 3) + bytes(3)),
    "speaks HTTP": says(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
    "speaks TLS": says(b"\x15\x03\x03\x00\x02\x02\x28"),
    "breaks off in mid-frame": breaks_off,
    "answers another request": answers_another,
    "trickles without an end": trickles,
} | {f"talks nonsense {seed}": talks_nonsense(seed) for seed in range(20)}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trickle is judged after half a second here, not after half a minute."""
    monkeypatch.setattr(connection, "TRICKLE_S", 0.5)


@pytest.mark.parametrize("talk", TALKS)
def test_a_dial_ends_with_a_clear_error(server: Callable[[Talk], HostileServer], talk: str) -> None:
    hostile = server(TALKS[talk])
    began = time.monotonic()
    with pytest.raises(ClusterError) as told:
        connect(hostile.address, alias="A", security={}, timeout_s=2.0)
    assert time.monotonic() - began < SECONDS_MAX
    assert "A at 127.0.0.1" in str(told.value)


def test_a_client_names_the_cluster_and_every_address(server: Callable[[Talk], HostileServer]) -> None:
    hostile = server(TALKS["length of 2 GB"])
    settings = ClusterSettings("A", ((hostile.address.host, hostile.address.port),), {})
    with contextlib.closing(ClusterClient(settings)) as client, pytest.raises(ClusterUnreachable) as told:
        client.view(())
    assert "is this a Kafka listener?" in str(told.value)
    assert str(hostile.address) in str(told.value)


@pytest.mark.parametrize("talk", [name for name in TALKS if "nonsense" not in name])
def test_a_broken_connection_fails_everything_that_waits_on_it(server: Callable[[Talk], HostileServer], talk: str) -> None:
    hostile = server(TALKS[talk])
    sock = socket.create_connection((hostile.address.host, hostile.address.port))
    made = PipelinedConnection(connection.Connection(sock, hostile.address, "A"), time.monotonic())
    heard: list[object] = []
    made.send(1, 12, [b"body"], lambda answer, at: heard.append(answer), time.monotonic())
    made.flush()
    deadline = time.monotonic() + SECONDS_MAX
    while made.broken is None:
        assert time.monotonic() < deadline, "the connection hangs"
        made.read(time.monotonic())
        time.sleep(0.005)
    made.close()
    assert heard == [None]
    assert isinstance(made.lost(), ConnectionLost)


@pytest.mark.parametrize("talk", [name for name in TALKS if "nonsense" in name])
def test_a_pipelined_connection_that_hears_nonsense_tells_who_asked_and_never_raises(
    server: Callable[[Talk], HostileServer], talk: str
) -> None:
    hostile = server(TALKS[talk])
    sock = socket.create_connection((hostile.address.host, hostile.address.port))
    made = PipelinedConnection(connection.Connection(sock, hostile.address, "A"), time.monotonic())
    heard: list[object] = []
    made.ask(metadata_request(["t"], METADATA_VERSIONS[1]), heard.append, time.monotonic())
    deadline = time.monotonic() + SECONDS_MAX
    while made.broken is None and not heard:
        assert time.monotonic() < deadline, "the connection hangs"
        made.read(time.monotonic())
        time.sleep(0.005)
    made.close()
    assert len(heard) == 1
    assert (heard[0] is None) == (made.broken is not None)
