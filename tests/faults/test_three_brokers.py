"""Three brokers: replicas that fall behind, coordinators that move, logs that lose their end. Judged by Java."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from integration.scenario import commit, java_offsets
from judge import JudgeRecord, compare, group_violations, java_records
from kafka import KafkaAdminClient, KafkaProducer
from kafka.protocol.metadata import MetadataRequest

from faults.staging import Flow, await_said, client_of_all
from faults.workload import MirrorProcess, wait_until, write_properties
from sparkmirror.clusters import LATEST, list_offsets
from sparkmirror.errors import ClusterError
from sparkmirror.local import LocalCluster, create_topic
from sparkmirror.local.ports import is_listening
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

METADATA_API = 3
NOTICE_SECONDS_MAX = 30.0
SHORT_SECONDS = 20.0  # too few replicas for so long: longer than any wait for an election
ON_TARGET = "tasks.max = 2\noffset-syncs.topic.location = target\n"


def three_copies(path: Path) -> Path:
    """Everything that the mirror creates on the three brokers has three copies."""
    path.write_text(path.read_text().replace("replication.factor = 1", "replication.factor = 3"))
    return path


def staged(
    source: LocalCluster, target: LocalCluster, folder: Path, *, topic: str, partitions: int = 2, more: str = ""
) -> tuple[Flow, Path]:
    """A flow into three brokers; the topic is there already."""
    alias = topic.replace("-", "")
    path = write_properties(
        folder, source.bootstrap, target.bootstrap, alias=alias, topics=topic, more=ON_TARGET + more
    )
    return Flow(source, target, alias=alias, topic=topic, partitions=partitions), three_copies(path)


def reported(flow: Flow) -> str:
    """Java's verdict, in words."""
    return f"{flow.judge()} records, none lost, none twice"


def create_placed(cluster: LocalCluster, topic: str, replicas: Mapping[int, list[int]], **configs: str) -> None:
    """A topic whose partitions lie on these brokers, the first of them preferred; `_` stands for `.` in settings."""
    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap)
    try:
        admin.create_topics({topic: {"assignments": dict(replicas), "configs": settings}}, wait_for_metadata=True)
    finally:
        admin.close()


def partition_state(cluster: LocalCluster, topic: str, partition: int = 0) -> tuple[int, set[int]]:
    """Leader and in-sync replicas; leader −1 while there is none. Asks brokers that answer: one may be frozen."""
    def build(connection):
        version = connection.version(METADATA_API, lowest=9, highest=9)
        wanted = [MetadataRequest.MetadataRequestTopic(version=version, name=topic)]
        return MetadataRequest(version=version, topics=wanted, allow_auto_topic_creation=False)

    with client_of_all(cluster) as client:
        answer = client.retry(lambda: client.ask_any(build))
    [found] = [part for part in answer.topics[0].partitions if part.partition_index == partition]
    return found.leader_id, set(found.isr_nodes)


def await_state(cluster: LocalCluster, topic: str, is_so: Callable[[int, set[int]], bool], what: str) -> None:
    """Waits until leader and in-sync replicas of the first partition are as wanted."""
    wait_until(lambda: is_so(*partition_state(cluster, topic)), what, 90)


def end_of(cluster: LocalCluster, topic: str, partition: int = 0) -> int:
    """The high watermark, 0 while nobody leads."""
    with client_of_all(cluster) as client:
        try:
            [(offset, _)] = list_offsets(client, [TopicPartition(topic, partition)], timestamp=LATEST).values()
        except ClusterError:
            return 0
    return offset


# --- too few replicas ------------------------------------------------------------------------------------------------


@pytest.mark.fault("F16")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F16_too_few_replicas_make_the_copy_wait_and_double_nothing(
    source_cluster, three_brokers, topic_name, tmp_path: Path, row
) -> None:
    target, topic = three_brokers("replicas"), topic_name("replicas")
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    flow, path = staged(source_cluster, target, tmp_path, topic=topic)
    create_placed(target, flow.remote, {0: [1, 2, 3], 1: [2, 1, 3]}, min_insync_replicas="3")
    # The ledger is led by the broker that falls silent: nobody hears of anything until that was noticed.
    create_placed(target, f"mm2-ledger.{flow.alias}.internal", {0: [3, 1, 2]}, cleanup_policy="compact")
    with flow.load() as load, MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        said = len(mirror.output)
        target.suspend(3)
        began = time.monotonic()
        noticed = await_said(mirror, "-0 waiting ", 60, after=said)
        named = noticed + await_said(mirror, "-0 waiting NOT_ENOUGH_REPLICAS", 90, after=said)
        time.sleep(max(SHORT_SECONDS - (time.monotonic() - began), 0))
        target.resume(3)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert noticed < NOTICE_SECONDS_MAX, mirror.output
    row.seen = f"reported after {noticed:.1f} s, as too few replicas after {named:.1f} s; {reported(flow)}"


