"""The thread that answers callers while the main loop runs: uvicorn, within the limits of `connection.py` and `guard.py`."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
import threading
from collections.abc import Callable, Sequence
from typing import Self

from uvicorn import Config, Server

from sparkmirror.config import Settings, shown_connector_texts
from sparkmirror.errors import ConfigError
from sparkmirror.rest.address import ListenAddress
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.app import application
from sparkmirror.rest.asking import FlowOwners
from sparkmirror.rest.changes import ConnectChanges
from sparkmirror.rest.configuring import ConnectSettings
from sparkmirror.rest.connect import ConnectWorker
from sparkmirror.rest.connection import IDLE_S, Connections
from sparkmirror.rest.guard import Guard
from sparkmirror.rest.loggers import LogLevels
from sparkmirror.rest.openapi import openapi_paths
from sparkmirror.rest.page import OperatorPage
from sparkmirror.rest.paths import Paths, Workers, merged
from sparkmirror.rest.plugins import plugin_paths
from sparkmirror.rest.shown import ShownConnectors
from sparkmirror.rest.translation import TranslationPath
from sparkmirror.status import FlowStatus

WAITING_MAX = 128  # callers that the kernel keeps until they are accepted


class HttpDoor:
    """Listens from the beginning, so that a port that is taken ends the run before it began; answers while entered."""

    def __init__(
        self, address: ListenAddress, settings: Settings | None = None, page: OperatorPage | None = None
    ) -> None:
        self._socket = _bound(address)
        host, port = self._socket.getsockname()[:2]
        place = f"{f'[{host}]' if ':' in host else host}:{port}"
        self.url = f"{'https' if address.tls else 'http'}://{place}"
        self._answers = FlowAnswers(labels=() if settings is None else settings.metric_labels)
        self._connections = Connections(address.tls)
        self.say: Callable[[str, str, str], None] = lambda level, about, text: None  # logs a line
        self._settings, self._texts = settings, {} if settings is None else shown_connector_texts(settings)
        self._page = OperatorPage(settings) if page is None else page
        self._shown = ShownConnectors(self._answers, settings, self._texts)
        self.levels = LogLevels(str(flow.name) for flow in (settings.flows if settings is not None else ()))
        paths = merged(
            ConnectWorker(self._shown.listed, place, self._cluster_id).paths(),
            plugin_paths(),
            self.levels.paths(),
            *self._changes(place),
        )
        paths = merged(paths, openapi_paths(paths))
        routes = application(self._answers, self._page.routes(), paths, self._connections.note_failure)
        self._guard = Guard(
            routes, self._connections, address.token, _names(address), address.operate_token, address.is_open,
            address.is_loopback,
        )  # fmt: skip

    @property
    def trouble(self) -> str:
        """The last request that could not be answered, "" if there was none."""
        return self._connections.trouble

    def __enter__(self) -> Self:
        # What a caller does to its connection is no news; what is ours comes to _note.
        logging.getLogger("asyncio").setLevel(logging.CRITICAL)
        config = Config(
            self._guard,
            http=self._connections.protocol,  # type: ignore[arg-type]  # it is only called
            ws="none",
            lifespan="off",
            loop="asyncio",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # anybody can send them
            timeout_keep_alive=IDLE_S,
            backlog=WAITING_MAX,
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self._serve, name="http", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._page.close()

    def show(self, flows: Sequence[FlowStatus]) -> None:
        """One look at the flows, called often; logs what was asked for since the last one."""
        self._answers.show(flows)
        self._page.show(flows)
        while self._connections.changes:
            self.say("INFO", "-", self._connections.changes.popleft())

    def _changes(self, place: str) -> list[Paths]:
        if self._settings is None:
            return []
        shown, workers = self._shown, Workers()
        owners = FlowOwners(shown.listed, self._settings, workers)
        return [
            ConnectChanges(owners, place, shown.forget_topics).paths(),
            ConnectSettings(owners, shown.all, shown.deleted).paths(),
            TranslationPath(self._settings, workers).paths(),
        ]

    def _cluster_id(self) -> str | None:
        """Of the first flow's target, as Connect names the cluster that it writes to."""
        return next((status.target_cluster_id for status in self._answers.flows if status.target_cluster_id), None)

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            runner.get_loop().set_exception_handler(self._note)
            runner.run(self._server.serve(sockets=[self._socket]))

    def _note(self, loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        """What asyncio could not raise anywhere. A caller that goes away or speaks no TLS is no trouble of ours."""
        error = context.get("exception")
        is_gone = isinstance(error, OSError) and error.errno == errno.ENOTCONN
        if not is_gone and not isinstance(error, ConnectionError | ssl.SSLError | TimeoutError):
            self._connections.trouble = f"the HTTP server: {context.get('message')}: {error}"


def _names(address: ListenAddress) -> frozenset[str] | None:
    """What a request may call this machine; anything where a token is asked for, or everybody may read and nobody change."""
    if address.token is not None or not address.is_loopback:
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
