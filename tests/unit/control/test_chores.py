"""Chores: done when due, shown when they cannot be done, once more at a good end."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from sparkmirror.control.chores import Chore, Chores
from sparkmirror.errors import ClusterUnreachable
from sparkmirror.ledger import Wish
from sparkmirror.model import FlowName
from sparkmirror.status import FlowStatus


class Runner:
    """Chores on a thread, as a flow runs them."""

    def __init__(self, *chores: Chore, state: str = "running") -> None:
        self.status = FlowStatus(FlowName("A", "B"), state=state)
        self._over = threading.Event()
        self._thread = threading.Thread(target=Chores(self.status, chores, is_over=self._over.is_set).run)
        self._thread.start()

    def end(self, state: str = "stopped", *, as_owner: bool = True) -> None:
        """The flow ends."""
        self.status.state, self.status.is_given_back = state, as_owner
        self._over.set()
        self._thread.join(5)
        assert not self._thread.is_alive()


def counting(answers: Sequence[Sequence[str] | Exception] = ()) -> tuple[list[float], Callable[[], Sequence[str]]]:
    """An action that notes when it was called and answers one after the other."""
    calls: list[float] = []

    def action() -> Sequence[str]:
        calls.append(time.monotonic())
        answer = answers[len(calls) - 1] if len(calls) <= len(answers) else ()
        if isinstance(answer, Exception):
            raise answer
        return answer

    return calls, action


def await_calls(calls: list[float], count: int) -> None:
    deadline = time.monotonic() + 30
    while len(calls) < count:
        assert time.monotonic() < deadline, f"{len(calls)} calls, wanted {count}"
        time.sleep(0.01)


def test_each_is_done_at_once_and_then_at_its_interval() -> None:
    often, seldom = counting(), counting()
    runner = Runner(Chore("often", 0.1, often[1]), Chore("seldom", 600, seldom[1]))
    await_calls(often[0], 4)
    runner.end()
    assert len(seldom[0]) == 1
    assert min(b - a for a, b in zip(often[0], often[0][1:], strict=False)) >= 0.09


def test_a_negative_interval_means_never() -> None:
    calls, action = counting()
    runner = Runner(Chore("never", -1, action, at_end=True))
    time.sleep(0.3)
    runner.end()
    assert calls == []


def test_what_cannot_be_done_is_shown_until_it_can() -> None:
    """MirrorCheckpointConnectorTest testConsumerGroupInitializeTimeout: tried again, and told meanwhile."""
    calls, action = counting([ClusterUnreachable("gone", hint="look"), ["half of it"], RuntimeError("odd")])
    runner = Runner(Chore("work", 0.3, action))
    await_calls(calls, 1)
    time.sleep(0.1)
    assert runner.status.chores["work"] == "gone (look)"
    await_calls(calls, 2)
    time.sleep(0.1)
    assert runner.status.chores["work"] == "half of it"
    await_calls(calls, 3)
    time.sleep(0.1)
    assert runner.status.chores["work"] == "RuntimeError: odd"
    await_calls(calls, 4)
    time.sleep(0.1)
    assert runner.status.chores["work"] == ""
    runner.end()


@pytest.mark.parametrize(("state", "extra"), [("stopped", 1), ("failed", 0)])
def test_a_good_end_is_the_last_occasion(state: str, extra: int) -> None:
    (calls, action), (others, other) = counting(), counting()
    runner = Runner(Chore("last", 600, action, at_end=True), Chore("other", 600, other))
    await_calls(others, 1)
    runner.end(state, as_owner=state == "stopped")
    assert (len(calls), len(others)) == (1 + extra, 1)


def test_a_flow_that_was_never_owned_has_no_chores() -> None:
    """One that waited for a cluster, or stood by, until it was told to stop."""
    calls, action = counting()
    runner = Runner(Chore("last", 0.1, action, at_end=True), state="waiting")
    time.sleep(0.3)
    runner.end("stopped", as_owner=False)
    assert calls == []


def test_a_flow_that_was_over_before_anybody_looked_has_all_its_chores_done_once() -> None:
    """`run --once` with nothing left to copy: groups may have moved since, and configs."""
    (calls, action), (others, other) = counting(), counting()
    runner = Runner(Chore("last", 600, action, at_end=True), Chore("other", 600, other), state="recovering")
    time.sleep(0.1)
    runner.end()
    assert (len(calls), len(others)) == (1, 1)


def test_what_is_watched_makes_it_due_at_once() -> None:
    calls, action = counting()
    topics = {"a"}
    runner = Runner(Chore("rights", 600, action, watched=lambda: frozenset(topics)))
    await_calls(calls, 1)
    topics.add("b")
    await_calls(calls, 2)
    time.sleep(0.3)
    runner.end()
    assert len(calls) == 2


def test_what_is_paused_is_not_done_and_is_done_again_when_it_is_resumed() -> None:
    paused, other = counting([["broken"]]), counting()
    chores = (Chore("checkpoints", 0.05, paused[1], at_end=True, connector="checkpoint"), Chore("lag", 0.05, other[1]))
    runner = Runner(*chores)
    await_calls(paused[0], 1)
    runner.status.wishes = (Wish("checkpoint", "stopped", "ann", 0, "r1"), Wish("source", "paused", "ann", 0, "r2"))
    await_calls(other[0], len(other[0]) + 2)  # one round may have begun before
    before = len(paused[0])
    await_calls(other[0], len(other[0]) + 5)
    assert len(paused[0]) == before and "checkpoints" not in runner.status.chores
    runner.status.wishes = (Wish("source", "paused", "ann", 0, "r2"),)
    await_calls(paused[0], before + 1)
    runner.status.wishes = (Wish("checkpoint", "stopped", "ann", 0, "r1"),)
    await_calls(other[0], len(other[0]) + 2)
    before = len(paused[0])
    runner.end()
    assert len(paused[0]) == before
