"""What a PATCH of offsets asks of a flow: the next upstream offset of each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.model import TopicPartition
from sparkmirror.positions import Alteration
from sparkmirror.rest.connectors import MirrorConnector

FIELDS = {"cluster", "topic", "partition"}


class NoSuchPartition(Exception):
    """An offset for what the flow does not copy."""


def next_offsets(entries: Sequence[Alteration], part: MirrorConnector) -> dict[TopicPartition, int | None]:
    """By partition, None for the beginning; of a partition that is named twice the last entry counts.

    Null for what has no position changes nothing. An offset for it raises NoSuchPartition, where MirrorMaker 2 keeps it and
    never reads it. A partition with more fields than these three is another one, to MirrorMaker 2 as well.
    """
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in entries:
        place = _place(partition, part)
        if place is not None:
            found[place] = None if offset is None else int(str(offset["offset"])) + 1
        elif offset is not None:
            raise NoSuchPartition(_named(partition or {}, part))
    return found


def _place(partition: Mapping[str, object] | None, part: MirrorConnector) -> TopicPartition | None:
    named = partition or {}
    topic, number = named.get("topic"), named.get("partition")
    if named.keys() != FIELDS or named["cluster"] != part.flow.source:
        return None
    if not isinstance(topic, str) or type(number) is not int:
        return None
    place = TopicPartition(topic, number)
    return place if place in part.partitions else None


def _named(partition: Mapping[str, object], part: MirrorConnector) -> str:
    more = sorted(partition.keys() - FIELDS)
    if more:
        return f"expected a partition of cluster, topic and partition alone, found {more[0]}, too: nothing was changed"
    cluster, topic, number = (partition.get(name) for name in ("cluster", "topic", "partition"))
    if cluster != part.flow.source:
        return f"expected cluster {part.flow.source}, the source of {part.flow}, found {cluster}: nothing was changed"
    return f"{part.flow} does not copy {topic}-{number}: nothing was changed"
