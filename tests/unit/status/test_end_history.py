"""Since when a copy is behind, by where its source ended when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.status.end_history import NO_HISTORY, POINTS_MAX, EndHistory, ReadTimestamp

LOOK_MS = 2_000
NEVER = -1


def seen(*looks: tuple[int, int], copied: int) -> EndHistory:
    history = NO_HISTORY
    for time_ms, end in looks:
        history = history.seen(time_ms, end, copied)
    return history


def test_the_oldest_record_came_after_the_end_was_last_seen_at_the_copy() -> None:
    history = seen((0, 10), (2_000, 10), (4_000, 15), (6_000, 20), copied=10)
    assert history.oldest_ms(10, NEVER, 6_000) == 2_000
    assert history.oldest_ms(15, NEVER, 6_000) == 4_000
    assert history.oldest_ms(17, NEVER, 6_000) == 4_000


def test_a_copied_record_of_that_time_says_it_more_exactly() -> None:
    history = seen((0, 10), (2_000, 10), (4_000, 15), copied=10)
    assert history.oldest_ms(10, 3_100, 9_000) == 3_100
    for implausible in (1_999, 4_001, 900_000):  # of a clock that is behind or ahead, or data of another time
        assert history.oldest_ms(10, implausible, 9_000) == 2_000


def test_a_timestamp_in_the_future_is_not_believed_once_that_time_has_come() -> None:
    history = seen((0, 10), (2_000, 15), (4_000_000, 15), copied=10)
    assert history.oldest_ms(10, 3_600_000, 4_000_000) == 0


def test_what_is_not_behind_has_no_past() -> None:
    assert seen((0, 10), (2_000, 20), copied=20).points == ((20, 2_000, 2_000),)


def test_a_backlog_of_before_the_first_look_is_as_old_as_the_record_that_was_read() -> None:
    history = seen((5_000, 20), (7_000, 30), copied=10)
    assert history.oldest_ms(10, NEVER, 9_000) is None
    read = EndHistory(history.points, ReadTimestamp(10, 1_200))
    assert read.oldest_ms(10, NEVER, 9_000) == 1_200
    assert read.seen(9_000, 40, 10).oldest_ms(10, NEVER, 9_000) == 1_200
    assert read.oldest_ms(11, NEVER, 9_000) is None  # another record comes next
    assert read.oldest_ms(12, 1_500, 9_000) == 1_500  # and the one before it was copied
    assert EndHistory(history.points, ReadTimestamp(10, NEVER)).oldest_ms(10, NEVER, 9_000) is None
    assert EndHistory(history.points, ReadTimestamp(10, 5_001)).oldest_ms(10, NEVER, 9_000) is None  # it was there before


def test_an_end_that_falls_or_a_clock_that_was_set_back_begins_a_new_history() -> None:
    assert seen((0, 10), (2_000, 20), (4_000, 5), copied=1).points == ((5, 4_000, 4_000),)
    assert seen((9_000, 10), (1_000, 20), copied=1).points == ((20, 1_000, 1_000),)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=400))
def test_a_thinned_history_never_says_that_a_record_is_younger_than_it_is(steps: list[tuple[int, int]]) -> None:
    """Also not older than a fraction of its age; by a model that forgets nothing."""
    history, time_ms, end, copied = NO_HISTORY.seen(0, 0, 0), 0, 0, 0
    looks = [(0, 0)]
    for produced, sent in steps:
        time_ms, end = time_ms + LOOK_MS, end + produced
        copied = min(copied + sent, end)
        looks.append((time_ms, end))
        history = history.seen(time_ms, end, copied)
        assert len(history.points) <= POINTS_MAX
        exact = max(at for at, seen_end in looks if seen_end <= copied)
        found = history.oldest_ms(copied, NEVER, time_ms)
        assert found is not None
        assert time_ms - exact <= time_ms - found <= 1.4 * (time_ms - exact) + 2 * LOOK_MS


def test_hours_of_a_stop_are_covered_and_what_came_lately_is_still_told_apart() -> None:
    history = NO_HISTORY.seen(0, 0, 0)
    hours = 6 * 3_600_000
    for time_ms in range(LOOK_MS, hours + 1, LOOK_MS):
        history = history.seen(time_ms, time_ms, 0)
    assert history.oldest_ms(0, NEVER, hours) == 0
    for age_ms in (10_000, 60_000, 600_000, 3_600_000):
        found = history.oldest_ms(hours - age_ms, NEVER, hours)
        assert found is not None
        assert age_ms <= hours - found <= 1.4 * age_ms + 2 * LOOK_MS
