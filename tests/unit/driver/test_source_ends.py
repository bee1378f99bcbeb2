"""What the owner writes of the source's ends: for what changed only, and so that an idle partition is covered, too."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from fake.pair import FakePair, fake_pair

from sparkmirror.clusters import append_records
from sparkmirror.control import RunOptions, place_of
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.flow_ledger import ensure_compacted_topic
from sparkmirror.driver.owning import own
from sparkmirror.driver.source_ends import SourceWatch
from sparkmirror.errors import BrokerRefused, ClusterUnreachable, ConnectionLost
from sparkmirror.ledger import CHUNK, LedgerView, Owner, SourceEnd, SourceEnds
from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowStatus, MirroredTopic

ORDERS = TopicPartition("orders", 0)
LIST_OFFSETS = 2
TOPIC_AUTHORIZATION_FAILED, NOT_LEADER = 29, 6


def mirrored(pair: FakePair, name: str) -> MirroredTopic:
    topic = pair.source.topics[name]
    return MirroredTopic(name, f"A.{name}", len(topic.logs), topic.topic_id.hex, "t", False, False, False)


@contextmanager
def owning(pair: FakePair) -> Iterator[FlowContext]:
    """The flow as its owner sees it before anything is copied."""
    place = place_of(pair.settings, pair.flow, RunOptions(), slots=1)
    context = FlowContext.of(pair.flow, place, FlowStatus(pair.flow.name))
    ensure_compacted_topic(context.target, place.ledger_topic, 1, 1)
    context.source.view(())
    context.ownership = own(context, threading.Event())
    context.topics = {name: mirrored(pair, name) for name in pair.source.topics}
    try:
        yield context
        context.sign(released=True)
    finally:
        context.source.close()
        context.target.close()


def produce(pair: FakePair, topic: str, partition: int, count: int, timestamp: int = 1_000) -> None:
    entries: list[tuple[bytes, bytes | None]] = [(b"k", b"v")] * count
    append_records(pair.source_client, TopicPartition(topic, partition), entries, timestamp)


def written(context: FlowContext) -> list[SourceEnds]:
    """The records of ends in the ledger that nobody has read yet."""
    return [record for record in context.ledger.read_new() if isinstance(record, SourceEnds)]


def looked(watch: SourceWatch, context: FlowContext) -> list[SourceEnds]:
    """What one more look brings into the ledger."""
    watch._record_due = 0.0
    context.source_seen_ms = min(context.source_seen_ms, watch._whole.time_ms - 1)
    watch.look()
    watch.record()
    return written(context)


def test_ends_and_newest_timestamps_are_written_once_also_of_partitions_that_never_change() -> None:
    with fake_pair({}) as pair:
        orders = pair.source.create_topic("orders", 2)
        pair.source.create_topic("idle")
        produce(pair, "orders", 1, 3, 5_000)
        with owning(pair) as context:
            watch = SourceWatch(context)
            [idle, busy] = looked(watch, context)
            assert (idle.topic, idle.chunk, idle.ends) == ("idle", 0, ((0, 0, -1),))
            assert (busy.topic, busy.source_topic_id) == ("orders", orders.topic_id.hex)
            assert busy.ends == ((0, 0, -1), (1, 3, 5_000))
            assert looked(watch, context) == []
            produce(pair, "orders", 0, 1, 7_000)
            [changed] = looked(watch, context)
            assert changed.ends == ((0, 1, 7_000), (1, 3, 5_000))
            view = LedgerView()
            for record in (idle, busy, changed):
                view.apply(record)
            assert view.source_ends[ORDERS] == SourceEnd(1, 7_000, changed.time_ms, orders.topic_id.hex)


def test_the_next_owner_does_not_write_again_what_the_ledger_says() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders")
        produce(pair, "orders", 0, 3)
        with owning(pair) as context:
            assert len(looked(SourceWatch(context), context)) == 1
        with owning(pair) as context:
            context.ledger.read_new()
            assert looked(SourceWatch(context), context) == []


def test_a_large_topic_is_written_in_chunks_and_only_the_changed_one_again() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders", 2 * CHUNK + 1)
        with owning(pair) as context:
            watch = SourceWatch(context)
            assert [(r.chunk, len(r.ends)) for r in looked(watch, context)] == [(0, CHUNK), (1, CHUNK), (2, 1)]
            produce(pair, "orders", CHUNK + 7, 1)
            [changed] = looked(watch, context)
            assert (changed.chunk, changed.ends[7]) == (1, (CHUNK + 7, 1, 1_000))


def test_only_partitions_whose_end_changed_are_asked_for_their_newest_timestamp() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders", 3)
        with owning(pair) as context:
            watch = SourceWatch(context)
            looked(watch, context)
            pair.source.requests.clear()
            looked(watch, context)
            assert pair.source.requests.count(LIST_OFFSETS) == 1
            produce(pair, "orders", 1, 1)
            pair.source.requests.clear()
            looked(watch, context)
            assert pair.source.requests.count(LIST_OFFSETS) == 2


def test_a_topic_that_is_no_longer_copied_leaves_the_ledger() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders")
        pair.source.create_topic("gone")
        with owning(pair) as context:
            watch = SourceWatch(context)
            looked(watch, context)
            del context.topics["gone"], pair.source.topics["gone"]
            assert looked(watch, context) == []
            view = context.ledger.view
            assert list(view.source_ends) == [ORDERS]
            fresh = FlowContext.of(pair.flow, context.place, FlowStatus(pair.flow.name))
            assert list(fresh.ledger.read_all().source_ends) == [ORDERS]
            fresh.target.close()


def test_a_stopped_topic_is_covered_too() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders")
        produce(pair, "orders", 0, 4)
        with owning(pair) as context:
            context.topics, context.status.stopped_topics = {}, {"orders": "the target has fewer partitions"}
            [record] = looked(SourceWatch(context), context)
            assert record.ends == ((0, 4, 1_000),)


def test_a_topic_that_was_created_again_with_fewer_partitions_is_written_anew() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders", 3)
        with owning(pair) as context:
            watch = SourceWatch(context)
            looked(watch, context)
            again = pair.source.create_topic("orders", 1)
            [record] = looked(watch, context)
            assert (record.source_topic_id, len(record.ends)) == (again.topic_id.hex, 1)
            assert list(context.ledger.view.source_ends) == [ORDERS]
            assert looked(watch, context) == []


def test_with_read_committed_the_end_is_the_last_stable_offset() -> None:
    with fake_pair({"A->B.consumer.isolation.level": "read_committed"}) as pair:
        log = pair.source.create_topic("orders").logs[0]
        produce(pair, "orders", 0, 5)
        log.producers[9] = type("Open", (), {"transaction_start": 2})()  # type: ignore[assignment]
        with owning(pair) as context:
            [record] = looked(SourceWatch(context), context)
            assert record.ends[0].end == 2


def test_the_owner_says_when_the_source_was_seen_and_names_both_clusters_from_the_first_record_on() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders")
        with owning(pair) as context:
            [first] = [record for record in context.ledger.view.owners.values() if isinstance(record, Owner)]
            assert (first.source_cluster_id, first.target_cluster_id) == (pair.source.cluster_id, pair.target.cluster_id)
            assert first.source_seen_ms == -1
            watch = SourceWatch(context)
            looked(watch, context)
            context._beat_due = 0.0
            context.beat()
            context.ledger.read_new()
            assert context.ledger.view.source_seen_ms == watch._whole.time_ms > 0


def test_a_source_that_does_not_answer_is_not_said_to_have_been_seen() -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders")
        with owning(pair) as context:
            watch = SourceWatch(context)
            looked(watch, context)
            seen = context.source_seen_ms
            pair.source.close()
            with pytest.raises((ClusterUnreachable, ConnectionLost)):
                watch.look()
            watch.record()
            assert context.source_seen_ms == seen


@pytest.mark.parametrize(("code", "is_seen"), [(NOT_LEADER, False), (TOPIC_AUTHORIZATION_FAILED, True)])
def test_a_partition_that_is_not_answered_for_keeps_what_was_said_of_it(code: int, is_seen: bool) -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("orders", 2)
        produce(pair, "orders", 1, 3)
        with owning(pair) as context:
            watch = SourceWatch(context)
            looked(watch, context)
            before = watch._whole
            normal = pair.source.log_of
            pair.source.log_of = lambda entry, at: (code, normal(entry, at)[1]) if at else normal(entry, at)  # type: ignore[method-assign]
            produce(pair, "orders", 0, 1)
            if is_seen:
                with pytest.raises(BrokerRefused, match="Describe on topic orders"):
                    watch.look()
            else:
                watch.look()
            assert (watch._whole is not before) == is_seen
            watch._record_due, context.source_seen_ms = 0.0, 0
            watch.record()
            assert [record.ends for record in written(context)] == [((0, 1, 1_000), (1, 3, 1_000))]
