"""The answer table of one attempt, row by row."""

from __future__ import annotations

import pytest

from sparkmirror.ledger import Attempt, Expect, Open, PartitionCopy, Phase, Position, Run, Sent, expectation
from sparkmirror.ledger.partition import IDLE_REARM_S, RUNS_PER_BLOCK, UNRECEIPTED_S_MAX
from sparkmirror.model import TopicPartition

P = TopicPartition("orders", 0)


def a_copy(*, fenced: bool = True, sequence: int = 0) -> PartitionCopy:
    """An attempt that has looked at the log and may send."""
    order = Open(
        partition=P,
        attempt=Attempt(0, 1, 1),
        previous=None,
        slot=0,
        incarnation=0,
        target_topic="a.orders",
        producer_id=7,
        producer_epoch=1,
        position=Position(100, 50, sequence),
        source_topic_id="",
        target_topic_id="",
        read_committed=False,
        shared=False,
        fenced=fenced,
        source_compacts=False,
    )
    copy = PartitionCopy(order, 0.0)
    copy.resume(order.position, [], 0.0)
    return copy


def send(copy: PartitionCopy, count: int = 10, now: float = 0.0) -> Sent:
    at = copy.next.upstream
    return copy.send(count, ((at, count),), at + count, 1000, 3, 1, now)


def answer(copy: PartitionCopy, sent: Sent, error: int = 0, base: int | None = None, now: float = 0.0) -> None:
    copy.answer(sent, error=error, base_offset=sent.downstream if base is None else base, message="", now=now)


# --- the table -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "codes"),
    [
        (Expect.SPLIT, (10, 18)),
        (Expect.REFUSED, (2, 17, 29, 31, 32, 44, 53, 76, 87)),
        (Expect.FENCED, (47, 59, 90)),
        (Expect.RESUME, (3, 5, 6, 7, 9, 13, 19, 20, 45, 56, 72, 74, 75, 100, -1, 12345)),
    ],
)
def test_every_code_has_its_row(expected: Expect, codes: tuple[int, ...]) -> None:
    assert {code: expectation(code) for code in codes} == dict.fromkeys(codes, expected)


def test_success_with_the_expected_base_proves_the_batch() -> None:
    copy = a_copy()
    answer(copy, send(copy))
    assert (copy.proven, copy.phase, copy.is_quiet) == (Position(110, 60, 10), Phase.FLOWING, True)
    assert copy.receipt().runs == (Run(100, 50, 10),)


def test_L4_success_proves_every_earlier_batch_of_the_same_log() -> None:
    copy = a_copy()
    first, second = send(copy), send(copy)
    answer(copy, first, 7, base=50)
    assert (copy.proven.downstream, copy.phase) == (50, Phase.DRAINING)
    answer(copy, second)
    assert (copy.proven.downstream, copy.phase) == (70, Phase.SETTLING)


def test_a_success_behind_a_refused_batch_proves_nothing() -> None:
    copy = a_copy()
    first, second = send(copy), send(copy)
    answer(copy, first, 6, base=-1)
    answer(copy, second)
    assert (copy.proven.downstream, copy.phase) == (50, Phase.SETTLING)


@pytest.mark.parametrize("base", [49, 51, 0])
def test_success_elsewhere_is_a_doubt(base: int) -> None:
    copy = a_copy()
    answer(copy, send(copy), base=base)
    assert (copy.proven.downstream, copy.phase, copy.doubt.expect) == (50, Phase.SETTLING, Expect.RESUME)


def test_L3_the_first_error_names_the_cause_and_45_is_its_echo() -> None:
    copy = a_copy()
    sent = [send(copy) for _ in range(3)]
    for batch, error in zip(sent, (10, 45, 45), strict=True):
        assert copy.phase is not Phase.SETTLING
        answer(copy, batch, error, base=-1)
    assert (copy.phase, copy.doubt.error, copy.doubt.expect) == (Phase.SETTLING, 10, Expect.SPLIT)


def test_a_fence_in_the_echo_outweighs_a_retriable_first_error() -> None:
    copy = a_copy()
    first, second = send(copy), send(copy)
    answer(copy, first, 6, base=-1)
    answer(copy, second, 47, base=-1)
    assert copy.doubt.expect is Expect.FENCED


def test_nothing_is_sent_in_doubt_until_the_log_was_read() -> None:
    copy = a_copy()
    first, _ = send(copy), send(copy)
    answer(copy, first, 6, base=-1)
    assert not copy.may_send(0.0)
    copy.connection_lost("reset")
    assert copy.phase is Phase.SETTLING and not copy.may_send(0.0)
    with pytest.raises(AssertionError):
        send(copy)
    copy.resume(Position(110, 60, 10), [Run(100, 50, 10)], 0.0)
    assert copy.may_send(0.0) and copy.records == 10


def test_an_answer_from_before_the_resumption_proves_nothing_sent_after_it() -> None:
    copy = a_copy()
    stale = send(copy)
    copy.connection_lost("reset")
    copy.resume(Position(100, 50, 0), [], 0.0)
    send(copy)
    answer(copy, stale)
    assert (copy.proven.downstream, len(copy.window)) == (50, 1)


