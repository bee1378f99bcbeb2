"""The view says the same whatever the order in which receipts arrive, and cuts what does not count."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger import Attempt, Closed, LedgerView, Open, Position, Receipt, Run, Void, inverse
from sparkmirror.model import TopicPartition

P = TopicPartition("orders", 3)
FIRST, SECOND = Attempt(0, 1, 1), Attempt(0, 2, 1)


def an_open(attempt: Attempt, upstream: int, downstream: int, *, sequence: int = 0) -> Open:
    return Open(
        partition=P,
        attempt=attempt,
        previous=None,
        slot=0,
        incarnation=0,
        target_topic="a.orders",
        producer_id=7,
        producer_epoch=attempt.producer_epoch,
        position=Position(upstream, downstream, sequence),
        source_topic_id="",
        target_topic_id="",
        read_committed=False,
        shared=False,
        fenced=False,
        source_compacts=False,
    )


def a_receipt(attempt: Attempt, *runs: tuple[int, int, int], up: int | None = None) -> Receipt:
    made = tuple(Run(*run) for run in runs)
    last = made[-1]
    upstream = up if up is not None else last.upstream + last.length
    count = sum(run.length for run in made)
    return Receipt(P, attempt, Position(upstream, last.downstream + last.length, count), -1, count, 0, made)


@st.composite
def receipts(draw: st.DrawFn) -> list[Receipt]:
    """What one attempt writes: each receipt says all that the one before said, and more."""
    found, runs, upstream, downstream = [], [], 0, 0
    for _ in range(draw(st.integers(1, 6))):
        upstream += draw(st.integers(0, 3))
        downstream += draw(st.integers(0, 2))
        length = draw(st.integers(1, 4))
        runs.append((upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
        found.append(a_receipt(FIRST, *runs, up=upstream + draw(st.integers(0, 2))))
        upstream = found[-1].position.upstream
    return found


@given(receipts(), st.randoms(use_true_random=False))
def test_receipts_repeated_and_in_any_order_give_the_same_view(written: list[Receipt], rng: random.Random) -> None:
    straight, shuffled = LedgerView(), LedgerView()
    for record in (an_open(FIRST, 0, 0), *written):
        straight.apply(record)
    again = [*written, *rng.sample(written, len(written)), an_open(FIRST, 0, 0)]
    rng.shuffle(again)
    for record in again:
        shuffled.apply(record)
    assert shuffled.of(P) == straight.of(P)
    assert straight.of(P).position() == written[-1].position


def test_a_receipt_with_the_same_upstream_and_a_longer_target_is_the_later_one() -> None:
    early = a_receipt(FIRST, (0, 0, 5))
    late = Receipt(P, FIRST, Position(5, 7, 5), -1, 5, 0, early.runs)
    for order in ((early, late), (late, early)):
        view = LedgerView()
        for record in (an_open(FIRST, 0, 0), *order):
            view.apply(record)
        assert view.of(P).position() == late.position


def test_only_the_newest_attempt_says_where_the_copy_stands() -> None:
    view = LedgerView()
    closed = Closed(P, FIRST, Position(20, 20, 20))
    for record in (an_open(SECOND, 8, 9), an_open(FIRST, 0, 0), a_receipt(FIRST, (0, 0, 20)), closed):
        view.apply(record)
    history = view.of(P)
    assert (history.newest.attempt, history.is_closed, history.position()) == (SECOND, False, Position(8, 9, 0))


def test_runs_of_an_old_attempt_end_where_the_next_one_began() -> None:
    view = LedgerView()
    for record in (an_open(FIRST, 0, 0), a_receipt(FIRST, (0, 0, 5), (7, 5, 5)), an_open(SECOND, 9, 8)):
        view.apply(record)
    view.apply(a_receipt(SECOND, (9, 8, 4)))
    assert list(view.of(P).runs()) == [Run(0, 0, 5), Run(7, 5, 2), Run(9, 8, 4)]
    assert view.of(P).last_copy(9) == (8, 7, 2)
    assert view.of(P).last_copy(8) == (6, 7, 1)
    assert view.of(P).last_copy(0) is None


def test_a_void_cuts_what_was_written_before_it_and_nothing_after() -> None:
    for lost in (3, 9), (9, 3):
        view = LedgerView()
        for record in (an_open(FIRST, 0, 0), a_receipt(FIRST, (0, 0, 10)), *(Void(P, FIRST, at) for at in lost)):
            view.apply(record)
        view.apply(an_open(SECOND, 3, 4))
        view.apply(a_receipt(SECOND, (3, 4, 6)))
        assert list(view.of(P).runs()) == [Run(0, 0, 3), Run(3, 4, 6)]


def test_what_an_attempt_restates_of_older_ones_is_in_the_map_but_not_its_own() -> None:
    view = LedgerView()
    view.apply(an_open(SECOND, 10, 11))
    view.apply(a_receipt(SECOND, (0, 0, 10), up=10))
    view.apply(a_receipt(SECOND, (10, 11, 3)))
    history = view.of(P)
    assert list(history.runs()) == [Run(0, 0, 10), Run(10, 11, 3)]
    assert list(history.runs_of(SECOND)) == [Run(10, 11, 3)]
    assert history.last_copy(11) == (9, -1, -1)


run_lists = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(1, 5)), max_size=6)


@given(run_lists, st.integers(0, 60))
def test_the_inverse_is_the_first_upstream_offset_without_a_copy_below(gaps: list[tuple[int, int, int]], end: int) -> None:
    runs, upstream, downstream = [], 0, 0
    for up_gap, down_gap, length in gaps:
        upstream, downstream = upstream + up_gap, downstream + down_gap
        runs.append(Run(upstream, downstream, length))
        upstream, downstream = upstream + length, downstream + length
    below = [run.upstream + at for run in runs for at in range(run.length) if run.downstream + at < end]
    assert inverse(runs, end) == (max(below) + 1 if below else None)
