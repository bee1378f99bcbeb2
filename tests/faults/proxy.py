"""A frame-aware TCP proxy: cuts the connection after the n-th Produce request went through and before its answer does."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading

PRODUCE = 0


class CuttingProxy:
    """Listens on a port of its own for one broker. `cut_after(n)` arms it; each cut disarms it."""

    def __init__(self, broker_port: int) -> None:
        self._broker_port = broker_port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        self.cuts = 0
        self._left: int | None = None
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_after(self, requests: int) -> None:
        """The connection that carries this many more Produce requests of at least 10 kB loses its answers and ends."""
        with self._lock:
            self._left = requests

    def close(self) -> None:
        """Ends every connection."""
        self._server.close()
        for sock in self._sockets:
            with contextlib.suppress(OSError):
                sock.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                broker = socket.create_connection(("127.0.0.1", self._broker_port))
                self._sockets += [client, broker]
                mute = threading.Event()
                threading.Thread(target=self._requests, args=(client, broker, mute), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, broker, mute), daemon=True).start()

    def _requests(self, client: socket.socket, broker: socket.socket, mute: threading.Event) -> None:
        with contextlib.suppress(OSError, EOFError):
            while True:
                head = _read(client, 4)
                body = _read(client, struct.unpack(">i", head)[0])
                is_cut = struct.unpack_from(">h", body)[0] == PRODUCE and len(body) > 10_000 and self._count()
                if is_cut:
                    mute.set()
                broker.sendall(head + body)
                if is_cut:
                    self.cuts += 1
                    threading.Event().wait(0.3)  # the broker works on what it got; nobody hears of it
                    break
        for sock in (client, broker):
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                sock.close()

    def _count(self) -> bool:
        with self._lock:
            if self._left is None:
                return False
            self._left -= 1
            if self._left <= 0:
                self._left = None
                return True
            return False

    def _answers(self, client: socket.socket, broker: socket.socket, mute: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := broker.recv(65536):
                if not mute.is_set():
                    client.sendall(data)


def _read(sock: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        if not chunk:
            raise EOFError
        data += chunk
    return bytes(data)
