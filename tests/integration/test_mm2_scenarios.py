"""The scenarios of MM2's own integration suite (spec §12.1), on real brokers and judged by Kafka's own tools."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from host import hosted_command
from integration.mirroring import (
    admin_of,
    await_true,
    batch_of,
    create_topics,
    live_mirror,
    now_ms,
    numbered,
    produce,
    produce_raw,
    run_cleanly,
    set_topic_config,
    topic_configs,
    topics_of,
    transaction,
    transactional,
)
from integration.scenario import (
    PARTITIONS,
    PER_PARTITION,
    Pair,
    await_count,
    client_of,
    commit,
    java_count,
    java_formatted,
    java_group_lags,
    java_offsets,
)
from judge import java_records
from judge.java_gateway import java_gateway
from kafka import KafkaConsumer
from kafka.admin import ConfigResource, ConfigResourceType

from sparkmirror.clusters import append_records, read_to_end
from sparkmirror.local import LocalCluster
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.wire import decode_checkpoint, encode_checkpoint

pytestmark = pytest.mark.timeout(600)
NAMED_MAX = 5  # partitions that one line names
WAIT_S = 120.0  # what takes 2 to 5 s on two idle cores; busy ones need their time


@pytest.fixture
def pair(source_cluster: LocalCluster, target_cluster: LocalCluster, tmp_path: Path) -> Pair:
    return Pair(source_cluster, target_cluster, tmp_path)


@pytest.fixture(scope="module")
def jvm() -> Iterator[object]:
    with java_gateway() as gateway:
        yield gateway


def whole(offset: int) -> dict[int, int]:
    """The same offset for every partition."""
    return dict.fromkeys(range(PARTITIONS), offset)


def checkpoints(pair: Pair, group: str, topic: str) -> dict[int, list[tuple[int, int]]]:
    """Upstream and downstream of every checkpoint that MM2's formatter prints, per partition, in order."""
    pattern = re.compile(
        r"Checkpoint\{consumerGroupId=(.*), topicPartition=(.*)-(\d+), upstreamOffset=(\d+), downstreamOffset=(\d+), "
    )
    found: dict[int, list[tuple[int, int]]] = {}
    for line in java_formatted(pair.backup, f"{pair.source}.checkpoints.internal", "CheckpointFormatter"):
        match = pattern.match(line)
        assert match, line
        if match[1] == group and match[2] == topic:
            found.setdefault(int(match[3]), []).append((int(match[4]), int(match[5])))
    return found


def lasts(pair: Pair, group: str, number: int) -> dict[int, tuple[int, int]]:
    """The last checkpoint of each partition of a test topic."""
    return {partition: found[-1] for partition, found in checkpoints(pair, group, pair.remote(number)).items()}


def java_client(jvm, cluster: LocalCluster):
    """Java's own MirrorClient."""
    config = jvm.java.util.HashMap()
    config.put("bootstrap.servers", cluster.bootstrap)
    return jvm.org.apache.kafka.connect.mirror.MirrorClient(config)


