"""One caller's connection: bounded in bytes, time and answers, so that nobody from outside can hold up the copying.

A head has HEAD_BYTES_MAX bytes and HEAD_S seconds. No request has a body: one that announces it is refused before it is
read. A caller that asks too often gets an error and is not read for a while, which bounds what a flood on it can cost.
Whatever way a connection ends, a timer that aborts it is set first.
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from sparkmirror.config.secrets import Secret
from sparkmirror.rest.answers import LIVE
from sparkmirror.rest.messages import HEAD_BYTES_MAX, HttpAnswer, RefusedRequest, Request, read_head, refusal, written
from sparkmirror.rest.rates import Rates

CONNECTIONS_MAX = 64
CONNECTIONS_OF_ONE_MAX = 32
HEAD_S = 5.0  # from a request's first byte, and from the beginning of a connection, to the end of the head
IDLE_S = 75.0  # Prometheus asks once a minute or oftener on the same connection
READ_S = 30.0  # for who asked, to take an answer
REST_S = 0.05  # not read after an answer too many: 20 a second for each connection
LINGER_S = 2.0  # for who still sends, to see the answer: closing at once would take it away from him (RFC 9112 9.6)
UNSENT_BYTES_MAX = 64 * 1024 * 1024  # of all answers that wait for their readers; one of 10,000 partitions has 18 MB
EVERYBODY = "everybody"

_END = b"\r\n\r\n"


@dataclass(slots=True)
class House:
    """What all connections share. `names` are those that a Host header may have, None if any will do."""

    answer: Callable[[str], HttpAnswer]
    token: Secret | None = None
    tls: ssl.SSLContext | None = None
    names: frozenset[str] | None = None
    rates: Rates = field(default_factory=Rates)
    total: Rates = field(default_factory=lambda: Rates(per_s=100.0, burst=200.0))
    clients: dict[HttpConnection, None] = field(default_factory=dict)  # who was silent longest first
    trouble: str = ""  # the last answer that could not be made, "" if there was none

    def make_room(self, caller: str) -> None:
        """Hangs up on the longest silent one of whoever has most connections, if there is no room for one more."""
        count = Counter(client.caller for client in self.clients)
        busiest = caller if count[caller] >= CONNECTIONS_OF_ONE_MAX else ""
        if len(self.clients) >= CONNECTIONS_MAX:
            busiest = count.most_common(1)[0][0]
        for client in list(self.clients):
            if client.caller == busiest:
                client.hang_up()
                return

    @property
    def unsent_bytes(self) -> int:
        """Of answers that nobody has taken yet."""
        return sum(client.unsent_bytes for client in self.clients)


class HttpConnection(asyncio.Protocol):
    """Answers one request after the other."""

    def __init__(self, house: House) -> None:
        self._house = house
        self._loop = asyncio.get_running_loop()
        self._pending = bytearray()
        self._timer: asyncio.TimerHandle | None = None
        self._securing: asyncio.Task[None] | None = None
        self._is_deaf = False  # an end was written; what still comes is thrown away
        self._is_resting = False
        self._is_full = False  # the caller has not taken the last answer yet
        self._is_secured = house.tls is None  # before that nothing is written; with TLS 1.3 a request may already be here
        self.caller = ""

    @property
    def unsent_bytes(self) -> int:
        """Of answers that the caller has not taken yet."""
        beneath = 0 if self._transport is self._plain else self._plain.get_write_buffer_size()
        return self._transport.get_write_buffer_size() + beneath

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Takes a caller in, before he has said a word."""
        assert isinstance(transport, asyncio.Transport)
        self._plain = self._transport = transport
        self.caller = _place(str((transport.get_extra_info("peername") or ("",))[0]))
        self._house.make_room(self.caller)
        self._house.clients[self] = None
        if self._house.tls is None:
            self._wait(HEAD_S, self._too_slow)
        else:  # not by the server: that would count him only when he has shaken hands
            transport.pause_reading()
            self._securing = self._loop.create_task(self._secure(self._house.tls))

    async def _secure(self, tls: ssl.SSLContext) -> None:
        try:
            secured = await self._loop.start_tls(
                self._plain, self, tls, server_side=True, ssl_handshake_timeout=HEAD_S, ssl_shutdown_timeout=LINGER_S
            )
        except OSError:  # no TLS, another version, too slow, gone: whoever it is knows better than we do
            secured = None
        if secured is None:
            self.hang_up()
            return
        self._transport, self._is_secured = secured, True
        if not self._is_deaf:
            self._wait(HEAD_S, self._too_slow)
            self._serve()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the caller."""
        self._house.clients.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Some bytes of one or more requests."""
        if self._is_deaf:
            return
        if self in self._house.clients:  # now the last to have spoken
            self._house.clients[self] = self._house.clients.pop(self)
        if not self._pending and self._is_secured:
            self._wait(HEAD_S, self._too_slow)
        self._pending += data
        self._serve()

    def eof_received(self) -> bool:
        """Nothing more will come: what is not answered yet was asked too fast. What was answered may still be taken."""
        self._is_deaf = True
        self._wait(READ_S, self._plain.abort)
        return False

    def pause_writing(self) -> None:
        """The caller does not take what it asked for: nothing more is read from it until it does."""
        self._is_full = True
        self._transport.pause_reading()
        self._wait(READ_S, self._plain.abort)

    def resume_writing(self) -> None:
        """It did."""
        self._is_full = False
        if not self._is_deaf:
            self._await_request()
        self._loop.call_soon(self._go_on)  # not now: asyncio is in the midst of writing

    def hang_up(self) -> None:
        """At once, whatever is under way."""
        self._is_deaf = True
        if self._securing is not None and not self._is_secured:
            self._securing.cancel()
        self.connection_lost(None)
        self._plain.abort()

    def _serve(self) -> None:
        """Answers one request if it is whole; others come after whoever else waits."""
        if not self._is_able():
            return
        end = self._pending.find(_END, 0, HEAD_BYTES_MAX + len(_END))
        if end < 0:
            if len(self._pending) >= HEAD_BYTES_MAX + len(_END):
                self._end(refusal(431, f"expected a head of at most {HEAD_BYTES_MAX} bytes, found more"))
            return
        head = bytes(self._pending[:end])
        del self._pending[: end + len(_END)]
        self._await_request()
        self._answer(head)
        if self._pending:
            self._loop.call_soon(self._go_on)

    def _answer(self, head: bytes) -> None:
        try:
            request = read_head(head)
            if request.has_body:
                raise RefusedRequest(413, "expected a request without a body, found one")
        except RefusedRequest as error:
            self._end(refusal(error.status, error.message))
            return
        is_known = self._house.token is None or _is_token(request.headers.get("authorization", ""), self._house.token)
        is_allowed = self._is_allowed(request, is_known=is_known)
        if not is_allowed and request.path != LIVE:
            answer = refusal(429, "expected fewer requests from this address", ("Retry-After", "1"))
        else:
            answer = self._refused(request, is_known=is_known) or self._made(request.path)
        self._transport.write(written(answer, is_last=request.is_last, with_body=request.method != "HEAD"))
        if request.is_last:
            self._finish()
        elif not is_allowed:
            self._rest()

    def _is_allowed(self, request: Request, *, is_known: bool) -> bool:
        """Whether this is not too often. Who asks whether we live does not use up what he may ask else, nor do strangers."""
        now, kind = self._loop.time(), "live" if request.path == LIVE else "known" if is_known else "stranger"
        is_allowed = self._house.rates.allows(f"{self.caller} {kind}", now)
        return is_allowed and self._house.total.allows(f"{EVERYBODY} {kind}", now)

    def _made(self, path: str) -> HttpAnswer:
        if path != LIVE and self._house.unsent_bytes > UNSENT_BYTES_MAX:
            text = f"expected at most {UNSENT_BYTES_MAX} bytes of answers that nobody takes, found more"
            return refusal(503, text, ("Retry-After", "5"))
        try:
            return self._house.answer(path)
        except Exception as error:  # noqa: BLE001  border to HTTP: the caller gets no traceback, the run's log tells it
            self._house.trouble = f"an HTTP request could not be answered: {type(error).__name__}: {error}"
            return refusal(500, "this could not be answered; the mirror's log says why")

    def _refused(self, request: Request, *, is_known: bool) -> HttpAnswer | None:
        """Why this caller gets no answer to this; None if it does."""
        if request.method not in ("GET", "HEAD"):
            return refusal(405, "expected GET or HEAD, found another method", ("Allow", "GET, HEAD"))
        if request.path == LIVE:
            return None
        if not is_known:
            text = "expected the token of --listen-token, found none or another"
            return refusal(401, text, ("WWW-Authenticate", "Bearer"))
        # A page in a browser can make its own name point here; it can neither know a token nor call us by an address.
        if self._house.names is not None and not _is_own_name(request.headers.get("host", ""), self._house.names):
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
        if self._is_able():
            self._transport.resume_reading()
            self._serve()

    def _is_able(self) -> bool:
        is_held_up = self._is_deaf or self._is_resting or self._is_full or not self._is_secured
        return not is_held_up and not self._transport.is_closing()

    def _await_request(self) -> None:
        """The next one, of which some may be here already."""
        if self._pending:
            self._wait(HEAD_S, self._too_slow)
        else:
            self._wait(IDLE_S, self._finish)

    def _too_slow(self) -> None:
        self._end(refusal(408, f"expected the whole head of a request within {HEAD_S:g} s, found less"))

    def _finish(self) -> None:
        """Closes behind what is written."""
        self._is_deaf = True
        self._wait(READ_S, self._plain.abort)
        if not self._transport.is_closing():
            self._transport.close()

    def _end(self, answer: HttpAnswer) -> None:
        """Refuses what is not read to its end, and closes when the caller has seen it."""
        if self._transport.is_closing():
            return
        self._transport.write(written(answer, is_last=True))
        if not self._transport.can_write_eof():  # TLS knows no half-closed connection
            self._finish()
            return
        self._is_deaf = True
        self._wait(LINGER_S, self._plain.abort)
        self._transport.write_eof()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(seconds, then)


def _place(address: str) -> str:
    """Who is taken for one caller: this machine, an IPv4 address, or an IPv6 network, which one host has all of."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.is_loopback:
        return "this machine"
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


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
