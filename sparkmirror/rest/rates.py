"""How often a caller is answered: a bucket of answers that fills again, one per caller. Pure."""

from __future__ import annotations

from collections import OrderedDict

ANSWERS_PER_S = 20.0  # a dozen scrapers and a person who presses reload
BURST = 40.0
CALLERS_MAX = 1024  # remembered; who was silent longest is forgotten first, and is full again by then


class Rates:
    """Who may be answered now. `now` is a clock that never goes back, in seconds."""

    def __init__(self, per_s: float = ANSWERS_PER_S, burst: float = BURST, callers_max: int = CALLERS_MAX) -> None:
        self._per_s, self._burst, self._callers_max = per_s, burst, callers_max
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, caller: str, now: float) -> bool:
        """Takes one answer out of the caller's bucket, if there is one."""
        left, seen = self._left.pop(caller, (self._burst, now))
        left = min(left + (now - seen) * self._per_s, self._burst)
        is_allowed = left >= 1.0
        self._left[caller] = (left - 1.0 if is_allowed else left, now)
        if len(self._left) > self._callers_max:
            self._left.popitem(last=False)
        return is_allowed
