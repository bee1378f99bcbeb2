"""Of two writers of one flow at most one has an effect: second starts, frozen owners, ids that run out. Judged by Java."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from faults.staging import Flow, StandaloneSpark, await_said, client_of_all, late_writes
from faults.workload import MirrorProcess, run_once, wait_until, write_properties
from sparkmirror.clusters import ClusterClient, describe_flow_request, flow_producer, raise_producer_epoch
from sparkmirror.local import LocalCluster, create_topic

OWNED = 5  # exit status of a run that another process keeps from its flow
FREEZE_SECONDS = 60.0
# Less than a lease: within it a slot that has only been away may write, and a fence under a new id does not keep it out.
AWAY_SECONDS = 20.0
EPOCH_LAST = 32766  # what the coordinator gives out last under one producer id
# What marks a worker as lost and goes on, without Spark killing it: it is to wake up later.
LET_LIVE = ("--conf", "spark.python.task.killTimeout=600s")


@pytest.mark.fault("F09")
@pytest.mark.timeout(600)
def test_F09_a_second_start_names_the_owner_and_the_first_goes_on(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("twice"))
    with flow.load() as load, MirrorProcess(path) as first:
        flow.await_copying(why=lambda: first.output)
        began = time.monotonic()
        with MirrorProcess(path) as second:
            assert second.wait(60) == OWNED, second.output
            took = time.monotonic() - began
            assert f"/pid {first.process.pid}/" in second.output, second.output
            assert "Traceback" not in second.output, second.output
        flow.await_copying(why=lambda: first.output)
        load.finish()
        flow.await_copied(lambda: first.output)
        assert first.interrupt() == 0, first.output
    row.seen = f"the second named the owner and ended with status {OWNED} after {took:.1f} s; {reported(flow)}"


@pytest.mark.fault("F06")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F06_an_owner_that_was_frozen_for_a_minute_goes_on(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("frozen"))
    with flow.load() as load, MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        os.kill(mirror.process.pid, signal.SIGSTOP)
        time.sleep(FREEZE_SECONDS)
        os.kill(mirror.process.pid, signal.SIGCONT)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    row.seen = f"goes on after {FREEZE_SECONDS:g} s; {reported(flow)}"


@pytest.mark.fault("F06", "F10")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F06_a_frozen_owner_that_was_replaced_ends_fenced(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("replaced"))
    with flow.load() as load, MirrorProcess(path) as frozen:
        flow.await_copying(why=lambda: frozen.output)
        os.kill(frozen.process.pid, signal.SIGSTOP)
        with MirrorProcess(path) as second:
            took = await_said(second, " copying", 120)
            os.kill(frozen.process.pid, signal.SIGCONT)
            woken = time.monotonic()
            assert frozen.wait(60) == OWNED, frozen.output
            left = time.monotonic() - woken
            assert "taken over by" in frozen.output and "Traceback" not in frozen.output, frozen.output
            load.finish()
            row.recovered = flow.await_copied(lambda: second.output)
            assert second.interrupt() == 0, second.output
    row.seen = f"replaced after {took:.1f} s; woken, it ended with status {OWNED} after {left:.1f} s; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[], []]


@pytest.mark.fault("F10")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F10_of_two_owners_on_two_spark_clusters_the_first_is_fenced(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("both"))
    with (
        StandaloneSpark() as spark,
        flow.load() as load,
        MirrorProcess(path, *spark.arguments) as first,
    ):
        flow.await_copying(why=lambda: first.output)
        with MirrorProcess(path, "--take-over") as second:
            began = time.monotonic()
            assert first.wait(90) == OWNED, first.output
            took = time.monotonic() - began
            assert "taken over by" in first.output and "Traceback" not in first.output, first.output
            flow.await_copying(why=lambda: second.output)
            load.finish()
            row.recovered = flow.await_copied(lambda: second.output)
            assert second.interrupt() == 0, second.output
    row.seen = f"the first ended with status {OWNED}, {took:.1f} s after the second was started; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[], []]


@pytest.mark.fault("F10")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F10_of_two_that_start_at_once_one_ends_and_one_copies(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("race"))
    with (
        flow.load() as load,
        MirrorProcess(path) as one,
        MirrorProcess(path) as other,
    ):
        wait_until(lambda: None in (one.process.poll(), other.process.poll()) and ended(one, other) != [], "one ends", 90)
        [loser] = ended(one, other)
        winner = other if loser is one else one
        assert loser.process.returncode == OWNED and "Traceback" not in loser.output, loser.output
        flow.await_copying(why=lambda: winner.output)
        load.finish()
        flow.await_copied(lambda: winner.output)
        assert winner.interrupt() == 0, winner.output
    row.seen = f"started at once, one ended with status {OWNED}; {reported(flow)}"


@pytest.mark.fault("F10")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F10_a_standby_that_was_fenced_stands_by_again_and_gets_its_turn(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("turns"))
    with flow.load() as load, MirrorProcess(path, "--standby") as first:
        flow.await_copying(why=lambda: first.output)
        with MirrorProcess(path, "--take-over") as second:
            stood_down = await_said(first, f"{flow.alias}->target standby", 90)
            assert "taken over by" in first.output, first.output
            flow.await_copying(why=lambda: second.output)
            assert second.interrupt() == 0, second.output
        flow.await_copying(why=lambda: first.output)
        load.finish()
        row.recovered = flow.await_copied(lambda: first.output)
        assert first.interrupt() == 0, first.output
        assert "Traceback" not in first.output, first.output
    row.seen = f"fenced, it stood by after {stood_down:.1f} s and copied on when the other had ended; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[], []]


# --- producer ids that end ---------------------------------------------------------------------------------------

EXPIRING = {
    "transactional.id.expiration.ms": "80000",  # longer than a lease: what is raised before the wait must last over it
    "transaction.remove.expired.transaction.cleanup.interval.ms": "1000",
}


@pytest.mark.fault("F51")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F51_a_worker_that_wakes_after_its_producer_id_expired_doubles_nothing(
    source_cluster, own_cluster, topic_name, tmp_path: Path, row
) -> None:
    target = own_cluster("expiring", overrides=EXPIRING)
    flow, path = staged(source_cluster, target, tmp_path, topic_name("expired"))
    held = tmp_path / "held"
    with MirrorProcess(path, *LET_LIVE, faults=f"relay.before_produce=hold@30:{held}") as mirror:
        await_said(mirror, " copying", 90)
        await_expired(target, flow)
        with flow.load(1000):
            wait_until(held.exists, f"a worker stands before it sends: {mirror.output}", 60)
            await_said(mirror, "SLOT_LOST")
            time.sleep(AWAY_SECONDS)
            held.unlink()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert "the flow's producer id is new" in mirror.output, mirror.output
        assert mirror.interrupt() == 0, mirror.output
    row.seen = f"the new id was noticed, and nothing copied until the lease under the old one was over; {reported(flow)}"


@pytest.mark.fault("F51")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F51_a_new_owner_after_the_id_expired_waits_for_the_lease(
    source_cluster, own_cluster, topic_name, tmp_path: Path, row
) -> None:
    target = own_cluster("expiring", overrides=EXPIRING)
    flow, path = staged(source_cluster, target, tmp_path, topic_name("expired"))
    with flow.load(1000), MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        await_expired(target, flow)
        flow.await_copying(why=lambda: mirror.output)
        mirror.kill()
    began = time.monotonic()
    status, output = run_once(path, seconds=240)
    assert status == 0, output
    assert "the flow's producer id is new" in output, output
    row.recovered = time.monotonic() - began
    row.seen = f"the new id was reported; {reported(flow)}"


@pytest.mark.fault("F51")
@pytest.mark.nightly
@pytest.mark.timeout(900)
def test_F51_epochs_that_run_out_under_a_running_owner_double_nothing(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic_name("raised"))
    with client_of_all(target_cluster) as client:
        epoch = -1
        while epoch < EPOCH_LAST - 2:
            _, epoch = raise_producer_epoch(client, transactional_id(flow), None)
        first, _, _ = described(client, flow)
    assert first == 0
    ids = set()
    with flow.load(1000) as load, MirrorProcess(path) as mirror:
        for _ in range(4):
            flow.await_copying(seconds=180, why=lambda: mirror.output)
            with client_of_all(target_cluster) as client:
                ids.add(described(client, flow)[1])
            victims = mirror.workers()
            victims[0].kill()
            psutil.wait_procs(victims[:1], timeout=10)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert len(ids) == 2, "the epochs ran out once"
    row.seen = f"the producer id changed after epoch {EPOCH_LAST}; {reported(flow)}"


def staged(source: LocalCluster, target: LocalCluster, folder: Path, topic: str) -> tuple[Flow, Path]:
    """A flow of one topic with two partitions, each in a slot of its own."""
    alias = topic.replace("-", "")
    create_topic(source.bootstrap, topic, partitions=2)
    path = write_properties(folder, source.bootstrap, target.bootstrap, alias=alias, topics=topic, more="tasks.max = 2")
    return Flow(source, target, alias=alias, topic=topic, partitions=2), path


def reported(flow: Flow) -> str:
    """Java's verdict, in words."""
    return f"{flow.judge()} records, none lost, none twice"


def ended(*mirrors: MirrorProcess) -> list[MirrorProcess]:
    return [mirror for mirror in mirrors if mirror.process.poll() is not None]


def transactional_id(flow: Flow) -> str:
    return f"sparkmirror-{flow.alias}->target"


def described(client: ClusterClient, flow: Flow) -> tuple[int, int, int]:
    """Error, producer id and epoch of the flow's transactional id, as its coordinator shows them."""
    node = client.coordinator(transactional_id(flow), transactional=True)
    return flow_producer(client.ask_node(node, lambda _: describe_flow_request(transactional_id(flow))))


def await_expired(target: LocalCluster, flow: Flow) -> None:
    """Waits until the coordinator has forgotten the flow's transactional id."""
    with client_of_all(target) as client:
        wait_until(lambda: described(client, flow)[0] != 0, "the transactional id expires", 180)
