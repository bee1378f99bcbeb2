"""What is written to MirrorMaker 2's offsets topic: which bytes, to which partitions, and when it is refused."""

from __future__ import annotations

import pytest

from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.positions import Goal, MoveRequest, PositionChange
from sparkmirror.positions.changes import StoredFacts, judge_changes
from sparkmirror.state import PositionTable
from sparkmirror.wire import Record, connect_partition, source_key

TOPIC = "mm2-offsets.A.internal"
P, Q = TopicPartition("orders", 0), TopicPartition("orders", 1)
ENDS = {P: PartitionEnds(10, 100, 0), Q: PartitionEnds(0, 50, 0)}


def stored(*records: tuple[TopicPartition, int, bytes | None], connector: str = "MirrorSourceConnector") -> PositionTable:
    """Records of partitions: whose position, in which partition of the topic, and what it says; later ones are newer."""
    found = PositionTable("A")
    found.sizes[TOPIC] = 25
    for time_ms, (partition, place, value) in enumerate(records):
        found.take(TopicPartition(TOPIC, place), Record(time_ms, time_ms, source_key(connector, "A", partition), value))
    return found


def judge(
    positions: PositionTable,
    to: Goal | None,
    *partitions: TopicPartition,
    verb: str = "set",
    reset: str = "earliest",
    force_unseen: bool = False,
    times: dict[TopicPartition, int] | None = None,
    ends: dict[TopicPartition, PartitionEnds] | None = None,
) -> list[PositionChange]:
    request = MoveRequest(verb, "orders", None, to, force_unseen=force_unseen)  # type: ignore[arg-type]
    return judge_changes(request, StoredFacts(positions, ends or ENDS, times or {}, reset), list(partitions))


AT_41 = b'{"offset":41}'


def test_an_offset_is_stored_as_the_one_before_it_where_the_key_lies() -> None:
    [change] = judge(stored((P, 17, AT_41)), Goal("offset", 60), P)
    assert change.key == b'["MirrorSourceConnector",{"cluster":"A","partition":0,"topic":"orders"}]'
    assert (change.value, change.places) == (b'{"offset":59}', (TopicPartition(TOPIC, 17),))
    assert (change.old_next_offset, change.next_offset, change.given_up, change.copied_again) == (42, 60, 18, 0)


def test_offset_0_is_a_tombstone_because_storing_0_would_begin_at_1() -> None:
    [change] = judge(stored((Q, 11, AT_41)), Goal("offset", 0), Q)
    assert (change.value, change.next_offset, change.copied_again) == (None, 0, 42)
    [one] = judge(stored((Q, 11, AT_41)), Goal("offset", 1), Q)
    assert (one.value, one.next_offset) == (b'{"offset":0}', 1)


def test_earliest_is_a_tombstone_also_where_the_source_begins_later() -> None:
    [change] = judge(stored((P, 3, AT_41)), None, P, verb="reset")
    assert (change.value, change.next_offset, change.copied_again) == (None, 10, 32)


def test_latest_and_a_time_are_resolved_for_each_partition() -> None:
    both = stored((P, 3, AT_41), (Q, 11, AT_41))
    assert [c.value for c in judge(both, Goal("latest"), P, Q)] == [b'{"offset":99}', b'{"offset":49}']
    timed = judge(both, Goal("time", 5), P, Q, times={P: 20})
    assert [c.next_offset for c in timed] == [20, 50], "no record is younger: the end"


def test_a_key_that_lies_in_several_partitions_is_written_in_each() -> None:
    [change] = judge(stored((P, 3, AT_41), (P, 20, None), (P, 9, b'{"offset":7}')), None, P, verb="reset")
    assert [place.partition for place in change.places] == [3, 9, 20]
    assert change.old_next_offset == 8, "the newest"
    [change] = judge(stored((P, 3, AT_41), (P, 9, b'{"offset":7}'), (P, 20, None)), None, P, verb="reset")
    assert change.old_next_offset is None, "the newest is a tombstone"
    [change] = judge(stored((P, 3, AT_41), (P, 9, b'{"offset":7}'), (P, 20, b"text")), None, P, verb="reset")
    assert change.old_next_offset == 8, "the newest that can be read"


def test_nothing_is_written_where_it_says_so_already() -> None:
    assert judge(stored((P, 3, AT_41)), Goal("offset", 42), P) == []
    assert judge(stored((P, 3, None)), None, P, verb="reset") == []
    assert len(judge(stored((P, 3, None), (P, 9, AT_41)), None, P, verb="reset")) == 1


