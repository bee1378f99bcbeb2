"""MirrorMaker 2 and what dies around it: its own process, brokers, connections."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from faults.mm2.flow import FLUSH_DEFAULT_MS, FLUSH_QUICK_MS, Mm2Flow, log_of
from faults.proxy import Api, Do, Fault, Proxy
from faults.workload import Workload
from sparkmirror.local import LocalCluster, create_topic

PARTITIONS, PER_SECOND = 2, 2000
WARM_SECONDS = 10.0
DATA_BYTES_MIN = 2000  # Produce requests of this size are of copied topics; internal ones are smaller once it runs

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(1800)]


def load(source: LocalCluster, topic: str, per_second: int = PER_SECOND) -> Workload:
    create_topic(source.bootstrap, topic, partitions=PARTITIONS)
    return Workload(source.bootstrap, topic, partitions=PARTITIONS, per_second=per_second)


def judged(flow: Mm2Flow, topic: str) -> str:
    return str(flow.judge(topic))


@pytest.mark.fault_mm2("F01", "F02", "F03")
@pytest.mark.parametrize("flush_ms", [FLUSH_DEFAULT_MS, FLUSH_QUICK_MS])
def test_its_process_is_killed_under_load_and_started_again(
    source_cluster: LocalCluster, target_cluster: LocalCluster, topic_name: Callable[..., str], row, flush_ms: int
) -> None:
    topic = topic_name("mm2kill")
    more = {"TO.offset.flush.interval.ms": str(flush_ms)}
    flow = Mm2Flow(source_cluster, target_cluster, alias=f"mm2kill{flush_ms}", topics=topic, more=more)
    with load(source_cluster, topic) as running:
        with flow.process() as first:
            flow.await_copying(topic)
            time.sleep(WARM_SECONDS)
            flow.await_copying(topic)
            first.kill()
            assert not first.is_running
        killed_at = flow.copied(topic)
        with flow.process() as second:
            healed_at = time.monotonic()
            flow.await_copying(topic)
            running.finish()
            row.recovered = flow.converge(topic, healed_at)
            second.check()
    assert killed_at > PER_SECOND * WARM_SECONDS / 2, "it was killed while it copied"
    row.seen = f"positions stored each {flush_ms // 1000} s: {judged(flow, topic)}"


@pytest.mark.fault_mm2("F12")
def test_the_source_broker_restarts_and_is_killed(
    own_cluster: Callable[..., LocalCluster], target_cluster: LocalCluster, topic_name: Callable[..., str], row
) -> None:
    source, topic = own_cluster("mm2-source"), topic_name("mm2source")
    flow = Mm2Flow(source, target_cluster, alias="mm2source", topics=topic)
    with load(source, topic) as running, flow.process() as mm2:
        flow.await_copying(topic)
        after = len(log_of(mm2))
        for end in (source.stop, source.kill):
            flow.await_copying(topic)
            end(1)
            source.start(1)
        healed_at = time.monotonic()
        flow.await_copying(topic)
        running.finish()
        row.recovered = flow.converge(topic, healed_at)
        row.seen = f"{judged(flow, topic)}; {flow.reported(mm2, after=after)}"


@pytest.mark.fault_mm2("F13")
def test_the_target_broker_restarts_and_is_killed(
    source_cluster: LocalCluster, own_cluster: Callable[..., LocalCluster], topic_name: Callable[..., str], row
) -> None:
    target, topic = own_cluster("mm2-target"), topic_name("mm2target")
    flow = Mm2Flow(source_cluster, target, alias="mm2target", topics=topic)
    with load(source_cluster, topic) as running, flow.process() as mm2:
        flow.await_copying(topic)
        after = len(log_of(mm2))
        for end in (target.stop, target.kill):
            flow.await_copying(topic)
            end(1)
            target.start(1)
        healed_at = time.monotonic()
        flow.await_copying(topic)
        running.finish()
        row.recovered = flow.converge(topic, healed_at)
        row.seen = f"{judged(flow, topic)}; {flow.reported(mm2, after=after)}"


@pytest.mark.fault_mm2("F17")
def test_answers_are_cut_in_mid_flight(
    source_cluster: LocalCluster, own_cluster: Callable[..., LocalCluster], topic_name: Callable[..., str], row
) -> None:
    proxies: list[Proxy] = []

    def door(_broker: int, port: int) -> int:
        proxies.append(Proxy(port))
        return proxies[-1].port

    target, topic = own_cluster("mm2-cut", door=door), topic_name("mm2cut")
    flow = Mm2Flow(source_cluster, target, alias="mm2cut", topics=topic, target_address=target.door_bootstrap)
    try:
        with load(source_cluster, topic, 6000) as running, flow.process() as mm2:
            flow.await_copying(topic)
            cuts, after = 0, len(log_of(mm2))
            for number in (1, 5, 6):  # it has one batch in flight, so these are the numbers of batches
                flow.await_copying(topic)
                fault = Fault(Api.PRODUCE, Do.RST, skip=number - 1, of=lambda frame: len(frame) > DATA_BYTES_MIN)
                armed = proxies[0].arm(fault)
                armed.await_hits()
                cuts += armed.hits
            healed_at = time.monotonic()
            flow.await_copying(topic)
            running.finish()
            row.recovered = flow.converge(topic, healed_at)
            assert cuts == 3
            row.seen = f"{cuts} cuts: {judged(flow, topic)}; {flow.reported(mm2, after=after)}"
    finally:
        proxies[0].close()
