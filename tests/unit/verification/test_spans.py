"""What of a partition is read, and what an earlier run's result is worth after the partition was copied again."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.comparison import Why
from sparkmirror.comparison.values import ComparedRange
from sparkmirror.ledger import Attempt, Closed, Gap, Open, PartitionHistory, Position, Receipt, Run
from sparkmirror.ledger.blocks import Block
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap
from sparkmirror.verification.memory import Verified
from sparkmirror.verification.ranges import Point, Span, cut_exact, passed_over, still_holds, unverified
from sparkmirror.verification.spans import PartitionFacts, PartitionPlan, SpanPlanner

SOURCE, TARGET = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
IDS = ("s", "t")


def history(*runs: Run, end: Position) -> PartitionHistory:
    attempt = Attempt(1, 0, 1)
    begin = Open(
        partition=SOURCE, attempt=attempt, previous=None, slot=0, incarnation=0, target_topic=TARGET.topic, producer_id=1,
        producer_epoch=0, position=Position(runs[0].upstream, runs[0].downstream, 0), source_topic_id=IDS[0],
        target_topic_id=IDS[1], read_committed=False, shared=False, fenced=True, source_compacts=False,
    )  # fmt: skip
    found = PartitionHistory(opens={attempt: begin}, closed={attempt: Closed(SOURCE, attempt, end)})
    found.receipts[attempt] = Receipt(SOURCE, attempt, end, -1, 0, 0, ())
    found.blocks[attempt, runs[0].upstream] = Block.of(runs, 0)
    return found


def planned(
    known: tuple[tuple[int, int, int, int], ...], *runs: Run, target_first: int = 0, mm2_next: int | None = None
) -> PartitionPlan:
    end = Position(runs[-1].end, runs[-1].downstream + runs[-1].length, 0)
    target_end = end.downstream + 5 * (mm2_next is not None)
    facts = PartitionFacts(
        SOURCE, TARGET, IDS, PartitionEnds(0, end.upstream + 10, 0), PartitionEnds(target_first, target_end, 0),
        history(*runs, end=end), OffsetMap(runs), mm2_next, None, False, False,
    )  # fmt: skip

    def no_logs():
        raise AssertionError("no record is to be read")

    return SpanPlanner(facts, no_logs).plan(None, known)


def pieces(plan: PartitionPlan) -> list[tuple[Point, Point]]:
    return [piece for _, _, found in plan.pieces for piece in found]


def test_only_what_is_new_is_read() -> None:
    assert pieces(planned((), Run(0, 0, 100))) == [((0, 0), (100, 100))]
    assert pieces(planned(((0, 60, 0, 60),), Run(0, 0, 100))) == [((60, 60), (100, 100))]
    assert pieces(planned(((0, 100, 0, 100),), Run(0, 0, 100))) == []


def test_a_verified_range_that_goes_on_in_the_next_span_covers_this_one_to_its_end() -> None:
    span = Span(Point(0, 0), Point(50, 50), ComparedRange(SOURCE, TARGET, 0, 0, 0, 0))
    assert list(unverified(span, [(0, 100, 0, 100)])) == []
    assert list(unverified(span, [(20, 100, 20, 100)])) == [((0, 0), (20, 20))]


def test_a_live_mirror_maker_behind_our_copy_may_be_further_than_its_stored_position() -> None:
    [_, (span, places, _)] = planned((), Run(0, 0, 100), mm2_next=103).pieces
    assert (span.start, span.end, places) == ((100, 100), (110, 105), None)
    assert (span.range.lag_from, span.range.is_tail) == (103, True)


def test_what_lies_between_verified_samples_is_read() -> None:
    known = ((10, 20, 10, 20), (50, 60, 50, 60))
    assert pieces(planned(known, Run(0, 0, 100))) == [
        ((0, 0), (10, 10)), ((20, 20), (50, 50)), ((60, 60), (100, 100))
    ]  # fmt: skip


def test_what_was_copied_again_since_is_read_again() -> None:
    again = Run(0, 0, 70), Run(70, 100, 50)
    assert pieces(planned(((0, 100, 0, 100),), *again)) == [((0, 0), (120, 150))]
    offset_map = OffsetMap(again)
    assert still_holds((0, 70, 0, 70), offset_map) and not still_holds((0, 100, 0, 100), offset_map)


def test_a_verified_range_that_reaches_into_what_mirror_maker_copied_is_read_again_after_a_reset() -> None:
    after = Run(50, 120, 30)  # MirrorMaker 2 copied what lies before upstream offset 50; the rest was copied again
    facts = planned(((0, 80, 0, 80),), after, target_first=120)
    assert facts.known == []


def test_what_a_side_deleted_is_counted_and_not_read() -> None:
    plan = planned((), Run(0, 0, 100), target_first=30)
    assert pieces(plan) == [((30, 30), (100, 100))]
    assert plan.explained[Why.TARGET_DELETED] == 30


def test_what_a_move_forward_passed_over_is_known_on_both_sides() -> None:
    found, move = history(Run(0, 0, 50), end=Position(50, 50, 0)), Attempt(1, 1, 1)
    [before] = found.opens
    order = replace(found.opens[before], attempt=move, previous=before, move="behind")
    found.opens[move] = replace(order, position=Position(60, 63, 0))
    assert passed_over(found) == ()  # nothing was given up
    found.gaps[move, 50] = Gap(SOURCE, move, 50, 60, "skipped", 1, IDS[0])
    assert passed_over(found) == ((50, 63),)


def test_ranges_have_their_part_of_the_map_and_no_target_offset_lies_between_them() -> None:
    offset_map = OffsetMap([Run(0, 0, 40), Run(50, 40, 50)])
    shared = ComparedRange(SOURCE, TARGET, 0, 0, 0, 0, is_tail=True)
    span = Span(Point(0, 0), Point(100, 95), shared)
    found = list(cut_exact(span, offset_map, list(unverified(span, ())), 45))
    assert [(one.start, one.end, one.target_start, one.target_end) for one in found] == [
        (0, 45, 0, 40), (45, 90, 40, 80), (90, 100, 80, 95)
    ]  # fmt: skip
    assert [list(one.runs or ()) for one in found] == [[(0, 0, 40)], [(50, 40, 40)], [(90, 80, 10)]]
    assert [one.is_tail for one in found] == [False, False, True]


def test_verified_ranges_are_joined_where_they_touch_on_both_sides() -> None:
    known = Verified("s", "t", ((0, 10, 0, 10),), 1)
    assert known.with_ranges([(10, 20, 10, 20), (30, 40, 30, 40)], 2).ranges == ((0, 20, 0, 20), (30, 40, 30, 40))
    assert known.with_ranges([(5, 30, 5, 31)], 2).ranges == ((0, 30, 0, 31),)
