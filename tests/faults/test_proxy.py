"""The proxy of the fault rows, before a tiny server that answers every frame with what it holds."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from faults.proxy import Api, Do, Fault, Proxy
from faults.workload import wait_until

VERSION = 7
NOTHING_COMES_S = 0.2


class Echo(socketserver.ThreadingTCPServer):
    """Answers a request with its correlation id and body, and keeps the bodies it saw."""

    allow_reuse_address = daemon_threads = True

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        super().__init__(("127.0.0.1", 0), EchoTalk)


class EchoTalk(socketserver.BaseRequestHandler):
    """One connection."""

    server: Echo

    def handle(self) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                frame = read_frame(self.request)
                self.server.seen.append(frame[8:])
                self.request.sendall(struct.pack(">i", len(frame) - 4) + frame[4:])


class Client:
    """Sends requests and reads their answers."""

    def __init__(self, port: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", port), 10)
        self._correlation = 0

    def send(self, api: int, body: bytes) -> None:
        self._correlation += 1
        head = struct.pack(">hhi", api, VERSION, self._correlation)
        self.sock.sendall(struct.pack(">i", len(head) + len(body)) + head + body)

    def ask(self, api: int, body: bytes) -> bytes:
        self.send(api, body)
        return self.read()

    def read(self) -> bytes:
        frame = read_frame(self.sock)
        assert int.from_bytes(frame[:4], "big") <= self._correlation
        return frame[4:]

    def hears_nothing(self) -> bool:
        self.sock.settimeout(NOTHING_COMES_S)
        with contextlib.suppress(TimeoutError):
            self.sock.recv(1)
            return False
        self.sock.settimeout(10)
        return True


def read_all(sock: socket.socket) -> tuple[bytes, type[Exception]]:
    """What comes until the end, and how that is reported."""
    got = b""
    try:
        while chunk := sock.recv(100):
            got += chunk
    except ConnectionResetError as error:
        return got, type(error)
    return got, EOFError


def read_frame(sock: socket.socket) -> bytes:
    def exactly(size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = sock.recv(size - len(data))
            if not chunk:
                raise EOFError(data)
            data += chunk
        return data

    return exactly(int.from_bytes(exactly(4), "big"))


@pytest.fixture
def echo() -> Iterator[Echo]:
    with Echo() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        yield server
        server.shutdown()


@pytest.fixture
def proxy(echo: Echo) -> Iterator[Proxy]:
    with Proxy(echo.server_address[1]) as made:
        yield made


@pytest.fixture
def client(proxy: Proxy) -> Iterator[Client]:
    made = Client(proxy.port)
    with made.sock:
        yield made


def test_frames_pass_unharmed_and_in_order(client: Client, proxy: Proxy) -> None:
    bodies = [bytes([number]) * (number * 1000) for number in range(50)]
    for body in bodies:
        client.send(Api.FETCH, body)
    assert [client.read() for _ in bodies] == bodies
    assert len(proxy.links) == 1


@pytest.mark.parametrize("at", [0, 1, 4, 9])
@pytest.mark.parametrize("how", [Do.FIN, Do.RST])
def test_an_answer_is_cut_at_its_byte_after_the_request_went_through(
    client: Client, proxy: Proxy, echo: Echo, how: Do, at: int
) -> None:
    armed = proxy.arm(Fault(Api.PRODUCE, how, at=at, skip=1))
    assert client.ask(Api.PRODUCE, b"first") == b"first"
    assert client.ask(Api.METADATA, b"other") == b"other"
    client.send(Api.PRODUCE, b"second")
    is_told = False
    try:
        client.send(Api.PRODUCE, b"third, unread when the link is cut")
    except ConnectionError:  # the link was cut already; a reset is reported once, and then the stream merely ends
        is_told = True
    armed.await_hits()
    got, ending = read_all(client.sock)
    assert ending is (EOFError if how is Do.FIN or is_told else ConnectionResetError)
    assert how is Do.RST or len(got) == at  # what lies unread before a RST may be lost with it
    assert echo.seen[:3] == [b"first", b"other", b"second"]


def test_a_request_that_is_cut_before_it_is_forwarded_never_arrives(client: Client, proxy: Proxy, echo: Echo) -> None:
    proxy.arm(Fault(Api.PRODUCE, Do.RST, before=True))
    client.send(Api.PRODUCE, b"lost")
    assert read_all(client.sock)[1] is ConnectionResetError
    again = Client(proxy.port)
    with again.sock:
        assert again.ask(Api.PRODUCE, b"again") == b"again"
    assert echo.seen == [b"again"]


def test_an_answer_is_held_until_it_is_released(client: Client, proxy: Proxy, echo: Echo) -> None:
    armed = proxy.arm(Fault(Api.PRODUCE, Do.HOLD))
    client.send(Api.PRODUCE, b"held")
    client.send(Api.PRODUCE, b"behind it")
    armed.await_hits()
    wait_until(lambda: echo.seen == [b"held", b"behind it"] and len(proxy.links[0].owed) == 2, "both are forwarded")
    assert client.hears_nothing()
    armed.release()
    assert [client.read(), client.read()] == [b"held", b"behind it"]


def test_a_link_with_a_held_answer_can_be_cut(client: Client, proxy: Proxy) -> None:
    other = Client(proxy.port)
    armed = proxy.arm(Fault(Api.PRODUCE, Do.HOLD))
    client.send(Api.PRODUCE, b"held")
    armed.await_hits()
    proxy.cut(*armed.links)
    assert read_all(client.sock)[1] is ConnectionResetError
    armed.release()
    with other.sock:
        assert other.ask(Api.PRODUCE, b"x") == b"x"
    wait_until(lambda: not proxy.links, "both links end")


def test_a_held_request_arrives_after_its_sender_is_gone(client: Client, proxy: Proxy, echo: Echo) -> None:
    armed = proxy.arm(Fault(Api.PRODUCE, Do.HOLD, before=True))
    client.send(Api.PRODUCE, b"late")
    armed.await_hits()
    client.sock.close()
    newer = Client(proxy.port)
    with newer.sock:
        assert newer.ask(Api.PRODUCE, b"new") == b"new"
    armed.release()
    wait_until(lambda: echo.seen == [b"new", b"late"], "the late one arrives")
    wait_until(lambda: not proxy.links, "its link ends")


def test_only_the_requests_that_are_meant_are_hit(client: Client, proxy: Proxy) -> None:
    armed = proxy.arm(Fault(None, Do.FLIP, at=12, times=100, of=lambda frame: b"this" in frame))
    assert client.ask(Api.FETCH, b"that") == b"that"
    assert client.ask(Api.FETCH, b"this") != b"this"
    armed.disarm()
    assert client.ask(Api.FETCH, b"this") == b"this"
    assert armed.hits == 1


def test_a_flipped_bit_is_one_bit_and_the_same_for_the_same_seed(echo: Echo) -> None:
    body, seen = bytes(100), []
    for seed in ("one", "one", "other"):
        with Proxy(echo.server_address[1], seed=seed) as proxy:
            proxy.arm(Fault(Api.FETCH, Do.FLIP, at=None))
            client = Client(proxy.port)
            with client.sock:
                client.send(Api.FETCH, body)
                seen.append(read_frame(client.sock))
    differing = sum((a ^ b).bit_count() for a, b in zip(seen[0], struct.pack(">i", 1) + body, strict=True))
    assert differing == 1
    assert seen[0] == seen[1] != seen[2]


def test_delays_run_side_by_side_and_rates_add_up(client: Client, proxy: Proxy) -> None:
    proxy.latency_s = 0.1
    began = time.monotonic()
    for _ in range(10):
        client.send(Api.FETCH, b"x")
    for _ in range(10):
        client.read()
    assert 0.2 <= time.monotonic() - began < 1.9  # one after the other they would take 2 s
    proxy.latency_s, proxy.bytes_per_s = 0.0, 200_000
    began = time.monotonic()
    client.ask(Api.FETCH, bytes(50_000))
    assert time.monotonic() - began >= 0.4  # 50 kB there and back, but for the first chunks
    proxy.bytes_per_s = 0.0
    slow = proxy.arm(Fault(Api.FETCH, Do.RATE, amount=100_000))
    began = time.monotonic()
    assert client.ask(Api.FETCH, bytes(20_000)) == bytes(20_000)
    assert time.monotonic() - began >= 0.2
    later = proxy.arm(Fault(Api.FETCH, Do.DELAY, amount=0.3))
    began = time.monotonic()
    assert client.ask(Api.FETCH, b"y") == b"y"
    assert time.monotonic() - began >= 0.3
    assert (slow.hits, later.hits) == (1, 1)


def test_nothing_passes_a_clogged_proxy_and_everything_afterwards(client: Client, proxy: Proxy, echo: Echo) -> None:
    assert client.ask(Api.FETCH, b"before") == b"before"
    proxy.clog()
    client.send(Api.FETCH, b"meanwhile")
    other = Client(proxy.port)
    other.send(Api.FETCH, b"on a new link")
    assert client.hears_nothing() and other.hears_nothing()
    assert echo.seen == [b"before"]
    proxy.unclog()
    assert client.read() == b"meanwhile"
    assert other.read() == b"on a new link"
    other.sock.close()


def test_all_links_are_cut_at_once(proxy: Proxy, client: Client) -> None:
    assert client.ask(Api.FETCH, b"x") == b"x"
    proxy.cut()
    assert read_all(client.sock)[1] is ConnectionResetError
