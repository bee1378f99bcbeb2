"""The thread that answers callers while the main loop goes on."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Self

from sparkmirror.errors import ConfigError
from sparkmirror.pipeline import FlowStatus
from sparkmirror.rest.address import Address
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.connection import HEAD_S, Connection, House

__all__ = ["HttpDoor"]

WAITING_MAX = 128  # callers that the kernel keeps until they are taken in


class HttpDoor:
    """Listens from the beginning, so that a port that is taken ends the run before it began; answers while entered."""

    def __init__(self, address: Address) -> None:
        self._answers = FlowAnswers()
        self._house = House(self._answers.of, address.token)
        self._tls = address.tls
        self._socket = _bound(address)

    @property
    def url(self) -> str:
        """Where it listens, with the port that was found if any was good."""
        host, port = self._socket.getsockname()[:2]
        return f"{'https' if self._tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def trouble(self) -> str:
        """The last request that could not be answered, "" if there was none."""
        return self._house.trouble

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, args=(self._loop,), name="http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """One look at the flows, called often."""
        self._answers.show(flows)

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        loop.set_exception_handler(self._note)
        handshake_s = HEAD_S if self._tls is not None else None
        starting = loop.create_server(
            lambda: Connection(self._house),
            sock=self._socket, ssl=self._tls, backlog=WAITING_MAX, ssl_handshake_timeout=handshake_s,
        )  # fmt: skip
        server = loop.run_until_complete(starting)
        try:
            loop.run_forever()
        finally:
            server.close()
            for guest in list(self._house.guests):
                guest.hang_up()
            loop.run_until_complete(asyncio.sleep(0))  # so that the transports give their sockets back
            loop.close()

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """What asyncio could not tell anybody. A caller that goes away or speaks no TLS is no trouble of ours."""
        error = context.get("exception")
        if not isinstance(error, ConnectionError | ssl.SSLError | TimeoutError):
            self._house.trouble = f"the HTTP server: {context.get('message')}: {error}"


def _bound(address: Address) -> socket.socket:
    where = f"--listen {address.host}:{address.port}"
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family, backlog=WAITING_MAX)
    except OSError as error:
        raise ConfigError(
            f"{where}: expected an address of this machine and a free port, found {error.strerror}",
            hint=f"ss -ltnp 'sport = :{address.port}' shows who listens there; --listen 0 takes any free port",
        ) from None
