"""The client's answers: MirrorMaker 2's own tests of its client, name by name, and where ours does better."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping

import pytest

from sparkmirror.client import Basis, DeadlineReached, MirrorClient, RemotePosition, TopicPartition
from sparkmirror.client.chains import all_sources, count_hops, is_remote, shortest_way, upstream_clusters
from sparkmirror.client.mirror_client import remote_position
from sparkmirror.client.properties import read_properties
from sparkmirror.client.refusals import CheckpointsMissing
from sparkmirror.config import SECURITY_KEYS, Secret
from sparkmirror.errors import ConfigInvalid
from sparkmirror.ledger import Attempt, LedgerRecord, Open, Owner, Position, Receipt, Run, encode, tombstone
from sparkmirror.model import Checkpoint
from sparkmirror.state import CheckpointTable, FollowedTopic, LedgerTable, Table
from sparkmirror.topology import DefaultReplicationPolicy, IdentityReplicationPolicy
from sparkmirror.wire import Record, encode_checkpoint

SERVERS = {"bootstrap.servers": "one:9092, two:9093"}
IDENTITY = {"replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"}
DEFAULT = DefaultReplicationPolicy()


class ListingClient(MirrorClient):
    """A client whose cluster has these topics."""

    def __init__(self, topics: list[str], properties: Mapping[str, str] | None = None) -> None:
        super().__init__(SERVERS | dict(properties or {}))
        self._listed = topics

    def _topics(self) -> list[str]:
        return self._listed


# --- MirrorClientTest ------------------------------------------------------------------------------------------


def test_heartbeats_topics_are_told_from_others() -> None:
    """testIsHeartbeatTopic"""
    heartbeats = ["heartbeats", "source1.heartbeats", "source2.source1.heartbeats"]
    others = ["heartbeats!", "!heartbeats", "source1heartbeats", "source1-heartbeats"]
    assert ListingClient([*heartbeats, *others]).heartbeat_topics() == set(heartbeats)


def test_checkpoints_topics_are_told_from_others() -> None:
    """testIsCheckpointTopic"""
    others = ["checkpoints.internal", "checkpoints-internal", "checkpoints.internal!", "!checkpoints.internal"]
    names = ["source1.checkpoints.internal", "source1checkpointsinternal", *others]
    assert ListingClient(names).checkpoint_topics() == {"source1.checkpoints.internal"}


@pytest.mark.parametrize(
    ("topic", "alias", "hops"),
    [
        ("topic", "source", -1),
        ("source", "source", -1),
        ("sourcetopic", "source", -1),
        ("source1.topic", "source2", -1),
        ("source1.topic", "source1", 1),
        ("source2.source1.topic", "source2", 1),
        ("source2.source1.topic", "source1", 2),
        ("source3.source2.source1.topic", "source1", 3),
        ("source3.source2.source1.topic", "source4", -1),
        ("source1.source1.source2.topic", "source2", -1),  # a source that comes again ends the way
    ],
)
def test_hops_of_one_topic(topic: str, alias: str, hops: int) -> None:
    """countHopsForTopicTest"""
    assert count_hops(DEFAULT, topic, alias) == hops


def test_heartbeats_topics_of_a_cluster() -> None:
    """heartbeatTopicsTest"""
    wanted = {"heartbeats", "source1.heartbeats", "source2.source1.heartbeats", "source3.heartbeats"}
    assert ListingClient(["topic1", "topic2", *wanted]).heartbeat_topics() == wanted


def test_checkpoints_topics_of_a_cluster() -> None:
    """checkpointsTopicsTest"""
    wanted = {f"{alias}.checkpoints.internal" for alias in ("source1", "source2.source1", "source3")}
    assert ListingClient(["topic1", "topic2", "checkpoints.internal", *wanted]).checkpoint_topics() == wanted


def test_hops_are_those_of_the_shortest_way() -> None:
    """replicationHopsTest"""
    client = ListingClient(
        ["topic1", "topic2", "heartbeats", "source1.heartbeats", "source1.source2.heartbeats", "source3.heartbeats"]
    )
    aliases = ["source1", "source2", "source3", "source4"]
    assert [client.replication_hops(alias) for alias in aliases] == [1, 2, 1, -1]
    assert shortest_way(DEFAULT, ["a.b.x.heartbeats", "c.x.heartbeats", "x.topic"], "x") == 2


CHAINS = ["source1.heartbeats", "source1.source2.heartbeats", "source3.source4.source5.heartbeats"]
SOURCES = {"source1", "source2", "source3", "source4", "source5"}


def test_upstream_clusters_are_all_in_the_chains_of_heartbeats() -> None:
    """upstreamClustersTest"""
    assert ListingClient(["topic1", "x.topic2", "heartbeats", *CHAINS]).upstream_clusters() == SOURCES


def test_upstream_clusters_where_names_are_kept() -> None:
    """testIdentityReplicationUpstreamClusters"""
    client = ListingClient(["topic1", "topic2", "heartbeats", *CHAINS], IDENTITY | {"source.cluster.alias": "source"})
    assert client.upstream_clusters() == SOURCES


REMOTE = {"source1.topic4", "source1.source2.topic5", "source3.source4.source5.topic6"}


def test_remote_topics_are_those_with_a_source() -> None:
    """remoteTopicsTest"""
    client = ListingClient(["topic1", "topic2", "topic3", "source1.checkpoints.internal", "mm2-x.internal", *REMOTE])
    assert client.remote_topics() == REMOTE
    assert client.remote_topics("source1") == {"source1.topic4", "source1.source2.topic5"}
    assert client.remote_topics("source2") == set()


def test_every_topic_is_remote_where_names_are_kept() -> None:
    """testIdentityReplicationRemoteTopics"""
    topics = ["topic1", "topic2", "topic3", "heartbeats", "backup.heartbeats"]
    remote = {"topic1", "topic2", "topic3", "backup.heartbeats"}
    assert ListingClient(topics, IDENTITY | {"source.cluster.alias": "source"}).remote_topics() == remote
    assert ListingClient(topics, IDENTITY).remote_topics() == {"backup.heartbeats"}


def test_remote_topics_by_another_separator() -> None:
    """remoteTopicsSeparatorTest"""
    remote = {topic.replace(".", "__") for topic in REMOTE}
    client = ListingClient(["topic1", "topic2", "topic3", *remote], {"replication.policy.separator": "__"})
    assert client.remote_topics() == remote


def test_names_and_sources_where_names_are_kept() -> None:
    """testIdentityReplicationTopicSource"""
    policy = ListingClient([], IDENTITY | {"source.cluster.alias": "primary"}).policy
    assert (policy.format_remote_topic("primary", "topic1"), policy.topic_source("topic1")) == ("topic1", "primary")
    assert policy.format_remote_topic("backup", "heartbeats") == "backup.heartbeats"
    assert policy.topic_source("backup.heartbeats") == "backup"


def test_chain_of_a_policy_that_never_ends_is_walked_once() -> None:
    policy = IdentityReplicationPolicy("source")
    assert all_sources(policy, "topic") == {"source"}
    assert (count_hops(policy, "topic", "source"), count_hops(policy, "topic", "other")) == (1, -1)
    assert upstream_clusters(policy, ["topic"]) == set()
    assert is_remote(policy, "topic") and not is_remote(policy, "source.checkpoints.internal")


# --- properties ------------------------------------------------------------------------------------------------


def test_every_security_key_survives_and_secrets_are_hidden() -> None:
    texts = {name: key.default or "x" for name, key in SECURITY_KEYS.items()} | SERVERS
    texts |= {name: "1" for name, key in SECURITY_KEYS.items() if key.kind.name in ("INT", "LONG", "SHORT", "DOUBLE")}
    texts |= {"sasl.login.refresh.window.jitter": "0.1", "sasl.oauthbearer.expected.audience": "a", "client.id": "mine"}
    settings, _ = read_properties(texts, None)
    assert settings.bootstrap_servers == (("one", 9092), ("two", 9093))
    assert set(settings.security) == set(SECURITY_KEYS) - {"bootstrap.servers"}
    for name, value in settings.security.items():
        assert isinstance(value, Secret) == SECURITY_KEYS[name].secret, name
        assert (value.reveal() if isinstance(value, Secret) else value) == texts[name], name


def test_key_behind_a_role_wins_and_a_secret_that_is_one_already_is_kept() -> None:
    secret = Secret("pa55")
    own = {"consumer.security.protocol": "SSL", "security.protocol": "PLAINTEXT", "admin.ssl.key.password": secret}
    settings, policy = read_properties(SERVERS | own, None)
    assert settings.security == {"security.protocol": "SSL", "ssl.key.password": secret}
    assert policy == DEFAULT


def test_wrong_properties_are_told_all_at_once() -> None:
    wrong = {
        "security.protocol": "abc",
        "admin.sasl.mechanism": "PLAIN",
        "consumer.sasl.mechanism": "GSSAPI",
        "replication.policy.class": "com.example.Policy",
        "replication.policy.separator": "a b",
    }
    with pytest.raises(ConfigInvalid) as refused:
        MirrorClient(wrong)
    told = [problem.partition(" ")[0].rstrip(":") for problem in refused.value.problems]
    assert sorted(told) == [
        "admin.sasl.mechanism",
        "bootstrap.servers",
        "replication.policy.class",
        "replication.policy.separator",
        "security.protocol",
    ]


def test_policy_of_ones_own_is_given_as_an_object() -> None:
    own = IdentityReplicationPolicy("elsewhere")
    client = MirrorClient(SERVERS | {"replication.policy.class": "com.example.Policy"}, policy=own)
    assert client.policy is own


@pytest.mark.parametrize(
    ("properties", "topic"),
    [
        ({}, "A.checkpoints.internal"),
        ({"replication.policy.separator": "_"}, "A_checkpoints_internal"),
        (
            {"replication.policy.separator": "_", "replication.policy.internal.topic.separator.enabled": "false"},
            "A.checkpoints.internal",
        ),
    ],
)
def test_separator_of_internal_topics(properties: dict[str, str], topic: str) -> None:
    assert MirrorClient(SERVERS | properties).policy.checkpoints_topic("A") == topic


# --- what records add up to ------------------------------------------------------------------------------------

ORDERS = TopicPartition("A.orders", 0)


def _record(key: bytes | None, value: bytes | None) -> Record:
    return Record(0, 0, key, value, ())


def _checkpoint(group: str, downstream: int, metadata: str = "", partition: TopicPartition = ORDERS) -> Record:
    return _record(*encode_checkpoint(Checkpoint(group, partition, downstream, downstream, metadata)))


PLACE = TopicPartition("internal", 0)


def _take(table: Table, *records: Record) -> int:
    """Takes records and counts the foreign ones among them."""
    return sum(table.take(PLACE, record) is not None for record in records)


def _offsets(table: CheckpointTable, group: str) -> dict[TopicPartition, tuple[int, str]]:
    return {at: (found.downstream_offset, found.metadata) for at, found in table.last.of(group).items()}


def test_last_checkpoint_counts_also_when_it_goes_back() -> None:
    table = CheckpointTable()
    records = (_checkpoint("g", 5), _checkpoint("g", 9, "m"), _checkpoint("other", 7), _checkpoint("g", 2, "back"))
    assert _take(table, *records) == 0
    assert _offsets(table, "g") == {ORDERS: (2, "back")}
    assert _offsets(table, "nobody") == {}


def test_tombstone_takes_a_checkpoint_away_and_only_that() -> None:
    table, other = CheckpointTable(), TopicPartition("A.orders", 1)
    _take(table, _checkpoint("g", 5), _checkpoint("g", 6, partition=other), _checkpoint("h", 7))
    tombstones = [_record(of.key, None) for of in (_checkpoint("g", 5), _checkpoint("unheard", 5))]
    assert _take(table, *tombstones) == 0
    assert _offsets(table, "g") == {other: (6, "")}
    assert _offsets(table, "h") == {ORDERS: (7, "")}


def test_records_that_are_no_checkpoints_are_skipped_and_counted() -> None:
    table, good = CheckpointTable(), _checkpoint("g", 5)
    assert good.value is not None
    keyless, cut = [(None, good.value), (None, None)], [(good.key, good.value[:7]), (good.key, b"")]
    bad = [_record(*entry) for entry in [*keyless, (b"\x7f", good.value), (b"\x7f", None), *cut]]
    assert _take(table, *bad, _checkpoint("g", -1), good) == 7
    assert _offsets(table, "g") == {ORDERS: (5, "")}


SOURCE = TopicPartition("orders", 0)
ATTEMPT = Attempt(1, 0, 1)
BEGIN = Position(0, 0, 0)


def _open(attempt: Attempt = ATTEMPT, position: Position = BEGIN) -> Open:
    return Open(
        partition=SOURCE,
        attempt=attempt,
        previous=None,
        slot=0,
        incarnation=0,
        target_topic="A.orders",
        producer_id=1,
        producer_epoch=0,
        position=position,
        source_topic_id="s",
        target_topic_id="t",
        read_committed=False,
        shared=False,
        fenced=True,
        source_compacts=False,
    )


def _receipt(end: Position, *runs: Run, attempt: Attempt = ATTEMPT) -> Receipt:
    return Receipt(SOURCE, attempt, end, -1, sum(run.length for run in runs), 0, runs)


def _ledger(*records: LedgerRecord) -> LedgerTable:
    table = LedgerTable()
    _take(table, *(_record(*encode(record)) for record in records))
    return table


def test_ledger_translates_every_position() -> None:
    ledger = _ledger(_open(), _receipt(Position(20, 15, 0), Run(0, 0, 10), Run(15, 10, 5)))
    found = {upstream: remote_position(ledger, SOURCE, upstream) for upstream in (0, 9, 12, 17, 20, 99)}
    assert found == {
        upstream: RemotePosition(ORDERS, offset, basis)
        for upstream, offset, basis in [
            (0, 0, Basis.EXACT),
            (9, 9, Basis.EXACT),
            (12, 10, Basis.EXACT),
            (17, 12, Basis.EXACT),
            (20, 15, Basis.EXACT),
            (99, 15, Basis.BEYOND),
        ]
    }
    assert remote_position(ledger, TopicPartition("orders", 1), 0) is None


def test_map_follows_the_ledger_between_two_questions() -> None:
    ledger = _ledger(_open(), _receipt(Position(10, 10, 0), Run(0, 0, 10)))
    assert remote_position(ledger, SOURCE, 14) == RemotePosition(ORDERS, 10, Basis.BEYOND)
    ledger.take(PLACE, _record(*encode(Owner(1, 0, 1, 0, "me", 7, (1,)))))
    assert remote_position(ledger, SOURCE, 14) == RemotePosition(ORDERS, 10, Basis.BEYOND)
    ledger.take(PLACE, _record(*encode(_receipt(Position(16, 15, 0), Run(0, 0, 10), Run(11, 10, 5)))))
    assert remote_position(ledger, SOURCE, 14) == RemotePosition(ORDERS, 13, Basis.EXACT)


def test_tombstone_in_the_ledger_changes_the_map() -> None:
    old, new = ATTEMPT, Attempt(1, 0, 2)
    ledger = _ledger(
        _open(old),
        _receipt(Position(10, 10, 0), Run(0, 0, 10), attempt=old),
        _open(new, Position(10, 10, 0)),
        _receipt(Position(20, 20, 0), Run(10, 10, 10), attempt=new),
    )
    assert remote_position(ledger, SOURCE, 3) == RemotePosition(ORDERS, 3, Basis.EXACT)
    ledger.take(PLACE, _record(*tombstone("receipt", SOURCE, old, 0)))
    assert remote_position(ledger, SOURCE, 3) != RemotePosition(ORDERS, 3, Basis.EXACT)
    assert remote_position(ledger, SOURCE, 13) == RemotePosition(ORDERS, 13, Basis.EXACT)


def test_foreign_records_in_the_ledger_are_counted() -> None:
    ledger = _ledger(_open())
    foreign = [(None, b"{}"), (b"hello", b"{}"), (b"[]", b"[]"), (b'["receipt"]', None)]
    assert _take(ledger, *(_record(key, value) for key, value in foreign)) == 4


# --- deadlines -------------------------------------------------------------------------------------------------


class _SilentLog(FollowedTopic[CheckpointTable]):
    """A log whose broker does not answer until it is let go."""

    def __init__(self) -> None:
        super().__init__("A.checkpoints.internal", CheckpointTable, CheckpointsMissing)
        self.is_let_go = threading.Event()

    def read_on(self, client: object, deadline: float = 0) -> CheckpointTable:
        self.is_let_go.wait(30)
        return self.table


@pytest.fixture
def silent() -> Iterator[_SilentLog]:
    log = _SilentLog()
    yield log
    log.is_let_go.set()


def test_silent_broker_does_not_hold_a_question_beyond_its_deadline(silent: _SilentLog) -> None:
    client = MirrorClient(SERVERS)
    client._checkpoints["A.checkpoints.internal"] = silent
    asked = time.monotonic()
    with pytest.raises(DeadlineReached, match=r"A\.checkpoints\.internal.*timeout_s"):
        client.remote_consumer_offsets("g", "A", timeout_s=0.05)
    assert time.monotonic() - asked < 5
    assert client._checkpoints == {}, "the next question must not share what the late reader still fills"


# --- importing -------------------------------------------------------------------------------------------------


def test_client_is_imported_without_spark() -> None:
    code = "import sys, sparkmirror.client; sys.exit(int('pyspark' in sys.modules or 'py4j' in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
