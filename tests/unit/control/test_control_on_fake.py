"""Plans, topics, settings and groups between two fake clusters: what is asked of them, and what they hold afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from fake import FakeLog
from fake.cluster import FakeGroup
from fake.pair import FakePair, copied, fake_pair

from sparkmirror.clusters import LATEST, list_offsets, read_to_end
from sparkmirror.control import RunOptions, place_of
from sparkmirror.control.configs import ConfigSync
from sparkmirror.control.group_sync import GroupSync
from sparkmirror.control.topics import TopicControl
from sparkmirror.examination import make_plan
from sparkmirror.ledger import Position, Run
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.status import FlowStatus
from sparkmirror.wire import decode_checkpoint

MakePair = Callable[..., FakePair]


@pytest.fixture
def pair() -> Iterator[MakePair]:
    """Makes pairs of clusters; `replication_factor="3"` is a line of the flow's file."""
    with ExitStack() as opened:
        yield lambda **more: opened.enter_context(fake_pair({key.replace("_", "."): more[key] for key in more}))


def discover(made: FakePair) -> tuple[list[tuple[str, str, int]], dict[str, str]]:
    found = TopicControl(made.flow).discover(made.source_client, made.target_client)
    return [(topic.topic, topic.remote, topic.partitions) for topic in found.topics], found.stopped


# --- plan and topics -----------------------------------------------------------------------------------------------


def test_a_plan_says_what_would_be_created_and_where_it_starts_and_changes_nothing(pair: MakePair) -> None:
    made = pair(topics="orders")
    made.source.create_topic("orders", 2, {"cleanup.policy": "compact"})
    made.source.create_topic("other")
    plan = make_plan(made.settings)
    [flow] = plan.flows
    topics = {topic.topic: topic for topic in flow.topics}
    assert plan.is_complete
    assert (topics["orders"].remote, [start.basis for start in topics["orders"].starts]) == ("A.orders", ["earliest"] * 2)
    assert topics["other"].starts == ()
    assert made.writes() == []
    assert not made.target.topics


