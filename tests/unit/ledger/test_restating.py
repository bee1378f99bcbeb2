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
    encode,
    restate,
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
    assert restate(view.of(PARTITION), an_open(99, 1000, 1000)) == ([], [])


def test_restated_and_cleaned_the_ledger_says_the_same_at_every_moment():
    log = a_ledger(ATTEMPTS_MAX)
    before = read(log).of(PARTITION)
    order = an_open(99, before.position().upstream, before.position().downstream)
    expected = OffsetMap(before.runs()).runs
    receipts, tombstones = restate(before, order)
    log += [encode(record) for record in (order, *receipts)]
    for cut in range(len(tombstones) + 1):
        history = read(log + tombstones[:cut]).of(PARTITION)
        assert OffsetMap(history.runs()).runs == expected
        assert history.position() == order.position
        assert history.newest == order


def test_after_compaction_only_the_newest_attempt_is_left():
    log = a_ledger(ATTEMPTS_MAX)
    before = read(log).of(PARTITION)
    order = an_open(99, before.position().upstream, before.position().downstream)
    receipts, tombstones = restate(before, order)
    compacted = dict(log + [encode(record) for record in (order, *receipts)] + tombstones)
    left = [(key, value) for key, value in compacted.items() if value is not None]
    assert len(left) == 1 + len(receipts)
    assert OffsetMap(read(left).of(PARTITION).runs()).runs == OffsetMap(before.runs()).runs
