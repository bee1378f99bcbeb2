"""The fake broker answers as a real one does: the same questions, through the one door to Kafka, to both."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from fake.apis import HANDLERS
from fake.apis.a32_describe_configs import DEFAULTS
from kafka.protocol.admin import DeleteRecordsRequest
from kafka.protocol.producer import AddPartitionsToTxnRequest, EndTxnRequest

from sparkmirror.clusters import (
    EARLIEST,
    LATEST,
    METADATA_VERSIONS,
    Committed,
    Connection,
    FetchFrom,
    FetchLimits,
    ListedGroup,
    LogReader,
    NewTopic,
    alter_topic_configs,
    append_records,
    commit_offsets,
    committed_offsets,
    create_topic_acls,
    create_topics,
    describe_flow_request,
    describe_producers,
    describe_topic_acls,
    describe_topic_configs,
    encode_fetch,
    encode_produce,
    extend_topics,
    fence,
    flow_producer,
    leader_epoch_request,
    list_groups,
    list_offsets,
    metadata_request,
    new_producer,
    parse_fetch,
    parse_produce,
    partition_ends,
    raise_producer_epoch,
    read_raw,
    read_to_end,
)
from sparkmirror.clusters.client import ClusterClient, Patience
from sparkmirror.clusters.cluster_info import newest_times
from sparkmirror.clusters.members import DescribedGroup, describe_groups
from sparkmirror.clusters.removal import delete_group_offsets, delete_topics
from sparkmirror.config import ClusterSettings
from sparkmirror.errors import BrokerRefused, FlowOwnedByAnother
from sparkmirror.model import Acl, TopicPartition
from sparkmirror.wire import Producer, Record, build_batch

Name = Callable[..., str]
UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID = 3, 100
TRANSACTIONAL = 0x10  # of a batch's attributes


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.brokers)])
def client(request: pytest.FixtureRequest) -> Iterator[ClusterClient]:
    """The fake broker, and a real one that other tests use, too."""
    cluster = request.getfixturevalue("fake_cluster" if request.param == "fake" else "source_cluster")
    host, _, port = cluster.bootstrap.rpartition(":")
    with closing(ClusterClient(ClusterSettings("A", ((host, int(port)),), {}), Patience(10.0, 10.0))) as made:
        yield made


@pytest.fixture
def topic(client: ClusterClient, topic_name: Name) -> str:
    """A topic of two partitions whose leaders answer."""
    name = topic_name("contract")
    assert create_topics(client, [NewTopic(name, 2, 1, {})]) == {name: None}
    list_offsets(client, [TopicPartition(name, 0), TopicPartition(name, 1)], timestamp=LATEST)
    return name


def batch(*values: bytes, timestamp: int = 1_000, producer: tuple[int, int] = (-1, -1), sequence: int = -1) -> bytes:
    records = [Record(at, timestamp + at, b"k%d" % at, value, ()) for at, value in enumerate(values)]
    return bytes(build_batch(records, producer=Producer(*producer, sequence)))


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def exchange(api: int, version: int, parts: list[Any], connection: Connection) -> tuple[bytearray, int]:
    return connection.exchange(api, version, parts, timeout_s=10.0)


def ask_leader(client: ClusterClient, place: TopicPartition, build: Callable[[Connection], Any]) -> Any:
    """The one partition of the answer of its leader."""
    [part] = client.ask_node(client.leader_node(place), build).topics[0].partitions
    return part


def send(client: ClusterClient, place: TopicPartition, *batches: bytes) -> list[tuple[int, int]]:
    """(error code, base offset) of each batch, sent one after the other."""
    found = []
    for one in batches:
        parts = encode_produce({place.topic: [(place.partition, one)]})
        frame, at = client.talk(client.leader_node(place), partial(exchange, 0, 9, parts))
        [verdict] = parse_produce(frame, at, by_id=False)
        found.append((verdict.error, verdict.base_offset))
    return found


def values_of(records: Sequence[Record]) -> list[tuple[int, bytes | None]]:
    return [(record.offset, record.value) for record in records]


def test_every_version_that_the_fake_speaks_is_one_of_kafka(client: ClusterClient) -> None:
    node = next(iter(client.view(()).brokers))
    versions: dict[int, tuple[int, int]] = {}

    def keep(connection: Connection) -> Any:
        versions.update(connection.versions)
        return metadata_request((), METADATA_VERSIONS[1])

    client.ask_node(node, keep)
    ranges = {api: (handler.VERSIONS, versions[api]) for api, handler in HANDLERS.items()}
    assert {api: both for api, both in ranges.items() if both[0][0] < both[1][0] or both[0][1] > both[1][1]} == {}


# --- topics ------------------------------------------------------------------------------------------------------


def test_a_topic_that_was_created_is_shown_with_an_id_and_a_leader(client: ClusterClient, topic: str) -> None:
    found = client.view([topic]).topics[topic]
    assert (found.error, found.partitions, found.is_internal) == (0, 2, False)
    assert found.topic_id != bytes(16)
    assert {leader.node for leader in found.leaders.values()} == set(client.view(()).brokers)
    assert {(leader.leader_epoch, leader.replicas) for leader in found.leaders.values()} == {(0, 1)}
    assert topic in client.view(None).topics


def test_a_topic_that_does_not_exist_is_not_created_by_asking(client: ClusterClient, topic_name: Name) -> None:
    name = topic_name("missing")
    assert client.view([name]).topics[name].error == UNKNOWN_TOPIC
    assert name not in client.view(None).topics


def test_topics_that_cannot_be_created_are_refused_by_name(
    client: ClusterClient, topic: str, topic_name: Name
) -> None:
    few, wide, odd, bad = (topic_name(stem) for stem in ("few", "wide", "odd", "bad name"))
    wanted = [
        NewTopic(topic, 2, 1, {}), NewTopic(few, 0, 1, {}), NewTopic(wide, 1, 9, {}), NewTopic(odd, 1, 1, {"no.such": "1"}),
        NewTopic(bad, 1, 1, {}),
    ]  # fmt: skip
    found = create_topics(client, wanted)
    codes = {name: reason and reason.partition(" ")[0] for name, reason in found.items()}
    assert codes == {
        topic: None, few: "INVALID_PARTITIONS", wide: "INVALID_REPLICATION_FACTOR", odd: "INVALID_CONFIG",
        bad: "INVALID_TOPIC",
    }  # fmt: skip


def test_a_dry_run_creates_nothing(client: ClusterClient, topic_name: Name) -> None:
    name = topic_name("dry")
    assert create_topics(client, [NewTopic(name, 1, 1, {})], dry_run=True) == {name: None}
    assert name not in client.view(None).topics


def test_partitions_are_added_and_never_taken_away(client: ClusterClient, topic: str, topic_name: Name) -> None:
    missing = topic_name("missing")
    assert extend_topics(client, {topic: 3}) == {topic: None}
    client.retry(lambda: client.check(UNKNOWN_TOPIC * (client.view([topic]).topics[topic].partitions != 3), "partitions"))
    found = extend_topics(client, {topic: 2, missing: 2})
    codes = {name: reason and reason.partition(" ")[0] for name, reason in found.items()}
    assert codes == {topic: "INVALID_PARTITIONS", missing: "UNKNOWN_TOPIC_OR_PARTITION"}


def test_a_topic_that_was_deleted_and_created_again_has_another_id_and_is_empty(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    assert send(client, place, batch(b"a")) == [(0, 0)]
    before = client.view([topic]).topics[topic].topic_id
    delete_topics(client, [topic])
    assert client.view([topic]).topics[topic].error == UNKNOWN_TOPIC
    create_topics(client, [NewTopic(topic, 1, 1, {})])
    assert client.retry(lambda: partition_ends(client, place)) == (0, 0, 0, 0)
    assert client.view([topic]).topics[topic].topic_id not in (before, bytes(16))


def test_settings_have_their_defaults_and_sources(client: ClusterClient, topic: str, topic_name: Name) -> None:
    missing = topic_name("missing")
    found = describe_topic_configs(client, [topic, missing])
    assert {entry.name: entry.value for entry in found[topic]} == DEFAULTS
    assert {entry.source for entry in found[topic] if entry.name == "retention.ms"} == {5}
    assert {(entry.is_read_only, entry.is_sensitive) for entry in found[topic]} == {(False, False)}
    assert missing not in found


def test_settings_are_set_and_taken_back_one_by_one(client: ClusterClient, topic: str, topic_name: Name) -> None:
    def changed(wanted: dict[str, str]) -> dict[str, str | None]:
        """The settings of its own, once the broker has heard of the change from its controller."""
        deadline = time.monotonic() + 30
        while True:
            found = {e.name: e.value for e in describe_topic_configs(client, [topic])[topic] if e.source == 1}
            if found == wanted or time.monotonic() > deadline:
                return found
            time.sleep(0.05)

    missing = topic_name("missing")
    assert alter_topic_configs(client, {topic: {"retention.ms": "7", "segment.ms": "9"}})[topic][0] == 0
    assert changed(both := {"retention.ms": "7", "segment.ms": "9"}) == both
    found = alter_topic_configs(client, {topic: {"retention.ms": None}, missing: {"retention.ms": "1"}})
    assert {name: code for name, (code, _) in found.items()} == {topic: 0, missing: UNKNOWN_TOPIC}
    assert changed(one := {"segment.ms": "9"}) == one
    assert alter_topic_configs(client, {topic: {"no.such": "1"}})[topic][0] == 40


# --- logs --------------------------------------------------------------------------------------------------------


def test_batches_get_offsets_and_are_read_as_they_were_sent(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 1)
    sent = [batch(b"a", b"b"), batch(b"c", timestamp=2_000)]
    assert send(client, place, *sent) == [(0, 0), (0, 2)]
    assert partition_ends(client, place) == (3, 3, 0, 0)
    read = read_raw(client, place, 0)
    found = [bytes(one.buffer[one.start : one.start + one.size]) for one in read.batches]
    assert [one[16:] for one in found] == [one[16:] for one in sent]  # before it the broker writes offset and leader epoch
    assert (read.log_start, read.high_watermark, read.last_stable, read.aborted) == (0, 3, 3, None)
    assert values_of(list(read_to_end(client, place, 1))) == [(1, b"b"), (2, b"c")]


def test_a_small_limit_still_brings_the_first_batch_whole(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send(client, place, batch(b"a" * 300), batch(b"b" * 300))
    assert [found.last_offset for found in read_raw(client, place, 0, bytes_max=10).batches] == [0]
    assert [found.last_offset for found in read_raw(client, place, 1, bytes_max=10).batches] == [1]


def test_damaged_batches_are_refused(client: ClusterClient, topic: str) -> None:
    place, whole = TopicPartition(topic, 0), batch(b"value")
    assert send(client, place, whole[:-1] + bytes([whole[-1] ^ 1]))[0] == (2, -1)
    assert partition_ends(client, place)[:2] == (0, 0)


def test_offsets_are_found_by_time(client: ClusterClient, topic: str) -> None:
    place, empty = TopicPartition(topic, 0), TopicPartition(topic, 1)
    send(client, place, batch(b"a", b"b", timestamp=1_000), batch(b"c", timestamp=5_000), batch(b"d", timestamp=3_000))
    times = EARLIEST, LATEST, 0, 1_001, 1_002, 6_000
    found = {time: list_offsets(client, [place], timestamp=time)[place] for time in times}
    assert found == {EARLIEST: (0, 0), LATEST: (4, 0), 0: (0, 0), 1_001: (1, 0), 1_002: (2, 0), 6_000: (-1, -1)}
    assert newest_times(client, [place, empty]) == {place: 5_000}


def test_a_fetch_outside_the_log_is_refused(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send(client, place, batch(b"a"))
    answers, topic_id = [], client.view([topic]).topics[topic].topic_id
    for offset, identity in ((0, None), (1, None), (2, None), (0, topic_id), (0, b"x" * 16)):
        body = encode_fetch({identity or topic: [FetchFrom(0, offset)]}, FetchLimits(0, 0, 1000, 1000, 0))
        version = 12 if identity is None else 13
        frame, at = client.talk(client.leader_node(place), partial(exchange, 1, version, [body]))
        [part] = parse_fetch(frame, at, by_id=identity is not None).partitions
        answers.append((part.error, part.high_watermark, part.log_start))
    assert answers == [(0, 1, 0), (0, 1, 0), (1, -1, -1), (0, 1, 0), (UNKNOWN_TOPIC_ID, -1, -1)]


def test_deleted_records_move_the_start_of_the_log(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send(client, place, batch(b"a", b"b"), batch(b"c"))
    kind = DeleteRecordsRequest.DeleteRecordsTopic
    codes = []
    for offset in (1, 9, -1):
        wanted = kind.DeleteRecordsPartition(version=2, partition_index=0, offset=offset)
        topics = [kind(version=2, name=topic, partitions=[wanted])]
        part = ask_leader(client, place, lambda _, t=topics: DeleteRecordsRequest(version=2, topics=t, timeout_ms=10_000))
        codes.append((part.error_code, part.low_watermark, list_offsets(client, [place], timestamp=EARLIEST)[place][0]))
    assert codes == [(0, 1, 1), (1, -1, 1), (0, 3, 3)]


def test_a_reader_waits_for_what_is_appended_and_hears_it(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    reader = LogReader(client, place, 0)
    assert reader.poll(10) == []
    append_records(client, place, [(b"k", b"v"), (b"l", None)], 1_000)
    assert values_of(reader.poll(5_000)) == [(0, b"v"), (1, None)]


def test_the_end_of_a_leader_epoch_is_the_end_of_the_log(client: ClusterClient, topic: str) -> None:
    place = TopicPartition(topic, 0)
    send(client, place, batch(b"a", b"b"))
    found = []
    for epoch in (0, 7):
        part = ask_leader(client, place, partial(leader_epoch_request, partition=place, leader_epoch=epoch))
        found.append((part.error_code, part.leader_epoch, part.end_offset))
    assert found == [(0, 0, 2), (0, -1, -1)]


# --- producers ---------------------------------------------------------------------------------------------------


def test_a_repeated_batch_of_a_producer_is_appended_once_and_a_gap_is_refused(client: ClusterClient, topic: str) -> None:
    place, producer = TopicPartition(topic, 0), new_producer(client)
    first, second = (batch(b"a", b"b", producer=producer, sequence=at) for at in (0, 2))
    assert send(client, place, first, second, first, second) == [(0, 0), (0, 2), (0, 0), (0, 2)]
    assert send(client, place, batch(b"x", producer=producer, sequence=9)) == [(45, -1)]
    assert send(client, place, batch(b"x", producer=(producer[0], -1), sequence=4))[0][0] != 0
    assert describe_producers(client, [place])[place][producer[0]] == (producer[1], 3)
    assert partition_ends(client, place)[:2] == (4, 4)


def test_a_producer_that_is_not_known_may_start_at_any_sequence(client: ClusterClient, topic: str) -> None:
    place, producer = TopicPartition(topic, 0), new_producer(client)
    assert send(client, place, batch(b"a", producer=producer, sequence=7)) == [(0, 0)]
    assert send(client, place, batch(b"b", producer=producer, sequence=8)) == [(0, 1)]


def test_an_epoch_is_raised_and_the_old_owner_is_fenced(client: ClusterClient, topic: str, topic_name: Name) -> None:
    name, place = topic_name("owner"), TopicPartition(topic, 0)
    first = raise_producer_epoch(client, name, None)
    assert first[1] == 0
    raised = [raise_producer_epoch(client, name, first) for _ in range(2)]  # the second is taken for the first, repeated
    assert raised == [(first[0], 1)] * 2
    second = raise_producer_epoch(client, name, None)
    assert second == (first[0], 2)
    for old in (first, raised[0]):
        with pytest.raises(FlowOwnedByAnother):
            raise_producer_epoch(client, name, old)
    assert fence(client, name, second, [place]) == {}
    assert partition_ends(client, place)[:2] == (1, 1)
    [marker] = read_raw(client, place, 0).batches
    assert (marker.is_control, marker.last_offset) == (True, 0)
    assert list(read_to_end(client, place)) == []
    assert send(client, place, batch(b"old", producer=first, sequence=0))[0] == (47, -1)
    assert send(client, place, batch(b"new", producer=second, sequence=0))[0] == (0, 1)
    node = client.coordinator(name, transactional=True)
    assert flow_producer(client.ask_node(node, lambda _: describe_flow_request(name))) == (0, *second)
    unknown = topic_name("nobody")
    assert flow_producer(client.ask_node(node, lambda _: describe_flow_request(unknown)))[0] == 105


def test_a_fence_of_a_topic_that_does_not_exist_is_refused(client: ClusterClient, topic_name: Name) -> None:
    name = topic_name("owner")
    producer = raise_producer_epoch(client, name, None)
    impatient = Patience(5.0, 0.1)
    client._patience = impatient
    with pytest.raises(BrokerRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
        fence(client, name, producer, [TopicPartition(topic_name("missing"), 0)])


def open_transaction(
    client: ClusterClient, name: str, producer: tuple[int, int], place: TopicPartition, *values: bytes
) -> None:
    """Opens a transaction with one batch in it."""
    kind = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
    request = AddPartitionsToTxnRequest(
        version=3,
        v3_and_below_transactional_id=name,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[kind(version=3, name=place.topic, partitions=[place.partition])],
    )
    client.ask_node(client.coordinator(name, transactional=True), lambda _: request)
    records = [Record(at, now_ms(), b"k", value, ()) for at, value in enumerate(values)]
    one = bytes(build_batch(records, producer=Producer(*producer, 0), attributes=TRANSACTIONAL))
    body = b"".join(map(bytes, encode_produce({place.topic: [(place.partition, one)]})))
    named = bytes([len(name) + 1]) + name.encode() + body[1:]  # our own encoder never names a transactional id
    frame, at = client.talk(client.leader_node(place), partial(exchange, 0, 9, [named]))
    assert [verdict.error for verdict in parse_produce(frame, at, by_id=False)] == [0]


@pytest.mark.parametrize("commits", [True, False])
def test_an_open_transaction_holds_readers_of_committed_records_back(
    client: ClusterClient, topic: str, topic_name: Name, commits: bool
) -> None:
    name, place = topic_name("transaction"), TopicPartition(topic, 0)
    producer = raise_producer_epoch(client, name, None)
    send(client, place, batch(b"before", timestamp=now_ms()))  # an old one would lie in a segment before the marker's
    open_transaction(client, name, producer, place, b"a", b"b")
    assert list_offsets(client, [place], timestamp=LATEST, read_committed=True)[place][0] == 1
    assert partition_ends(client, place)[:2] == (3, 3)
    held = read_raw(client, place, 0, read_committed=True)
    assert ([one.last_offset for one in held.batches], held.last_stable, held.aborted or []) == ([0], 1, [])
    request = EndTxnRequest(
        version=3, transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], committed=commits
    )
    answer = client.ask_node(client.coordinator(name, transactional=True), lambda _: request)
    assert answer.error_code == 0
    client.retry(lambda: client.check(5 * (partition_ends(client, place)[0] != 4), "marker"))
    read = read_raw(client, place, 0, read_committed=True)
    assert ([one.is_control for one in read.batches], read.last_stable) == ([False, False, True], 4)
    assert (read.aborted or []) == ([] if commits else [(producer[0], 1)])
    assert read_raw(client, place, 0).aborted is None


def test_a_batch_is_appended_by_the_id_of_its_topic_and_refused_by_another(client: ClusterClient, topic: str) -> None:
    place, topic_id = TopicPartition(topic, 0), client.view([topic]).topics[topic].topic_id
    found = []
    for identity in (topic_id, b"x" * 16):
        parts = encode_produce({identity: [(0, batch(b"a"))]})
        frame, at = client.talk(client.leader_node(place), partial(exchange, 0, 13, parts))
        found += [(verdict.error, verdict.base_offset) for verdict in parse_produce(frame, at, by_id=True)]
    assert found == [(0, 0), (UNKNOWN_TOPIC_ID, -1)]


# --- groups ------------------------------------------------------------------------------------------------------


def test_commits_of_a_group_without_members_are_kept(client: ClusterClient, topic: str, topic_name: Name) -> None:
    group, places = topic_name("group"), [TopicPartition(topic, 0), TopicPartition(topic, 1), TopicPartition(topic, 7)]
    codes = commit_offsets(client, group, {place: Committed(5, f"of {place.partition}") for place in places})
    assert codes == dict(zip(places, (0, 0, UNKNOWN_TOPIC), strict=True))
    found = committed_offsets(client, [group, "nobody"])
    assert (found[group].error, found["nobody"].error, found["nobody"].committed) == (0, 0, {})
    assert found[group].committed == {place: Committed(5, f"of {place.partition}") for place in places[:2]}
    assert delete_group_offsets(client, group, places[:1]) == {places[0]: 0}
    assert set(committed_offsets(client, [group])[group].committed) == {places[1]}
    assert delete_group_offsets(client, topic_name("nobody"), places[:1]) == {places[0]: 0}


def test_groups_are_listed_and_described(client: ClusterClient, topic: str, topic_name: Name) -> None:
    group, nobody = topic_name("group"), topic_name("nobody")
    commit_offsets(client, group, {TopicPartition(topic, 0): Committed(0, "")})
    assert ListedGroup(group, "", "Empty", "classic") in [
        ListedGroup(found.name, found.protocol, found.state, found.kind.lower()) for found in list_groups(client)
    ]
    assert describe_groups(client, [group, nobody]) == {
        group: DescribedGroup(group, "Empty", "", ()),
        nobody: DescribedGroup(nobody, "Dead", "", ()),
    }


def test_commits_in_a_deleted_topic_go_with_it(client: ClusterClient, topic: str, topic_name: Name) -> None:
    group = topic_name("group")
    commit_offsets(client, group, {TopicPartition(topic, 0): Committed(1, "")})
    delete_topics(client, [topic])
    client.retry(lambda: client.check(5 * bool(committed_offsets(client, [group])[group].committed), "commits"))


# --- rights ------------------------------------------------------------------------------------------------------


def test_without_an_authorizer_there_are_no_rights(client: ClusterClient) -> None:
    right = Acl(topic="t", principal="User:ann", operation="READ")
    assert describe_topic_acls(client) is None
    assert str(create_topic_acls(client, [right])[right]).startswith("SECURITY_DISABLED")
