"""Offset syncs as MM2's readers need them: breaks at once, ends when due, none lost, none that goes back."""

from __future__ import annotations

import random

import pytest

from sparkmirror.ledger import Run
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import SyncHistory, SyncPairs

PARTITION = TopicPartition("topic1", 2)


def taken(pairs: SyncPairs) -> list[tuple[int, int]]:
    """What is due, which is written then."""
    due = [(sync.upstream_offset, sync.downstream_offset) for sync in pairs.due]
    pairs.written(len(due))
    return due


def test_breaks_are_told_at_once_and_the_rest_when_enough_has_passed() -> None:
    """MirrorSourceTaskTest testOffsetSync: the sequence of the original, each record as its own run, lag max 50.

    Where downstream goes back the original writes a sync too; here the ledger's runs never do, since a target that lost
    records stops the partition.
    """
    pairs = SyncPairs(50)
    sequence = [
        ((0, 100), [(0, 100)]),
        ((2, 102), [(2, 102)]),
        ((3, 152), [(3, 152)]),  # the target holds something else before it: a break, which the original cannot see
        ((4, 153), []),
        ((5, 154), []),
        ((6, 203), [(6, 203)]),
        ((7, 204), []),
    ]
    for (upstream, downstream), wanted in sequence:
        pairs.take(PARTITION, Run(upstream, downstream, 1))
        assert taken(pairs) == wanted, (upstream, downstream)


def test_a_stretch_is_told_when_more_than_the_lag_has_passed() -> None:
    pairs = SyncPairs(50)
    pairs.take(PARTITION, Run(0, 100, 1))
    pairs.take(PARTITION, Run(1, 101, 49))
    assert taken(pairs) == [(0, 100)]
    pairs.take(PARTITION, Run(1, 101, 60))
    assert taken(pairs) == [(10, 110), (60, 160)]


def test_with_no_lag_allowed_every_end_is_told() -> None:
    """MirrorSourceTaskTest testZeroOffsetSync."""
    pairs = SyncPairs(0)
    for offset in range(5):
        pairs.take(PARTITION, Run(offset, offset + 100, 1))
        assert taken(pairs) == [(offset, offset + 100)]


def test_what_is_delayed_waits_for_a_flush() -> None:
    """OffsetSyncWriterTest testMaybeQueueOffsetSyncs, testPromoteDelayedOffsetSyncs; SourceTask testSendSyncEvent."""
    pairs = SyncPairs(2)
    pairs.take(PARTITION, Run(0, 1, 1))
    pairs.take(PARTITION, Run(1, 2, 1))
    assert taken(pairs) == [(0, 1)]
    pairs.promote()
    assert taken(pairs) == [(1, 2)]
    pairs.promote()
    assert taken(pairs) == []


def test_what_was_not_written_stays_due() -> None:
    """OffsetSyncWriterTest testFirePendingOffsetSyncs; L23: MM2 drops a sync that could not be sent."""
    pairs = SyncPairs(0)
    for offset in range(3):
        pairs.take(PARTITION, Run(offset, offset, 1))
    assert len(pairs.due) == 3
    pairs.written(1)
    assert [sync.upstream_offset for sync in pairs.due] == [1, 2]


def test_a_run_taken_twice_changes_nothing() -> None:
    """Also MirrorSourceTaskTest testCommitRecordWithNullMetadata: what was not copied is in no run and makes no pair."""
    pairs = SyncPairs(10)
    pairs.take(PARTITION, Run(5, 7, 100))
    taken(pairs)
    pairs.take(PARTITION, Run(5, 7, 100))
    pairs.take(PARTITION, Run(50, 52, 20))
    pairs.promote()
    assert taken(pairs) == []


@pytest.mark.parametrize("lag_max", [0, 1, 100])
def test_every_pair_is_true_and_they_only_go_forward(lag_max: int, rng: random.Random) -> None:
    pairs, true, at = SyncPairs(lag_max), set(), (0, 0)
    for _ in range(200):
        upstream, downstream = at[0] + rng.choice((0, 0, 3)), at[1] + rng.choice((0, 0, 1))
        length = rng.randint(1, 500)
        true |= {(upstream + step, downstream + step) for step in range(length)}
        pairs.take(PARTITION, Run(upstream, downstream, length))
        at = (upstream + length, downstream + length)
    pairs.promote()
    found = taken(pairs)
    assert set(found) <= true
    assert found == sorted(set(found))
    assert found[-1] == (at[0] - 1, at[1] - 1)


def test_mm2_knows_from_few_pairs_what_it_knows_from_all() -> None:
    """A million records in receipts of 100 000: what MM2's store answers is at most twice as far off as with its own."""
    ours, theirs = SyncPairs(100), SyncHistory(OffsetSync(PARTITION, 0, 0))
    for start in range(0, 1_000_000, 100_000):
        ours.take(PARTITION, Run(start, start, 100_000))
    for offset in range(101, 1_000_000, 101):
        theirs.take(OffsetSync(PARTITION, offset, offset))
    due = ours.due
    store = SyncHistory(due[0])
    for sync in due[1:]:
        store.take(sync)
    assert len(due) < 150
    for lag in (150, 1_000, 5_000, 10_000, 50_000):
        position = 1_000_000 - lag
        assert position - store.translate(position) <= 2 * max(position - theirs.translate(position), lag / 2)


def test_a_map_that_begins_anew_makes_readers_forget_what_they_knew() -> None:
    pairs = SyncPairs(0)
    pairs.take(PARTITION, Run(0, 0, 10))
    history = SyncHistory(OffsetSync(PARTITION, *taken(pairs)[0]))
    for sync in ((5, 5), (9, 9)):
        history.take(OffsetSync(PARTITION, *sync))
    pairs.take(PARTITION, Run(10, 10, 5))
    pairs.restart(OffsetSync(PARTITION, -1, 19))
    pairs.take(PARTITION, Run(25, 20, 3))
    due = taken(pairs)
    assert due[0] == (-1, 19), "nothing of the former life comes after it, nor is still to be written"
    for sync in due:
        history.take(OffsetSync(PARTITION, *sync))
    assert [history.translate(at) for at in (0, 3, 24, 25, 27)] == [20, 20, 20, 20, 22]