def test_replication(pair: Pair, jvm) -> None:
    """testReplication, HeartbeatTask: both ways, heartbeats, hops, checkpoints for Java's client, topics created later."""
    create_topics(pair.primary, {pair.topic(1): (PARTITIONS, {"cleanup.policy": "compact"})})
    pair.fill(1)
    pair.fill(1, cluster=pair.backup)
    group, reverse = pair.group("replication"), f"{pair.target}.{pair.topic(1)}"
    commit(pair.primary, group, pair.topic(1), whole(PER_PARTITION))
    with pair.mirror(both_ways=True) as mirror:
        await_count(pair.backup, pair.remote(1), 100)
        await_count(pair.primary, reverse, 100)
        assert topic_configs(pair.backup, pair.remote(1))["cleanup.policy"] == "compact"
        beats = [(pair.primary, f"{pair.target}.heartbeats"), (pair.backup, f"{pair.source}.heartbeats")]
        for cluster, replicated in beats:
            await_true(lambda c=cluster, r=replicated: {"heartbeats", r} <= topics_of(c), WAIT_S, replicated)
        for cluster, other in ((pair.backup, pair.source), (pair.primary, pair.target)):
            with contextlib.closing(java_client(jvm, cluster)) as client:
                assert client.replicationHops(other) == 1
                assert other in set(client.upstreamClusters())
        await_true(lambda: len(checkpoints(pair, group, pair.remote(1))) == PARTITIONS, WAIT_S, "checkpoints")
        config = jvm.java.util.HashMap()
        config.put("bootstrap.servers", pair.backup.bootstrap)
        translated = jvm.org.apache.kafka.connect.mirror.RemoteClusterUtils.translateOffsets(
            config, pair.source, group, jvm.java.time.Duration.ofSeconds(30)
        )
        found = {(p.topic(), p.partition()): o.offset() for p, o in dict(translated).items()}
        assert found == {(pair.remote(1), number): PER_PARTITION for number in range(PARTITIONS)}
        pair.fill(2)
        pair.fill(3, cluster=pair.backup)
        await_count(pair.backup, pair.remote(2), 100)
        await_count(pair.primary, f"{pair.target}.{pair.topic(3)}", 100)
        assert java_count(pair.backup, pair.remote(1)) == 100, "nothing goes round"
        assert mirror.stop().status == 0
    beats_of = f"Heartbeat{{sourceClusterAlias={pair.source}, targetClusterAlias={pair.target}, "
    lines = java_formatted(pair.backup, "heartbeats", "HeartbeatFormatter")
    assert len([line for line in lines if line.startswith(beats_of)]) >= 3
    syncs = java_formatted(pair.primary, f"mm2-offset-syncs.{pair.target}.internal", "OffsetSyncFormatter")
    assert f"OffsetSync{{topicPartition={pair.topic(1)}-0, upstreamOffset=9, downstreamOffset=9}}" in syncs


def test_an_empty_partition_and_group_offsets_to_the_very_record(pair: Pair) -> None:
    """testReplicationWithEmptyPartition, testOneWayReplicationWithAutoOffsetSync.

    Also testOneWayReplicationWithFrequentOffsetSyncs: MM2 may re-read up to offset.lag.max records; here each group
    stands exactly behind the last record it read.
    """
    pair.fill(1, partitions=PARTITIONS - 1)
    group = pair.group("sync")
    read_at_source = dict.fromkeys(range(PARTITIONS - 1), PER_PARTITION) | {PARTITIONS - 1: 0}
    commit(pair.primary, group, pair.topic(1), read_at_source)
    with pair.mirror({"sync.group.offsets.enabled": "true"}) as mirror:
        await_count(pair.backup, pair.remote(1), 90)
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(1)) == read_at_source, WAIT_S, "offsets on backup")
        assert set(java_group_lags(pair.backup, group, pair.remote(1)).values()) == {0}
        pair.fill(2)
        commit(pair.primary, group, pair.topic(2), whole(7))
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(2)) == whole(7), WAIT_S, "the new topic's offsets")
        assert f"{pair.target}.{pair.topic(1)}" not in topics_of(pair.primary), "nothing goes back"
        # A reader on the backup: its own progress counts from now on.
        consumer = KafkaConsumer(pair.remote(2), bootstrap_servers=pair.backup.bootstrap, group_id=group)
        with contextlib.closing(consumer):
            await_true(lambda: consumer.poll(timeout_ms=500) or consumer.assignment(), WAIT_S, "an assignment")
            produce(pair.primary, pair.topic(2), 0, numbered(5))
            commit(pair.primary, group, pair.topic(2), {0: 15})
        assert mirror.stop().status == 0


@pytest.mark.nightly
def test_replication_without_offset_syncs(pair: Pair) -> None:
    """testReplicationWithoutOffsetSyncWillNotCreateOffsetSyncsTopic, Dedicated testClusterWithEmitOffsetDisabled."""
    pair.fill(1)
    settings = pair.settings({"emit.offset-syncs.enabled": "false"})
    del settings["offset-syncs.topic.replication.factor"]
    path = pair.folder / "no-syncs.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()), "latin-1")
    with live_mirror(path) as mirror:
        await_count(pair.backup, pair.remote(1), 100)
        assert mirror.stop().status == 0
    assert not {t for t in topics_of(pair.primary) | topics_of(pair.backup) if "offset-syncs" in t and pair.mark in t}