@pytest.mark.fault("F55")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F55_a_new_owner_waits_until_too_few_replicas_are_enough_again(
    source_cluster, three_brokers, topic_name, tmp_path: Path, row
) -> None:
    target, topic = three_brokers("unsettled"), topic_name("unsettled")
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    flow, path = staged(source_cluster, target, tmp_path, topic=topic)
    create_placed(target, flow.remote, {0: [1, 2, 3], 1: [2, 1, 3]}, min_insync_replicas="3")
    with flow.load() as load:
        with MirrorProcess(path) as killed:
            flow.await_copying(why=lambda: killed.output)
            target.suspend(3)
            time.sleep(1)  # what is sent now lies on the leaders, unreplicated
            killed.kill()
        await_state(target, flow.remote, lambda leader, isr: isr == {1, 2}, "broker 3 is out of sync")
        with MirrorProcess(path) as mirror:
            await_said(mirror, "recovering", 90)
            time.sleep(SHORT_SECONDS)
            assert mirror.process.poll() is None, mirror.output
            assert " copying" not in mirror.output, "it goes on although the log is not settled"
            target.resume(3)
            load.finish()
            row.recovered = flow.await_copied(lambda: mirror.output)
            assert mirror.interrupt() == 0, mirror.output
    row.seen = f"a new owner waited {SHORT_SECONDS:g} s for the third replica; {reported(flow)}"


RECEIPT_SECONDS, TAIL_MIN, KILLS_MAX = 1.0, 200, 6


