"""Flows that would copy records back to where they come from, on fake clusters: refused, stopped or left alone."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fake.cluster import FakeCluster
from fake.flow import append, running_flow
from fake.pair import FACTORS, FakePair, copied, fake_pair

from sparkmirror.clusters import append_records, read_to_end
from sparkmirror.config import load
from sparkmirror.control import Mirror, RunOptions
from sparkmirror.control import loops as loops_module
from sparkmirror.control.topics import TopicControl
from sparkmirror.errors import ReplicationLoop
from sparkmirror.examination import make_plan
from sparkmirror.ledger import CopiedTopic, LedgerRecord, Owner, Position, decode, encode
from sparkmirror.model import TopicPartition
from sparkmirror.process import Process

IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
OTHER = "mm2-ledger.other.internal"
ELSEWHERE = "elsewhere/pid 1/boot/namespace/1"
MakePair = Callable[..., FakePair]


@pytest.fixture
def pair() -> Iterator[MakePair]:
    """Makes pairs of clusters with a flow that keeps names."""
    with ExitStack() as opened:
        keys = {"replication.policy.class": IDENTITY, "topics": ".*"}
        yield lambda **more: opened.enter_context(
            fake_pair(keys | {key.replace("_", "."): value for key, value in more.items()})
        )


@pytest.fixture
def short_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    """An owner that writes no heartbeat is called gone after a second."""
    monkeypatch.setattr(loops_module, "PLAN_WATCH_S", 1.0)
    monkeypatch.setattr(loops_module, "CONFIRM_S", 0.2)


def write_back(made: FakePair, records: list[LedgerRecord], *, ledger: str = OTHER) -> None:
    """The ledger of a flow from B to A, in a file that calls B `other`."""
    if ledger not in made.source.topics:
        made.source.create_topic(ledger, configs={"cleanup.policy": "compact"})
    entries = [encode(record) for record in records]
    append_records(made.source_client, TopicPartition(ledger, 0), entries, made.source.now_ms())


def owner_of(made: FakePair, name: str = ELSEWHERE) -> Owner:
    """Of the flow from B to A."""
    ids = {"source_cluster_id": made.target.cluster_id, "target_cluster_id": made.source.cluster_id}
    return Owner(1, 0, 7, 0, name, 5, (7,), **ids)


@contextmanager
def beating(made: FakePair, owner: Owner, ledger: str = OTHER) -> Iterator[None]:
    """The owner writes heartbeats in the block."""
    end = threading.Event()

    def beat() -> None:
        number = owner.beat
        while not end.wait(0.2):
            number += 1
            write_back(made, [replace(owner, beat=number)], ledger=ledger)

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


def discover(made: FakePair, control: TopicControl | None = None) -> dict[str, str]:
    """What the run would stop; raises what would refuse it. Its own ledger is there, as after it took the flow."""
    if "mm2-ledger.A.internal" not in made.target.topics:
        made.write_ledger([])
    return (control or TopicControl(made.flow)).discover(made.source_client, made.target_client).stopped


def announced(made: FakePair) -> dict[str, str]:
    """What the flow's own ledger says that it copies."""
    found: dict[str, str] = {}
    for record in read_to_end(made.target_client, TopicPartition("mm2-ledger.A.internal", 0)):
        if record.value is None:
            found.pop(record.key.decode().split('"')[3], None)
        elif isinstance(decoded := decode(record.key, record.value), CopiedTopic):
            found[decoded.topic] = decoded.target_topic
    return found


