"""The transform query's intents: whatever part of what a task sent is in the logs, every record is counted once."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import OrderBroken
from sparkmirror.ledger import (
    SEQUENCE_MODULUS,
    TRANSFORM_QUERY,
    Attempt,
    Intent,
    IntentTarget,
    LandedBatch,
    LedgerView,
    Open,
    Position,
    Receipt,
    Routed,
    Run,
    condense,
    covered_from,
    encode,
    landed,
    placed_runs,
    ranges_of,
    tombstone,
)
from sparkmirror.model import TopicPartition

SOURCE, HOME, OTHER = TopicPartition("t", 0), TopicPartition("a.t", 0), TopicPartition("a.other", 3)
FIRST, SECOND = Attempt(0, 1, 1), Attempt(0, 1, 2)

offset_lists = st.lists(st.integers(0, 300), unique=True, max_size=60).map(sorted)


def intent(until: int, *targets: IntentTarget) -> Intent:
    return Intent(SOURCE, FIRST, 0, until, "sparkmirror-a->b-records-1", 7, 0, targets)


def pairs(runs: list[Run]) -> dict[int, int]:
    return {run.upstream + i: run.downstream + i for run in runs for i in range(run.length)}


@given(offset_lists)
def test_stretches_hold_the_offsets_in_order(offsets: list[int]) -> None:
    found = ranges_of(offsets)
    assert [start + i for start, length in found for i in range(length)] == offsets
    assert all(start + length < following for (start, length), (following, _) in pairwise(found))


@pytest.mark.parametrize("offsets", [[3, 2], [1, 1], [5, 6, 5]])
def test_offsets_that_go_back_are_refused(offsets: list[int]) -> None:
    with pytest.raises(OrderBroken, match="keep the order"):
        ranges_of(offsets)


@given(offset_lists.filter(len), st.data())
def test_records_are_placed_one_behind_the_other(offsets: list[int], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(offsets) - 1))
    count = data.draw(st.integers(1, len(offsets) - index))
    runs = list(placed_runs(ranges_of(offsets), index, count, 1000))
    assert pairs(runs) == {offset: 1000 + i for i, offset in enumerate(offsets[index : index + count])}


@given(st.data())
def test_of_a_lost_task_every_record_is_found_or_made_again(data: st.DataObject) -> None:
    """Each record goes to one of three places or nowhere; of each place a first part has landed, in batches."""
    upstream = sorted(data.draw(st.sets(st.integers(0, 80))))
    places = [HOME, OTHER, TopicPartition("a.other", 4)]
    goes = {offset: data.draw(st.sampled_from([None, *places])) for offset in upstream}
    targets, found, there = [], {}, {}
    for number, place in enumerate(places):
        sent = [offset for offset in upstream if goes[offset] == place]
        if not sent:
            continue
        sequence = data.draw(st.sampled_from([0, 5, SEQUENCE_MODULUS - 2]))
        targets.append(IntentTarget(place, 100 * number, sequence, ranges_of(sent)))
        at, batches = 0, []
        # Batches of the same producer from before the intent lie there too.
        if sequence == 5:
            batches.append(LandedBatch(100 * number, 0, 5))
        while at < len(sent) and data.draw(st.booleans()):
            count = data.draw(st.integers(1, len(sent) - at))
            base = 100 * number + 10 + at + data.draw(st.integers(0, 3)) * 100
            batches.append(LandedBatch(base, (sequence + at) % SEQUENCE_MODULUS, count))
            there.update({offset: (place, base + i) for i, offset in enumerate(sent[at : at + count])})
            at += count
        found[place] = data.draw(st.permutations(batches))
    resume, runs = landed(intent(81, *targets), found)
    told = {offset: (place, down) for place, some in runs.items() for offset, down in pairs(some).items()}
    assert told == there
    missing = [offset for offset in upstream if goes[offset] is not None and offset not in there]
    assert resume == (min(missing) if missing else 81)


def test_a_hole_in_what_landed_is_refused() -> None:
    one = IntentTarget(HOME, 0, 10, ((0, 6),))
    with pytest.raises(OrderBroken, match="record 0 of an intent"):
        landed(intent(6, one), {HOME: [LandedBatch(50, 13, 3)]})


def an_open(attempt: Attempt, at: Position, source_id: str = "s") -> Open:
    return Open(SOURCE, attempt, None, TRANSFORM_QUERY, -1, "a.t", 1, 1, at, source_id, "x", False, False, False, False)


def test_what_landed_behind_an_attempts_beginning_is_skipped_by_it_and_by_the_next() -> None:
    view = LedgerView()
    view.apply(an_open(FIRST, Position(0, 0, 0)))
    view.apply(Receipt(SOURCE, FIRST, Position(4, 6, 0), -1, 0, 0, (Run(0, 0, 4), Run(6, 4, 2)), is_final=True))
    view.apply(Routed(SOURCE, FIRST, OTHER, "s", (Run(5, 9, 1),)))
    view.apply(Routed(SOURCE, FIRST, OTHER, "another life", (Run(4, 9, 1),)))
    assert covered_from(view.of(SOURCE), 4) == ((5, 1), (6, 2))
    # The next attempt begins at 4 and states what lies behind it: it stays known.
    view.apply(Receipt(SOURCE, SECOND, Position(4, 6, 0), -1, 0, 0, (Run(6, 4, 2),)))
    view.apply(an_open(SECOND, Position(4, 6, 0)))
    assert covered_from(view.of(SOURCE), 4) == ((5, 1), (6, 2))
    assert sorted(view.of(SOURCE).runs()) == [Run(0, 0, 4), Run(6, 4, 2)]


def test_routed_runs_are_told_by_place_and_removed_by_their_tombstone() -> None:
    view = LedgerView()
    view.apply(an_open(FIRST, Position(0, 0, 0)))
    for record in (
        Routed(SOURCE, FIRST, OTHER, "s", (Run(10, 3, 2),)),
        Routed(SOURCE, FIRST, OTHER, "s", (Run(2, 0, 3),)),
        Routed(SOURCE, FIRST, HOME, "s", (Run(7, 0, 1),)),
    ):
        view.read(*encode(record))
    assert view.of(SOURCE).routed_runs() == {OTHER: [Run(2, 0, 3), Run(10, 3, 2)], HOME: [Run(7, 0, 1)]}
    view.read(*tombstone("routed", SOURCE, FIRST, 2, *OTHER))
    assert view.of(SOURCE).routed_runs() == {OTHER: [Run(10, 3, 2)], HOME: [Run(7, 0, 1)]}
    assert view.malformed == 0


@given(st.lists(st.tuples(st.sampled_from([HOME, OTHER]), st.integers(1, 9), st.integers(0, 2)), max_size=400))
def test_many_small_blocks_are_said_in_few_that_say_the_same(batches: list[tuple[TopicPartition, int, int]]) -> None:
    view, before, log = LedgerView(), LedgerView(), []
    upstream, ends = 0, {HOME: 0, OTHER: 50}
    log.append(an_open(FIRST, Position(0, 0, 0)))
    for target, length, gap in batches:
        upstream += gap
        run = Run(upstream, ends[target], length)
        upstream, ends[target] = upstream + length, ends[target] + length
        log.append(
            Receipt(SOURCE, FIRST, Position(upstream, ends[HOME], 0), -1, length, 0, (run,))
            if target == HOME
            else Routed(SOURCE, FIRST, OTHER, "s", (run,))
        )
    for record in log:
        view.apply(record)
        before.apply(record)
    again, removed = condense(view.of(SOURCE))
    for record in again:
        view.read(*encode(record))
    for key in removed:
        view.read(*key)
    old, new = before.of(SOURCE), view.of(SOURCE)
    assert pairs(list(new.runs())) == pairs(list(old.runs()))
    assert {t: pairs(r) for t, r in new.routed_runs().items()} == {t: pairs(r) for t, r in old.routed_runs().items()}
    assert new.position() == old.position()
    assert len(view.of(SOURCE).blocks) <= 65 and len(view.of(SOURCE).routed) <= 65
    assert view.malformed == 0


def test_what_was_routed_before_the_copy_was_set_back_is_copied_again() -> None:
    view = LedgerView()
    view.apply(an_open(FIRST, Position(0, 0, 0)))
    view.apply(Routed(SOURCE, FIRST, OTHER, "s", (Run(2, 0, 8),)))
    view.apply(replace(an_open(SECOND, Position(5, 9, 0)), previous=FIRST, move="anew"))
    assert covered_from(view.of(SOURCE), 5) == ()
    assert view.of(SOURCE).routed_runs() == {OTHER: [Run(2, 0, 3)]}
    view.apply(Routed(SOURCE, Attempt(0, 1, 3), OTHER, "s", (Run(5, 20, 2),)))
    assert view.of(SOURCE).routed_runs() == {OTHER: [Run(2, 0, 3), Run(5, 20, 2)]}
