"""Moves: where a partition goes on by somebody's word, what is given up, and what the ledger says of it ever after."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import MoveRefused
from sparkmirror.ledger import (
    ATTEMPTS_MAX,
    Attempt,
    Closed,
    CopyState,
    Gap,
    LedgerRecord,
    LedgerView,
    Move,
    Open,
    PartitionHistory,
    Position,
    Receipt,
    Run,
    TopicIncarnation,
    Void,
    compact,
    copied_before,
    encode,
    lost_attempts,
    moved,
    reset,
    skip,
)
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import Basis, Copied, OffsetMap, Translation, translate

P = TopicPartition("orders", 3)
OLD, NEW = TopicIncarnation("source 1", "target 1"), TopicIncarnation("source 2", "target 1")
TARGET_RECREATED = TopicIncarnation("source 1", "target 2")


def an_open(number: int, upstream: int, downstream: int, *, topic_incarnation: TopicIncarnation = OLD) -> Open:
    return Open(
        partition=P, attempt=Attempt(0, number, 1), previous=Attempt(0, number - 1, 1) if number else None, slot=0,
        incarnation=0, target_topic="a.orders", producer_id=7, producer_epoch=number,
        position=Position(upstream, downstream, 0), source_topic_id=topic_incarnation.source_topic_id,
        target_topic_id=topic_incarnation.target_topic_id, read_committed=False, shared=False, fenced=False,
        source_compacts=False,
    )  # fmt: skip


def copied(
    number: int, upstream: int, downstream: int, count: int, *, topic_incarnation: TopicIncarnation = OLD, epoch: int = 4
) -> list[LedgerRecord]:
    """An attempt that copied so many records one after the other and ended."""
    order = an_open(number, upstream, downstream, topic_incarnation=topic_incarnation)
    at = Position(upstream + count, downstream + count, count)
    runs = (Run(upstream, downstream, count),)
    return [order, Receipt(P, order.attempt, at, epoch, count, 0, runs), Closed(P, order.attempt, at)]


def a_move(number: int, move: Move) -> list[LedgerRecord]:
    order = an_open(number, move.new.upstream, move.new.downstream, topic_incarnation=move.topic_incarnation)
    return moved(move, order, reason="because", time_ms=1000)


def a_history(*records: LedgerRecord) -> PartitionHistory:
    view = LedgerView()
    for record in records:
        view.apply(record)
    return view.of(P)


def a_copy_state(**fields: object) -> CopyState:
    """Ten records copied, all is well, five more to come."""
    return replace(CopyState(P, Position(10, 10, 0), OLD, OLD, 0, 15, 10), **fields)


# --- what is judged --------------------------------------------------------------------------------------------


def test_skip_goes_on_at_the_log_start_and_names_what_is_given_up() -> None:
    move = skip(a_copy_state(log_start=13), None)
    assert move == Move(P, Position(10, 10, 0), Position(13, 10, 0), OLD, "on", (10, 13), 0, False, False)


def test_skip_goes_on_behind_what_somebody_else_wrote() -> None:
    move = skip(a_copy_state(target_end=12), None)
    assert move is not None
    assert (move.new, move.gap, move.kind) == (Position(10, 12, 0), None, "behind")


def test_skip_passes_over_a_record_that_cannot_be_copied() -> None:
    move = skip(a_copy_state(), 11)
    assert move is not None
    assert (move.new, move.gap) == (Position(11, 10, 0), (10, 11))


def test_skip_finds_nothing_to_do_where_all_is_well() -> None:
    assert skip(a_copy_state(), None) is None
    assert skip(a_copy_state(is_open=True), None) is not None, "an attempt without an end must get one"


@pytest.mark.parametrize(
    ("fields", "to", "words"),
    [
        ({"position": None, "was": None}, None, "nothing was copied yet"),
        ({"now": NEW}, None, "the source topic was re-created, so there is nothing to skip"),
        ({"now": TARGET_RECREATED}, None, "the target topic was re-created, so there is nothing to skip"),
        ({"log_end": 8}, None, "the source ends at 8"),
        ({"target_end": 9}, None, "the target ends at 9"),
        ({}, 9, "everything up to 10 was copied"),
        ({}, 16, "begins at 0 and ends at 15, found 16"),
        ({"log_start": 13}, 12, "begins at 13 and ends at 15, found 12"),
    ],
)
def test_skip_refuses_what_is_no_gap(fields: dict[str, object], to: int | None, words: str) -> None:
    with pytest.raises(MoveRefused, match=words):
        skip(a_copy_state(**fields), to)


def test_reset_of_a_topic_that_was_created_again_begins_the_map_anew() -> None:
    move = reset(a_copy_state(now=NEW, log_end=4), "earliest")
    assert move == Move(P, Position(10, 10, 0), Position(0, 10, 0), NEW, "anew", None, 0, True, False)
    late = reset(a_copy_state(now=NEW, log_end=4), "latest")
    assert late is not None
    assert (late.new.upstream, late.gap) == (4, (0, 4)), "of the new life everything is given up"


@pytest.mark.parametrize(
    ("first", "to", "held", "never"),
    [
        ((0, 0), 50, (0, 50), None),
        ((0, 0), 120, (0, 100), (100, 120)),
        ((40, 40), 50, (0, 50), None),  # MirrorMaker 2 had copied what lies before
        ((40, 0), 50, None, (0, 50)),  # the copy began at the source's end
    ],
)
def test_what_the_target_holds_from_before_a_reset_is_not_called_never_copied(
    first: tuple[int, int], to: int, held: tuple[int, int] | None, never: tuple[int, int] | None
) -> None:
    records = copied(0, *first, 100 - first[0])
    end = first[1] + 100 - first[0]
    state = CopyState(P, Position(100, end, 0), OLD, OLD, 0, 150, end)
    back = reset(state, "earliest")
    assert back is not None
    history = a_history(*records, *a_move(1, back))
    position = history.position()
    assert position is not None and position.upstream == 0
    ahead = reset(replace(state, position=position, copied_before=copied_before(history, 0)), str(to))
    assert ahead is not None
    assert (ahead.gap, ahead.held, ahead.never_copied) == ((0, to), held, never)


def test_reset_tells_what_comes_again_and_what_never_comes() -> None:
    back, on = reset(a_copy_state(), "3"), reset(a_copy_state(), "latest")
    assert back is not None and on is not None
    assert (back.new, back.gap, back.copied_again, back.kind) == (Position(3, 10, 0), None, 7, "anew")
    assert (on.new, on.gap, on.copied_again, on.kind) == (Position(15, 10, 0), (10, 15), 0, "on")


def test_reset_to_where_the_copy_stands_changes_nothing() -> None:
    assert reset(a_copy_state(), "10") is None


def test_reset_of_a_partition_that_nobody_copied_gives_nothing_up() -> None:
    move = reset(a_copy_state(position=None, was=None), "latest")
    assert move is not None
    assert (move.old, move.new, move.gap, move.is_map_new) == (None, Position(15, 10, 0), None, False)


@pytest.mark.parametrize("to", ["16", "2"])
def test_reset_refuses_an_offset_that_the_source_does_not_hold(to: str) -> None:
    with pytest.raises(MoveRefused, match="begins at 3 and ends at 15"):
        reset(a_copy_state(log_start=3), to)


# --- what the ledger says --------------------------------------------------------------------------------------


def skipped(to: int) -> list[LedgerRecord]:
    move = skip(a_copy_state(log_start=to), None)
    assert move is not None
    return a_move(1, move)


def test_a_skipped_partition_is_closed_at_the_new_position_with_the_gap_named() -> None:
    history = a_history(*copied(0, 0, 0, 10), *skipped(13))
    assert (history.position(), history.is_closed) == (Position(13, 10, 0), True)
    assert history.accepted_gaps() == [Gap(P, Attempt(0, 1, 1), 10, 13, "because", 1000, "source 1")]
    view = LedgerView()
    view.partitions[P] = history
    assert lost_attempts(view) == []


def test_a_gap_is_in_no_map() -> None:
    history = a_history(*copied(0, 0, 0, 10), *skipped(13), *copied(2, 13, 10, 2))
    offset_map = OffsetMap(history.runs())
    assert [offset_map.covers(at) for at in (9, 10, 12, 13, 14)] == [True, False, False, True, True]


@pytest.mark.parametrize("marker", [0, 1], ids=["nothing between", "a fence between"])
@pytest.mark.parametrize("position", [10, 11, 12])
def test_a_group_inside_a_gap_goes_to_the_next_record_that_was_copied(position: int, marker: int) -> None:
    history = a_history(*copied(0, 0, 0, 10), *skipped(13), *copied(2, 13, 10 + marker, 2))
    found = translate(position, Copied(history.position(), OffsetMap(history.runs()), None))
    assert found == Translation(10, Basis.EXACT)


def test_a_group_inside_a_gap_that_nothing_follows_stands_at_the_end_of_the_copy() -> None:
    history = a_history(*copied(0, 0, 0, 10), *skipped(13))
    assert translate(11, Copied(history.position(), OffsetMap(history.runs()), None)) == Translation(10, Basis.EXACT)


def test_what_was_copied_of_another_life_of_the_topic_is_not_in_the_map() -> None:
    move = reset(a_copy_state(now=NEW, log_end=40), "25")
    assert move is not None
    before = copied(0, 0, 0, 10)
    assert list(a_history(*before, *a_move(1, move)).runs()) == []
    history = a_history(*before, *a_move(1, move), *copied(2, 25, 10, 3, topic_incarnation=NEW))
    assert list(history.runs()) == [Run(25, 10, 3)]
    assert history.last_copy(13) == (12, 7, 2)


def test_a_gap_of_another_life_is_not_told_any_more() -> None:
    move = reset(a_copy_state(now=NEW, log_end=40, position=Position(13, 10, 0)), "25")
    assert move is not None
    history = a_history(*copied(0, 0, 0, 10), *skipped(13), *a_move(2, move))
    assert [(gap.upstream, gap.until) for gap in history.accepted_gaps()] == [(0, 25)]


def test_a_gap_that_is_copied_after_all_is_not_told_any_more() -> None:
    over, back = skip(a_copy_state(), 12), reset(a_copy_state(position=Position(12, 10, 0)), "11")
    assert over is not None and back is not None
    history = a_history(*copied(0, 0, 0, 10), *a_move(1, over), *a_move(2, back))
    assert [(gap.upstream, gap.until) for gap in history.accepted_gaps()] == [(10, 11)]


def test_after_a_reset_the_leader_epoch_of_what_was_copied_before_is_not_asked_for() -> None:
    assert a_history(*copied(0, 0, 0, 10)).source_leader_epoch() == 4
    history = a_history(*copied(0, 0, 0, 10), *skipped(13))
    assert history.source_leader_epoch() == -1
    assert a_history(*copied(0, 0, 0, 10), *skipped(13), *copied(2, 13, 10, 2, epoch=6)).source_leader_epoch() == 6


def test_a_target_that_lost_its_end_before_a_reset_loses_it_in_the_map() -> None:
    move = reset(a_copy_state(target_end=8), "10")
    assert move is not None
    records = a_move(1, move)
    assert Void(P, Attempt(0, 0, 1), 8) in records
    assert list(a_history(*copied(0, 0, 0, 10), *records).runs()) == [Run(0, 0, 8)]


def test_behind_a_move_that_goes_back_nothing_is_judged_by_the_last_copy_until_there_is_a_new_one() -> None:
    move = reset(a_copy_state(), "3")
    assert move is not None
    records = [*copied(0, 0, 0, 10), *a_move(1, move)]
    assert a_history(*records).last_copy(10) is None
    assert a_history(*records, an_open(2, 3, 10)).last_copy(10) is None
    assert a_history(*records, *copied(2, 3, 10, 2)).last_copy(12) == (11, 7, 2)


def test_behind_a_gap_or_a_stranger_the_last_copy_is_what_it_was() -> None:
    move = skip(a_copy_state(target_end=12), None)
    assert move is not None
    gap, stranger = a_history(*copied(0, 0, 0, 10), *skipped(13)), a_history(*copied(0, 0, 0, 10), *a_move(1, move))
    assert (gap.last_copy(10), gap.pending_move()) == ((9, 7, 0), None)
    assert (stranger.last_copy(12), stranger.pending_move()) == ((9, 7, 0), Attempt(0, 1, 1))


@given(st.randoms(use_true_random=False), st.integers(11, 15))
def test_moves_and_gaps_repeated_and_in_any_order_give_the_same_view(rng: random.Random, to: int) -> None:
    straight = [*copied(0, 0, 0, 10), *skipped(to), *copied(2, to, 10, 2)]
    shuffled = [*straight, *rng.sample(straight, len(straight))]
    rng.shuffle(shuffled)
    assert a_history(*shuffled) == a_history(*straight)


def test_a_move_that_comes_when_another_owner_has_gone_on_says_nothing() -> None:
    back, on = reset(a_copy_state(), "3"), skip(a_copy_state(), 14)
    assert back is not None and on is not None
    before = copied(0, 0, 0, 10)
    successor = replace(an_open(2, 10, 10), previous=Attempt(0, 0, 1))
    expected = a_history(*before, successor)
    for late in (back, on):
        history = a_history(*before, successor, *a_move(1, late))
        assert list(history.runs()) == list(expected.runs()) == [Run(0, 0, 10)]
        assert (history.accepted_gaps(), history.source_leader_epoch()) == ([], 4)


# --- compaction ------------------------------------------------------------------------------------------------


def compacted(records: list[LedgerRecord], more: list[tuple[bytes, None]]) -> PartitionHistory:
    """What a reader sees when the cleaner has left the newest of each key and no tombstone."""
    left = dict([*(encode(record) for record in records), *more])
    view = LedgerView()
    for key, value in left.items():
        if value is not None:
            view.read(key, value)
    return view.of(P)


def many(first: int, upstream: int, downstream: int, *, topic_incarnation: TopicIncarnation = OLD) -> list[LedgerRecord]:
    found: list[LedgerRecord] = []
    for step in range(ATTEMPTS_MAX):
        found += copied(first + step, upstream + step, downstream + step, 1, topic_incarnation=topic_incarnation)
    return found


def ranges(history: PartitionHistory) -> list[tuple[int, int]]:
    return [(gap.upstream, gap.until) for gap in history.accepted_gaps()]


def compacted_by_owner(records: list[LedgerRecord], order: Open) -> PartitionHistory:
    receipts, tombstones = compact(a_history(*records), order)
    assert tombstones
    return compacted([*records, order, *receipts], tombstones)


def test_gaps_survive_the_attempts_they_were_accepted_in() -> None:
    records = [*copied(0, 0, 0, 10), *skipped(13), *many(2, 13, 10)]
    before = a_history(*records)
    after = compacted_by_owner(records, an_open(99, 13 + ATTEMPTS_MAX, 10 + ATTEMPTS_MAX))
    assert ranges(after) == ranges(before) == [(10, 13)]
    assert list(OffsetMap(after.runs()).runs()) == list(OffsetMap(before.runs()).runs())
    assert set(after.opens) == {Attempt(0, 99, 1)}


def test_a_gap_that_is_no_gap_any_more_does_not_come_back_when_the_ledger_is_shortened() -> None:
    over, back = skip(a_copy_state(), 12), reset(a_copy_state(position=Position(12, 10, 0)), "10")
    assert over is not None and back is not None
    records = [*copied(0, 0, 0, 10), *a_move(1, over), *a_move(2, back), *many(3, 10, 10)]
    after = compacted_by_owner(records, an_open(99, 10 + ATTEMPTS_MAX, 10 + ATTEMPTS_MAX))
    assert after.accepted_gaps() == [] and after.gaps == {}


def test_what_is_left_of_a_gap_stays_as_it_is_when_the_ledger_is_shortened() -> None:
    over, back = skip(a_copy_state(), 14), reset(a_copy_state(position=Position(14, 10, 0)), "12")
    assert over is not None and back is not None
    records = [*copied(0, 0, 0, 10), *a_move(1, over), *a_move(2, back), *many(3, 12, 10)]
    assert ranges(compacted_by_owner(records, an_open(99, 12 + ATTEMPTS_MAX, 10 + ATTEMPTS_MAX))) == [(10, 12)]


def test_runs_of_another_life_are_not_stated_again() -> None:
    move = reset(a_copy_state(now=NEW, log_end=40), "25")
    assert move is not None
    records = [*many(0, 0, 0), *a_move(50, move)]
    after = compacted_by_owner(records, an_open(99, 25, 10, topic_incarnation=NEW))
    assert list(after.runs()) == []
    assert after.position() == Position(25, 10, 0)


def test_a_move_that_nothing_was_copied_after_is_kept_for_what_it_tells() -> None:
    move = skip(a_copy_state(target_end=12), None)
    assert move is not None
    records = [*many(0, 0, 0), *copied(ATTEMPTS_MAX, 8, 8, 2), *a_move(ATTEMPTS_MAX + 1, move)]
    for at in range(ATTEMPTS_MAX + 2, 2 * ATTEMPTS_MAX):
        records += (an_open(at, 10, 12), closed(at, 10, 12))
    after = compacted_by_owner(records, an_open(2 * ATTEMPTS_MAX, 10, 12))
    assert min(after.opens) == after.pending_move() == Attempt(0, ATTEMPTS_MAX + 1, 1)
    assert after.last_copy(12) == (9, -1, -1)


def closed(number: int, upstream: int, downstream: int) -> Closed:
    return Closed(P, Attempt(0, number, 1), Position(upstream, downstream, 0))
