"""Processes that are asked to end, killed, frozen, starved of memory or lied to about the time. Judged by Java."""

from __future__ import annotations

import os
import re
import resource
import signal
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from kafka import KafkaProducer

from faults.staging import Flow, StandaloneSpark, await_said, late_writes
from faults.workload import MirrorProcess, run_once, wait_until, write_properties
from sparkmirror.local import LocalCluster, create_topic

# Promised are 10 s; tests share two cores.
DRAIN_SECONDS_MAX = 20.0
AT_ONCE_SECONDS_MAX = 5.0
INTERRUPTED = 130
BROKER_FREEZE_SECONDS = 40.0
NOTICE_SECONDS_MAX = 30.0
# Spark starts a lost task again within some seconds; a slot would leave a driver that is silent for 60.
RESTART_SECONDS = 25.0
REFUSED = "refused: started again by Spark"


def staged(
    source: LocalCluster, target: LocalCluster, folder: Path, *, topic: str, partitions: int = 2, more: str = "tasks.max = 2"
) -> tuple[Flow, Path]:
    """A flow of one topic."""
    alias = topic.replace("-", "")
    create_topic(source.bootstrap, topic, partitions=partitions)
    path = write_properties(folder, source.bootstrap, target.bootstrap, alias=alias, topics=topic, more=more)
    return Flow(source, target, alias=alias, topic=topic, partitions=partitions), path


def reported(flow: Flow) -> str:
    """Java's verdict, in words."""
    return f"{flow.judge()} records, none lost, none twice"


def waited(mirror: MirrorProcess, number: signal.Signals) -> tuple[int, float]:
    """Exit status after a signal, and how long it took."""
    began = time.monotonic()
    os.kill(mirror.process.pid, number)
    return mirror.wait(60), time.monotonic() - began


# --- signals -----------------------------------------------------------------------------------------------------


@pytest.mark.fault("F05")
@pytest.mark.timeout(600)
def test_F05_one_signal_drains_and_a_second_ends_at_once(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic=topic_name("signals"))
    seconds = []
    held = tmp_path / "held"
    with flow.load(1000):
        for number in (signal.SIGTERM, signal.SIGINT):
            with MirrorProcess(path) as mirror:
                flow.await_copying(1000, why=lambda mirror=mirror: mirror.output)
                status, took = waited(mirror, number)
                assert (status, "Traceback" in mirror.output) == (0, False), mirror.output
            seconds.append(took)
            view = flow.ledger()
            assert view.owner is not None and view.owner.released
            assert [p for p in flow.partitions if not view.of(p).is_closed] == [], "drained: nothing is left to find out"
        # A worker that stands before `closed` keeps the drain from ending before the second signal comes.
        with MirrorProcess(path, faults=f"relay.before_closed=hold@1:{held}") as mirror:
            flow.await_copying(1000, why=lambda: mirror.output)
            os.kill(mirror.process.pid, signal.SIGINT)
            wait_until(held.exists, f"it drains: {mirror.output}")
            status, at_once = waited(mirror, signal.SIGINT)
            assert (status, "Traceback" in mirror.output) == (INTERRUPTED, False), mirror.output
    assert max(seconds) < DRAIN_SECONDS_MAX
    assert at_once < AT_ONCE_SECONDS_MAX
    status, output = run_once(path)
    assert status == 0, output
    row.seen = (
        f"SIGTERM drained in {seconds[0]:.1f} s, SIGINT in {seconds[1]:.1f} s, status 0; "
        f"a second one ended it in {at_once:.1f} s with {INTERRUPTED}; {reported(flow)}"
    )


# --- Spark's own processes -----------------------------------------------------------------------------------------


