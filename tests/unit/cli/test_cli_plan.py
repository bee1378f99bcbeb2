"""What a plan says of what was read; nothing here talks to a cluster."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from sparkmirror.cli.plan import as_json, as_lines, owner_text, print_tables
from sparkmirror.cli.text import json_text
from sparkmirror.clusters import Address, ClusterView, Leader, TopicView
from sparkmirror.config import FlowSettings, parse
from sparkmirror.examination.plan_facts import PlanFacts
from sparkmirror.examination.plan_values import AcceptedGap, FlowPlan, Plan, PlannedTopic
from sparkmirror.examination.planning import judge
from sparkmirror.ledger import Attempt, Closed, Gap, LedgerView, Open, Position, Removal
from sparkmirror.model import ConfigEntry, OffsetSync, TopicPartition
from sparkmirror.state import OwnerStatus

FILE = """\
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
A->B.topics = orders, events
replication.factor = 3
"""
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
TOPIC_CONFIG, DEFAULT_CONFIG = 1, 5


def a_flow_of(text: str = "") -> FlowSettings:
    return parse(FILE + text, "mm2.properties", {}).enabled_flows(None)[0]


def a_view(**topics: int) -> ClusterView:
    names = {name.replace("__dot__", "."): count for name, count in topics.items()}
    views = {
        name: TopicView(name, bytes(16), name.startswith("__"), 0, {at: Leader(1, 0) for at in range(count)})
        for name, count in names.items()
    }
    return ClusterView("id", 1, {1: Address("a", 1)}, views)


def an_open(position: Position) -> Open:
    return Open(
        partition=ORDERS, attempt=Attempt(1, 0, 1), previous=None, slot=0, incarnation=0, target_topic="A.orders",
        producer_id=1, producer_epoch=0, position=position, source_topic_id="", target_topic_id="",
        read_committed=False, shared=False, fenced=False, source_compacts=False, source_leader_epoch=0, until=None,
    )  # fmt: skip


def found_with(flow: FlowSettings | None = None, **fields: object) -> PlanFacts:
    found = PlanFacts(flow or a_flow_of(), a_view(orders=1), a_view(A__dot__orders=1))
    found.log_starts, found.log_ends, found.target_ends = {ORDERS: 7}, {ORDERS: 100}, {REMOTE: 40}
    for name, value in fields.items():
        setattr(found, name, value)
    return found


def only_topic(found: PlanFacts) -> PlannedTopic:
    [topic] = [t for t in judge(found).topics if t.topic == "orders"]
    return topic


def start_of(found: PlanFacts) -> tuple[int | None, str, int | None]:
    [start] = only_topic(found).starts
    return start.next_upstream_offset, start.basis, start.behind


def test_a_fresh_partition_starts_where_the_consumer_setting_says() -> None:
    assert start_of(found_with()) == (7, "earliest", 93)
    latest = a_flow_of("A.consumer.auto.offset.reset = latest\n")
    assert start_of(found_with(latest)) == (100, "latest", 0)


def a_ledger(*, is_closed: bool) -> LedgerView:
    ledger = LedgerView()
    ledger.apply(an_open(Position(20, 20, 0)))
    if is_closed:
        ledger.apply(Closed(ORDERS, Attempt(1, 0, 1), Position(30, 30, 0)))
    return ledger


def test_the_ledger_wins_over_the_consumer_setting() -> None:
    assert start_of(found_with(ledger=a_ledger(is_closed=True))) == (30, "ledger", 70)
    assert start_of(found_with(ledger=a_ledger(is_closed=False))) == (20, "ledger, to be recovered", 80)


def test_a_position_of_mirror_maker_counts_where_it_is_later_than_the_ledger() -> None:
    assert start_of(found_with(positions={ORDERS: 49})) == (50, "mm2", 50)
    ledger = a_ledger(is_closed=True)
    assert start_of(found_with(ledger=ledger, positions={ORDERS: 49})) == (50, "mm2", 50)
    assert start_of(found_with(ledger=ledger, positions={ORDERS: 29})) == (30, "ledger", 70)


def test_a_sync_of_a_killed_mirror_maker_counts_without_a_position() -> None:
    sync = {ORDERS: OffsetSync(ORDERS, 35, 35)}
    assert start_of(found_with(syncs=sync)) == (35, "mm2", 65)
    assert start_of(found_with(syncs=sync, ledger=a_ledger(is_closed=True))) == (35, "mm2", 65)


@pytest.mark.parametrize(
    ("choice", "start", "effect"),
    [("reset", (7, "earliest, position removed", 93), "risks"), ("stop", (30, "ledger", 70), "stops"),
     ("ignore", (30, "ledger", 70), None)],
)  # fmt: skip
def test_a_position_that_somebody_removed_is_shown_with_what_would_be_copied_twice(
    choice: str, start: tuple[int, str, int], effect: str | None
) -> None:
    flow, ledger = a_flow_of(f"on.positions.removed = {choice}\n"), a_ledger(is_closed=True)
    found = found_with(flow, ledger=ledger, removal=Removal(frozenset({ORDERS})))
    assert start_of(found) == start
    shown = judge(found).findings_of("orders")
    assert [(one.effect, one.code) for one in shown] == ([(effect, "POSITION_REMOVED")] if effect else [])
    assert all("23 copied offsets again" in one.message and "upstream offset 7" in one.message for one in shown)


def test_of_what_mirror_maker_copied_alone_the_plan_knows_only_the_most_that_comes_again() -> None:
    [shown] = judge(found_with(removal=Removal(frozenset({ORDERS})))).findings_of("orders")
    assert "copies at most 93 copied offsets again" in shown.message


def test_a_missing_topic_is_created_with_the_settings_of_its_source() -> None:
    entries = [
        ConfigEntry("cleanup.policy", "compact", TOPIC_CONFIG, False, False),
        ConfigEntry("retention.ms", "604800000", DEFAULT_CONFIG, False, False),
    ]
    topic = only_topic(found_with(target=a_view(), target_ends={}, configs={"orders": entries}))
    assert (topic.action, topic.partitions, topic.replication_factor) == ("create", 1, 3)
    assert topic.configs == {"cleanup.policy": "compact"}


def test_a_topic_with_fewer_partitions_is_extended() -> None:
    found = found_with(source=a_view(orders=4))
    topic = only_topic(found)
    assert (topic.action, topic.partitions, topic.found_partitions) == ("extend", 4, 1)
    assert "extend from 1 to 4 partitions" in "\n".join(as_lines(a_plan(judge(found))))


def test_every_source_topic_is_listed_with_its_reason() -> None:
    topics = {"orders": 1, "other": 1, "B__dot__x": 1, "__consumer_offsets": 1, "mm2-offsets__dot__B__dot__internal": 1}
    reasons = {t.topic: (t.replicated, t.reason) for t in judge(found_with(source=a_view(**topics))).topics}
    assert reasons == {
        "orders": (True, "matched by an include pattern"),
        "other": (False, "matched by no include pattern"),
        "B.x": (False, "would be a cycle: its name says it went through B"),
        "__consumer_offsets": (False, "internal topic of the brokers"),
        "mm2-offsets.B.internal": (False, "internal topic"),
    }


def a_plan(*flows: FlowPlan) -> Plan:
    return Plan("mm2.properties", ("line 3: odd",), flows)


def test_an_unreachable_target_leaves_what_is_known() -> None:
    found = found_with(target=None, target_ends={}, unreachable=["cluster B is unreachable: b:1"])
    flow = judge(found)
    assert (flow.ledger_found, only_topic(found).action) == (None, "unknown")
    assert not a_plan(flow).is_complete
    text = "\n".join(as_lines(a_plan(flow)))
    assert "unknown: cluster B is unreachable: b:1" in text
    assert "copied: orders -> A.orders" in text


def test_an_unreachable_source_has_no_topics() -> None:
    assert judge(found_with(source=None, unreachable=["x"])).topics == ()


def test_missing_internal_topics_are_told() -> None:
    text = "\n".join(as_lines(a_plan(judge(found_with()))))
    for name in ("mm2-ledger.A.internal on B", "mm2-offsets.A.internal on B", "mm2-offset-syncs.B.internal on A"):
        assert f"would create internal topic {name}" in text


@pytest.mark.parametrize("state", ["nobody", "released", "alive", "dead", "silent", "unknown"])
def test_every_state_of_an_owner_has_words(state: str) -> None:
    assert state in ("nobody", "unknown") or "host/pid 1" in owner_text(OwnerStatus(state, "host/pid 1"))


def test_the_json_has_a_schema_and_only_plain_values() -> None:
    content = json.loads(json_text(as_json(a_plan(judge(found_with())))))
    assert (content["schema"], content["complete"], content["path"]) == (1, True, "mm2.properties")
    [flow] = content["flows"]
    assert (flow["source"], flow["target"], flow["owner"]["state"]) == ("A", "B", "nobody")
    assert flow["topics"][0]["starts"] == [
        {"partition": 0, "next_upstream_offset": 7, "basis": "earliest", "behind": 93, "gaps": [], "as_of_ms": None}
    ]


@pytest.mark.parametrize("width", [20, 80, 200])
def test_the_tables_fit_any_width(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None)
    print_tables(a_plan(judge(found_with(source=a_view(orders=2, other=1)))), console)
    assert isinstance(console.file, io.StringIO)
    assert all(len(line) <= width for line in console.file.getvalue().splitlines())


def test_a_gap_that_was_accepted_is_shown() -> None:
    ledger = a_ledger(is_closed=True)
    ledger.apply(Gap(ORDERS, Attempt(1, 0, 1), 5, 20, "because", 1000, ""))
    found = found_with(ledger=ledger)
    [start] = only_topic(found).starts
    assert start.gaps == (AcceptedGap(5, 19, "because", 1000),)
    [line] = [line for line in as_lines(a_plan(judge(found))) if "copied: orders" in line]
    assert line.endswith("; never copied, as accepted: partition 0 offsets 5 to 19")
