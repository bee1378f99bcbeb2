"""Frames on a loopback socket: requests decoded, answered by the file for their API, answers encoded."""

from __future__ import annotations

import contextlib
import io
import socket
import struct
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

__all__ = ["Server"]

API_VERSIONS, UNSUPPORTED_VERSION = 18, 35
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
BEFORE_LOGIN = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class Server:
    """One thread that accepts, and one for each connection."""

    def __init__(self, cluster: FakeCluster, port: int = 0) -> None:
        self._cluster = cluster
        self._server = socket.create_server(("127.0.0.1", port))
        self.host, self.port = self._server.getsockname()
        self._sockets: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept, name="fake broker", daemon=True)]
        self._threads[0].start()

    def close(self) -> None:
        """Ends every connection and thread."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.hang_up()
        for thread in self._threads:
            thread.join(5.0)

    def hang_up(self) -> None:
        """Ends every connection."""
        for sock in list(self._sockets):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._server.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._sockets.append(sock)
                thread = threading.Thread(target=self._serve, args=(sock,), name="fake connection", daemon=True)
                self._threads.append(thread)
                thread.start()

    def _serve(self, sock: socket.socket) -> None:
        is_known = False  # who is on the other side, where users must log in
        with contextlib.suppress(OSError), sock:
            while frame := _read_frame(sock):
                with self._cluster.lock:
                    self._cluster.lock.wait_for(lambda: not self._cluster.is_silent)
                key, version, correlation = struct.unpack_from(">hhi", frame)
                if self._cluster.passwords is not None and not is_known and key not in BEFORE_LOGIN:
                    return
                values, answer = self._answer(frame, key, version, correlation)
                is_known = is_known or (key == SASL_AUTHENTICATE and not values["error_code"])
                sock.sendall(answer)

    def _answer(self, frame: bytes, key: int, version: int, correlation: int) -> tuple[dict[str, Any], bytes]:
        handler = self._cluster.handlers[key]
        low, high = handler.VERSIONS
        if key == API_VERSIONS and version > high:  # then brokers answer in version 0
            response, version, values = handler.RESPONSE, 0, {"error_code": UNSUPPORTED_VERSION, "api_keys": []}
        else:
            assert low <= version <= high, f"the fake broker knows API {key} in versions {low} to {high}, not {version}"
            stream = io.BytesIO(frame)
            handler.REQUEST.parse_header(stream, version=version)
            request = handler.REQUEST.decode(stream, version=version)
            with self._cluster.lock:
                is_dry = getattr(request, "validate_only", False)
                self._cluster.requests.append(-key if is_dry else key)
                response, values = handler.RESPONSE, handler.answer(self._cluster, request)
                self._cluster.lock.notify_all()
        built = _built(response, version, values)
        built.with_header(correlation_id=correlation)
        return values, bytes(built.encode(framed=True, header=True))


def _read_frame(sock: socket.socket) -> bytes:
    """One request, b"" at the end."""
    head = _read(sock, 4)
    return _read(sock, int.from_bytes(head, "big")) if head else b""


def _read(sock: socket.socket, size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        more = sock.recv(size - len(found))
        if not more:
            return b""
        found += more
    return bytes(found)


def _built(kind: Any, version: int, values: dict[str, Any]) -> Any:
    """kafka-python's message of plain dicts and lists."""
    known = {}
    for name, value in values.items():
        part = kind.fields[name]
        is_list = part.is_struct_array() and value is not None
        known[name] = [_built(part.data_class, version, one) for one in value] if is_list else value
    return kind(version=version, **known)
