"""What the doctor reads of records, over logs in memory: only where offsets leave a question, and what it makes of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from unit.diagnose.doctor_builders import NOW, ORDERS, OURS, REMOTE, a_copy, connector, ends, facts_of, failed, our_copy

from sparkmirror.offsets.proof.values import RecordAsk, RecordRange, Seen
from sparkmirror.state.facts import ComparedPair, Facts, Stop, SyncPair, Tail
from sparkmirror.state.gathering.reads import _firsts, _Found, _holes, _pairs, _suspects, _tails

STEP = 7  # records of one answer, so that walks have several steps


def log(*values: int | None, first: int = 0) -> dict[int, Seen]:
    """Records by offset; None is a hole."""
    return {
        first + at: Seen(first + at, NOW, b"%d" % value) for at, value in enumerate(values) if value is not None
    }


def read(ask: RecordAsk, logs: Mapping[str, dict[int, Seen]], ends_of: Mapping[str, int]) -> RecordRange:
    records, end = logs[ask.side], ends_of[ask.side]
    found = [records[at] for at in sorted(records) if at >= ask.offset][: min(ask.count, STEP)]
    more = [at for at in records if found and at > found[-1].offset]
    has_holes = len([at for at in records if at >= ask.offset]) < end - ask.offset
    if more:
        return RecordRange(tuple(found), found[-1].offset + 1, has_holes=has_holes)
    return RecordRange(tuple(found), max(end, ask.offset), is_end=True, has_holes=has_holes)


def drive(work: object, source: dict[int, Seen], target: dict[int, Seen], found: _Found) -> _Found:
    """Answers every ask from these logs."""
    logs = {"source": source, "target": target}
    ends_of = {side: max(records, default=-1) + 1 for side, records in logs.items()}
    for _, asking in work:  # type: ignore[attr-defined]
        answer: RecordRange | None = None
        while True:
            try:
                answer = read(asking.send(answer), logs, ends_of)
            except StopIteration:
                break
    return found


def pairs(facts: Facts, source: dict[int, Seen], target: dict[int, Seen]) -> ComparedPair | None:
    found = _Found()
    return drive(_pairs(facts, found), source, target, found).pairs.get(ORDERS)


def test_the_record_of_a_sync_is_compared_on_both_sides() -> None:
    facts = facts_of()
    same = log(*range(10))
    assert pairs(facts, same, same) == ComparedPair(9, 9, "same")
    other = log(*range(100, 110))
    found = pairs(facts, other, same)
    assert found is not None and found.outcome == "differs"
    compacted = pairs(facts, log(*range(9), None, 10), same)
    assert compacted is not None and compacted.outcome == "unknown"


def test_a_true_sync_of_a_new_life_does_not_hide_the_old_one() -> None:
    copy = a_copy(source=ends(0, 25), target=ends(0, 25), sync=SyncPair(24, 24, NOW), first_sync=SyncPair(0, 0, NOW))
    source, target = log(*range(100, 125)), log(*range(10), *range(110, 125))
    found = pairs(facts_of([copy]), source, target)
    assert found == ComparedPair(0, 0, "differs")


def test_nothing_is_compared_where_sparkmirror_knows_the_topics_by_id() -> None:
    assert list(_pairs(facts_of([our_copy()], runner=OURS), _Found())) == []


@pytest.mark.parametrize(
    ("source", "target", "sync", "first"),
    [
        (log(*range(20)), log(*range(10, 20)), SyncPair(19, 9, NOW), 10),  # resumed at 10
        (log(*range(20)), log(*range(13, 20)), SyncPair(19, 9, NOW), 13),  # the map leads astray
        (log(0, None, 1, None, 2, None), log(0, 1, 2), SyncPair(4, 2, NOW), 0),  # markers of transactions
        (log(*range(20)), log(77, 78), SyncPair(19, 1, NOW), None),  # somebody else's
    ],
)
def test_where_a_copy_begins_is_found_by_its_first_record(
    source: dict[int, Seen], target: dict[int, Seen], sync: SyncPair, first: int | None
) -> None:
    copy = a_copy(source=ends(0, max(source) + 1), target=ends(0, max(target) + 1), sync=sync)
    found = _Found()
    assert drive(_firsts(facts_of([copy]), found), source, target, found).firsts.get(ORDERS) == first


def test_a_copy_without_holes_needs_no_reading_to_tell_where_it_begins() -> None:
    assert list(_firsts(facts_of(), _Found())) == []
    found = _Found()
    assert list(_firsts(facts_of([our_copy(first_run=(6, 0))], runner=OURS), found)) == []
    assert found.firsts == {ORDERS: 6}


@pytest.mark.parametrize(
    ("target", "tail"),
    [
        (log(*range(10), 3, 4), Tail(2, 0, 10)),
        (log(*range(10), 99, 98), Tail(0, 2, 10)),
        (log(*range(10), 9, 99), Tail(1, 1, 11)),
        (log(*range(10), None, None), None),
    ],
)
def test_what_lies_behind_a_copy_at_rest_is_repeated_or_foreign(target: dict[int, Seen], tail: Tail | None) -> None:
    copy = a_copy(target=ends(0, 12), sync=SyncPair(0, 0, NOW))
    found = _Found()
    assert drive(_tails(facts_of([copy]), found), log(*range(10)), target, found).tails.get(ORDERS) == tail


def test_a_copy_that_moves_is_not_judged_by_its_end() -> None:
    assert list(_tails(facts_of([a_copy(source=ends(0, 12), target=ends(0, 15))]), _Found())) == []


def test_records_behind_the_ledgers_end_are_strangers_and_markers_are_not() -> None:
    facts = facts_of([our_copy(target=ends(0, 12))], runner=OURS)
    found = _Found()
    drive(_tails(facts, found), log(*range(10)), log(*range(10), None, 55), found)
    assert found.tails == {ORDERS: Tail(0, 1, 11)}
    quiet = _Found()
    drive(_tails(facts, quiet), log(*range(10)), log(*range(10), None, None), quiet)
    assert quiet.tails == {}


HOLE = ((SyncPair(2, 2, NOW), SyncPair(9, 5, NOW)),)


@pytest.mark.parametrize(
    ("source", "first", "lost"),
    [
        (log(*range(10)), 0, True),  # the records are there and were not copied
        (log(0, 1, 2, None, 3, None, None, 4, None, 5), 0, False),  # markers
        (log(*range(9, 40), first=9), 9, True),  # gone, and no transactions around
        (log(9, None, 10, None, 11, first=9), 9, False),  # gone, but this is a log of transactions
    ],
)
def test_a_hole_between_syncs_is_a_loss_unless_something_explains_it(
    source: dict[int, Seen], first: int, lost: bool
) -> None:
    copy = a_copy(source=ends(first, max(source) + 1), holes=HOLE)
    found = _Found()
    assert (ORDERS in drive(_holes(facts_of([copy]), found), source, {}, found).lost) is lost


def test_partitions_that_a_refused_record_holds_up_are_searched_with_the_right_limit() -> None:
    trace = "RecordTooLargeException: a message larger than the max message size the server will accept."
    stuck = a_copy(source=ends(0, 20))
    facts = facts_of([stuck], connectors={"MirrorSourceConnector": connector(tasks={0: failed(trace)})})
    assert [copy.partition for copy, _ in _suspects(facts)] == [ORDERS]
    stop = Stop("stopped", "RECORD_TOO_LARGE", "too large", NOW)
    assert [copy.remote for copy, _ in _suspects(facts_of([our_copy(stop=stop)], runner=OURS))] == [REMOTE]
    assert list(_suspects(facts_of())) == []
