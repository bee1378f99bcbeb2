"""What is done beside the copying, each at its own interval, on one thread per flow: configs, rights, groups, lag.

Nothing here may hold up the copying or another flow, and nothing fails in silence: a chore that cannot be done shows its
reason until it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkmirror.errors import InternalError, SparkmirrorError
from sparkmirror.ledger import flow_wish
from sparkmirror.status import FlowStatus

PAUSE_S_MAX = 0.2  # so long may pass until it is seen that the flow is over
# MM2 takes an interval of 0 for "without a pause", which would keep a broker busy with nothing else.
INTERVAL_S_MIN = 0.05


@dataclass(frozen=True, slots=True)
class Chore:
    """`action` returns what it could not do, in sentences; `at_end`: once more when its owner has ended the flow well.

    Not done while somebody has paused or stopped the `connector` of MirrorMaker 2's that does it.
    An interval below 0 means never. When what `watched` returns has changed, it is due at once.
    """

    name: str
    interval_s: float
    action: Callable[[], Sequence[str]]
    at_end: bool = False
    watched: Callable[[], object] = lambda: None
    connector: str = ""


class Chores:
    """The chores of one flow, done while it runs."""

    def __init__(self, status: FlowStatus, chores: Sequence[Chore], *, is_over: Callable[[], bool]) -> None:
        self._status, self._is_over = status, is_over
        self._chores: list[Chore] = []
        self._due: dict[str, float] = {}
        self._seen: dict[str, object] = {}
        self._new: Sequence[Chore] | None = None
        self._take(chores)

    def replace(self, chores: Sequence[Chore]) -> None:
        """Does these from now on, each at once. Any thread may ask for it."""
        self._new = chores

    def _take(self, chores: Sequence[Chore]) -> None:
        self._chores = [chore for chore in chores if chore.interval_s >= 0]
        self._due = dict.fromkeys((chore.name for chore in self._chores), 0.0)
        for name in self._seen.keys() - self._due.keys():  # what is not done any more has no trouble
            del self._seen[name]
            self._status.chores.pop(name, None)

    def run(self) -> None:
        """Until the flow is over. A flow that had nothing to copy may have been over before anything was done."""
        while not self._is_over():
            if self._status.state == "running":
                self._run_due()
            time.sleep(self._pause())
        if self._status.is_given_back:
            for chore in self._chores:
                if (chore.at_end or chore.name not in self._seen) and not self._is_paused(chore):
                    self._do(chore)

    def _run_due(self) -> None:
        new, self._new = self._new, None
        if new is not None:
            self._take(new)
        for chore in self._chores:
            if self._is_paused(chore):
                self._status.chores.pop(chore.name, None)  # nobody wants it done, so nothing is wrong with it
                continue
            seen = chore.watched()
            is_due = time.monotonic() >= self._due[chore.name] or seen != self._seen.get(chore.name)
            if is_due and not self._is_over():
                self._seen[chore.name] = seen
                self._due[chore.name] = time.monotonic() + max(chore.interval_s, INTERVAL_S_MIN)
                self._do(chore)

    def _is_paused(self, chore: Chore) -> bool:
        return flow_wish(self._status.wishes, chore.connector) is not None

    def _do(self, chore: Chore) -> None:
        try:
            trouble = "; ".join(chore.action())
        except SparkmirrorError as error:
            trouble = str(error)
        except Exception as error:  # noqa: BLE001  border of a thread: it must not end in silence
            trouble = str(InternalError(f"{type(error).__name__}: {error}"))
        self._status.chores[chore.name] = trouble

    def _pause(self) -> float:
        due = min(self._due.values(), default=time.monotonic() + PAUSE_S_MAX)
        return min(max(due - time.monotonic(), INTERVAL_S_MIN), PAUSE_S_MAX)