def test_offset_syncs_on_the_target(pair: Pair) -> None:
    """testOffsetSyncsTopicsOnTarget."""
    pair.fill(1)
    group = pair.group("on-target")
    commit(pair.primary, group, pair.topic(1), whole(5))
    with pair.mirror({f"{pair.flow}.offset-syncs.topic.location": "target"}) as mirror:
        await_true(lambda: f"mm2-offset-syncs.{pair.source}.internal" in topics_of(pair.backup), WAIT_S, "the syncs topic")
        await_true(lambda: f"{pair.source}.checkpoints.internal" in topics_of(pair.backup), WAIT_S, "the checkpoints topic")
        wanted = {number: [(5, 5)] for number in range(PARTITIONS)}
        await_true(lambda: {p: c[-1:] for p, c in checkpoints(pair, group, pair.remote(1)).items()} == wanted, WAIT_S)
        assert mirror.stop().status == 0
    assert f"mm2-offset-syncs.{pair.target}.internal" not in topics_of(pair.primary)


def test_checkpoints_of_topics_with_and_without_records(pair: Pair) -> None:
    """testNoCheckpointsIfNoRecordsAreMirrored: here the empty topic has its checkpoint from the start (L8), at 0."""
    pair.fill(1)
    create_topics(pair.primary, {pair.topic(2): (PARTITIONS, {})})
    group = pair.group("empty")
    commit(pair.primary, group, pair.topic(1), whole(PER_PARTITION))
    commit(pair.primary, group, pair.topic(2), whole(0))
    with pair.mirror() as mirror:
        for topic, offset in ((1, PER_PARTITION), (2, 0)):
            wanted = dict.fromkeys(range(PARTITIONS), (offset, offset))
            await_true(lambda t=topic, w=wanted: lasts(pair, group, t) == w, WAIT_S, f"checkpoints of {pair.topic(topic)}")
        pair.fill(2)
        commit(pair.primary, group, pair.topic(2), whole(PER_PARTITION))
        ends = whole(PER_PARTITION)
        await_true(lambda: {p: c[-1][1] for p, c in checkpoints(pair, group, pair.remote(2)).items()} == ends, WAIT_S)
        assert mirror.stop().status == 0


@pytest.mark.fault("F44")
def test_restart_and_a_group_far_behind(pair: Pair) -> None:
    """testRestartReplication, testOffsetTranslationBehindReplicationFlow: monotonic over restarts, exact far behind."""
    more = {"sync.group.offsets.enabled": "true"}
    pair.fill(1)
    group = pair.group("restart")
    commit(pair.primary, group, pair.topic(1), whole(PER_PARTITION))
    with pair.mirror(more) as mirror:
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(1)) == whole(PER_PARTITION), WAIT_S, "first sync")
        assert mirror.stop().status == 0
    for partition in range(PARTITIONS):
        produce(pair.primary, pair.topic(1), partition, numbered(990), batch=99)
    with pair.mirror(more) as mirror:
        await_count(pair.backup, pair.remote(1), 10_000)
        commit(pair.primary, group, pair.topic(1), whole(900))
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(1)) == whole(900), WAIT_S, "90 %")
        commit(pair.primary, group, pair.topic(1), whole(100))

        def back_at_source() -> bool:
            return lasts(pair, group, 1) == dict.fromkeys(range(PARTITIONS), (100, 100))

        await_true(back_at_source, WAIT_S, "checkpoints follow a rewound group")
        assert java_offsets(pair.backup, group, pair.remote(1)) == whole(900), "the group itself is not set back"
        assert mirror.stop().status == 0
    found = checkpoints(pair, group, pair.remote(1))
    for history in found.values():
        ends = [downstream for _, downstream in history]
        assert ends == [*sorted(ends[:-1]), 100], history
    with pair.mirror(more | {"sync.group.offsets.rewind": "true"}) as mirror:
        commit(pair.primary, group, pair.topic(1), whole(50))
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(1)) == whole(50), WAIT_S, "set back where allowed")
        assert mirror.stop().status == 0