@pytest.mark.fault("F55")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F55_a_tail_that_the_target_compacted_is_found_by_offsets_and_sequences(
    source_cluster, own_cluster, topic_name, tmp_path: Path, row
) -> None:
    # The cleaner looks at once, and at everything but the newest segment.
    target = own_cluster("compacting", overrides={"log.cleaner.backoff.ms": "500"})
    topic = topic_name("compacted")
    create_topic(source_cluster.bootstrap, topic, partitions=1)
    alias = topic.replace("-", "")
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target.bootstrap, alias=alias, topics=topic,
        more="tasks.max = 1\nsync.topic.configs.enabled = false\n",
    )  # fmt: skip
    flow = Flow(source_cluster, target, alias=alias, topic=topic, partitions=1)
    compacting = {"cleanup.policy": "compact", "segment.ms": "200", "min.cleanable.dirty.ratio": "0.01"}
    create_topic(target.bootstrap, flow.remote, partitions=1, configs=compacting)
    begin, before = killed_before_a_receipt(path, flow)
    written = end_of(source_cluster, topic)

    def left_of_the_tail() -> int:
        return sum(record.offset >= begin for record in flow.target_records()[0])

    # The cleaner leaves the newest segment alone, and the last record of each key.
    wait_until(lambda: left_of_the_tail() < (before - begin) * 2 // 3, "the target's cleaner takes some of the tail", 120)
    left = left_of_the_tail()
    with MirrorProcess(path) as mirror:
        write_keyed(source_cluster, topic, lambda: end_of(source_cluster, topic) > written + 500)
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    source = java_records(source_cluster.bootstrap, topic)[0]
    assert surviving_violations(source, flow.target_records()[0], flow) == []
    row.seen = (
        f"of a tail of {before - begin} records {left} were left when the new owner came; "
        f"{len(source)} copied once, the map is true"
    )


def killed_before_a_receipt(path: Path, flow: Flow) -> tuple[int, int]:
    """Kills a mirror most of a second after a receipt, so that only the log tells what it copied since: offsets."""
    for _ in range(KILLS_MAX):
        with MirrorProcess(path) as mirror, flow.positions() as copied:
            write_keyed(flow.source, flow.topic, LateReceipt(copied))
            mirror.kill()
        receipt = flow.ledger().of(flow.partitions[0]).position()
        assert receipt is not None
        if (end := end_of(flow.target, flow.remote)) - receipt.downstream > TAIL_MIN:
            return receipt.downstream, end
    raise AssertionError(f"each of {KILLS_MAX} kills came right after a receipt")


class LateReceipt:
    """True when the next receipt is about to come."""

    def __init__(self, copied: Callable[[], object]) -> None:
        self._copied = copied
        self._seen: list[tuple[object, float]] = []

    def __call__(self) -> bool:
        if not self._seen or self._seen[-1][0] != self._copied():
            self._seen.append((self._copied(), time.monotonic()))
        return len(self._seen) > 4 and time.monotonic() - self._seen[-1][1] > RECEIPT_SECONDS * 0.8


def write_keyed(cluster: LocalCluster, topic: str, is_enough: Callable[[], bool]) -> None:
    """Records of few keys, one batch after the other, each a little later than the one before."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    number, deadline = 0, time.monotonic() + 90
    try:
        while not is_enough():
            assert time.monotonic() < deadline, f"{number} records, and still not enough"
            for _ in range(20):
                producer.send(topic, value=f"{time.time_ns()}:{number}".encode(), key=str(number % 7).encode(), partition=0)
                number += 1
            producer.flush()
            time.sleep(0.02)
    finally:
        producer.close()


def surviving_violations(source: list[JudgeRecord], target: list[JudgeRecord], flow: Flow) -> list[str]:
    """What is wrong with a compacted copy: each record left in it must be where the map leads, and the map be whole."""
    offsets = OffsetMap(flow.ledger().of(flow.partitions[0]).runs())
    by_offset = {offsets.downstream(record.offset): record for record in source if offsets.covers(record.offset)}
    homeless = [record.offset for record in source if not offsets.covers(record.offset)]
    found = [f"{len(homeless)} offsets are in no place of the map: {homeless[:3]} to {homeless[-1]}"] if homeless else []
    if len(by_offset) + len(homeless) != len(source):
        found.append(f"{len(source)} records have {len(by_offset)} places, and {len(homeless)} have none")
    for copy in target:
        record = by_offset.get(copy.offset)
        if record is None or (record.key, record.value, record.timestamp) != (copy.key, copy.value, copy.timestamp):
            found.append(f"the copy at {copy.offset} is not the record that the map leads from: {record}")
    newest = {record.key: record.value for record in source}
    if {copy.key: copy.value for copy in target} != newest:
        found.append("the newest value of some key is another one")
    return found


# --- coordinators ----------------------------------------------------------------------------------------------------


@pytest.mark.fault("F15")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F15_coordinators_that_die_delay_groups_and_fences_and_falsify_neither(
    source_cluster, three_brokers, topic_name, tmp_path: Path, row
) -> None:
    target, topic, group = three_brokers("coordinators"), topic_name("coordinators"), topic_name("group")
    create_topic(source_cluster.bootstrap, topic, partitions=2)
    more = f"groups = {group}\nsync.group.offsets.enabled = true\n" + "".join(
        f"{key}.interval.seconds = 1\n" for key in ("emit.checkpoints", "sync.group.offsets", "refresh.groups")
    )
    flow, path = staged(source_cluster, target, tmp_path, topic=topic, more=more)
    with flow.load() as load, MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        commit(source_cluster, group, topic, {0: 300, 1: 300})
        wait_until(lambda: len(java_offsets(target, group, flow.remote)) == 2, f"synced: {mirror.output}", 90)
        # A fence is due, and whoever must write it dies: the worker and the coordinator of transactions, together.
        gone, _ = partition_state(target, "__transaction_state")
        victims = mirror.workers()[:1]
        target.kill(gone)
        victims[0].kill()
        psutil.wait_procs(victims, timeout=10)
        flow.await_copying(seconds=150, why=lambda: mirror.output)
        target.start(gone)
        # The group moves on while its coordinator is dead.
        gone, _ = partition_state(target, "__consumer_offsets")
        target.kill(gone)
        commit(source_cluster, group, topic, {0: 900, 1: 900})
        began = time.monotonic()
        wait_until(lambda: min(java_offsets(target, group, flow.remote).values(), default=0) >= 900, "synced again", 120)
        late = time.monotonic() - began
        target.start(gone)
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    words = reported(flow)
    placed, copied = java_offsets(target, group, flow.remote), flow.target_records()
    for index, records in java_records(source_cluster.bootstrap, topic).items():
        assert group_violations(records, copied[index], at_source=900, at_target=placed[index]) == []
    row.seen = f"the group was at the very record {late:.1f} s after its coordinator died; {words}"


# --- logs that lose their end ------------------------------------------------------------------------------------------


def lose_end(
    cluster: LocalCluster, topic: str, *, leader: int, behind: int, before_election: Callable[[], object] = str
) -> int:
    """The follower, which is down and behind, becomes the only replica and leads: the log ends where it stood."""
    cluster.kill(leader)
    port = int(cluster.bootstrap.split(",")[behind - 1].rpartition(":")[2])
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(cluster.start, behind)
        wait_until(lambda: is_listening(port), f"broker {behind} starts", 90)
        before_election()
        starting.result()
    await_state(cluster, topic, lambda now, isr: now == behind, f"broker {behind} leads {topic}")
    return end_of(cluster, topic)


@pytest.mark.fault("F31")
@pytest.mark.nightly
@pytest.mark.timeout(600)
def test_F31_what_the_target_lost_in_an_unclean_election_is_copied_again_once(
    source_cluster, three_brokers, topic_name, tmp_path: Path, row
) -> None:
    target, topic = three_brokers("truncated"), topic_name("truncated")
    create_topic(source_cluster.bootstrap, topic, partitions=1)
    flow, path = staged(source_cluster, target, tmp_path, topic=topic, partitions=1)
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    create_placed(target, flow.remote, {0: [1, 2]}, **unclean)
    with flow.load() as load, MirrorProcess(path) as mirror:
        flow.await_copying(why=lambda: mirror.output)
        target.kill(2)
        await_state(target, flow.remote, lambda leader, isr: isr == {1}, "broker 2 is out of sync")
        flow.await_copying(4000, why=lambda: mirror.output)
        proven = end_of(target, flow.remote)
        end = lose_end(target, flow.remote, leader=1, behind=2)
        assert end < proven, "nothing was lost"
        load.finish()
        row.recovered = flow.await_copied(lambda: mirror.output)
        target.start(1)
        assert mirror.interrupt() == 0, mirror.output
    row.seen = f"{proven - end} proven records were lost and copied again; {reported(flow)}"


@pytest.mark.fault("F30")
@pytest.mark.nightly
@pytest.mark.timeout(600)
@pytest.mark.parametrize("regrown", [False, True], ids=["shorter", "grown past the position since"])
def test_F30_a_source_that_lost_copied_records_stops_the_partition_with_the_range(
    regrown: bool, target_cluster, three_brokers, topic_name, tmp_path: Path, row
) -> None:
    source, topic = three_brokers("diverging"), topic_name("diverging")
    unclean = {"unclean_leader_election_enable": "true", "min_insync_replicas": "1"}
    create_placed(source, topic, {0: [1, 2]}, **unclean)
    alias = topic.replace("-", "")
    path = write_properties(
        tmp_path, source.bootstrap, target_cluster.bootstrap, alias=alias, topics=topic, more=ON_TARGET
    )
    flow = Flow(source, target_cluster, alias=alias, topic=topic, partitions=1)
    write(source, topic, 1000)
    with MirrorProcess(path) as mirror:
        flow.await_copied(lambda: mirror.output)
        source.kill(2)
        await_state(source, topic, lambda leader, isr: isr == {1}, "broker 2 is out of sync")
        write(source, topic, 500)
        flow.await_copied(lambda: mirror.output)
        copied = flow.target_records()[0]
        workers = mirror.workers() if regrown else []  # they look away while the log changes
        end = lose_end(
            source, topic, leader=1, behind=2, before_election=lambda: [worker.suspend() for worker in workers]
        )
        if regrown:
            write(source, topic, 800)
        for worker in workers:
            worker.resume()
        noticed = await_said(mirror, "stopped SOURCE_TRUNCATED", 90)
        assert mirror.interrupt() == 0, mirror.output
    assert (end, len(copied)) == (1000, 1500)
    [line] = {line for line in mirror.output.splitlines() if "SOURCE_TRUNCATED" in line}
    assert "1500" in line and "1000" in line, line
    assert compare({0: copied}, flow.target_records()) == [], "nothing was copied after the end was lost"
    row.seen = f"reported {noticed:.1f} s after the election: copied up to 1500, the source ends at {end}; nothing was mixed"


def write(cluster: LocalCluster, topic: str, count: int) -> None:
    """Records that all differ, acked."""
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
    try:
        sent = [producer.send(topic, value=f"{time.time_ns()}:{number}".encode(), partition=0) for number in range(count)]
        for one in sent:
            one.get(60)
    finally:
        producer.close()
