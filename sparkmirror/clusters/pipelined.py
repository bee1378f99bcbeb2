"""A pipelined, non-blocking connection for a slot's event loop.

Requests are answered in order; a request is a list of buffers sent without joining them, an answer is one buffer of
exactly its size, read straight from the socket. A connection is dead when no answer at all came for a while although some is
owed (never by the age of one request: 60 deep on a slow link the last one is old and healthy).
"""

from __future__ import annotations

import io
import ssl
import struct
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from sparkmirror.clusters.compact import skip_tags
from sparkmirror.clusters.connection import (
    CLIENT_ID,
    FRAME_BYTES_MAX,
    UNREADABLE,
    Buffer,
    Connection,
    is_trickle,
    request_head,
)
from sparkmirror.errors import ConnectionLost

# Called once with (answer, first byte after its header), or with (None, 0) when it broke and the outcome is unknown.
Reply = Callable[[bytearray | None, int], None]

# Small answers (acks) arrive many at a time: one read takes them all. Large ones are read into their own buffer.
SCRATCH_BYTES = 64 << 10
# sendmsg takes at most IOV_MAX (1024) buffers; half leaves room and keeps the slice cheap.
SEND_BUFFERS_MAX = 512
# Bytes read in one turn of the loop, so that one fast connection does not starve the others.
READ_BYTES_MAX = 8 << 20
# No answer at all for this long while some is owed: the request timeout of the broker (30 s) and slack.
SILENCE_S = 45.0