def test_topic_configs_follow_the_source(pair: Pair) -> None:
    """testSyncTopicConfigs, testReplicateTargetDefault: overrides come, go back to the default, excluded keys stay."""
    create_topics(pair.primary, {pair.topic(1): (1, {"retention.bytes": "1000"})})
    produce(pair.primary, pair.topic(1), 0, numbered(10))
    with pair.mirror() as mirror:
        await_count(pair.backup, pair.remote(1), 10)
        assert topic_configs(pair.backup, pair.remote(1))["retention.bytes"] == "1000"
        set_topic_config(pair.backup, pair.remote(1), {"retention.bytes": "2000", "delete.retention.ms": "2000"})
        await_true(lambda: topic_configs(pair.backup, pair.remote(1))["retention.bytes"] == "1000", WAIT_S, "set again")
        assert topic_configs(pair.backup, pair.remote(1))["delete.retention.ms"] == "2000"
        with admin_of(pair.primary) as admin:
            resource = ConfigResource(ConfigResourceType.TOPIC, pair.topic(1), configs={"retention.bytes": None})
            admin.reset_configs([resource]) if hasattr(admin, "reset_configs") else admin.alter_configs([resource])
        await_true(lambda: "retention.bytes" not in topic_configs(pair.backup, pair.remote(1)), WAIT_S, "the default again")
        assert topic_configs(pair.backup, pair.remote(1))["delete.retention.ms"] == "2000"
        assert mirror.stop().status == 0


@pytest.mark.nightly
def test_source_defaults(pair: Pair) -> None:
    """testReplicateSourceDefault: use.defaults.from=source copies defaults too, and puts them back."""
    create_topics(pair.primary, {pair.topic(1): (1, {})})
    produce(pair.primary, pair.topic(1), 0, numbered(10))
    with pair.mirror({f"{pair.flow}.use.defaults.from": "source"}) as mirror:
        await_count(pair.backup, pair.remote(1), 10)
        set_topic_config(pair.backup, pair.remote(1), {"retention.bytes": "2000", "delete.retention.ms": "2000"})
        await_true(lambda: topic_configs(pair.backup, pair.remote(1))["retention.bytes"] == "-1", WAIT_S, "the source's")
        assert topic_configs(pair.backup, pair.remote(1))["delete.retention.ms"] == "2000"
        assert mirror.stop().status == 0


@pytest.mark.nightly
def test_replicate_from_latest(pair: Pair) -> None:
    """testReplicateFromLatest: only what comes after the start is copied; a group from before is told what it misses."""
    pair.fill(1)
    group = pair.group("latest")
    commit(pair.primary, group, pair.topic(1), whole(4))
    with pair.mirror({f"{pair.source}.consumer.auto.offset.reset": "latest"}) as mirror:
        mirror.await_said("copying", WAIT_S)
        pair.fill(1)
        await_count(pair.backup, pair.remote(1), 100)
        mirror.await_said("the 6 offsets from 4 on were never copied", WAIT_S)
        assert lasts(pair, group, 1) == dict.fromkeys(range(PARTITIONS), (4, 0))
        assert mirror.stop().status == 0


@pytest.mark.nightly
def test_identity(pair: Pair) -> None:
    """IdentityReplication: same names, settings of a topic that exists are synced, heartbeats keep their prefix."""
    create_topics(pair.backup, {pair.topic(1): (PARTITIONS, {})})
    create_topics(pair.primary, {pair.topic(1): (PARTITIONS, {"retention.bytes": "4000"})})
    for partition in range(PARTITIONS):
        produce(pair.primary, pair.topic(1), partition, numbered(PER_PARTITION))
    group = pair.group("identity")
    commit(pair.primary, group, pair.topic(1), whole(3))
    more = {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy",
        "topics": f"test-topic-.*{pair.mark}",
        "sync.group.offsets.enabled": "true",
    }
    with pair.mirror(more) as mirror:
        await_count(pair.backup, pair.topic(1), 100)
        await_true(lambda: topic_configs(pair.backup, pair.topic(1))["retention.bytes"] == "4000", WAIT_S, "settings")
        await_true(lambda: java_offsets(pair.backup, group, pair.topic(1)) == whole(3), WAIT_S, "group offsets")
        await_true(lambda: f"{pair.source}.heartbeats" in topics_of(pair.backup), WAIT_S, "prefixed heartbeats")
        assert mirror.stop().status == 0


def test_transactions(pair: Pair) -> None:
    """Transactions: markers and aborted records make gaps; a group in them goes on at the right record."""
    create_topics(pair.primary, {pair.topic(1): (1, {})})
    with transactional(pair.primary, f"tx-{pair.mark}") as producer:
        for number in range(10):
            values = [b"%d.%d" % (number, step) for step in range(3)]
            transaction(producer, pair.topic(1), values, commit=number % 3 != 1)
    group = pair.group("tx")
    commit(pair.primary, group, pair.topic(1), {0: 40})
    more = {f"{pair.source}.consumer.isolation.level": "read_committed", "sync.group.offsets.enabled": "true"}
    with pair.mirror(more) as mirror:
        await_count(pair.backup, pair.remote(1), 21)
        await_true(lambda: java_offsets(pair.backup, group, pair.remote(1)) == {0: 21}, WAIT_S, "the end")
        assert mirror.stop().status == 0


