"""The thread that answers callers while the main loop goes on."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Sequence
from typing import Self

from sparkmirror.errors import ConfigError
from sparkmirror.rest.address import ListenAddress
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.connection import House, HttpConnection
from sparkmirror.status import FlowStatus

WAITING_MAX = 128  # callers that the kernel keeps until they are taken in
CLEARING_TURNS = 4  # accepted, made, hung up, closed: a turn of the loop each


class HttpDoor:
    """Listens from the beginning, so that a port that is taken ends the run before it began; answers while entered."""

    def __init__(self, address: ListenAddress) -> None:
        self._answers = FlowAnswers()
        self._house = House(self._answers.of, address.token, address.tls, _names(address))
        self._socket = _bound(address)
        host, port = self._socket.getsockname()[:2]
        self.url = f"{'https' if address.tls else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    @property
    def trouble(self) -> str:
        """The last request that could not be answered, "" if there was none."""
        return self._house.trouble

    def __enter__(self) -> Self:
        # What a caller does to its connection is no news; what is ours comes to _note.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        self._loop = asyncio.new_event_loop()
        self._loop.set_exception_handler(self._note)
        starting = self._loop.create_server(lambda: HttpConnection(self._house), sock=self._socket, backlog=WAITING_MAX)
        self._server = self._loop.run_until_complete(starting)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """One look at the flows, called often."""
        self._answers.show(flows)

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            # Nobody more comes in; a server that closes while somebody does would forget his socket.
            self._loop.remove_reader(self._socket)
            self._loop.run_until_complete(self._clear())
            self._server.close()
            self._loop.close()

    async def _clear(self) -> None:
        """Hangs up on everybody, also on who is just coming in, and lets the transports give their sockets back."""
        own = asyncio.current_task()
        for _ in range(CLEARING_TURNS):
            for client in list(self._house.clients):
                client.hang_up()
            await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not own), return_exceptions=True)
            await asyncio.sleep(0)

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """What asyncio could not tell anybody. A caller that goes away or speaks no TLS is no trouble of ours."""
        error = context.get("exception")
        is_gone = isinstance(error, OSError) and error.errno == errno.ENOTCONN
        if not is_gone and not isinstance(error, ConnectionError | ssl.SSLError | TimeoutError):
            self._house.trouble = f"the HTTP server: {context.get('message')}: {error}"


def _names(address: ListenAddress) -> frozenset[str] | None:
    """What a request may call this machine; anything where a token is asked for, or everybody may read."""
    if address.token is not None or address.is_open:
        return None
    return frozenset(name.lower() for name in ("localhost", socket.gethostname(), socket.getfqdn(), address.host))


def _bound(address: ListenAddress) -> socket.socket:
    where = f"--listen {address.host}:{address.port}"
    try:
        family, _, _, _, place = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(place[:2], family=family, backlog=WAITING_MAX)
    except OSError as error:
        raise ConfigError(
            f"{where}: expected an address of this machine and a free port, found {error.strerror}",
            hint=f"ss -ltnp 'sport = :{address.port}' shows who listens there; --listen 0 takes any free port",
        ) from None