def test_out_of_sequence_twice_at_the_settled_end_is_left_to_a_fence() -> None:
    copy = a_copy(fenced=False)
    for expected in (Expect.RESUME, Expect.FENCED):
        answer(copy, send(copy), 45, base=-1)
        assert copy.doubt.expect is expected
        copy.resume(Position(100, 50, 0), [], 0.0)


# --- arming --------------------------------------------------------------------------------------------------------


def test_L1_the_first_batch_goes_alone_unless_the_log_ends_in_our_marker() -> None:
    assert a_copy(fenced=True).armed
    copy = a_copy(fenced=False)
    first = send(copy)
    assert not copy.may_send(0.0)
    answer(copy, first)
    send(copy)
    assert copy.may_send(0.0)


def test_L2_the_first_batch_after_a_long_idle_time_goes_alone_until_it_is_answered() -> None:
    copy = a_copy()
    answer(copy, send(copy))
    copy.receipt_acked(copy.receipt(), 0.0)
    later = IDLE_REARM_S + 1
    assert copy.may_send(later)
    first = send(copy, now=later)
    assert not copy.may_send(later)
    answer(copy, first, now=later)
    assert copy.may_send(later)


def test_a_marker_is_trusted_only_where_the_open_said_it_lies() -> None:
    copy = a_copy(fenced=True)
    moved = PartitionCopy(copy.order, 0.0)
    moved.resume(Position(100, 51, 0), [], 0.0)
    assert not moved.armed


# --- receipts and the end ------------------------------------------------------------------------------------------


def test_sequences_wrap_and_the_sum_holds() -> None:
    copy = a_copy(sequence=(1 << 31) - 5)
    assert [send(copy, 4).sequence for _ in range(3)] == [(1 << 31) - 5, (1 << 31) - 1, 3]
    answer(copy, copy.window[-1])
    assert copy.proven == Position(112, 62, 7)
    assert copy.receipt().records == 12


def test_offsets_without_records_move_the_position_only_with_what_was_sent_before_them() -> None:
    copy = a_copy()
    sent = send(copy)
    copy.skip_to(130, 0.0)
    assert copy.proven.upstream == 100
    answer(copy, sent)
    assert copy.proven == Position(130, 60, 10)
    copy.skip_to(150, 0.0)
    assert copy.proven == Position(150, 60, 10)


def test_C1_an_attempt_is_not_closed_while_a_batch_of_it_may_still_land() -> None:
    copy = a_copy()
    send(copy), send(copy)
    copy.connection_lost("reset")
    copy.resume(Position(110, 60, 10), [Run(100, 50, 10)], 0.0)
    copy.closing = True
    assert copy.close_position is None and not copy.closing
    answer(copy, send(copy))
    assert copy.close_position == Position(120, 70, 20) and copy.closing


def test_a_batch_that_was_refused_by_an_answer_does_not_hold_up_the_end() -> None:
    copy = a_copy()
    answer(copy, send(copy), 87, base=-1)
    copy.resume(Position(100, 50, 0), [], 0.0)
    assert copy.close_position == Position(100, 50, 0)


def test_the_last_receipt_is_told_again_under_its_own_key() -> None:
    copy = a_copy()
    answer(copy, send(copy))
    copy.receipt_acked(copy.receipt(), 0.0)
    assert copy.receipt() is None
    copy.closing = True
    assert copy.receipt().is_final


def test_nothing_is_said_after_the_attempt_was_left() -> None:
    copy = a_copy()
    sent = send(copy)
    copy.end(Phase.LEFT)
    answer(copy, sent)
    assert copy.receipt() is None and not copy.may_send(0.0) and copy.proven.downstream == 50


def test_O15_copying_pauses_when_the_ledger_takes_no_receipts() -> None:
    copy = a_copy()
    answer(copy, send(copy))
    late = UNRECEIPTED_S_MAX + 1
    assert copy.is_unreceipted(late) and not copy.may_send(late)
    copy.receipt_acked(copy.receipt(), late)
    assert copy.may_send(late)


def test_a_block_of_runs_ends_and_the_next_one_begins_with_the_run_that_may_still_grow() -> None:
    copy = a_copy()
    for _ in range(RUNS_PER_BLOCK + 1):
        answer(copy, send(copy, 1))
        copy.skip_to(copy.next.upstream + 1, 0.0)
    full = copy.receipt()
    answer(copy, send(copy, 1))
    following = copy.receipt()
    assert len(full.runs) == RUNS_PER_BLOCK + 1
    assert following.runs[0] == full.runs[-1] and len(following.runs) == 2


def test_what_was_found_carries_its_leader_epoch_into_the_receipt() -> None:
    copy = a_copy()
    answer(copy, send(copy))
    send(copy)
    copy.connection_lost("reset")
    copy.resume(Position(120, 70, 20), [Run(110, 60, 10)], 0.0, 9)
    receipt = copy.receipt()
    assert receipt is not None and (receipt.position.upstream, receipt.source_leader_epoch) == (120, 9)
