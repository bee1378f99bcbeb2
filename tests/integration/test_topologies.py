"""Every topology of the reference on real clusters: fan-out, aggregation, chain; each run is one process and one Spark."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from integration.mirroring import await_true, create_topics, live_mirror, numbered, produce, run_once, topics_of
from integration.scenario import QUICK, await_count, java_count

from sparkmirror.local import LocalCluster, open_clusters

pytestmark = pytest.mark.timeout(600)
WAIT_S = 120.0
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"


@pytest.fixture(scope="module")
def clusters(two_clusters: tuple[LocalCluster, LocalCluster]) -> Iterator[list[LocalCluster]]:
    """Four: the two that all tests share, and two more."""
    with open_clusters(LocalCluster("third"), LocalCluster("fourth")) as more:
        yield [*two_clusters, *more]


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of flows between named clusters."""

    def write(named: dict[str, LocalCluster], flows: Sequence[str], topics: str, **more: str) -> Path:
        keys = QUICK | {"clusters": ", ".join(named), "topics": topics, "sync.topic.acls.enabled": "false"}
        keys |= {f"{alias}.bootstrap.servers": cluster.bootstrap for alias, cluster in named.items()}
        keys |= {f"{flow}.enabled": "true" for flow in flows}
        keys |= {key.replace("__", "."): value for key, value in more.items()}
        path = tmp_path / "topology.properties"
        path.write_text("".join(f"{key} = {value}\n" for key, value in keys.items()), "latin-1")
        return path

    return write


def test_fan_out_one_to_three(clusters: list[LocalCluster], written: Callable[..., Path]) -> None:
    mark = secrets.token_hex(3)
    names = [f"{name}{mark}" for name in ("central", "region-us", "region-eu", "region-apac")]
    topic = f"global-{mark}"
    create_topics(clusters[0], {topic: (2, {})})
    for partition in range(2):
        produce(clusters[0], topic, partition, numbered(100))
    named = dict(zip(names, clusters, strict=True))
    with live_mirror(written(named, [f"{names[0]}->{name}" for name in names[1:]], f"global-{mark}")) as mirror:
        for cluster in clusters[1:]:
            await_count(cluster, f"{names[0]}.{topic}", 200, WAIT_S)
            await_true(lambda c=cluster: f"{names[0]}.heartbeats" in topics_of(c), WAIT_S, "heartbeats of the centre")
        assert mirror.stop().status == 0


def test_aggregation_three_to_one(clusters: list[LocalCluster], written: Callable[..., Path]) -> None:
    mark = secrets.token_hex(3)
    names = [f"{name}{mark}" for name in ("region-us", "region-eu", "region-apac", "central")]
    topic = f"events-{mark}"
    named = dict(zip(names, [clusters[1], clusters[2], clusters[3], clusters[0]], strict=True))
    for count, name in enumerate(names[:3], 1):
        create_topics(named[name], {topic: (1, {})})
        produce(named[name], topic, 0, numbered(count * 10))
    path = written(named, [f"{name}->{names[3]}" for name in names[:3]], topic, emit__heartbeats__enabled="false")
    outcome = run_once(path)
    assert outcome.status == 0, outcome.output
    for count, name in enumerate(names[:3], 1):
        assert java_count(clusters[0], f"{name}.{topic}") == count * 10


def test_a_chain_names_every_hop_and_does_not_come_back(clusters: list[LocalCluster], written: Callable[..., Path]) -> None:
    mark = secrets.token_hex(3)
    a, b, c = (f"{name}{mark}" for name in "abc")
    topic = f"chained-{mark}"
    create_topics(clusters[0], {topic: (1, {})})
    produce(clusters[0], topic, 0, numbered(50))
    named = dict(zip((a, b, c), clusters, strict=False))
    path = written(named, [f"{a}->{b}", f"{b}->{c}", f"{c}->{a}"], f".*{topic}")
    with live_mirror(path) as mirror:
        await_count(clusters[1], f"{a}.{topic}", 50, WAIT_S)
        await_count(clusters[2], f"{b}.{a}.{topic}", 50, WAIT_S)
        await_true(lambda: f"{b}.{a}.heartbeats" in topics_of(clusters[2]), WAIT_S, "heartbeats over two hops")
        assert not {name for name in topics_of(clusters[0]) if name.endswith(topic) and name != topic}
        assert mirror.stop().status == 0


def test_identity_both_ways_is_refused_before_anything_is_copied(
    clusters: list[LocalCluster], written: Callable[..., Path]
) -> None:
    mark = secrets.token_hex(3)
    a, b = f"left{mark}", f"right{mark}"
    topic = f"looped-{mark}"
    create_topics(clusters[0], {topic: (1, {})})
    produce(clusters[0], topic, 0, numbered(5))
    named = dict(zip((a, b), clusters, strict=False))
    path = written(named, [f"{a}->{b}", f"{b}->{a}"], topic, replication__policy__class=IDENTITY)
    outcome = run_once(path)
    assert outcome.status == 2
    assert "every record would go round for ever" in outcome.output
    assert topic not in topics_of(clusters[1])


def test_identity_both_ways_in_two_files_is_refused_too(clusters: list[LocalCluster], written: Callable[..., Path]) -> None:
    """M9: the second flow finds the first one's ledger on its source."""
    mark = secrets.token_hex(3)
    a, b = f"left{mark}", f"right{mark}"
    topic = f"looped-{mark}"
    create_topics(clusters[0], {topic: (1, {})})
    produce(clusters[0], topic, 0, numbered(5))
    named = dict(zip((a, b), clusters, strict=False))
    with live_mirror(written(named, [f"{a}->{b}"], topic, replication__policy__class=IDENTITY)) as first:
        await_count(clusters[1], topic, 5, WAIT_S)
        outcome = run_once(written(named, [f"{b}->{a}"], topic, replication__policy__class=IDENTITY))
        assert outcome.status == 2, outcome.output
        assert f"{a}->{b} copies {topic} the other way" in outcome.output
        assert java_count(clusters[0], topic) == 5
        assert first.stop().status == 0
