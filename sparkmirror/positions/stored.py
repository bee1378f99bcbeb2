"""MirrorMaker 2's positions, read to be changed: to the end of finished transactions, with the ends that were seen."""

from __future__ import annotations

from collections.abc import Collection

from sparkmirror.clusters import (
    EARLIEST,
    LATEST,
    ClusterClient,
    TopicView,
    describe_topic_configs,
    list_offsets,
    read_range,
)
from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition
from sparkmirror.state import PositionTable
from sparkmirror.wire import read_records
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION


def read_stored(client: ClusterClient, topics: Collection[str], *, connector: str, alias: str) -> PositionTable:
    """The newest record of every key in every partition; raises MoveRefused for a topic that is not there."""
    found = PositionTable(alias, connector)
    present = present_topics(client, topics)
    for topic in topics:
        there = present.get(topic)
        if there is None:
            raise MoveRefused(
                f"cluster {client.alias} has no topic {topic}, where MirrorMaker 2 would keep its positions",
                hint="give --offsets-topic, the worker's offset.storage.topic",
            )
        found.sizes[topic] = there.partitions
    places = [TopicPartition(topic, index) for topic, size in found.sizes.items() for index in range(size)]
    firsts = list_offsets(client, places, timestamp=EARLIEST)
    found.ends = committed_ends(client, places)
    for place in places:
        # Workers with exactly-once support write in transactions: what they aborted is no position.
        for batch in read_range(
            client, place, firsts[place][0], found.ends[place], read_committed=True, is_whole=False
        ):
            for record in read_records(batch):
                found.take(place, record)
    return found


def present_topics(client: ClusterClient, topics: Collection[str]) -> dict[str, TopicView]:
    """Those of these topics that exist; raises BrokerRefused for one that cannot be described, since it may exist."""

    def look() -> dict[str, TopicView]:
        found = client.view(topics).topics
        for name, topic in found.items():
            if topic.error != UNKNOWN_TOPIC_OR_PARTITION:
                client.check(topic.error, f"topic {name}", f"Describe on topic {name}")
        return {name: topic for name, topic in found.items() if not topic.error}

    return client.retry(look)


def committed_ends(client: ClusterClient, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
    """Where the finished records of each partition end."""
    return {p: end for p, (end, _) in list_offsets(client, places, timestamp=LATEST, read_committed=True).items()}


def require_compacted(client: ClusterClient, topics: Collection[str]) -> None:
    """Raises MoveRefused unless the topics are compacted and nothing else: workers refuse to start on others."""
    for topic, entries in describe_topic_configs(client, topics).items():
        policy = next((entry.value for entry in entries if entry.name == "cleanup.policy"), None)
        if policy != "compact":
            raise MoveRefused(
                f"topic {topic} on {client.alias} has cleanup.policy={policy}, expected compact: "
                "positions in it do not stay, and Connect workers do not start on it",
                hint=f"kafka-configs --alter --topic {topic} --add-config cleanup.policy=compact",
            )
