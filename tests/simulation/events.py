"""Virtual time, processes that can be paused or killed at any step, and a network that is late, lossy and in order."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

__all__ = ["LOST", "Clock", "Procedure", "Process", "Violation", "Wait"]

LOST = object()  # a request whose outcome is unknown to its sender
RETRY_S = 0.15

Resume = Callable[[Any], None]
Wait = Callable[[Resume], None]
Procedure = Generator[Wait, Any, Any]


class Violation(AssertionError):
    """A promise of the protocol is broken."""


@dataclass(slots=True)
class Weather:
    """How the network behaves now."""

    latency_s: float = 0.01
    slow: float = 0.0  # chance that a message takes seconds
    loss: float = 0.0  # chance that a request or its answer is lost


class Clock:
    """The heap of things to come."""

    def __init__(self, seed: int | str) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.weather = Weather()
        self.trace: list[str] | None = None
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def note(self, text: str) -> None:
        """Adds a line to the trace, if there is one."""
        if self.trace is not None:
            self.trace.append(f"{self.now:9.3f}  {text}")

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` then."""
        self._count += 1
        heapq.heappush(self._heap, (self.now + seconds, self._count, action))

    def run(self, until: float, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass; True if `is_done` became true (looked at once a second)."""
        look = self.now
        while self._heap and self._heap[0][0] <= until:
            if self._heap[0][0] >= look:
                if is_done():
                    return True
                look = self._heap[0][0] + 1.0
            self.now, _, action = heapq.heappop(self._heap)
            action()
        self.now = until
        return is_done()

    def latency(self) -> float:
        """How long one message takes."""
        rng, weather = self.rng, self.weather
        if weather.slow and rng.random() < weather.slow:
            return rng.uniform(0.2, 4.0)
        return weather.latency_s * (0.2 + rng.random())

    def is_lost(self) -> bool:
        """Whether one message is lost."""
        return bool(self.weather.loss) and self.rng.random() < self.weather.loss


class Process:
    """Something that runs, sleeps, is stopped (SIGSTOP) and goes on, or is killed."""

    def __init__(self, clock: Clock, name: str) -> None:
        self.clock = clock
        self.name = name
        self.alive = True
        self.paused_until = 0.0
        self._held: list[Callable[[], None]] = []

    def do(self, action: Callable[[], None]) -> None:
        """Now; when it goes on, if it is stopped; never, if it is dead."""
        if not self.alive:
            return
        if self.paused_until > self.clock.now:
            self._held.append(action)
        else:
            action()

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Calls `action` then, if it lives then."""
        self.clock.later(seconds, lambda: self.do(action))

    def pause(self, seconds: float) -> None:
        """Stops it for a while; what it sent stays on its way."""
        self.clock.note(f"{self.name} is stopped for {seconds:.1f} s")
        self.paused_until = max(self.paused_until, self.clock.now + seconds)
        self.clock.later(seconds + 0.001, self.wake)

    def wake(self, *, early: bool = False) -> None:
        """Goes on (SIGCONT): what came meanwhile is seen now, in its order."""
        if early:
            self.paused_until = 0.0
        if self.paused_until <= self.clock.now:
            held, self._held = self._held, []
            for action in held:
                self.do(action)

    def kill(self) -> None:
        """Ends it between two steps."""
        if self.alive:
            self.clock.note(f"{self.name} is killed")
            self.alive = False

    def spawn(self, procedure: Procedure) -> None:
        """Runs a procedure step by step."""
        self._step(procedure, None)

    def _step(self, procedure: Procedure, value: Any) -> None:
        try:
            wait = procedure.send(value)
        except StopIteration:
            return
        wait(lambda answer: self.do(lambda: self._step(procedure, answer)))

    # --- what procedures wait for --------------------------------------------------------------------------------

    def sleep(self, seconds: float) -> Wait:
        """Nothing, for a while."""
        return lambda resume: self.clock.later(seconds, lambda: resume(None))

    def call(self, serve: Callable[[], Any]) -> Wait:
        """`serve` runs at the server when the request arrives, also if we are dead by then; LOST if unknown."""
        clock = self.clock

        def start(resume: Resume) -> None:
            def arrive() -> None:
                answer = serve()
                if clock.is_lost():
                    clock.later(1.0, lambda: resume(LOST))
                else:
                    clock.later(clock.latency(), lambda: resume(answer))

            if clock.is_lost():
                clock.later(1.0, lambda: resume(LOST))
                if clock.rng.random() < 0.5:  # it arrives after all, much later
                    clock.later(clock.rng.uniform(0.5, 6.0), serve)
            else:
                clock.later(clock.latency(), arrive)

        return start

    def insist(self, serve: Callable[[], Any], may: Callable[[], bool] = lambda: True) -> Procedure:
        """Asks again until there is an answer; LOST if `may` says no before."""
        while may():
            answer = yield self.call(serve)
            if answer is not LOST:
                return answer
            yield self.sleep(RETRY_S)
        return LOST