def test_a_key_that_nobody_wrote_is_written_only_if_forced_and_then_where_connect_would() -> None:
    with pytest.raises(MoveRefused, match="no position of orders-1 is stored") as refused:
        judge(stored((P, 3, AT_41)), Goal("offset", 20), P, Q)
    assert "--force-unseen" in refused.value.hint
    [_, change] = judge(stored((P, 3, AT_41)), Goal("offset", 20), P, Q, force_unseen=True)
    assert change.is_unseen
    assert change.places == (TopicPartition(TOPIC, connect_partition(change.key, 25)),)
    assert change.places[0].partition == 11


def test_forgetting_what_was_never_stored_is_nothing() -> None:
    assert judge(stored(), None, P, verb="reset") == []


def test_positions_under_another_connector_are_named() -> None:
    with pytest.raises(MoveRefused, match=r"positions of A->B.MirrorSourceConnector \(cluster A\) are"):
        judge(stored((P, 3, AT_41), connector="A->B.MirrorSourceConnector"), Goal("offset", 20), P)


@pytest.mark.parametrize("goal", [Goal("offset", 9), Goal("offset", 101)])
def test_an_offset_that_the_source_does_not_have_is_refused(goal: Goal) -> None:
    with pytest.raises(MoveRefused, match="begins at 10 and ends at 100"):
        judge(stored((P, 3, AT_41)), goal, P)


@pytest.mark.parametrize("reset", ["latest", "none", "by_duration:PT1H"])
def test_from_0_is_refused_where_a_forgotten_position_would_not_lead_there(reset: str) -> None:
    with pytest.raises(MoveRefused, match=f"auto.offset.reset={reset} decides") as refused:
        judge(stored((Q, 11, AT_41)), Goal("offset", 0), Q, reset=reset)
    assert "A.consumer.auto.offset.reset = earliest" in refused.value.hint
    [change] = judge(stored((P, 3, AT_41)), None, P, verb="reset", reset=reset)
    assert (change.value, change.next_offset) == (b'{"offset":9}', 10), "the source begins at 10: that can be said"


def test_skip_goes_forward_only() -> None:
    assert judge(stored((P, 3, AT_41)), None, P, verb="skip") == []
    [change] = judge(stored((P, 3, b'{"offset":4}')), None, P, verb="skip")
    assert (change.value, change.next_offset, change.given_up) == (b'{"offset":9}', 10, 0), "those 5 are gone anyway"
    [change] = judge(stored((P, 3, AT_41)), Goal("offset", 43), P, verb="skip")
    assert (change.value, change.given_up) == (b'{"offset":42}', 1)
    with pytest.raises(MoveRefused, match="40 is behind it"):
        judge(stored((P, 3, AT_41)), Goal("offset", 40), P, verb="skip")
    with pytest.raises(MoveRefused, match="nothing was copied yet"):
        judge(stored((P, 3, None)), None, P, verb="skip")


def test_a_topic_that_the_source_lost_can_only_be_forgotten() -> None:
    gone = {P: PartitionEnds(-1, -1, -1, 3)}
    [change] = judge(stored((P, 3, AT_41)), None, P, verb="reset", ends=gone)
    assert (change.value, change.next_offset) == (None, None)
    for goal in (Goal("latest"), Goal("offset", 0), Goal("time", 5)):
        with pytest.raises(MoveRefused, match="the source does not have it"):
            judge(stored((P, 3, AT_41)), goal, P, ends=gone)


def test_what_comes_again_is_no_more_than_the_source_has() -> None:
    [change] = judge(stored((Q, 11, b'{"offset":499}')), None, Q, verb="reset")
    assert change.copied_again == 50, "the topic was created again: only its 50 offsets can come"


def test_foreign_keys_and_those_of_others_are_separate() -> None:
    found = stored((P, 3, AT_41), (Q, 11, AT_41))
    blank = b'["MirrorSourceConnector", {"cluster": "A", "partition": 0, "topic": "orders"}]'
    order = b'["MirrorSourceConnector",{"topic":"orders","partition":0,"cluster":"A"}]'
    for key in (blank, order, b'["MirrorHeartbeatConnector",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]', b"junk"):
        where = TopicPartition(TOPIC, 0)
        found.take(where, Record(0, 0, key, b"{}"))
    assert found.partitions() == [P, Q]
    assert sorted(record.key for record in found.foreign_keys()) == sorted([blank, order])
    assert found.other_connectors() == []
    assert found.last_offset(P) == 41
