"""A slot's event loop: one thread, many lanes. Control work is written as generators that wait; the hot path as callbacks.

A generator may yield
  Sleep(seconds)               resumed with None
  Ask(lane, request)           resumed with the decoded answer of a control request
  Exchange(lane, api, …)       resumed with (buffer, first byte of the body)
  Dial(open)                   resumed with a new Lane; the blocking handshake runs on a helper thread that only connects
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

from sparkmirror.clusters import Buffer, Connection, Lane
from sparkmirror.errors import SparkmirrorError

__all__ = ["Ask", "Dial", "Exchange", "Loop", "Procedure", "Sleep"]

DIAL_THREADS = 4


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Ask:
    """A control request on a lane."""

    lane: Lane
    request: Any


@dataclass(frozen=True, slots=True)
class Exchange:
    """A raw request on a lane."""

    lane: Lane
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
    """Runs lanes, timers and procedures until told to stop."""

    def __init__(self) -> None:
        self.now = time.monotonic()
        self._selector = selectors.DefaultSelector()
        self._watched: dict[Lane, int] = {}
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
            case Ask(lane, request):
                lane.ask(request, lambda answer: self._resume(procedure, lane, answer), self.now)
                self.sent(lane)
            case Exchange(lane, api, version, parts):
                lane.send(
                    api,
                    version,
                    parts,
                    lambda frame, at: self._resume(procedure, lane, None if frame is None else (frame, at)),
                    self.now,
                )
                self.sent(lane)
            case Dial(open=open_connection):
                self._dialing.append((self._dialer.submit(open_connection), procedure))

    def _resume(self, procedure: Procedure, lane: Lane, answer: Any | None) -> None:
        if answer is None:
            lost = lane.lost()
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
                lane = Lane(future.result(), self.now)
                self._watch(lane)
                self._step(procedure, lane, None)
            elif isinstance(error, SparkmirrorError):
                self._step(procedure, None, error)
            else:
                raise error

    # --- lanes -------------------------------------------------------------------------------------------------

    def _watch(self, lane: Lane) -> None:
        self._selector.register(lane, selectors.EVENT_READ, lane)
        self._watched[lane] = selectors.EVENT_READ

    def _rewatch(self, lane: Lane) -> None:
        """Wants to write only while bytes wait: a level-triggered selector would spin otherwise."""
        current = self._watched.get(lane)
        if current is None:
            return
        wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if lane.wants_write else 0)
        if wanted != current:
            self._selector.modify(lane, wanted, lane)
            self._watched[lane] = wanted

    def sent(self, lane: Lane) -> None:
        """To be called after `lane.send`: pushes what the socket takes now, and watches for the rest."""
        if not self._watched.get(lane, 0) & selectors.EVENT_WRITE:
            lane.flush()  # a lane that waits to write would only refuse again
            self._rewatch(lane)
        if lane.broken is not None:
            self.soon(lambda: self.drop(lane))

    def drop(self, lane: Lane) -> None:
        """Closes a lane; whoever waits on it learns that the outcome is unknown."""
        if self._watched.pop(lane, None) is None:
            return
        self._selector.unregister(lane)
        if lane.broken is None:
            lane.broken = "closed by us"
        lane.close()

    def is_open(self, lane: Lane) -> bool:
        """Whether a lane may still be used for something new; one whose login is about to end may not."""
        return lane in self._watched and lane.broken is None and self.now < lane.connection.renew_at

    def _check_silence(self) -> None:
        for lane in list(self._watched):
            if not lane.in_flight and self.now >= lane.connection.renew_at:
                lane.broken = "the login is about to end"
                self.drop(lane)
            elif lane.in_flight and self.now - lane.heard_at > lane.silence_s:
                lane.broken = f"no answer for {lane.silence_s:g} s"
                self.drop(lane)

    # --- turning -----------------------------------------------------------------------------------------------

    def turn(self, wait_s: float) -> None:
        """One round: what is due, what has arrived, what can be sent."""
        for lane, mask in self._wait(wait_s):
            if mask & selectors.EVENT_READ:
                lane.read(self.now)
            if mask & selectors.EVENT_WRITE:
                lane.flush()
            if lane.broken is not None:
                self.drop(lane)
            else:
                self._rewatch(lane)
        if self._dialing:
            self._finish_dials()
        if self.now >= self._silence_check_at:
            self._silence_check_at = self.now + 1.0
            self._check_silence()
        while self._timers and self._timers[0][0] <= self.now:
            heapq.heappop(self._timers)[2]()
        for _ in range(len(self._soon)):
            self._soon.popleft()()

    def _wait(self, wait_s: float) -> list[tuple[Lane, int]]:
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
        """Closes every lane and joins the helper threads."""
        for lane in list(self._watched):
            self.drop(lane)
        self._dialer.shutdown(wait=True, cancel_futures=True)
        for future, procedure in self._dialing:
            if future.done() and not future.cancelled() and future.exception() is None:
                future.result().close()
            procedure.close()
        self._dialing.clear()
        self._selector.close()