@pytest.mark.nightly
def test_the_lag_of_the_mirror_is_seen_by_ordinary_tools(pair: Pair) -> None:
    """`kafka-consumer-groups --describe` on the source; MM2 has nothing like it."""
    pair.fill(1)
    with pair.mirror() as mirror:
        await_count(pair.backup, pair.remote(1), 100)
        group = f"connect-MirrorSourceConnector-{pair.target}"
        await_true(lambda: java_group_lags(pair.primary, group, pair.topic(1)) == whole(0), WAIT_S, "lag 0")
        assert mirror.stop().status == 0
    pair.fill(1)
    assert java_group_lags(pair.primary, group, pair.topic(1)) == whole(PER_PARTITION)


@pytest.mark.nightly
def test_a_flow_waits_for_its_cluster_while_others_run(pair: Pair, own_cluster: Callable[..., LocalCluster]) -> None:
    """L48: the process starts while a cluster is down; its flow says so and copies once the cluster is there."""
    third = own_cluster("third")
    third.stop(1)
    pair.fill(1)
    name = f"third{pair.mark}"
    more = {
        "clusters": f"{pair.source}, {pair.target}, {name}",
        f"{name}.bootstrap.servers": third.bootstrap,
        f"{pair.source}->{name}.enabled": "true",
    }
    with pair.mirror(more) as mirror:
        mirror.await_said(f"{pair.source}->{name} waiting: cluster {name} is unreachable", WAIT_S)
        await_count(pair.backup, pair.remote(1), 100)
        third.start(1)
        await_count(third, pair.remote(1), 100)
        assert mirror.stop().status == 0


def test_no_reset_stops_the_partition_once(pair: Pair) -> None:
    """L13: MM2 stays RUNNING, copies nothing and logs without a pause; here each partition stops with the key to write."""
    pair.fill(1)
    with pair.mirror({f"{pair.source}.consumer.auto.offset.reset": "none"}) as mirror:
        mirror.await_said("stopped NO_STARTING_POINT", WAIT_S)
        outcome = mirror.stop()
    lines = [line for line in outcome.output.splitlines() if "stopped NO_STARTING_POINT" in line]
    assert len(lines) == 1 and f"{pair.topic(1)}-0" in lines[0], lines  # the same reason is one line
    assert int(re.findall(r"and (\d+) more stopped", lines[0])[0]) >= PARTITIONS - NAMED_MAX
    assert f"write {pair.source}.consumer.auto.offset.reset = earliest or latest" in lines[0]
    assert java_count(pair.backup, pair.remote(1)) == 0


@pytest.mark.nightly
def test_by_duration_copies_what_is_young_enough(pair: Pair) -> None:
    """KIP-1106, which MM2's consumer has too."""
    create_topics(pair.primary, {pair.topic(1): (2, {})})
    hours_ago = [now_ms() - hours * 3_600_000 for hours in (3, 2, 1, 0)]
    produce_raw(pair.primary, pair.topic(1), {0: [batch_of([b"%d" % at], timestamp=at) for at in hours_ago]})
    produce_raw(pair.primary, pair.topic(1), {1: [batch_of([b"old"], timestamp=hours_ago[0])]})
    run_cleanly(pair.write({f"{pair.source}.consumer.auto.offset.reset": "by_duration:PT1H30M"}))
    found = java_records(pair.backup.bootstrap, pair.remote(1))
    assert [record.value for record in found[0]] == [b"%d" % at for at in hours_ago[2:]]
    assert found[1] == []