@pytest.mark.fault("F02")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F02_executors_that_are_killed_are_replaced_and_every_record_copied_once(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic=topic_name("executors"), partitions=4)
    gaps = []
    with StandaloneSpark() as spark, flow.load(3000) as load, MirrorProcess(path, *spark.arguments) as mirror:
        for at in (0, 1, 0):
            flow.await_copying(6000, why=lambda: mirror.output)
            victim = spark.executors()[at]
            victim.kill()
            began = time.monotonic()
            flow.await_copying(6000, why=lambda: mirror.output)
            gaps.append(time.monotonic() - began)
        assert len(spark.executors()) == 2
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert mirror.output.count("SLOT_LOST") >= 3, mirror.output
    row.seen = f"3 kills, every partition copied again after {max(gaps):.1f} s at most; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[]] * 4


@pytest.mark.fault("F52")
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["decommissioned", "lost with its machine"])
def test_F52_a_task_that_spark_starts_again_by_itself_refuses_itself(
    how: str, source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic=topic_name("again"), partitions=2)
    settings = {"spark.decommission.enabled": "true", "spark.executor.decommission.forceKillTimeout": "3s"}
    confs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    # Two slots on three executors: on the idle one Spark can start the task again. A driver that gives the slot up after
    # 10 s of silence would cancel its job where that takes longer; this one is held there. A quick Spark is there before.
    held = tmp_path / "held"
    with (
        StandaloneSpark(3) as spark,
        flow.load(200) as load,
        MirrorProcess(path, *spark.arguments, *confs, faults=f"slots.silent=hold@1:{held}") as mirror,
    ):
        flow.await_copying(200, why=lambda: mirror.output)
        wait_until(lambda: len(spark.executors()) == 3, "every worker has an executor")
        worker, executor = spark.busy()
        if how == "decommissioned":
            executor.send_signal(signal.SIGPWR)
        else:
            worker.kill()
        wait_until(lambda: held.exists() or REFUSED in mirror.output, "Spark starts the task again or the slot is given up")
        if held.exists():
            time.sleep(RESTART_SECONDS)
            held.unlink()
        await_said(mirror, REFUSED, 60)
        flow.await_copying(200, why=lambda: mirror.output)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    row.seen = f"an executor was {how}; Spark started its task again, which refused itself; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[]] * 2


# --- frozen processes ----------------------------------------------------------------------------------------------


@pytest.mark.fault("F07")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F07_what_a_frozen_worker_sends_after_it_was_replaced_is_refused(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic=topic_name("woken"))
    held = tmp_path / "held"
    # Spark would kill it two seconds after it was given up: it is to wake up later than that.
    let_live = ("--conf", "spark.python.task.killTimeout=600s")
    with flow.load() as load, MirrorProcess(path, *let_live, faults=f"relay.before_produce=hold@300:{held}") as mirror:
        wait_until(held.exists, f"a worker is about to send: {mirror.output}", 90)
        worker = psutil.Process(int(held.read_text()))
        worker.suspend()
        began = time.monotonic()
        flow.await_copying(4000, seconds=120, why=lambda: mirror.output)  # its partition too, in another worker
        took = time.monotonic() - began
        held.unlink()
        worker.resume()
        flow.await_copying(4000, why=lambda: mirror.output)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert "SLOT_LOST" in mirror.output
    row.seen = f"replaced after {took:.1f} s; woken with a batch in its hands; {reported(flow)}"
    assert [late_writes(found) for found in flow.target_batches().values()] == [[]] * 2


@pytest.mark.fault("F22")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F22_a_frozen_target_is_told_and_nothing_is_doubled_when_it_wakes(
    source_cluster, own_cluster, topic_name, tmp_path: Path, row
) -> None:
    target = own_cluster("gray")
    flow, path = staged(source_cluster, target, tmp_path, topic=topic_name("gray"))
    with flow.load() as load, MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        said = len(mirror.output)
        target.suspend(1)
        noticed = await_said(mirror, "waiting", BROKER_FREEZE_SECONDS, after=said)
        time.sleep(max(BROKER_FREEZE_SECONDS - noticed, 0))
        target.resume(1)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert noticed < NOTICE_SECONDS_MAX, mirror.output
    row.seen = f"frozen for {BROKER_FREEZE_SECONDS:g} s, reported after {noticed:.1f} s; {reported(flow)}"


