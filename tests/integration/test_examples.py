"""Every configuration example of the reference runs as it is written, but for addresses and replication factors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from host import hosted_command
from integration.mirroring import admin_of, create_topics, numbered, produce, run_cleanly, topics_of
from integration.scenario import java_count
from kafka import KafkaProducer

from sparkmirror.local import LocalCluster, open_clusters

FOLDER = Path(__file__).parents[1] / "fixtures" / "seed003"
CLUSTERS = "clusters = source, target\n"
ENABLED = "source->target.enabled = true\n"
FACTORS = ("replication.factor", "checkpoints.topic.replication.factor", "heartbeats.topic.replication.factor",
           "offset-syncs.topic.replication.factor", "offset.storage.replication.factor",
           "status.storage.replication.factor", "config.storage.replication.factor")  # fmt: skip
RECORDS = 20
# What an example lacks to be a file of its own, and for each copy: source and target alias, topic, name of the copy.
EXAMPLES = {
    "active_passive": ("", [("primary", "dr", "orders", "primary.orders")]),
    "active_active": ("", [("east", "west", "orders", "east.orders"), ("west", "east", "orders", "west.orders")]),
    "fan_out": ("", [("central", f"region-{to}", "global-a", "central.global-a") for to in ("us", "eu", "apac")]),
    "aggregation": ("", [(f"region-{of}", "central", "events", f"region-{of}.events") for of in ("us", "eu", "apac")]),
    "initial_deployment": ("", [("source", "target", "orders", "source.orders")]),
    "replication_flow": (CLUSTERS, [("source", "target", "users", "source.users")]),
    "topic": (CLUSTERS + ENABLED, [("source", "target", "topic-example", "source.topic-example")]),
    "offset_synchronization": (CLUSTERS + ENABLED, [("source", "target", "sync-example", "source.sync-example")]),
    "performance": (CLUSTERS + ENABLED, [("source", "target", "fast-example", "source.fast-example")]),
    "naming": (CLUSTERS + ENABLED, [("source", "target", "named-example", "source.named-example")]),
    "adding_topics": (CLUSTERS + ENABLED, [("source", "target", "new-topic-pattern-1", "source.new-topic-pattern-1")]),
    "removing_topics": (CLUSTERS + ENABLED, [("source", "target", "kept-example", "source.kept-example")]),
    "identity_naming": (CLUSTERS + ENABLED, [("source", "target", "same-name", "same-name")]),
}
# These differ by keys that other tests turn one by one, or are topologies that test_topologies.py stages; they run by
# night. All are loaded each time.
NIGHTLY = {
    "active_passive", "active_active", "fan_out", "aggregation", "performance",
    "initial_deployment", "replication_flow", "topic", "offset_synchronization", "naming", "adding_topics",
    "removing_topics",
}  # fmt: skip


@pytest.fixture(scope="module")
def clusters() -> Iterator[list[LocalCluster]]:
    """Four of this module alone: most examples copy everything they find."""
    with open_clusters(*(LocalCluster(f"example{number}") for number in range(4))) as opened:
        yield list(opened)


def test_every_example_but_that_of_security_is_run() -> None:
    assert {path.stem for path in FOLDER.glob("*.properties")} - {"cluster_and_security"} == set(EXAMPLES)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.nightly) if n in NIGHTLY else n for n in EXAMPLES])
def test_an_example_copies(name: str, clusters: list[LocalCluster], tmp_path: Path) -> None:
    head, copies = EXAMPLES[name]
    text = head + (FOLDER / f"{name}.properties").read_text()
    aliases = [alias.strip() for alias in re.search(r"^clusters = (.*)$", text, re.M)[1].split(",")]
    # The flow of the last example is that of others under another policy, which is another copy: it gets other clusters.
    named = dict(zip(aliases, clusters[2:] if name == "identity_naming" else clusters, strict=False))
    text += "\n" + "".join(f"{alias}.bootstrap.servers = {cluster.bootstrap}\n" for alias, cluster in named.items())
    text += "".join(f"{factor} = 1\n" for factor in FACTORS)
    path = tmp_path / "mm2.properties"
    path.write_text(text)
    for source, topic in {(source, topic) for source, _, topic, _ in copies}:
        if topic not in topics_of(named[source]):
            create_topics(named[source], {topic: (1, {})})
            produce(named[source], topic, 0, numbered(RECORDS))
    run_cleanly(path)
    for source, target, topic, remote in copies:
        wanted = java_count(named[source], topic)
        assert (wanted >= RECORDS, java_count(named[target], remote)) == (True, wanted), (topic, remote)


@pytest.mark.timeout(600)
def test_an_example_runs_unchanged_but_for_addresses_on_three_brokers_a_side(tmp_path: Path) -> None:
    """Active/passive, with its own replication factor of 3; what it does not name has MirrorMaker 2's default of 3."""
    text = (FOLDER / "active_passive.properties").read_text()
    path = tmp_path / "mm2.properties"
    with open_clusters(LocalCluster("primary", brokers=3), LocalCluster("dr", brokers=3)) as (primary, dr):
        for alias, cluster in (("primary", primary), ("dr", dr)):
            written = ",".join(f"{alias}-{number}:9092" for number in (1, 2, 3))
            assert text.count(written) == 1
            text = text.replace(written, cluster.bootstrap)
        path.write_text(text)
        create_topics(primary, {"orders": (3, {})})
        with closing(KafkaProducer(bootstrap_servers=primary.bootstrap, acks="all")) as producer:
            for partition in range(3):
                for value in numbered(RECORDS):
                    producer.send("orders", value=value, partition=partition)
        planned = hosted_command("plan", str(path))
        assert (planned.returncode, planned.stderr) == (0, ""), planned.stdout
        run_cleanly(path)
        assert java_count(dr, "primary.orders") == 3 * RECORDS
        internal = ("mm2-ledger.primary", "mm2-offsets.primary", "primary.checkpoints")
        wanted = ("primary.orders", *(f"{name}.internal" for name in internal))
        found = {name: replicas_of(dr, name) for name in wanted} | {
            "syncs": replicas_of(primary, "mm2-offset-syncs.dr.internal")
        }
        assert set(found.values()) == {3}, found


def replicas_of(cluster: LocalCluster, topic: str) -> int:
    """The fewest replicas of a partition, by Kafka's own client."""
    with admin_of(cluster) as admin:
        [described] = admin.describe_topics([topic])
    return min(len(part["replica_nodes"]) for part in described["partitions"])
