"""A slot's event loop: one thread, many pipelined connections. Control work uses generators, the hot path callbacks.

A generator may yield
  Sleep(seconds)               resumed with None
  Ask(pipelined, request)      resumed with the decoded answer of a control request
  Exchange(pipelined, api, …)  resumed with (buffer, first byte of the body)
  Dial(open)                   resumed with a new pipelined connection; a helper thread does the blocking handshake
and gets ConnectionLost, ClusterUnreachable or BrokerRefused thrown in when that fails.
"""

from __future__ import annotations

import heapq
import itertools
import selectors
import time
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from sparkmirror.clusters import Buffer, Connection, PipelinedConnection
from sparkmirror.errors import SparkmirrorError

DIAL_THREADS = 4


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A control request on a pipelined connection."""

    pipelined: PipelinedConnection
    request: Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """A raw request on a pipelined connection."""

    pipelined: PipelinedConnection
    api: int
    version: int
    parts: Sequence[Buffer]


@dataclass(frozen=True, slots=True)
class Dial:
    """A new connection, made by `open` on a helper thread."""

    open: Callable[[], Connection]


Wait = Sleep | Ask | Exchange | Dial
Procedure = Generator[Wait, Any, Any]


class Loop:
    """Runs pipelined connections, timers and procedures until it is stopped."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[PipelinedConnection, int] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._soon: deque[Callable[[], None]] = deque()
        self._dialing: list[tuple[Future[Connection], Procedure]] = []
        self._silence_check_at = self.now + 1.0
        self._dialer = ThreadPoolExecutor(DIAL_THREADS, thread_name_prefix="dial")

    # --- procedures --------------------------------------------------------------------------------------------

    def spawn(self, procedure: Procedure) -> None:
        """Starts a procedure on the next turn."""
        self._soon.append(lambda: self._step(procedure, None, None))

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` after a while."""
        heapq.heappush(self._timers, (self.now + seconds, next(self._order), action))

    def soon(self, action: Callable[[], None]) -> None:
        """Calls `action` on the next turn."""
        self._soon.append(action)

    def _step(self, procedure: Procedure, value: Any, error: BaseException | None) -> None:
        try:
            wait = procedure.throw(error) if error is not None else procedure.send(value)
        except StopIteration:
            return
        match wait:
            case Sleep(seconds):
                self.later(seconds, lambda: self._step(procedure, None, None))
            case Ask(pipelined, request):
                pipelined.ask(request, lambda answer: self._resume(procedure, pipelined, answer), self.now)
                self.sent(pipelined)
            case Exchange(pipelined, api, version, parts):
                pipelined.send(
                    api,
                    version,
                    parts,
                    lambda frame, at: self._resume(procedure, pipelined, None if frame is None else (frame, at)),
                    self.now,
                )
                self.sent(pipelined)
            case Dial(open=open_connection):
                self._dialing.append((self._dialer.submit(open_connection), procedure))

    def _resume(self, procedure: Procedure, pipelined: PipelinedConnection, answer: Any | None) -> None:
        if answer is None:
            lost = pipelined.lost()
            self.soon(lambda: self._step(procedure, None, lost))
        else:
            self._step(procedure, answer, None)

    def _finish_dials(self) -> None:
        waiting, self._dialing = self._dialing, []
        for future, procedure in waiting:
            if not future.done():
                self._dialing.append((future, procedure))
                continue
            error = future.exception()
            if error is None:
                pipelined = PipelinedConnection(future.result(), self.now)
                self._watch(pipelined)
                self._step(procedure, pipelined, None)
            elif isinstance(error, SparkmirrorError):
                self._step(procedure, None, error)
            else:
                raise error

    # --- pipelined connections ---------------------------------------------------------------------------------

    def _watch(self, pipelined: PipelinedConnection) -> None:
        self._selector.register(pipelined, selectors.EVENT_READ, pipelined)
        self._watched[pipelined] = selectors.EVENT_READ

    def _rewatch(self, pipelined: PipelinedConnection) -> None:
        """Wants to write only while bytes wait: a level-triggered selector would spin otherwise."""
        current = self._watched.get(pipelined)
        if current is None:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if pipelined.wants_write else 0)
        if wanted != current:
            self._selector.modify(pipelined, wanted, pipelined)
            self._watched[pipelined] = wanted

    def sent(self, pipelined: PipelinedConnection) -> None:
        """To be called after `pipelined.send`: pushes what the socket takes now, and watches for the rest."""
        if not self._watched.get(pipelined, 0) & selectors.EVENT_WRITE:
            pipelined.flush()  # a socket that waits to write would only refuse again
            self._rewatch(pipelined)
        if pipelined.broken is not None:
            self.soon(lambda: self.drop(pipelined))

    def drop(self, pipelined: PipelinedConnection) -> None:
        """Closes a pipelined connection; its callers learn that the outcome is unknown."""
        if self._watched.pop(pipelined, None) is None:
            return
        self._selector.unregister(pipelined)
        if pipelined.broken is None:
            pipelined.broken = "closed by us"
        pipelined.close()

    def is_open(self, pipelined: PipelinedConnection) -> bool:
        """Whether new requests may use the connection; not when its session is about to expire."""
        return pipelined in self._watched and pipelined.broken is None and self.now < pipelined.connection.renew_at

    def _check_silence(self) -> None:
        for pipelined in list(self._watched):
            if not pipelined.in_flight and self.now >= pipelined.connection.renew_at:
                pipelined.broken = "the login is about to end"
                self.drop(pipelined)
            elif pipelined.in_flight and self.now - pipelined.heard_at > pipelined.silence_s:
                pipelined.broken = f"no answer for {pipelined.silence_s:g} s"
                self.drop(pipelined)

    # --- turning -----------------------------------------------------------------------------------------------

    def turn(self, wait_s: float) -> None:
        """One round: what is due, what has arrived, what can be sent."""
        for pipelined, mask in self._wait(wait_s):
            if mask & selectors.EVENT_READ:
                pipelined.read(self.now)
            if mask & selectors.EVENT_WRITE:
                pipelined.flush()
            if pipelined.broken is not None:
                self.drop(pipelined)
            else:
                self._rewatch(pipelined)
        if self._dialing:
            self._finish_dials()
        if self.now >= self._silence_check_at:
            self._silence_check_at = self.now + 1.0
            self._check_silence()
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def _wait(self, wait_s: float) -> list[tuple[PipelinedConnection, int]]:
        if self._soon:
            wait_s = 0.0
        elif self._timers:
            wait_s = min(wait_s, max(self._timers[0][0] - self.now, 0.0))
        if self._dialing:
            wait_s = min(wait_s, 0.005)
        ready = self._selector.select(wait_s)
        self.now = time.monotonic()
        return [(key.data, mask) for key, mask in ready]

    def close(self) -> None:
        """Closes every connection and joins the helper threads."""
        for pipelined in list(self._watched):
            self.drop(pipelined)
        self._dialer.shutdown(wait=True, cancel_futures=True)
        for future, procedure in self._dialing:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().close()
            procedure.close()
        self._dialing.clear()
        self._selector.close()
