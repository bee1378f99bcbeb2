"""Figures over a sliding minute: two samples of 30 s, as Kafka's own metrics have by default."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field

SAMPLE_S = 30.0
SAMPLES = 2


@dataclass(slots=True)
class _Sample:
    began: float
    count: int = 0
    total: float = 0.0
    low: float = math.inf
    high: float = -math.inf


@dataclass(slots=True)
class Window:
    """What was noted in the newest samples."""

    _samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def note(self, value: float, now: float) -> None:
        """One more value."""
        if not self._samples or now - self._samples[-1].began >= SAMPLE_S:
            self._samples.append(_Sample(now))
        sample = self._samples[-1]
        sample.count += 1
        sample.total += value
        sample.low, sample.high = min(sample.low, value), max(sample.high, value)

    def samples(self, now: float) -> list[_Sample]:
        """Those that are not outdated; the others are forgotten."""
        while self._samples and now - self._samples[0].began >= SAMPLE_S * SAMPLES:
            self._samples.popleft()
        return list(self._samples)

    def rate(self, now: float) -> float:
        """Sum of the values per second; over at least one whole sample, so that a first burst is no record rate."""
        samples = self.samples(now)
        if not samples:
            return 0.0
        return sum(sample.total for sample in samples) / max(now - samples[0].began, SAMPLE_S)


@dataclass(slots=True)
class Spread:
    """Last value, and greatest, least and mean of the window; not a number before the first, or when it is outdated."""

    last: float = math.nan
    _window: Window = field(default_factory=Window)

    def note(self, value: float, now: float) -> None:
        """One more value."""
        self.last = value
        self._window.note(value, now)

    def values(self, now: float) -> tuple[float, float, float, float]:
        """Last, max, min, avg."""
        samples = self._window.samples(now)
        if not samples:
            return self.last, math.nan, math.nan, math.nan
        mean = sum(sample.total for sample in samples) / sum(sample.count for sample in samples)
        return self.last, max(sample.high for sample in samples), min(sample.low for sample in samples), mean
