"""One caller's connection: bounded in bytes, time and answers, so that nobody from outside can hold up the copying.

A head has HEAD_BYTES_MAX bytes and HEAD_S seconds. No request has a body: one that announces it is refused before it is
read. Who asks too often is told so and is not read for a while, which bounds what a flood on it can cost.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkmirror.config.secrets import Secret
from sparkmirror.rest.answers import LIVE
from sparkmirror.rest.messages import HEAD_BYTES_MAX, Answer, RefusedRequest, Request, read_head, refusal, written
from sparkmirror.rest.rates import Rates

__all__ = ["Connection", "House"]

CONNECTIONS_MAX = 64
HEAD_S = 5.0  # from a request's first byte, and from the beginning of a connection, to the end of the head
IDLE_S = 75.0  # Prometheus asks once a minute or oftener on the same connection
READ_S = 30.0  # for who asked, to take an answer
REST_S = 0.05  # not read after an answer too many: 20 a second for each connection
LINGER_S = 2.0  # for who still sends, to see the answer: closing at once would take it away from him (RFC 9112 9.6)

_END = b"\r\n\r\n"


@dataclass(slots=True)
class House:
    """What all connections share."""

    answer: Callable[[str], Answer]
    token: Secret | None = None
    rates: Rates = field(default_factory=Rates)
    names: frozenset[str] = field(default_factory=lambda: frozenset({"localhost", socket.gethostname().lower()}))
    guests: set[Connection] = field(default_factory=set)
    trouble: str = ""  # the last answer that could not be made, "" if there was none


class Connection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._caller = ""
        self._timer: asyncio.TimerHandle | None = None
        self._is_deaf = False  # an end was written; what still comes is thrown away
        self._is_resting = False
        self._is_full = False  # the caller has not taken the last answer yet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes a caller in if there is room."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._caller = str((transport.get_extra_info("peername") or ("",))[0])
        if len(self._house.guests) >= CONNECTIONS_MAX:
            full = refusal(503, f"expected at most {CONNECTIONS_MAX} connections, found more", ("Retry-After", "5"))
            self._is_deaf = True
            transport.write(written(full, is_last=True))
            transport.close()  # at once: descriptors are what must not run out
            return
        self._house.guests.add(self)
        self._wait(HEAD_S, self._too_slow)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the caller."""
        self._house.guests.discard(self)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Some bytes of one or more requests."""
        if self._is_deaf:
            return
        if not self._pending:
            self._wait(HEAD_S, self._too_slow)
        self._pending += data
        self._serve()

    def eof_received(self) -> bool:
        """Nothing more will come: what is not answered yet was asked too fast."""
        return False

    def pause_writing(self) -> None:
        """The caller does not take what it asked for: nothing more is read from it until it does."""
        self._is_full = True
        self._transport.pause_reading()
        self._wait(READ_S, self._transport.abort)

    def resume_writing(self) -> None:
        """It did."""
        self._is_full = False
        if not self._is_deaf:
            self._wait(IDLE_S, self._transport.close)
        self._go_on()

    def hang_up(self) -> None:
        """The door closes."""
        self._transport.abort()

    def _serve(self) -> None:
        """Answers what is whole."""
        while not (self._is_deaf or self._is_resting or self._is_full):
            end = self._pending.find(_END, 0, HEAD_BYTES_MAX + len(_END))
            if end < 0:
                if len(self._pending) > HEAD_BYTES_MAX:
                    self._end(refusal(431, f"expected a head of at most {HEAD_BYTES_MAX} bytes, found more"))
                return
            head = bytes(self._pending[:end])
            del self._pending[: end + len(_END)]
            self._wait(HEAD_S if self._pending else IDLE_S, self._too_slow if self._pending else self._transport.close)
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        try:
            request = read_head(head)
            if request.has_body:
                raise RefusedRequest(413, "expected a request without a body, found one")
        except RefusedRequest as error:
            self._end(refusal(error.status, error.message))
            return
        is_live = request.path == LIVE
        # Whoever asks too often whether we live must not think us dead; he waits for the next answer as all others do.
        is_allowed = self._house.rates.allows(f"{self._caller} {is_live}", self._loop.time())
        if not is_allowed and not is_live:
            answer = refusal(429, "expected fewer requests from this address", ("Retry-After", "1"))
        else:
            answer = self._refused(request) or self._made(request.path)
        self._transport.write(written(answer, is_last=request.is_last, with_body=request.method != "HEAD"))
        if request.is_last:
            self._finish()
        elif not is_allowed:
            self._rest()

    def _made(self, path: str) -> Answer:
        try:
            return self._house.answer(path)
        except Exception as error:  # noqa: BLE001  border to HTTP: the caller gets no traceback, the run's log tells it
            self._house.trouble = f"an HTTP request could not be answered: {type(error).__name__}: {error}"
            return refusal(500, "this could not be answered; the mirror's log says why")

    def _refused(self, request: Request) -> Answer | None:
        """Why this caller gets no answer to this; None if it does."""
        token, headers = self._house.token, request.headers
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "expected GET or HEAD, found another method", ("Allow", "GET, HEAD"))
        if request.path == LIVE:
            return None
        if token is not None and not _is_token(headers.get("authorization", ""), token):
            told = "expected the token of --listen-token, found none or another"
            return refusal(401, told, ("WWW-Authenticate", "Bearer"))
        # A page in a browser can make its own name point here; it can neither know a token nor call us by an address.
        if token is None and not _is_own_name(headers.get("host", ""), self._house.names):
            return refusal(403, "expected an address or this machine's name as Host, found another name")
        return None

    def _rest(self) -> None:
        self._is_resting = True
        self._transport.pause_reading()
        self._loop.call_later(REST_S, self._rested)

    def _rested(self) -> None:
        self._is_resting = False
        self._go_on()

    def _go_on(self) -> None:
        """Reads and answers again, if nothing else keeps it from that."""
        if not (self._is_resting or self._is_full or self._transport.is_closing()):
            self._transport.resume_reading()
            self._serve()

    def _too_slow(self) -> None:
        self._end(refusal(408, f"expected the whole head of a request within {HEAD_S:g} s, found less"))

    def _finish(self) -> None:
        """Closes behind what is written."""
        self._is_deaf = True
        self._wait(READ_S, self._transport.abort)
        self._transport.close()

    def _end(self, answer: Answer) -> None:
        """Refuses what is not read to its end, and closes when the caller has seen it."""
        self._transport.write(written(answer, is_last=True))
        if not self._transport.can_write_eof():  # TLS knows no half-closed connection
            self._finish()
            return
        self._is_deaf = True
        self._wait(LINGER_S, self._transport.abort)
        self._transport.write_eof()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)


def _is_token(authorization: str, token: Secret) -> bool:
    scheme, _, found = authorization.partition(" ")
    is_equal = hmac.compare_digest(found.strip().encode("latin-1"), token.reveal().encode())
    return scheme.lower() == "bearer" and is_equal


def _is_own_name(host: str, names: frozenset[str]) -> bool:
    name = host.partition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name.lower().removesuffix(".") in names
    return True
