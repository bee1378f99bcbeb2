"""What a plan sees of what a run would stop at, on two fake clusters: the run's own codes, messages and hints."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace

import pytest
from fake.cluster import FakeGroup, FakeTopic
from fake.pair import FACTORS, FakePair, fake_pair

from sparkmirror.cli.plan import as_lines
from sparkmirror.clusters import append_records
from sparkmirror.control.topics import TopicControl
from sparkmirror.examination import FlowPlan, PartitionStart, Plan, make_plan
from sparkmirror.ledger import Attempt, Closed, LedgerRecord, Open, Owner, PartitionEnd, Position, SourceEnds, State
from sparkmirror.model import TopicPartition
from sparkmirror.process import Process

MakePair = Callable[..., FakePair]
ORDERS = TopicPartition("orders", 0)
NOW_MS = 1_700_000_000_000
MIB = 1 << 20


@pytest.fixture
def pair() -> Iterator[MakePair]:
    """Makes pairs of clusters with one flow of the topic `orders`; `replication_factor="3"` is a line of its file."""
    with ExitStack() as opened:
        yield lambda **more: opened.enter_context(
            fake_pair({"topics": "orders"} | {key.replace("_", "."): value for key, value in more.items()})
        )


def copied(made: FakePair, *, source: FakeTopic, target: FakeTopic, next_upstream: int) -> list[LedgerRecord]:
    """The topic was copied up to here by a run that ended in order."""
    attempt = Attempt(1, 0, 1)
    order = Open(
        partition=ORDERS, attempt=attempt, previous=None, slot=0, incarnation=0, target_topic=target.name,
        producer_id=1, producer_epoch=0, position=Position(0, 0, 0), source_topic_id=source.topic_id.hex,
        target_topic_id=target.topic_id.hex, read_committed=False, shared=False, fenced=True, source_compacts=False,
    )  # fmt: skip
    owner = Owner(1, 0, 1, 0, "elsewhere/pid 1", 5, (1,), released=True)
    return [owner, order, Closed(ORDERS, attempt, Position(next_upstream, next_upstream, 0))]


def staged(made: FakePair, *, records: int, next_upstream: int, more: Sequence[LedgerRecord] = ()) -> None:
    """`orders` on both sides, with so many records on the source, copied up to `next_upstream`."""
    source, target = made.source.create_topic("orders"), made.target.create_topic("A.orders")
    append_records(made.source_client, ORDERS, [(b"k", b"%d" % at) for at in range(records)], NOW_MS)
    append_records(made.target_client, TopicPartition("A.orders", 0), [(b"k", b"v")] * next_upstream, NOW_MS)
    made.write_ledger([*copied(made, source=source, target=target, next_upstream=next_upstream), *more])
    made.writes()


def planned(made: FakePair) -> tuple[Plan, FlowPlan]:
    """The plan, and its only flow."""
    plan = make_plan(made.settings)
    [flow] = plan.flows
    assert made.writes() == []
    return plan, flow


def start_of(flow: FlowPlan) -> PartitionStart:
    """Of the only partition."""
    [topic] = [topic for topic in flow.topics if topic.topic == "orders"]
    [start] = topic.starts
    return start


def test_a_flow_that_may_run_has_no_finding_and_status_0(pair: MakePair) -> None:
    made = pair()
    staged(made, records=20, next_upstream=15)
    plan, flow = planned(made)
    assert (flow.findings, plan.status) == ((), 0)
    assert start_of(flow).behind == 5


def test_a_source_topic_that_was_recreated_is_found_with_the_runs_code_and_command(pair: MakePair) -> None:
    made = pair()
    staged(made, records=20, next_upstream=15)
    made.source.create_topic("orders")
    append_records(made.source_client, ORDERS, [(b"k", b"new")] * 30, NOW_MS)
    made.writes()
    plan, flow = planned(made)
    [found] = flow.findings
    assert (found.effect, found.code, found.topic, found.partition) == ("stops", "SOURCE_TOPIC_RECREATED", "orders", 0)
    assert found.hint == "to copy it from its beginning: sparkmirror offsets reset f --topic orders --partition 0"
    assert (plan.status, start_of(flow).behind) == (4, 30), "the whole new topic is not copied"
    assert "STOP SOURCE_TOPIC_RECREATED" in "\n".join(as_lines(plan))


def test_a_target_topic_that_is_gone_is_found(pair: MakePair) -> None:
    made = pair()
    staged(made, records=20, next_upstream=15)
    del made.target.topics["A.orders"]
    plan, flow = planned(made)
    assert [(found.effect, found.code) for found in flow.findings] == [("stops", "TARGET_TOPIC_RECREATED")]
    assert plan.status == 4


def test_records_that_were_deleted_before_they_were_copied_are_found(pair: MakePair) -> None:
    made = pair()
    staged(made, records=50, next_upstream=20)
    made.source.topics["orders"].logs[0].delete_to(35)
    plan, flow = planned(made)
    [found] = flow.findings
    assert (found.effect, found.code) == ("stops", "SOURCE_OFFSET_LOST")
    assert "wanted upstream offset 20, but the source log starts at 35; 15 offsets are gone" in found.message
    assert found.hint == "to accept the gap: sparkmirror offsets skip f --topic orders --partition 0"
    assert (plan.status, start_of(flow).behind) == (4, 15), "what is gone is not behind"


def test_a_gap_that_the_file_accepts_is_no_stop_but_is_named(pair: MakePair) -> None:
    made = pair(on_source_gap="skip")
    staged(made, records=50, next_upstream=20)
    made.source.topics["orders"].logs[0].delete_to(35)
    plan, flow = planned(made)
    assert [(found.effect, found.code) for found in flow.findings] == [("risks", "SOURCE_OFFSET_LOST")]
    assert plan.status == 3


def test_a_source_that_ends_before_the_copy_is_found(pair: MakePair) -> None:
    made = pair()
    staged(made, records=10, next_upstream=15)
    _, flow = planned(made)
    [found] = flow.findings
    assert (found.code, found.hint) == (
        "SOURCE_TRUNCATED",
        "to resume at its end: sparkmirror offsets reset f --topic orders --partition 0 --to 10",
    )


def test_a_replication_factor_above_the_number_of_brokers_is_found_with_its_key(pair: MakePair) -> None:
    made = pair(**{key.replace(".", "_"): "3" for key in FACTORS})
    made.source.create_topic("orders")
    plan, flow = planned(made)
    hints = {found.message.split(": INVALID")[0]: (found.effect, found.hint) for found in flow.findings}
    offsets = "write offset.storage.replication.factor = 1: the cluster has 1 broker"
    assert hints["cluster B: internal topic mm2-ledger.A.internal cannot be created"] == ("refuses", offsets)
    assert hints["cluster B: internal topic mm2-offsets.A.internal cannot be created"] == ("refuses", offsets)
    syncs = "write offset-syncs.topic.replication.factor = 1: the cluster has 1 broker"
    assert hints["cluster A: internal topic mm2-offset-syncs.B.internal cannot be created"] == ("refuses", syncs)
    [topic] = flow.findings_of("orders")
    assert (topic.effect, topic.code) == ("stops", "TOPIC")
    assert topic.message.endswith("(write replication.factor = 1: the cluster has 1 broker)")
    stopped = TopicControl(made.flow).discover(made.source_client, made.target_client).stopped
    assert stopped == {"orders": topic.message}, "the run says the same"
    assert plan.status == 4


def test_the_four_factors_of_the_reference_document_are_enough(pair: MakePair) -> None:
    made = pair()
    assert made.flow.offset_storage_replication_factor == 1
    assert pair(offset_storage_replication_factor="2").flow.offset_storage_replication_factor == 2
    assert pair(checkpoints_topic_replication_factor="5").flow.offset_storage_replication_factor == 3


def test_a_partition_that_stopped_is_found_until_the_limit_that_stopped_it_is_raised(pair: MakePair) -> None:
    made = pair()
    stop = State(ORDERS, Attempt(1, 0, 1), "stopped", "RECORD_TOO_LARGE", "orders-0: offset 15 is too large", "raise it")
    staged(made, records=20, next_upstream=15, more=[stop])
    made.target.topics["A.orders"].configs["max.message.bytes"] = "1000"
    _, flow = planned(made)
    found = {one.code: (one.effect, one.hint) for one in flow.findings}
    assert found["RECORD_TOO_LARGE"] == ("stops", "raise it")
    assert found["LIMITS"][0] == "risks", "the doctor's own check of the limits"
    made.target.topics["A.orders"].configs["max.message.bytes"] = str(10 * MIB)
    assert planned(made)[1].findings == ()


def test_an_owner_that_is_alive_refuses_a_second_run(pair: MakePair) -> None:
    made = pair()
    alive = Owner(2, 0, 1, 0, Process.this().name, 7, (1,))
    staged(made, records=1, next_upstream=1, more=[alive])
    plan, flow = beating(made, alive)
    assert flow.owner.state == "alive"
    assert [(found.effect, found.code) for found in flow.findings] == [("refuses", "FLOW_OWNED_BY_ANOTHER")]
    assert plan.status == 4


def beating(made: FakePair, owner: Owner) -> tuple[Plan, FlowPlan]:
    """The plan while the owner writes heartbeats."""
    end = threading.Event()

    def beat() -> None:
        number = owner.beat
        while not end.wait(0.2):
            number += 1
            made.write_ledger([replace(owner, beat=number)])

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        plan = make_plan(made.settings)
    finally:
        end.set()
        thread.join()
    return plan, plan.flows[0]


def test_a_live_mirror_maker_2_refuses_the_run(pair: MakePair) -> None:
    made = pair()
    staged(made, records=1, next_upstream=1)
    made.target.create_topic("__consumer_offsets")
    made.target.groups["A-mm2"] = FakeGroup(members=["worker-1"], protocol="connect")
    undecided = planned(made)[1].findings
    assert [(found.effect, found.code) for found in undecided] == [("risks", "FLOW_OWNED_BY_ANOTHER")]
    made.target.create_topic("mm2-configs.A.internal")
    value = json.dumps({"properties": {"name": "MirrorSourceConnector", "enabled": "true"}}).encode()
    place = TopicPartition("mm2-configs.A.internal", 0)
    append_records(made.target_client, place, [(b"connector-MirrorSourceConnector", value)], NOW_MS)
    made.writes()
    [found] = planned(made)[1].findings
    assert (found.effect, found.code) == ("refuses", "FLOW_OWNED_BY_ANOTHER")
    assert found.message == "A->B is run by MirrorMaker 2: group A-mm2 on B has 1 member (worker-1 at 127.0.0.1)"


# --- a cluster that is gone ------------------------------------------------------------------------------------


def test_without_the_target_nothing_is_stated_that_only_the_target_knows(pair: MakePair) -> None:
    made = pair()
    staged(made, records=20, next_upstream=15)
    made.target.close()
    plan, flow = planned(made)
    assert (flow.owner.state, flow.ledger_found, flow.mm2_positions) == ("unknown", None, None)
    start = start_of(flow)
    assert (start.next_upstream_offset, start.basis, start.behind) == (None, "unknown", None)
    assert {topic.exists for topic in flow.internal_topics if topic.cluster == "B"} == {None}
    text = "\n".join(as_lines(plan))
    assert "MirrorMaker 2: unknown stored positions" in text
    assert "starts at ? (unknown), ? behind" in text
    assert "no owner yet" not in text
    assert "earliest" not in text
    assert plan.status == 2


def test_without_the_source_the_plan_is_that_of_the_ledger_as_of_its_time(pair: MakePair) -> None:
    made = pair()
    ends = SourceEnds("orders", 0, NOW_MS, "id", (PartitionEnd(0, 18, NOW_MS),))
    staged(made, records=20, next_upstream=15, more=[ends])
    made.source.close()
    plan, flow = planned(made)
    start = start_of(flow)
    assert (start.next_upstream_offset, start.basis, start.behind, start.as_of_ms) == (15, "ledger", 3, NOW_MS)
    assert "starts at 15 (ledger), 3 behind as of 2023-11-14 22:13:20 UTC" in "\n".join(as_lines(plan))
    assert (flow.owner.state, plan.status) == ("released", 2)


def test_without_both_clusters_nothing_is_stated(pair: MakePair) -> None:
    made = pair()
    made.source.close()
    made.target.close()
    began = time.monotonic()
    plan, flow = planned(made)
    assert (flow.topics, flow.findings, flow.owner.state, plan.status) == ((), (), "unknown", 2)
    assert time.monotonic() - began < 30
