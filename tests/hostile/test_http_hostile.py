"""Callers that send too much, too slowly, too often, or what is no HTTP: each is told, and nobody is held up by them."""

from __future__ import annotations

import http.client
import io
import json
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from integration.authority import Authority

from sparkmirror.model import FlowName
from sparkmirror.rest import AccessFiles, HttpDoor, address_of, connection, guard
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.connection import CONNECTIONS_OF_ONE_MAX
from sparkmirror.rest.rates import BURST
from sparkmirror.status import FlowStatus

SECONDS_MAX = 10.0
TOKEN = "0123456789abcdef0123"


@pytest.fixture
def door() -> Iterator[HttpDoor]:
    with HttpDoor(address_of("0")) as opened:
        opened.show([FlowStatus(FlowName("A", "B"), "running")])
        yield opened


class Answers(io.BufferedReader):
    """What comes back on one connection: the library closes what it read an answer from, and here comes another."""

    def close(self) -> None:
        """Not yet."""


class Caller:
    """One connection; the library reads the answers."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), SECONDS_MAX)
        self._answers = Answers(socket.SocketIO(self.socket, "r"))

    def makefile(self, mode: str) -> Answers:
        return self._answers

    def close(self) -> None:
        self.socket.close()

    def send(self, content: bytes) -> None:
        self.socket.sendall(content)

    def answer(self) -> tuple[int, bytes]:
        response = http.client.HTTPResponse(self)  # type: ignore[arg-type]
        response.begin()
        return response.status, response.read()

    def is_hung_up_on(self) -> bool:
        """Waits until the other side closes, with or without ado."""
        try:
            while self._answers.read1(65536):
                pass
        except ConnectionError:
            return True
        return True


def called(door: HttpDoor) -> Caller:
    return Caller(int(door.url.rpartition(":")[2]))


def asked(door: HttpDoor, content: bytes) -> int:
    """The status that these bytes get."""
    with closing(called(door)) as caller:
        caller.send(content)
        status, body = caller.answer()
        assert status == 200 or json.loads(body)["error_code"] == status
        return status


def get(path: str, *headers: str, method: str = "GET", host: str = "localhost") -> bytes:
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {host}", *headers, "", ""]).encode("latin-1")


def test_one_connection_serves_many_requests_also_such_that_come_together_or_in_pieces(door: HttpDoor) -> None:
    with closing(called(door)) as caller:
        caller.send(get("/flows") + get("/health/live") + get("/metrics")[:9])
        assert caller.answer()[0] == 200
        assert caller.answer() == (200, b'{\n  "status": "up"\n}\n')
        caller.send(get("/metrics")[9:])
        assert b"sparkmirror_flow_running" in caller.answer()[1]
        caller.send(get("/metrics", "Connection: close"))
        assert caller.answer()[0] == 200
        assert caller.is_hung_up_on()


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),  # TLS where there is none
        (b"GET /flows\r\n\r\n", 400),
        (get("/flows", "Content-Length: 100000000", method="POST"), 413),
        (get("/flows", "Transfer-Encoding: chunked", method="POST"), 405),
        (get("/flows", method="DELETE"), 405),
        (get("/flows/%2e%2e%2fetc"), 404),
        (get("/%00"), 404),
        (get("/flows", *(f"X-{number}: y" for number in range(100))), 431),
        (get("/" + "a" * 20_000), 431),
        (get("/flows", host="evil.example"), 403),
        (get("/flows", host="evil.example:8083"), 403),
        (get("/flows", host=""), 403),
        (get("/flows", host="[::1]:80"), 200),
        (get("/flows", host="10.1.2.3"), 200),
        (get("/flows", host="LOCALHOST.:1"), 200),
        (get("/flows", host=socket.gethostname()), 200),
        (get("/health/live", host="evil.example"), 200),
        (get("/flows", method="HEAD"), 200),
    ],
    ids=lambda value: str(value)[:40] if isinstance(value, int) else None,
)
def test_each_gets_its_own_status(door: HttpDoor, content: bytes, status: int) -> None:
    if content.startswith(b"HEAD"):
        with closing(called(door)) as caller:
            caller.send(content)
            assert caller.socket.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        return
    assert asked(door, content) == status


def test_a_hundred_megabytes_are_refused_by_their_announcement_and_not_kept(door: HttpDoor) -> None:
    with closing(called(door)) as caller:
        caller.send(get("/flows", "Content-Length: 100000000", method="PUT"))
        sent = 0
        try:
            for _ in range(1600):
                sent += caller.socket.send(bytes(65536))
        except ConnectionError:
            pass
        assert caller.answer()[0] == 413
        assert sent > 1_000_000  # it was listened to, so that it could hear the answer


def test_ten_thousand_headers_are_refused(door: HttpDoor) -> None:
    with closing(called(door)) as caller:
        caller.send(get("/flows", *(f"X-Header-{number}: some value" for number in range(10_000))))
        assert caller.answer()[0] == 431


@pytest.mark.parametrize("begun", [b"", b"GET /flows HT"])
def test_who_sends_slowly_is_told_and_hung_up_on(door: HttpDoor, begun: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 0.3)
    with closing(called(door)) as caller:
        began = time.monotonic()
        if begun:
            caller.send(begun)
            for sign in b"TP/1.1\r\n":  # byte by byte does not help
                time.sleep(0.02)
                caller.send(bytes([sign]))
        assert caller.answer()[0] == 408
        assert time.monotonic() - began < 3.0
        assert caller.is_hung_up_on()


def test_who_asks_too_often_is_told_while_others_and_the_question_for_life_are_answered(door: HttpDoor) -> None:
    with closing(called(door)) as caller:
        statuses = []
        for _ in range(int(BURST) + 10):
            caller.send(get("/flows"))
            statuses.append(caller.answer()[0])
        assert set(statuses[: int(BURST)]) == {200}
        assert 429 in statuses
        for _ in range(int(BURST) + 10):
            caller.send(get("/health/live"))
            assert caller.answer()[0] == 200


def test_who_opens_a_connection_for_each_request_too_often_is_refused_but_for_the_question_for_life(door: HttpDoor) -> None:
    statuses = [asked(door, get("/flows")) for _ in range(int(connection.OPENED_BURST) + 20)]
    assert 429 in statuses
    door._connections.opened.allows("this machine", time.monotonic())
    for _ in range(int(BURST) - 5):
        assert asked(door, get("/health/live")) == 200


def test_a_slow_body_is_refused(door: HttpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "BODY_S", 0.3)
    monkeypatch.setattr(guard, "LINGER_S", 5.0)
    with closing(called(door)) as caller:
        caller.send(get("/flows", "Content-Length: 100", method="POST") + b"x")
        assert caller.answer()[0] == 405
        assert caller.is_hung_up_on()


def test_a_forwarded_address_is_not_believed(door: HttpDoor) -> None:
    statuses = []
    with closing(called(door)) as caller:
        for number in range(int(BURST) + 10):
            caller.send(get("/flows", f"X-Forwarded-For: 10.0.0.{number}"))
            statuses.append(caller.answer()[0])
    assert 429 in statuses


def test_a_flood_on_a_connection_is_slowed_down(door: HttpDoor) -> None:
    with closing(called(door)) as caller:
        caller.send(get("/flows") * (int(BURST) + 20))
        began = time.monotonic()
        statuses = [caller.answer()[0] for _ in range(int(BURST) + 20)]
        assert statuses.count(429) >= 5
        assert time.monotonic() - began > 0.4  # 20 a second


def test_who_takes_more_connections_than_there_is_room_for_loses_those_that_were_silent_longest(door: HttpDoor) -> None:
    with ExitStack() as stack:
        guests = [stack.enter_context(closing(called(door))) for _ in range(CONNECTIONS_OF_ONE_MAX)]
        for guest in [*guests, guests[0]]:
            guest.send(get("/health/live"))
            assert guest.answer()[0] == 200
        late = stack.enter_context(closing(called(door)))
        late.send(get("/health/live"))
        assert late.answer()[0] == 200
        assert guests[1].is_hung_up_on()
        for guest in (guests[0], *guests[2:]):
            guest.send(get("/health/live"))
            assert guest.answer()[0] == 200


def large_flow(megabytes: int) -> FlowStatus:
    """A flow whose whole answer has so many megabytes."""
    return FlowStatus(FlowName("A", "B"), "running", stopped_topics={f"t{at}": "n" * 1000 for at in range(1000 * megabytes)})


@pytest.mark.parametrize("rest", [b"", b"GET /fl"])
def test_who_goes_away_without_taking_his_answer_is_forgotten(
    door: HttpDoor, rest: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "READ_S", 0.3)
    monkeypatch.setattr(connection, "HEAD_S", 0.3)
    monkeypatch.setattr(connection, "IDLE_S", 0.3)
    door.show([large_flow(8)])
    with closing(called(door)) as caller:
        caller.send(get("/flows/A->B") + rest)
        caller.socket.shutdown(socket.SHUT_WR)
        await_true(lambda: bool(door._connections.clients))
        await_true(lambda: not door._connections.clients)


def test_who_does_not_read_what_he_asked_for_holds_nobody_up(door: HttpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "READ_S", 0.5)
    large = large_flow(20)
    door.show([large])
    with closing(called(door)) as caller:
        caller.send(get("/flows/A->B") * 3)
        began = time.monotonic()
        assert asked(door, get("/health/live")) == 200
        assert time.monotonic() - began < 5.0
        time.sleep(1.0)
        assert caller.is_hung_up_on()
    with closing(called(door)) as patient:
        patient.send(get("/flows/A->B") + get("/health/live"))
        assert len(patient.answer()[1]) > 20_000_000
        assert patient.answer()[0] == 200


def test_a_request_behind_a_large_answer_is_answered_and_one_that_is_not_whole_is_refused(
    door: HttpDoor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "HEAD_S", 1.0)
    door.show([large_flow(8)])
    with closing(called(door)) as caller:
        caller.send(get("/flows/A->B") + get("/health/live", "Connection: close"))
        assert [caller.answer()[0] for _ in range(2)] == [200, 200]
        assert caller.is_hung_up_on()
    with closing(called(door)) as caller:
        caller.send(get("/flows/A->B") + b"GET /fl")
        assert [caller.answer()[0] for _ in range(2)] == [200, 408]
    assert door.trouble == ""


def test_answers_that_nobody_takes_are_bounded(door: HttpDoor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "UNSENT_BYTES_MAX", 100_000)
    door.show([large_flow(20)])
    with closing(called(door)) as greedy:
        greedy.send(get("/flows/A->B"))
        await_true(lambda: door._connections.unsent_bytes > 100_000)
        assert asked(door, get("/flows/A->B")) == 503
        assert asked(door, get("/health/live")) == 200
        assert len(greedy.answer()[1]) > 20_000_000
    assert asked(door, get("/flows/A->B")) == 200


def await_true(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_random_bytes_end_in_an_answer_or_a_closed_connection(door: HttpDoor, rng: random.Random) -> None:
    for _ in range(200):
        with closing(called(door)) as caller:
            content = bytearray(get("/flows", "A: b") + get("/metrics"))
            for _ in range(rng.randrange(1, 6)):
                content[rng.randrange(len(content))] = rng.randrange(256)
            caller.send(bytes(content))
            caller.socket.shutdown(socket.SHUT_WR)
            assert caller.is_hung_up_on()
    assert asked(door, get("/health/live")) == 200
    assert door.trouble == ""


def test_an_answer_that_cannot_be_made_tells_the_log_and_not_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(FlowAnswers, "_ready")
    with HttpDoor(address_of("0")) as door, closing(called(door)) as caller:
        caller.send(get("/health/ready"))
        status, body = caller.answer()
        assert (status, json.loads(body)["message"]) == (500, "this could not be answered; the mirror's log says why")
        assert "AttributeError" in door.trouble
        caller.send(get("/flows"))
        assert caller.answer()[0] == 200


def test_a_token_is_asked_for_over_tls(tmp_path: Path) -> None:
    authority, token = Authority(tmp_path, "own"), tmp_path / "token"
    token.write_text(TOKEN)
    certificate = str(authority.issue("mirror"))
    trusting = ssl.create_default_context(cafile=str(authority.file))
    with HttpDoor(address_of("0.0.0.0:0", AccessFiles(token=str(token), certificate=certificate))) as door:
        door.show([])
        port = int(door.url.rpartition(":")[2])
        assert door.url.startswith("https://")

        def status(path: str, **headers: str) -> int:
            caller = http.client.HTTPSConnection("localhost", port, context=trusting, timeout=SECONDS_MAX)
            with closing(caller):
                caller.request("GET", path, headers=headers)
                return caller.getresponse().status

        assert status("/flows") == 401
        assert status("/flows", Authorization=f"Bearer {TOKEN}x") == 401
        assert status("/flows", Authorization=TOKEN) == 401
        assert status("/flows", Authorization=f"bearer {TOKEN}") == 200
        assert status("/flows", Authorization=f"Bearer {TOKEN}", Host="mirror.example") == 200
        assert status("/health/live") == 200
        with closing(Caller(port)) as plain:
            plain.send(get("/flows"))
            assert plain.is_hung_up_on()
        with ExitStack() as stack:  # who does not shake hands has no more room than others
            silent = [stack.enter_context(closing(Caller(port))) for _ in range(2 * CONNECTIONS_OF_ONE_MAX)]
            assert all(caller.is_hung_up_on() for caller in silent[: CONNECTIONS_OF_ONE_MAX - 1])
            assert len(door._connections.clients) <= CONNECTIONS_OF_ONE_MAX
            assert status("/health/live") == 200
        for _ in range(20):
            assert status("/health/live") == 200
        assert door.trouble == ""


def test_a_door_that_is_left_at_once_leaves_nothing() -> None:
    for _ in range(5):
        with HttpDoor(address_of("0")) as door, closing(called(door)):
            pass
    assert "http" not in [thread.name for thread in threading.enumerate()]


def test_callers_that_go_away_write_nothing_to_the_log(door: HttpDoor, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        with closing(called(door)) as caller:
            caller.send(get("/health/live") * 30)
    await_true(lambda: not door._connections.clients)
    assert capfd.readouterr().err == ""
    assert door.trouble == ""


def test_nothing_stays_behind_a_closed_door() -> None:
    with HttpDoor(address_of("0")) as door:
        port = int(door.url.rpartition(":")[2])
        caller = called(door)
        caller.send(get("/health/live"))
        assert caller.answer()[0] == 200
    with closing(caller):
        assert caller.is_hung_up_on()
    with pytest.raises(ConnectionRefusedError):
        Caller(port)
    assert "http" not in [thread.name for thread in threading.enumerate()]
