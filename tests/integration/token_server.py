"""A token endpoint over loopback HTTP that knows one client, and makes tokens that nobody signed."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class TokenServer(ThreadingHTTPServer):
    """Counts what it gives out; `life_s` is that of its tokens."""

    daemon_threads = True

    def __init__(self, client_id: str, client_secret: str, life_s: float = 600.0) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.client_id, self.life_s = client_id, life_s
        self.expected = "Basic " + base64.b64encode(f"{client_id}:{client_secret}".encode()).decode()
        self.given: list[str] = []
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        """Where tokens are asked for."""
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class _Answer(BaseHTTPRequestHandler):
    server: TokenServer

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        if self.headers["Authorization"] != self.server.expected:
            self._send(401, {"error": "invalid_client"})
            return
        token = unsigned_token(self.server.client_id, self.server.life_s)
        self.server.given.append(token)
        self._send(200, {"access_token": token, "token_type": "Bearer", "expires_in": self.server.life_s})

    def _send(self, status: int, answer: dict[str, object]) -> None:
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


def unsigned_token(subject: str, life_s: float) -> str:
    """A JWT without a signature."""
    now = time.time()
    claims = {"sub": subject, "iat": now, "exp": now + life_s}
    return ".".join(_packed(part) for part in ({"alg": "none"}, claims)) + "."


def _packed(value: dict[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


@contextlib.contextmanager
def token_server(client_id: str, client_secret: str, life_s: float = 600.0) -> Iterator[TokenServer]:
    """A running endpoint."""
    server = TokenServer(client_id, client_secret, life_s)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
