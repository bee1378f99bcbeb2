"""Which checkpoints are written, and which commits follow from them."""

from __future__ import annotations

from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.offsets import Checkpoints, SyncHistories, TargetGroup, offsets_to_write

SOURCE, REMOTE = TopicPartition("t", 0), TopicPartition("A.t", 0)


def checkpoint(upstream: int, downstream: int, group: str = "g", partition: TopicPartition = REMOTE) -> Checkpoint:
    """One of the group `g`."""
    return Checkpoint(group, partition, upstream, downstream, "")


def news(known: Checkpoints, upstream: int, downstream: int) -> bool:
    """Whether it is written; if so it is."""
    wanted = checkpoint(upstream, downstream)
    is_news = known.is_news(wanted)
    if is_news:
        known.take(wanted)
    return is_news


def test_checkpoints_only_go_forward_unless_the_group_went_back() -> None:
    """MirrorCheckpointTaskTest.testCheckpointRecordsMonotonicIfStoreRewinds"""
    known = Checkpoints()
    assert news(known, 13, 6)
    assert not news(known, 13, 6)
    assert not news(known, 14, 5)  # the translation got worse
    assert news(known, 12, 5)  # the group itself went back
    assert news(known, 12, 6)
    assert news(known, 20, 9)


def test_a_restart_uses_the_checkpoints_that_are_there() -> None:
    """MirrorCheckpointTaskTest.testCheckpointsTaskRestartUsesExistingCheckpoints"""
    known = Checkpoints()
    known.take(checkpoint(250, 201))
    histories = SyncHistories(only_newest=False)
    for upstream in (175, 275, 375, 475):
        histories.take(OffsetSync(SOURCE, upstream, upstream))
    histories.is_read_to_end = True
    history = histories.of(SOURCE)
    assert history is not None
    answers = [(at, history.translate(at)) for at in (250, 370, 400)]
    assert answers == [(250, 176), (370, 176), (400, 376)]  # the sync at 275 is not kept
    assert [news(known, *answer) for answer in answers] == [False, False, True]


def test_groups_and_partitions_are_told_apart() -> None:
    known = Checkpoints()
    other = TopicPartition("A.t", 1)
    known.take(checkpoint(10, 5))
    assert known.is_news(checkpoint(10, 5, group="h")) and known.is_news(checkpoint(10, 5, partition=other))
    known.take(checkpoint(1, 1, group="h"))
    assert set(known.groups()) == {"g", "h"} and known.of("g") == {REMOTE: checkpoint(10, 5)} and known.of("x") == {}


def test_commits_only_go_forward() -> None:
    """MirrorCheckpointTaskTest.testSyncOffset"""
    one, two, three = (TopicPartition("A.t", index) for index in range(3))
    wanted = [checkpoint(0, 101, partition=one), checkpoint(0, 51, partition=two), checkpoint(0, 7, partition=three)]
    group = TargetGroup(False, {one: 100, two: 51, three: 8})
    assert set(offsets_to_write(wanted, group)) == {one}
    assert set(offsets_to_write(wanted, group, rewound={three})) == {one, three}
    assert offsets_to_write(wanted, TargetGroup(True, {})) == {}


def test_a_partition_without_a_commit_is_written() -> None:
    """MirrorCheckpointTaskTest.testSyncOffsetForTargetGroupWithNullOffsetAndMetadata; G13: absent is written again."""
    assert set(offsets_to_write([checkpoint(0, 0)], TargetGroup(False, {}))) == {REMOTE}
    assert set(offsets_to_write([checkpoint(0, 0)], TargetGroup(False, {REMOTE: None}))) == {REMOTE}
    assert set(offsets_to_write([checkpoint(0, 0)], TargetGroup(False, {REMOTE: 0}))) == set()