def test_a_plan_names_a_cluster_that_is_away(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    made.target.close()
    plan = make_plan(made.settings)
    assert not plan.is_complete
    assert "cluster B is unreachable" in plan.flows[0].unreachable[0]


def test_topics_are_created_with_the_partitions_and_settings_of_the_source(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders", 3, {"cleanup.policy": "compact", "min.insync.replicas": "1", "retention.ms": "7"})
    made.source.create_topic("mm2-offsets.B.internal")
    assert discover(made) == ([("orders", "A.orders", 3)], {})
    assert len(made.target.topics["A.orders"].logs) == 3
    assert made.target.topics["A.orders"].configs == {"cleanup.policy": "compact", "retention.ms": "7"}


def test_a_second_look_creates_nothing_and_a_topic_that_grew_is_extended(pair: MakePair) -> None:
    made = pair()
    topic = made.source.create_topic("orders", 1)
    discover(made)
    kept = made.target.topics["A.orders"]
    assert made.writes()
    discover(made)
    assert made.writes() == []
    topic.logs.append(FakeLog())
    assert discover(made) == ([("orders", "A.orders", 2)], {})
    assert (made.target.topics["A.orders"] is kept, len(kept.logs)) == (True, 2)


def test_a_topic_that_the_target_refuses_is_stopped_with_its_reason_and_the_others_go_on(pair: MakePair) -> None:
    made = pair(replication_factor="3")
    made.source.create_topic("new")
    made.source.create_topic("orders")
    made.target.create_topic("A.orders")
    found, stopped = discover(made)
    assert found == [("orders", "A.orders", 1)]
    assert stopped["new"].startswith("target B refuses topic A.new: INVALID_REPLICATION_FACTOR")


def test_settings_that_changed_on_the_source_are_set_on_the_target_and_others_left_alone(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders", 1, {"retention.ms": "7"})
    made.target.create_topic("A.orders", 1, {"retention.ms": "9", "min.insync.replicas": "1"})
    status = FlowStatus(FlowName("A", "B"), remotes={"orders": "A.orders"})
    sync = ConfigSync(made.flow, status, made.source_client, made.target_client)
    assert sync.run() == []
    assert made.target.topics["A.orders"].configs["retention.ms"] == "7"
    assert made.writes()
    assert sync.run() == []
    assert made.writes() == []


def test_a_topic_that_is_gone_is_named_and_does_not_stop_the_others(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders", 1, {"retention.ms": "7"})
    made.target.create_topic("A.orders")
    status = FlowStatus(FlowName("A", "B"), remotes={"gone": "A.gone", "orders": "A.orders"})
    refused = ConfigSync(made.flow, status, made.source_client, made.target_client).run()
    assert [words.partition(":")[0] for words in refused] == [f"settings cannot be read on {alias}" for alias in "AB"]
    assert made.target.topics["A.orders"].configs["retention.ms"] == "7"


def test_a_broker_that_hung_up_is_dialled_again(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders", 1)
    place = TopicPartition("orders", 0)
    assert list_offsets(made.source_client, [place], timestamp=LATEST) == {place: (0, 0)}
    made.source.hang_up()
    assert list_offsets(made.source_client, [place], timestamp=LATEST) == {place: (0, 0)}


# --- groups --------------------------------------------------------------------------------------------------------

ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


def with_group(made: FakePair, committed: int) -> GroupSync:
    """Offsets 0-9 and 12-19 of orders were copied, to 0-9 and 10-17; a group of the source has committed `committed`."""
    made.source.create_topic("orders")
    made.target.create_topic("A.orders").logs[0].end = 18
    made.write_ledger(copied("A", "orders", Position(20, 18, 0), Run(0, 0, 10), Run(12, 10, 8)))
    made.source.groups["billing"] = FakeGroup({("orders", 0): (committed, "m")})
    place = place_of(made.settings, made.flow, RunOptions(), slots=1)
    return GroupSync(made.flow, place, FlowStatus(made.flow.name), made.source_client, made.target_client)


def checkpoints(made: FakePair) -> list[tuple[str, TopicPartition, int, int, str]]:
    records = read_to_end(made.target_client, TopicPartition("A.checkpoints.internal", 0))
    found = [decode_checkpoint(record.key or b"", record.value or b"") for record in records]
    return [(c.group, c.partition, c.upstream_offset, c.downstream_offset, c.metadata) for c in found]


@pytest.mark.parametrize(("committed", "downstream"), [(0, 0), (7, 7), (12, 10), (15, 13), (20, 18), (25, 18)])
def test_a_group_gets_a_checkpoint_and_a_commit_where_the_same_record_lies(
    pair: MakePair, committed: int, downstream: int
) -> None:
    made = pair()
    sync = with_group(made, committed)
    assert (sync.emit(), sync.commit()) == ([], [])
    assert checkpoints(made) == [("billing", REMOTE, committed, downstream, "m")]
    assert made.target.groups["billing"].commits == {("A.orders", 0): (downstream, "m")}


def test_a_round_without_news_writes_nothing(pair: MakePair) -> None:
    made = pair()
    sync = with_group(made, 7)
    sync.emit(), sync.commit()
    assert made.writes()
    assert (sync.emit(), sync.commit()) == ([], [])
    assert made.writes() == []


def test_a_group_that_reads_on_the_target_keeps_its_own_commits(pair: MakePair) -> None:
    made = pair()
    sync = with_group(made, 7)
    made.target.groups["billing"] = FakeGroup({("A.orders", 0): (3, "own")}, members=["reader"])
    assert (sync.emit(), sync.commit()) == ([], [])
    assert made.target.groups["billing"].commits == {("A.orders", 0): (3, "own")}


def test_a_commit_on_the_target_is_never_moved_back(pair: MakePair) -> None:
    made = pair()
    sync = with_group(made, 7)
    made.target.groups["billing"] = FakeGroup({("A.orders", 0): (9, "own")})
    sync.emit(), sync.commit()
    assert made.target.groups["billing"].commits == {("A.orders", 0): (9, "own")}


def test_checkpoints_that_stand_there_already_are_not_written_again(pair: MakePair) -> None:
    made = pair()
    with_group(made, 7).emit()
    place = place_of(made.settings, made.flow, RunOptions(), slots=1)
    made.writes()
    again = GroupSync(made.flow, place, FlowStatus(made.flow.name), made.source_client, made.target_client)
    assert again.emit() == []
    assert made.writes() == []
    made.source.groups["billing"].commits["orders", 0] = (9, "m")
    assert again.emit() == []
    assert [found[2:4] for found in checkpoints(made)] == [(7, 7), (9, 9)]