WOULD_BLOCK = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class PipelinedConnection:
    """Requests out, answers in, in order, without waiting."""

    def __init__(self, connection: Connection, now: float) -> None:
        self.connection = connection
        self.sock = connection.sock
        self.sock.settimeout(0)
        self.heard_at = now
        self.silence_s = SILENCE_S
        self.broken: str | None = None
        self._is_tls = isinstance(self.sock, ssl.SSLSocket)
        self._owed: deque[tuple[int, Reply, bool]] = deque()
        self._ready: deque[tuple[Reply, bytearray, int]] = deque()
        self._out: deque[memoryview] = deque()
        self._correlation = 0
        self._scratch = bytearray(SCRATCH_BYTES)
        self._scratch_view = memoryview(self._scratch)
        self._held = 0  # bytes of an unfinished frame at the start of scratch
        self._frame: bytearray | None = None
        self._frame_view: memoryview | None = None
        self._filled = 0
        self._frame_since = now

    def fileno(self) -> int:
        """For the selector."""
        return self.sock.fileno()

    @property
    def in_flight(self) -> int:
        """Answers still owed."""
        return len(self._owed)

    @property
    def wants_write(self) -> bool:
        """Whether bytes wait for the socket."""
        return bool(self._out)

    def send(self, api: int, version: int, parts: Sequence[Buffer], reply: Reply, now: float) -> None:
        """Queues a request in flexible encoding; `flush` sends it."""
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        head = request_head(api, version, correlation, sum(map(len, parts)))
        self._queue(head, parts, correlation, reply, now, True)

    def ask(self, request: Any, reply: Callable[[Any | None], None], now: float) -> None:
        """Queues a control request of kafka-python's message types; `reply` gets its decoded answer."""
        self._correlation = correlation = (self._correlation + 1) & 0x7FFFFFFF
        request.with_header(correlation_id=correlation, client_id=CLIENT_ID)
        response_type = request.header.get_response_class()

        def decode(buffer: bytearray | None, _at: int) -> None:
            if buffer is None:
                reply(None)
                return
            stream = io.BytesIO(buffer)
            try:
                response_type.parse_header(stream)
                answer = response_type.decode(stream)
            except UNREADABLE as error:
                self.broken = f"unreadable answer: {error}"
                reply(None)
                return
            reply(answer)

        self._queue(request.encode(framed=True, header=True), (), correlation, decode, now, False)
        self.flush()

    def _queue(
        self, head: bytes, parts: Sequence[Buffer], correlation: int, reply: Reply, now: float, tagged: bool
    ) -> None:
        if not self._owed:
            self.heard_at = now  # silence counts from the moment an answer is owed
        self._owed.append((correlation, reply, tagged))
        self._out.append(memoryview(head))
        self._out.extend(map(memoryview, parts))

    def flush(self) -> None:
        """Sends what the socket takes now."""
        out = self._out
        try:
            while out:
                if self._is_tls or len(out) == 1:
                    sent = self.sock.send(out[0])
                else:
                    sent = self.sock.sendmsg(islice(out, SEND_BUFFERS_MAX))
                while sent and sent >= len(out[0]):
                    sent -= len(out.popleft())
                if sent:
                    out[0] = out[0][sent:]
                    if not self._is_tls:
                        return
        except WOULD_BLOCK:
            return
        except OSError as error:
            self.broken = str(error) or type(error).__name__

    def read(self, now: float) -> None:
        """Takes what has arrived and hands out every complete answer."""
        self._take(now)
        while self._ready:
            reply, frame, at = self._ready.popleft()
            reply(frame, at)

    def _take(self, now: float) -> None:
        budget = READ_BYTES_MAX
        try:
            # What OpenSSL holds already decrypted wakes no selector: it is taken whatever the budget says.
            while budget > 0 or (self._is_tls and self.sock.pending()):  # type: ignore[attr-defined]
                got = self._read_some()
                if got == 0:
                    self.broken = "the broker closed the connection"
                    return
                self.heard_at = now
                budget -= got
                self._refuse_trickle(now)
                if self._frame is None and got < SCRATCH_BYTES and not (self._is_tls and self.sock.pending()):  # type: ignore[attr-defined]
                    return
        except WOULD_BLOCK:
            return
        except (OSError, ValueError, IndexError, struct.error) as error:
            self.broken = str(error) or type(error).__name__

    def _refuse_trickle(self, now: float) -> None:
        if self._frame is None:
            self._frame_since = now
        elif is_trickle(self._filled, now - self._frame_since):
            raise ValueError(f"{self._filled} of {len(self._frame)} bytes of an answer in {now - self._frame_since:.0f} s")

    def _read_some(self) -> int:
        if self._frame is not None:
            assert self._frame_view is not None
            got = self.sock.recv_into(self._frame_view[self._filled :])
            self._filled += got
            if self._filled == len(self._frame):
                frame, self._frame, self._frame_view = self._frame, None, None
                self._deliver(frame)
            return got
        got = self.sock.recv_into(self._scratch_view[self._held :])
        self._cut(self._held + got)
        return got

    def _cut(self, filled: int) -> None:
        """Splits scratch[:filled] into frames; a large or unfinished one continues in its own buffer."""
        at, scratch = 0, self._scratch
        while filled - at >= 4:
            size = int.from_bytes(scratch[at : at + 4], "big", signed=True)
            if not 4 <= size <= FRAME_BYTES_MAX:
                raise ValueError(f"frame of {size} bytes, expected 4 to {FRAME_BYTES_MAX}")
            if filled - at - 4 < size:
                self._frame = bytearray(size)
                self._frame_view = memoryview(self._frame)
                self._filled = filled - at - 4
                self._frame_view[: self._filled] = self._scratch_view[at + 4 : filled]
                self._held = 0
                return
            self._deliver(scratch[at + 4 : at + 4 + size])
            at += 4 + size
        self._held = filled - at
        if self._held and at:
            scratch[: self._held] = scratch[at:filled]

    def _deliver(self, frame: bytearray) -> None:
        if not self._owed:
            raise ValueError("an answer that nobody asked for")
        correlation, reply, tagged = self._owed[0]
        if int.from_bytes(frame[:4], "big") != correlation:  # the answer stays owed: whoever waits hears of the end
            raise ValueError(f"correlation id {int.from_bytes(frame[:4], 'big')}, expected {correlation}")
        self._owed.popleft()
        self._ready.append((reply, frame, skip_tags(frame, 4) if tagged else 4))

    def close(self) -> None:
        """Closes the socket and reports an unknown outcome to every waiting caller."""
        self.connection.close()
        self._out.clear()
        owed, self._owed = self._owed, deque()
        for _, reply, _ in owed:
            reply(None, 0)

    def lost(self) -> ConnectionLost:
        """The error for callers of this connection."""
        return ConnectionLost(f"{self.connection.alias} at {self.connection.address}: {self.broken}")