@pytest.mark.nightly
def test_standbys_take_over_one_after_the_other(pair: Pair) -> None:
    """Dedicated testMultiNodeCluster: three processes, one file; each takes its turn, with the settings it was given.

    Topics created later are found by whoever owns the flow; one owner is stopped in order, the next one is killed.
    """
    pair.target_stem = "|B$?&%+{}"  # characters that mean something in URLs, as in the original
    path = pair.write({f"{pair.flow}.offset-syncs.topic.location": "target"})
    with (
        live_mirror(path, "--standby") as first,
        live_mirror(path, "--standby") as second,
    ):
        mirrors = [first, second]
        await_true(lambda: [m for m in mirrors if f"{pair.flow} standby" in m.output], 180.0, "one stands by")
        owner, waiting = sorted(mirrors, key=lambda m: f"{pair.flow} standby" in m.output)
        pair.fill(1)
        await_count(pair.backup, pair.remote(1), 100)
        assert owner.stop().status == 0
        pair.fill(2)
        await_count(pair.backup, pair.remote(2), 100)
        changed = path.with_name("changed.properties")
        changed.write_text(path.read_text("latin-1").replace("topics.interval.seconds = 1", "topics.interval.seconds = 2"))
        with live_mirror(changed, "--standby") as third:
            third.await_said(f"{pair.flow} standby", 60)
            waiting.kill()
            pair.fill(2)
            await_count(pair.backup, pair.remote(2), 200, 90)
            assert third.stop().status == 0


def test_only_groups_of_wanted_topics_and_names_are_checkpointed(pair: Pair) -> None:
    """testFindConsumerGroups, testFindConsumerGroupsInCommonScenarios; CheckpointStore testReadCheckpointsTopic.

    What others wrote into the topic of checkpoints does no harm.
    """
    pair.fill(1, partitions=1)
    unwanted = f"other-{pair.mark}"
    create_topics(pair.primary, {unwanted: (1, {})})
    wanted, elsewhere, excluded = pair.group("wanted"), pair.group("elsewhere"), f"excluded-{pair.mark}"
    commit(pair.primary, wanted, pair.topic(1), {0: 3})
    commit(pair.primary, wanted, unwanted, {0: 0})
    commit(pair.primary, elsewhere, unwanted, {0: 0})
    commit(pair.primary, excluded, pair.topic(1), {0: 3})
    topic = f"{pair.source}.checkpoints.internal"
    create_topics(pair.backup, {topic: (1, {"cleanup.policy": "compact"})})
    known = Checkpoint(wanted, TopicPartition(pair.remote(1), 0), 9, 9, "")
    entries = [(b"no checkpoint", b"at all"), (encode_checkpoint(known)[0], None), (b"\x00", None)]
    with client_of(pair.backup) as client:
        append_records(client, TopicPartition(topic, 0), entries, now_ms())
    with pair.mirror() as mirror:
        mirror.await_said("copying", WAIT_S)

        def written() -> list[tuple[str, str]]:
            with client_of(pair.backup) as client:
                records = list(read_to_end(client, TopicPartition(topic, 0), len(entries)))
            found = [decode_checkpoint(record.key, record.value) for record in records]
            return [(checkpoint.group, str(checkpoint.partition)) for checkpoint in found]

        await_true(written, WAIT_S, "a checkpoint")
        assert mirror.stop().status == 0
    assert set(written()) == {(wanted, f"{pair.remote(1)}-0")}


def reset(path: Path, topic: str, to: str) -> None:
    """`sparkmirror offsets reset`, as an operator types it."""
    answer = hosted_command("offsets", "reset", str(path), "--topic", topic, "--to", to, "--yes")
    assert answer.returncode == 0, answer.stdout + answer.stderr


def test_positions_that_are_changed_by_hand_are_followed_exactly(pair: Pair) -> None:
    """ExactlyOnce testReplication: positions set to 0 go on at 1, removed ones at the beginning.

    There positions are changed over REST, here with `sparkmirror offsets reset`.
    """
    pair.fill(1)
    create_topics(pair.primary, {pair.topic(2): (1, {})})
    produce(pair.primary, pair.topic(2), 0, numbered(10))
    path = pair.write({f"{pair.target}.exactly.once.source.support": "enabled"})
    run_cleanly(path)
    reset(path, pair.topic(1), "1")
    reset(path, pair.topic(2), "earliest")
    run_cleanly(path)
    assert (java_count(pair.backup, pair.remote(1)), java_count(pair.backup, pair.remote(2))) == (190, 20)
    for topic in (pair.topic(1), pair.topic(2)):
        reset(path, topic, "earliest")
    run_cleanly(path)
    run_cleanly(path)
    assert (java_count(pair.backup, pair.remote(1)), java_count(pair.backup, pair.remote(2))) == (290, 30)
