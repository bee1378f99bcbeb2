"""A token endpoint on loopback, http or https, that knows one client and makes tokens that nobody signed.

It can go down and come up again on the same port, answer late or byte by byte, and hand out tokens that brokers refuse.
"""

from __future__ import annotations

import base64
import contextlib
import json
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

TRICKLE_S = 0.1  # between two bytes


class TokenServer(ThreadingHTTPServer):
    """Counts what it gives out.

    `life_s` is that of its tokens; `is_slow`: its answers trickle in; `is_wrong`: its tokens have ended long ago, while it
    says that they are new.
    """

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, client_id: str, client_secret: str, life_s: float = 600.0, certificate: Path | None = None) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.client_id, self.life_s = client_id, life_s
        self.is_slow = self.is_wrong = False
        self.sends_to = ""  # where a redirect leads
        self.expected = "Basic " + base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self.given: list[str] = []
        self.bodies: list[bytes] = []
        self._thread: threading.Thread | None = None
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate)

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"http{'s' if self._context else ''}://127.0.0.1:{self.server_address[1]}/token"

    def wants_client(self, authority: Path) -> None:
        """Only those with a certificate of this authority are answered."""
        assert self._context is not None
        self._context.verify_mode = ssl.CERT_REQUIRED
        self._context.load_verify_locations(authority)

    def finish_request(self, request: object, client_address: object) -> None:
        """On the connection's own thread, so that a handshake holds up nobody else."""
        if self._context is None or not isinstance(request, socket.socket):
            super().finish_request(request, client_address)  # type: ignore[arg-type]
            return
        try:
            talk = self._context.wrap_socket(request, server_side=True)
        except OSError:
            return  # a client that does not trust us
        with talk:
            super().finish_request(talk, client_address)  # type: ignore[arg-type]

    def up(self) -> None:
        """Answers from now on."""
        if self.socket.fileno() < 0:
            self.socket = socket.socket(self.address_family, self.socket_type)
            self.server_bind()
            self.server_activate()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    def down(self) -> None:
        """Nobody listens any more."""
        if self._thread is not None:
            self.shutdown()
            self._thread.join()
            self._thread = None
        self.server_close()


class _Answer(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != self.server.expected:
            self._send(401, {"error": "invalid_client"})
            return
        if self.server.sends_to:
            self.send_response(307)
            self.send_header("Location", self.server.sends_to)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        ended_s = 3600.0 if self.server.is_wrong else 0.0
        token = unsigned_token(self.server.client_id, self.server.life_s, began_s=-ended_s)
        self.server.given.append(token)
        self._send(200, {"access_token": token, "token_type": "Bearer", "expires_in": self.server.life_s})

    def _send(self, status: int, answer: dict[str, object]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        try:
            if self.server.is_slow:
                for byte in body:
                    self.wfile.write(bytes([byte]))
                    time.sleep(TRICKLE_S)
            else:
                self.wfile.write(body)
        except OSError:
            self.close_connection = True  # the client did not wait

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def unsigned_token(subject: str, life_s: float, *, began_s: float = 0.0) -> str:
    """A JWT without a signature, that began so many seconds from now."""
    began = time.time() + began_s
    claims = {"sub": subject, "iat": began, "exp": began + life_s}
    return ".".join(_packed(part) for part in ({"alg": "none"}, claims)) + "."


def _packed(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@contextlib.contextmanager
def token_server(
    client_id: str, client_secret: str, life_s: float = 600.0, certificate: Path | None = None
) -> Iterator[TokenServer]:
    """A running endpoint; https with a certificate."""
    server = TokenServer(client_id, client_secret, life_s, certificate)
    server.up()
    try:
        yield server
    finally:
        server.down()
