"""MM2's OffsetSyncStore, by the vectors of MM2's own tests and of a real run of 4.3.1."""

from __future__ import annotations

import random

import pytest

from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import TOO_OLD, SyncHistories, SyncHistory
from sparkmirror.offsets.sync_history import SLOTS

PARTITION = TopicPartition("topic1", 2)


def sync(upstream: int, downstream: int | None = None) -> OffsetSync:
    """A sync of the one partition; by default both sides are alike."""
    return OffsetSync(PARTITION, upstream, upstream if downstream is None else downstream)


def translated(histories: SyncHistories, position: int) -> int | None:
    """As MM2's store answers."""
    history = histories.of(PARTITION)
    return None if history is None else history.translate(position)


def kept(history: SyncHistory) -> list[int]:
    """The upstream offsets of the different syncs."""
    return [one.upstream_offset for one in history.kept]


def assert_invariants(history: SyncHistory) -> None:
    """What MM2's tests check after every sync."""
    slots = history.slots
    for i in range(SLOTS):
        for j in range(i + 1, SLOTS):
            newer, older = slots[i], slots[j]
            if newer is not older:
                assert newer.upstream_offset <= older.upstream_offset + 2**j - 2**i
                assert newer.upstream_offset >= older.upstream_offset + 2 ** max(i - 2, 0)


def loaded(numbers: range, *, only_newest: bool) -> SyncHistories:
    """A topic that held syncs of these offsets at the start."""
    histories = SyncHistories(only_newest=only_newest)
    for number in numbers:
        histories.take(sync(number))
    histories.is_read_to_end = True
    return histories


def test_offset_translation() -> None:
    """OffsetSyncStoreTest.testOffsetTranslation"""
    histories = SyncHistories(only_newest=False)
    histories.is_read_to_end = True
    histories.take(sync(100, 200))
    assert translated(histories, 150) == 201
    histories.take(sync(150, 251))
    assert translated(histories, 150) == 251
    assert translated(histories, 5) == TOO_OLD
    histories.take(sync(200, 10))  # the target began anew
    assert translated(histories, 200) == 10
    histories.take(sync(20, 20))  # the source began anew
    assert translated(histories, 20) == 20


def test_no_translation_before_the_topic_was_read_to_its_end() -> None:
    """OffsetSyncStoreTest.testNoTranslationIfStoreNotStarted"""
    histories = SyncHistories(only_newest=True)
    assert translated(histories, 100) is None
    histories.take(sync(100, 200))
    assert translated(histories, 0) is None and translated(histories, 100) is None
    histories.is_read_to_end = True
    assert [translated(histories, at) for at in (0, 100, 200)] == [TOO_OLD, 200, 201]


def test_no_translation_without_a_sync() -> None:
    """OffsetSyncStoreTest.testNoTranslationIfNoOffsetSync"""
    histories = SyncHistories(only_newest=False)
    histories.is_read_to_end = True
    assert translated(histories, 0) is None


def test_past_offsets_after_a_start_that_keeps_the_newest_only() -> None:
    """OffsetSyncStoreTest.testPastOffsetTranslation"""
    histories = loaded(range(0, 1001, 10), only_newest=True)
    assert [translated(histories, at) for at in (999, 1000, 1001, 1002)] == [TOO_OLD, 1000, 1001, 1001]
    history = histories.of(PARTITION)
    assert history is not None
    for number in range(1010, 10_001, 10):
        histories.take(sync(number))
        assert_invariants(history)
    assert kept(history) == [10_000, 9_990, 9_970, 9_940, 9_880, 9_640, 9_160, 8_680, 6_760, 4_840, 1_000]
    assert (translated(histories, 4839), translated(histories, 999)) == (1001, TOO_OLD)
    histories.take(sync(1500, 11_000))
    assert [translated(histories, at) for at in (1499, 1500, 2000)] == [TOO_OLD, 11_000, 11_001]


def test_past_offsets_after_a_start_that_keeps_all() -> None:
    """OffsetSyncStoreTest.testPastOffsetTranslationWithoutInitializationReadToEnd"""
    histories = loaded(range(0, 1001, 10), only_newest=False)
    history = histories.of(PARTITION)
    assert history is not None
    assert kept(history)[:2] == [1000, 990] and kept(history)[-3:] == [720, 480, 0]
    assert [translated(histories, at) for at in (719, 479)] == [481, 1]
    for number in range(1000, 10_001, 10):
        histories.take(sync(number))
        if number > 1100:  # the pair at 1000 came twice: until one of them is dropped, they are not apart
            assert_invariants(history)
    assert kept(history) == [10_000, 9_990, 9_960, 9_900, 9_840, 9_600, 9_120, 8_640, 7_680, 3_840, 0]
    histories.take(sync(1500, 11_000))
    assert [translated(histories, at) for at in (1499, 1500, 2000)] == [TOO_OLD, 11_000, 11_001]


def test_syncs_of_a_million_records() -> None:
    histories = loaded(range(0, 1_000_001, 100), only_newest=False)
    history = histories.of(PARTITION)
    assert history is not None
    wanted = [1_000_000, 999_900, 999_800, 999_600, 999_200, 998_400, 995_200, 992_000, 985_600, 972_800]
    assert kept(history) == [*wanted, 921_600, 819_200, 614_400, 409_600, 0]
    assert translated(histories, 600_000) == 409_601


@pytest.mark.parametrize("step", [1, 2, 3, 10, 1000, 12_345, 1 << 40])
def test_equal_steps_expire_one_sync_at_a_time(step: int) -> None:
    """OffsetSyncStoreTest.testConsistentlySpacedSyncs"""
    for start in range(30):
        assert_few_expire([start + number * step for number in range(100)], 1)


@pytest.mark.parametrize("bits", range(0, 20, 3))
def test_random_steps_expire_few_syncs_at_a_time(bits: int) -> None:
    """OffsetSyncStoreTest.testRandomlySpacedSyncs"""
    dice, at, numbers = random.Random(bits), 0, []
    for _ in range(300):
        numbers.append(at)
        at += 1 + dice.randrange(1 << bits)
    assert_few_expire(numbers, bits + 2)


def test_dropped_syncs_expire_two_at_a_time() -> None:
    """OffsetSyncStoreTest.testDroppedSyncsSpacing"""
    dice, at, numbers = random.Random(7), 0, []
    for _ in range(2_000):
        numbers.append(at)
        at += dice.choice([100, 200])
    assert_few_expire(numbers, 2)


def assert_few_expire(numbers: list[int], most: int) -> None:
    """Feeds the syncs; after each, the newest and the first are kept, and no more than `most` were dropped."""
    history = SyncHistory(sync(numbers[0]))
    for number in numbers[1:]:
        before = set(kept(history))
        history.take(sync(number))
        assert history.slots[0].upstream_offset == number
        assert history.slots[-1].upstream_offset == numbers[0]
        assert len(before - set(kept(history))) <= most


def test_slots_keep_their_distances_whatever_comes() -> None:
    dice = random.Random(11)
    for _ in range(20):
        history, at = SyncHistory(sync(0)), 0
        for _ in range(60):
            at += dice.choice([1, 5, 100, 1 << dice.randrange(30)])
            history.take(sync(at))
            assert_invariants(history)