def test_a_live_flow_of_another_file_that_copies_the_topic_back_refuses_plan_and_run(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    owner = owner_of(made)
    write_back(made, [owner, CopiedTopic("orders", "orders")])
    with beating(made, owner):
        plan = make_plan(made.settings)
        [found] = plan.flows[0].findings
        assert (plan.status, found.effect, found.code) == (4, "refuses", "REPLICATION_LOOP")
        way = "orders on A → orders on B (by A->B of this file) → orders on A"
        assert f"{way} (by other->A, owner {ELSEWHERE})" in found.message
        with pytest.raises(ReplicationLoop) as check:
            Mirror(made.settings, RunOptions()).check()
        assert check.value.message == found.message
        with pytest.raises(ReplicationLoop) as start:
            discover(made)
        assert start.value.message == found.message
    assert "orders" not in made.target.topics, "refused before anything is created"


def test_a_ledger_of_a_former_version_is_known_by_its_alias_and_its_attempts(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    owner = replace(owner_of(made), source_cluster_id="", target_cluster_id="")
    [order, *_] = copied("x", "orders", Position(1, 1, 0))
    ledger = "mm2-ledger.B.internal"
    write_back(made, [owner, replace(order, target_topic="orders")], ledger=ledger)
    with beating(made, owner, ledger), pytest.raises(ReplicationLoop, match="by B->A, owner"):
        discover(made)


def test_a_mirror_may_be_turned_round_after_its_owner_let_go(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    write_back(made, [replace(owner_of(made), released=True), CopiedTopic("orders", "orders")])
    assert make_plan(made.settings).status == 0
    assert discover(made) == {}
    assert "orders" in made.target.topics


def test_a_mirror_may_be_turned_round_after_its_owner_died_here(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    this = Process.this()
    write_back(made, [owner_of(made, replace(this, pid=ended.pid).name), CopiedTopic("orders", "orders")])
    began = time.monotonic()
    assert make_plan(made.settings).status == 0
    assert discover(made) == {}
    assert time.monotonic() - began < 5, "nobody waits for a process that is known to be dead"


def test_a_mirror_may_be_turned_round_after_its_owner_was_silent_for_long(pair: MakePair, short_watch: None) -> None:
    made = pair()
    made.source.create_topic("orders")
    write_back(made, [owner_of(made), CopiedTopic("orders", "orders")])
    assert make_plan(made.settings).status == 0


def test_a_flow_says_what_it_copies_before_it_creates_anything_and_takes_it_back(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    control = TopicControl(made.flow)
    assert discover(made, control) == {}
    assert announced(made) == {"orders": "orders"}
    made.source.create_topic("users")
    discover(made, control)
    assert announced(made) == {"orders": "orders", "users": "users"}
    del made.source.topics["orders"]
    discover(made, control)
    assert announced(made) == {"users": "users"}


def test_a_new_topic_that_would_come_back_is_stopped_and_the_others_go_on(pair: MakePair) -> None:
    made = pair()
    made.source.create_topic("orders")
    owner = owner_of(made)
    write_back(made, [owner, CopiedTopic("both", "both")])
    control = TopicControl(made.flow)
    with beating(made, owner):
        assert discover(made, control) == {}
        made.source.create_topic("both")
        stopped = discover(made, control)
        assert "both on A → both on B (by A->B of this file) → both on A" in stopped["both"]
        assert set(announced(made)) == {"orders"}
    assert "both" not in made.target.topics
    write_back(made, [replace(owner, beat=99, released=True)])
    assert discover(made, control) == {}, "the other flow has let go"
    assert "both" in made.target.topics


def test_a_flow_stops_when_another_process_copies_its_topic_back_and_stays(pair: MakePair, short_watch: None) -> None:
    made = pair()
    made.source.create_topic("orders")
    control = TopicControl(made.flow)
    discover(made, control)
    owner = owner_of(made)
    write_back(made, [owner, CopiedTopic("orders", "orders")])
    with beating(made, owner), pytest.raises(ReplicationLoop):
        discover(made, control)


def test_a_flow_goes_on_when_another_process_is_refused_and_lets_go(
    pair: MakePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = pair()
    made.source.create_topic("orders")
    control = TopicControl(made.flow)
    discover(made, control)
    owner = owner_of(made)
    write_back(made, [owner, CopiedTopic("orders", "orders")])
    monkeypatch.setattr(loops_module, "CONFIRM_S", 1.0)
    waited: list[float] = []

    def while_waiting() -> None:
        """A heartbeat, and then it lets go."""
        waited.append(time.monotonic())
        write_back(made, [replace(owner, beat=6 + len(waited), released=len(waited) > 2)])

    control.discover(made.source_client, made.target_client, while_waiting)
    assert waited


def test_loops_that_the_file_allows_are_not_looked_for(pair: MakePair) -> None:
    made = pair(replication_loops_allowed="true")
    made.source.create_topic("orders")
    write_back(made, [owner_of(made), CopiedTopic("orders", "orders")])
    began = time.monotonic()
    assert make_plan(made.settings).status == 0
    assert (discover(made), announced(made)) == ({}, {})
    assert time.monotonic() - began < 5


def test_a_flow_whose_names_tell_their_source_reads_no_ledger_of_others(pair: MakePair) -> None:
    made = pair(replication_policy_class="org.apache.kafka.connect.mirror.DefaultReplicationPolicy")
    made.source.create_topic("orders")
    write_back(made, [owner_of(made), CopiedTopic("orders", "orders")])
    made.write_ledger([])
    made.source.requests.clear()
    assert (discover(made), announced(made)) == ({}, {})
    assert 1 not in made.source.requests, "no Fetch"


@pytest.mark.parametrize("policy", [IDENTITY, "org.apache.kafka.connect.mirror.DefaultReplicationPolicy"])
def test_a_source_that_is_the_target_is_refused_by_plan_and_run(policy: str, tmp_path: Path) -> None:
    with FakeCluster() as cluster:
        cluster.create_topic("orders")
        keys = {"clusters": "A, B", "A.bootstrap.servers": cluster.bootstrap, "A->B.enabled": "true"}
        keys |= {"B.bootstrap.servers": f"localhost:{cluster.port}", "replication.policy.class": policy}
        keys |= dict.fromkeys(FACTORS, "1")
        path = tmp_path / "f.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
        plan = make_plan(load(str(path)))
        [found] = [found for found in plan.flows[0].findings if found.code == "REPLICATION_LOOP"]
        assert (found.effect, plan.status) == ("refuses", 4)
        assert f"A and B are one cluster (cluster id {cluster.cluster_id})" in found.message
        with pytest.raises(ReplicationLoop, match="are one cluster"):
            Mirror(load(str(path)), RunOptions()).check()
        with running_flow(path) as flow:
            flow.thread.join(20)
            assert isinstance(flow.conductor.failure, ReplicationLoop)
        assert {name for name in cluster.topics if not name.startswith("mm2-")} == {"orders"}


# --- two processes -----------------------------------------------------------------------------------------------------


def file_of(folder: Path, source: FakeCluster, target: FakeCluster, aliases: tuple[str, str], topics: str) -> Path:
    """A flow that keeps names."""
    one, two = aliases
    keys = {"clusters": f"{one}, {two}", f"{one}.bootstrap.servers": source.bootstrap, f"{one}->{two}.enabled": "true"}
    keys |= {f"{two}.bootstrap.servers": target.bootstrap, f"{one}->{two}.topics": topics, "tasks.max": "1"}
    keys |= {"replication.policy.class": IDENTITY, "refresh.topics.interval.seconds": "1"} | dict.fromkeys(FACTORS, "1")
    path = folder / f"{one}.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()))
    return path


@pytest.fixture
def two() -> Iterator[tuple[FakeCluster, FakeCluster]]:
    with FakeCluster() as left, FakeCluster() as right:
        yield left, right


def records(cluster: FakeCluster, topic: str) -> int:
    """How many a topic holds."""
    with cluster.lock:
        return cluster.topics[topic].logs[0].end if topic in cluster.topics else 0


def test_two_processes_that_start_at_once_do_not_both_copy(two: tuple[FakeCluster, FakeCluster], tmp_path: Path) -> None:
    left, right = two
    for cluster in two:
        cluster.create_topic("both")
    append(left, "both", *[b"%d" % number for number in range(100)])
    there = file_of(tmp_path, left, right, ("A", "B"), "both")
    back = file_of(tmp_path, right, left, ("P", "Q"), ".*")
    with running_flow(there) as one, running_flow(back) as other:
        deadline = time.monotonic() + 60
        while not any(isinstance(flow.conductor.failure, ReplicationLoop) for flow in (one, other)):
            assert time.monotonic() < deadline, (one.conductor.status, other.conductor.status)
            time.sleep(0.1)
        time.sleep(3)
        assert records(left, "both") == 100
        assert records(right, "both") <= 100


def test_the_second_process_is_refused_and_the_first_goes_on(two: tuple[FakeCluster, FakeCluster], tmp_path: Path) -> None:
    left, right = two
    left.create_topic("both")
    append(left, "both", *[b"%d" % number for number in range(100)])
    with running_flow(file_of(tmp_path, left, right, ("A", "B"), "both")) as first:
        first.await_true(lambda: records(right, "both") == 100)
        with running_flow(file_of(tmp_path, right, left, ("P", "Q"), ".*")) as second:
            second.thread.join(30)
            assert isinstance(second.conductor.failure, ReplicationLoop)
            assert "owner" in str(second.conductor.failure)
        append(left, "both", b"later")
        first.await_true(lambda: records(right, "both") == 101)
        time.sleep(2)
        assert (records(left, "both"), records(right, "both"), first.conductor.failure) == (101, 101, None)


def test_heartbeats_of_two_processes_do_not_nest_without_end(two: tuple[FakeCluster, FakeCluster], tmp_path: Path) -> None:
    left, right = two
    for cluster in two:
        cluster.create_topic("heartbeats")
        append(cluster, "heartbeats", b"beat")
    with (
        running_flow(file_of(tmp_path, left, right, ("A", "B"), "orders")) as one,
        running_flow(file_of(tmp_path, right, left, ("P", "Q"), "users")) as other,
    ):
        one.await_true(lambda: records(right, "A.heartbeats") == 1)
        other.await_true(lambda: records(left, "P.heartbeats") == 1)
        time.sleep(8)
        found = {name for cluster in two for name in cluster.topics if name.endswith("heartbeats")}
        assert max(name.count(".") for name in found) <= 2, found
        assert (one.conductor.failure, other.conductor.failure) == (None, None)
