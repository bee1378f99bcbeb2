"""One caller's connection: uvicorn's, bounded in number, bytes and time, so that nobody outside can hold up the copying.

uvicorn's `H11Protocol` does not limit how long a head, a body or the reading of an answer may take, nor how many connections
a caller has. A head has HEAD_BYTES_MAX bytes and HEAD_S seconds. Whatever way a connection ends, a timer that aborts it is
set first.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from sparkmirror.rest.messages import TOO_OFTEN, HttpAnswer, refusal
from sparkmirror.rest.rates import Rates

HEAD_BYTES_MAX = 16 * 1024  # a scraper's has a few hundred
CONNECTIONS_MAX = 64
CONNECTIONS_OF_ONE_MAX = 32
HEAD_S = 5.0  # from a request's first byte, and from the beginning of a connection, to the end of the head
BODY_S = 10.0  # from there to the end of the body
LIVE_LINE = b"GET /health/live "
IDLE_S = 75  # Prometheus asks once a minute or oftener on the same connection
READ_S = 30.0  # for the caller to take an answer
# New connections of one caller. A request on one more is refused before it is parsed, but for the question whether we live.
OPENED_PER_S, OPENED_BURST = 40.0, 80.0
CHANGES_MAX = 1000  # that wait for the log; it is written ten times a second
LINGER_S = 2.0  # for a caller that still sends, to see the answer: closing at once would take it away (RFC 9112 9.6)


@dataclass(slots=True)
class Connections:
    """All connections, the one that was silent longest first."""

    tls: ssl.SSLContext | None = None
    clients: dict[HttpConnection, None] = field(default_factory=dict)
    opened: Rates = field(default_factory=lambda: Rates(OPENED_PER_S, OPENED_BURST))
    trouble: str = ""  # the last request that could not be answered, "" if there was none
    # Who asked for a change, and with which answer, until it is logged.
    changes: deque[str] = field(default_factory=lambda: deque(maxlen=CHANGES_MAX))

    def note_failure(self, error: Exception) -> None:
        """A request could not be answered."""
        self.trouble = f"an HTTP request could not be answered: {type(error).__name__}: {error}"

    def make_room(self, caller: str) -> None:
        """Closes the longest silent one of whoever has most connections, if there is no room for one more."""
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

    def protocol(self, **arguments: Any) -> HttpConnection:
        """A new connection, as uvicorn asks for one."""
        return HttpConnection(self, **arguments)


class _Requests(h11.Connection):
    """Remembers which status h11 proposes for a request that it refuses."""

    refused_status = 400

    def next_event(self) -> Any:
        try:
            return super().next_event()
        except h11.RemoteProtocolError as error:
            self.refused_status = error.error_status_hint
            raise


class HttpConnection(H11Protocol):
    """One connection, counted from its first byte, also while it shakes hands for TLS."""

    def __init__(self, all_of_them: Connections, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.conn: _Requests = _Requests(h11.SERVER, HEAD_BYTES_MAX)
        self._all = all_of_them
        self._timer: asyncio.TimerHandle | None = None
        self._ending: asyncio.TimerHandle | None = None
        self._securing: asyncio.Task[None] | None = None
        self._watched = ""  # what the timer waits for: "head", "body"
        self._is_deaf = False  # an end was written; what still comes is thrown away
        self._is_one_too_many = False
        self._is_ready = False  # with TLS only after the handshake
        self.caller = ""

    @property
    def unsent_bytes(self) -> int:
        """Of answers that the caller has not taken yet."""
        beneath = self._plain.get_write_buffer_size()
        return beneath if not self._is_ready or self.transport is self._plain else (
            beneath + self.transport.get_write_buffer_size()
        )  # fmt: skip

    # --- the life of a connection --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Counts the caller before it has sent anything."""
        assert isinstance(transport, asyncio.Transport)
        # Head and body are written one after the other; asyncio does this only to sockets that name their protocol.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._plain = transport
        self.caller = _place(str((transport.get_extra_info("peername") or ("",))[0]))
        self._is_one_too_many = not self._all.opened.allows(self.caller, self.loop.time())
        self._all.make_room(self.caller)
        self._all.clients[self] = None
        if self._all.tls is None:
            self._begin(transport)
        else:  # not by the server: that would count it only after the handshake
            transport.pause_reading()
            self._securing = self.loop.create_task(self._secure(self._all.tls))

    def _begin(self, transport: asyncio.Transport) -> None:
        self._is_ready = True
        super().connection_made(transport)
        self.app_state = {"caller": self.caller}
        self._watch("head")

    async def _secure(self, tls: ssl.SSLContext) -> None:
        try:
            secured = await self.loop.start_tls(
                self._plain, self, tls, server_side=True, ssl_handshake_timeout=HEAD_S, ssl_shutdown_timeout=LINGER_S
            )
        except OSError:  # no TLS, another version, too slow, gone: the caller knows better than we do
            secured = None
        if secured is None or self not in self._all.clients:
            self.hang_up()
            return
        self._begin(secured)
        self._go_on()  # with TLS 1.3 a request may already be here

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the caller."""
        if self in self._all.clients:
            del self._all.clients[self]
            for timer in (self._timer, self._ending):
                if timer is not None:
                    timer.cancel()
            self._unset_keepalive_if_required()
            if self._is_ready:
                super().connection_lost(exc)

    def hang_up(self) -> None:
        """At once, whatever is under way."""
        self._is_deaf = True
        if self._securing is not None and not self._is_ready:
            self._securing.cancel()
        self.connection_lost(None)
        self._plain.abort()

    def shutdown(self) -> None:
        """The server ends."""
        self.hang_up()

    # --- requests ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Some bytes of one or more requests."""
        if self._is_deaf:
            return
        if self in self._all.clients:  # now the last to have sent something
            self._all.clients[self] = self._all.clients.pop(self)
        if self._is_one_too_many and self._is_ready and not data.startswith(LIVE_LINE):
            self._refuse(TOO_OFTEN)
            return
        self._unset_keepalive_if_required()
        self.conn.receive_data(data)
        if self._is_ready:
            self._go_on()

    def _go_on(self) -> None:
        self.handle_events()
        self._watch_request()

    def on_response_complete(self) -> None:
        """The next request may be here already."""
        super().on_response_complete()
        self._watch_request()

    def _watch_request(self) -> None:
        """Sets the timer of what is awaited. One that is awaited already goes on."""
        state = self.conn.their_state
        if state is h11.IDLE and self.conn.trailing_data[0]:
            self._watch("head")
        elif state is h11.SEND_BODY:
            self._watch("body")
        else:
            self._watch("")

    def _watch(self, what: str) -> None:
        if what == self._watched or self._is_deaf:
            return
        self._watched = what
        if self._timer is not None:
            self._timer.cancel()
        if what:
            self._timer = self.loop.call_later(HEAD_S if what == "head" else BODY_S, self._too_slow)

    def _too_slow(self) -> None:
        if self.flow.write_paused:  # the caller is still busy with the answer before; READ_S bounds that
            self._watched, what = "", self._watched
            self._watch(what)
            return
        seconds = HEAD_S if self._watched == "head" else BODY_S
        self._refuse(refusal(408, f"expected the whole {self._watched} of a request within {seconds:g} s, found less"))

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Nothing more will come. What was asked is still answered, if the caller takes the answer."""
        if not self._is_ready:
            return None
        is_answering = self.cycle is not None and not self.cycle.response_complete
        if is_answering:
            self.cycle.keep_alive = False
        self._end_in(READ_S)
        return is_answering and self.transport is self._plain  # TLS knows no half-closed connection

    # --- answers -------------------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """The caller does not take what it asked for: nothing more is read from it until it does."""
        super().pause_writing()
        self._end_in(READ_S)

    def resume_writing(self) -> None:
        """It did."""
        super().resume_writing()
        if self._ending is not None and not self._is_deaf:
            self._ending.cancel()

    def send_400_response(self, msg: str) -> None:
        """What h11 refuses."""
        status = self.conn.refused_status
        found = "a larger one" if status == 431 else "something else"
        message = f"expected a request of HTTP/1.1 with a head of at most {HEAD_BYTES_MAX} bytes, found {found}"
        self._refuse(refusal(status, message))

    def _refuse(self, answer: HttpAnswer) -> None:
        """Answers what is not read to its end, and closes when the caller has seen it."""
        if self.transport.is_closing() or self._is_deaf:
            return
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):  # there is an answer already
            self._plain.abort()
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        headers = [*self.server_state.default_headers, *answer.raw_headers, (b"connection", b"close")]
        head = h11.Response(status_code=answer.status, headers=headers)
        for event in (head, h11.Data(data=answer.body), h11.EndOfMessage()):
            self.transport.write(self.conn.send(event) or b"")
        self._is_deaf = True
        self._unset_keepalive_if_required()
        if self.transport.can_write_eof():
            self._end_in(LINGER_S)
            self.transport.write_eof()
        else:
            self._end_in(READ_S)
            self.transport.close()

    def _end_in(self, seconds: float) -> None:
        if self._ending is not None:
            self._ending.cancel()
        self._ending = self.loop.call_later(seconds, self._plain.abort)


def _place(address: str) -> str:
    """Who is taken for one caller: this machine, an IPv4 address, or an IPv6 network, which one host has all of."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.is_loopback:
        return "this machine"
    return str(found) if found.version == 4 else str(ipaddress.ip_network((found, 64), strict=False))


