import pytest

from sparkmirror.ledger import (
    ATTEMPTS_MAX,
    Attempt,
    Closed,
    LedgerView,
    Open,
    Position,
    Receipt,
    Run,
    Started,
    compact,
    encode,
    outlived,
)
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

PARTITION = TopicPartition("t", 3)


def an_open(number: int, upstream: int, downstream: int) -> Open:
    return Open(
        PARTITION, Attempt(0, number, 1), None, 0, 0, "A.t", 7, number, Position(upstream, downstream, 0), "aa", "bb",
        False, False, False, False,
    )  # fmt: skip


def a_ledger(attempts: int) -> list[tuple[bytes, bytes | None]]:
    log: list[tuple[bytes, bytes | None]] = []
    upstream = downstream = 0
    for number in range(attempts):
        order = an_open(number, upstream, downstream)
        runs = (Run(upstream, downstream, 5), Run(upstream + 6, downstream + 5, 4))
        upstream, downstream = upstream + 10, downstream + 9
        at = Position(upstream, downstream, 9)
        for record in (
            order,
            Started(PARTITION, order.attempt, "p"),
            Receipt(PARTITION, order.attempt, at, 0, 9, 900, runs),
            Closed(PARTITION, order.attempt, at),
        ):
            log.append(encode(record))
    return log


def read(log: list[tuple[bytes, bytes | None]]) -> LedgerView:
    view = LedgerView()
    for key, value in log:
        view.read(key, value)
    return view


def test_few_attempts_are_left_as_they_are():
    view = read(a_ledger(ATTEMPTS_MAX - 1))
    assert compact(view.of(PARTITION), an_open(99, 1000, 1000)) == ([], [])


def test_restated_and_cleaned_the_ledger_says_the_same_at_every_moment():
    log = a_ledger(ATTEMPTS_MAX)
    before = read(log).of(PARTITION)
    order = an_open(99, before.position().upstream, before.position().downstream)
    expected = list(OffsetMap(before.runs()).runs())
    receipts, tombstones = compact(before, order)
    log += [encode(record) for record in (order, *receipts)]
    for cut in range(len(tombstones) + 1):
        history = read(log + tombstones[:cut]).of(PARTITION)
        assert list(OffsetMap(history.runs()).runs()) == expected
        assert history.position() == order.position
        assert history.newest == order


def test_after_compaction_only_the_newest_attempt_is_left():
    log = a_ledger(ATTEMPTS_MAX)
    before = read(log).of(PARTITION)
    order = an_open(99, before.position().upstream, before.position().downstream)
    receipts, tombstones = compact(before, order)
    compacted = dict(log + [encode(record) for record in (order, *receipts)] + tombstones)
    left = [(key, value) for key, value in compacted.items() if value is not None]
    assert len(left) == 1 + len(receipts)
    assert list(OffsetMap(read(left).of(PARTITION).runs()).runs()) == list(OffsetMap(before.runs()).runs())


# --- records that the source has deleted ---


def a_block(order: Open, first: int) -> tuple[bytes, bytes]:
    """Ten records of one transaction each: behind every one of them lies a marker."""
    runs = tuple(Run(upstream, upstream // 2, 1) for upstream in range(first, first + 20, 2))
    last = runs[-1]
    return encode(Receipt(PARTITION, order.attempt, Position(last.upstream + 1, last.downstream + 1, 0), 0, 0, 0, runs))


def three_blocks() -> list[tuple[bytes, bytes | None]]:
    order = an_open(0, 0, 0)
    return [encode(order), *(a_block(order, first) for first in (0, 18, 36))]


@pytest.mark.parametrize("log_start, first_kept", [(0, 0), (17, 0), (18, 18), (35, 18), (36, 36), (10_000, 36)])
def test_blocks_below_the_sources_log_start_are_forgotten_and_the_last_one_never(log_start: int, first_kept: int):
    log = three_blocks()
    before = read(log).of(PARTITION)
    after = read([*log, *outlived(before, log_start)]).of(PARTITION)
    whole = list(OffsetMap(before.runs()).runs())
    assert list(OffsetMap(after.runs()).runs()) == [run for run in whole if run.upstream >= first_kept]
    assert (after.position(), after.newest) == (before.position(), before.newest)


def test_what_was_forgotten_leaves_every_offset_from_the_log_start_on_where_it_was():
    log = three_blocks()
    before = read(log).of(PARTITION)
    after = read([*log, *outlived(before, 20)]).of(PARTITION)
    for upstream in range(20, 60):
        assert OffsetMap(after.runs()).downstream(upstream) == OffsetMap(before.runs()).downstream(upstream)
