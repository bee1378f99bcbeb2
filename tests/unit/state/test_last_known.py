"""What is known of a flow whose source is gone, from what the target holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest
from fake.pair import FakePair, copied, fake_pair

from sparkmirror.clusters import append_records
from sparkmirror.ledger import LedgerRecord, Owner, PartitionEnd, Position, Receipt, Run, SourceEnds
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.state import FlowState, last_source_ends, recorded_partitions, source_seen_ms
from sparkmirror.state.gathering import GatherOptions, gather
from sparkmirror.wire import encode_checkpoint

ORDERS, IDLE = TopicPartition("orders", 0), TopicPartition("idle", 3)
SEEN_MS = 1_700_000_000_000
OWNER = Owner(1, 0, 1, 0, "host/1", 9, (1,), source_seen_ms=SEEN_MS)


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({"A->B.topics": "orders, idle", "sync.group.offsets.enabled": "true"}) as made:
        made.source.close()
        yield made


def copied_to(end: int, *, source_end: int = -1) -> list[LedgerRecord]:
    begin, receipt = copied("A", "orders", Position(end, end, 0), Run(0, 0, end))
    assert isinstance(receipt, Receipt)
    return [OWNER, begin, replace(receipt, source_end=source_end)]


def test_ends_that_did_not_change_hold_until_the_owner_last_saw_the_source(pair: FakePair) -> None:
    ends = SourceEnds("idle", 0, SEEN_MS - 60_000, "s", (PartitionEnd(3, 40, SEEN_MS - 90_000),))
    pair.write_ledger([*copied_to(10), ends])
    with closing(FlowState(pair.flow)) as state:
        [end] = last_source_ends(state).values()
        assert (end.end, end.newest_timestamp, end.time_ms) == (40, SEEN_MS - 90_000, SEEN_MS)
        assert source_seen_ms(state) == SEEN_MS
        assert recorded_partitions(state) == [IDLE, ORDERS]


def test_a_receipt_that_saw_a_later_end_counts_unless_it_is_of_an_earlier_topic(pair: FakePair) -> None:
    ends = SourceEnds("orders", 0, SEEN_MS, "s", (PartitionEnd(0, 12, -1),))
    pair.write_ledger([*copied_to(10, source_end=17), ends])
    with closing(FlowState(pair.flow)) as state:
        assert last_source_ends(state)[ORDERS].end == 17
    pair.write_ledger([replace(ends, source_topic_id="another", time_ms=pair.target.now_ms() + 60_000)])
    with closing(FlowState(pair.flow)) as state:
        assert last_source_ends(state)[ORDERS].end == 12


def test_without_a_ledger_nobody_says_when_the_source_was_seen(pair: FakePair) -> None:
    with closing(FlowState(pair.flow)) as state:
        assert (last_source_ends(state), source_seen_ms(state), recorded_partitions(state)) == ({}, None, [])


def test_topics_partitions_and_groups_of_a_dead_source_are_those_that_the_target_remembers(pair: FakePair) -> None:
    pair.target.create_topic("A.orders")
    pair.target.create_topic("A.checkpoints.internal")
    pair.write_ledger([*copied_to(10), SourceEnds("orders", 0, SEEN_MS, "s", (PartitionEnd(0, 17, -1),))])
    point = encode_checkpoint(Checkpoint("billing", TopicPartition("A.orders", 0), 8, 8, ""))
    append_records(pair.target_client, TopicPartition("A.checkpoints.internal", 0), [point], SEEN_MS)
    facts, _ = gather(pair.settings, pair.flow, GatherOptions())
    [copy] = facts.copies.values()
    assert (copy.partition, copy.next_upstream, copy.lag, copy.last_lag) == (ORDERS, 10, None, 7)
    assert (facts.lag, facts.last_lag, facts.source_seen_ms) == (None, (7, SEEN_MS), SEEN_MS)
    assert [d.topic for d in facts.decisions if d.replicated] == ["orders"]
    [group] = facts.groups.values()
    assert (group.name, group.source, group.translated, group.is_source_known) == ("billing", {}, {ORDERS: 8}, False)
    assert facts.outages["source"].words == "cluster A does not answer"


def test_with_a_dead_target_no_lag_is_known_and_the_sources_groups_are_shown() -> None:
    with fake_pair({"A->B.topics": "orders"}) as pair:
        pair.source.create_topic("orders")
        pair.source.group_of("billing")
        pair.source.groups["billing"] = group = pair.source.group_of("billing")
        group.commits["orders", 0] = (3, "")
        pair.target.close()
        facts, _ = gather(pair.settings, pair.flow, GatherOptions())
    assert (facts.lag, facts.last_lag, facts.runner.state) == (None, None, "unknown")
    [found] = facts.groups.values()
    assert (found.source, found.is_source_known, found.is_target_known) == ({ORDERS: 3}, True, False)