# --- memory ----------------------------------------------------------------------------------------------------------


def produce_packed(cluster: LocalCluster, topic: str) -> None:
    """One batch of under 1 MB that unpacks to 90 MB."""
    with closing(
        KafkaProducer(
            bootstrap_servers=cluster.bootstrap,
            compression_type="gzip",
            batch_size=200 << 20,
            max_request_size=200 << 20,
            linger_ms=10_000,
        )
    ) as producer:
        for number in range(100):
            producer.send(topic, key=b"%d" % number, value=b"x" * 900_000, partition=0)
        producer.flush()


@pytest.mark.fault("F08")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F08_a_worker_out_of_memory_is_told_with_its_limit_and_goes_on_when_it_has_some(
    source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    topic, alias = topic_name("memory"), topic_name("m").replace("-", "")
    # A compacted target has to be looked into: a small batch that unpacks to much needs memory.
    create_topic(source_cluster.bootstrap, topic, partitions=1, configs={"cleanup.policy": "compact"})
    bootstraps = source_cluster.bootstrap, target_cluster.bootstrap
    path = write_properties(tmp_path, *bootstraps, alias=alias, topics=topic, more="tasks.max = 1")
    flow = Flow(source_cluster, target_cluster, alias=alias, topic=topic, partitions=1)
    with MirrorProcess(path) as mirror:
        await_said(mirror, " copying", 90)
        [worker] = mirror.workers()
        limit = worker.memory_info().vms + (24 << 20)
        worker.rlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        produce_packed(source_cluster, topic)
        await_said(mirror, "out of memory")
        for one in mirror.workers():
            one.rlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    [line] = {found[0] for found in re.finditer(r"slot 0: [^\n]*out of memory[^\n]*", mirror.output)}
    assert f"{limit >> 20} MiB" in line and "Traceback" not in mirror.output, mirror.output
    row.seen = f"{line!r}; {reported(flow)}"


# --- clocks ----------------------------------------------------------------------------------------------------------

# Python imports this by itself in the driver and in Spark's workers; Spark's JVM and the brokers keep the true time.
FAKE_CLOCK = """
import os, time
_time, _time_ns, _file = time.time, time.time_ns, os.environ["FAKE_CLOCK_FILE"]
def _ahead():
    with open(_file) as file:
        return int(file.read())
time.time = lambda: _time() + _ahead()
time.time_ns = lambda: _time_ns() + _ahead() * 1_000_000_000
"""


@pytest.mark.fault("F39")
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("jump", [3600, -3600], ids=["an hour ahead", "an hour back"])
def test_F39_a_clock_that_jumps_disturbs_neither_order_nor_ownership(
    jump: int, source_cluster, target_cluster, topic_name, tmp_path: Path, row
) -> None:
    flow, path = staged(source_cluster, target_cluster, tmp_path, topic=topic_name("clock"))
    clock = tmp_path / "clock"
    clock.write_text("0")
    (tmp_path / "sitecustomize.py").write_text(FAKE_CLOCK)
    env = {"FAKE_CLOCK_FILE": str(clock), "PYTHONPATH": str(tmp_path)}
    with flow.load() as load, MirrorProcess(path, env=env) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        owner = flow.ledger().owner
        set_clock(clock, jump)
        began = time.monotonic()
        flow.await_copying(4000, why=lambda: mirror.output)
        took = time.monotonic() - began
        set_clock(clock, 0)
        flow.await_copying(4000, why=lambda: mirror.output)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        after = flow.ledger().owner
        assert owner is not None and after is not None and after.name == owner.name
        assert mirror.interrupt() == 0, mirror.output
    lost = mirror.output.count("SLOT_LOST")
    row.seen = f"{jump:+d} s and back: the next 4000 records took {took:.1f} s, {lost} partitions reopened; {reported(flow)}"


def set_clock(file: Path, ahead: int) -> None:
    """At once: nobody reads half a number."""
    new = file.with_name("clock.new")
    new.write_text(str(ahead))
    new.replace(file)
