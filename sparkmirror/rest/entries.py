"""What a PATCH of offsets asks of a flow: the next upstream offset of each partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkmirror.model import TopicPartition
from sparkmirror.positions import Alteration
from sparkmirror.rest.connectors import MirrorConnector


class NoSuchPartition(Exception):
    """An offset for what the flow does not copy."""


def next_offsets(entries: Sequence[Alteration], part: MirrorConnector) -> dict[TopicPartition, int | None]:
    """By partition, None for the beginning; of a partition that is named twice the last entry counts.

    Null for what has no position changes nothing; an offset for it raises NoSuchPartition, where MirrorMaker 2 keeps it and
    never reads it.
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
    if named.get("cluster") != part.flow.source or not isinstance(topic, str) or type(number) is not int:
        return None
    place = TopicPartition(topic, number)
    return place if place in part.partitions else None


def _named(partition: Mapping[str, object], part: MirrorConnector) -> str:
    cluster, topic, number = (partition.get(name) for name in ("cluster", "topic", "partition"))
    if cluster != part.flow.source:
        return f"expected cluster {part.flow.source}, the source of {part.flow}, found {cluster}"
    return f"{part.flow} does not copy {topic}-{number}: nothing was changed"
