"""Which partitions are read, and from where to where: resolved on the driver, against the cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from sparkmirror.clusters import EARLIEST as EARLIEST_TIME
from sparkmirror.clusters import LATEST as LATEST_TIME
from sparkmirror.clusters import ClusterClient, list_offsets, read_raw
from sparkmirror.datasource.options import LATEST, OffsetEdge, ReadOptions
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import TopicPartition

Offsets = dict[TopicPartition, int]


def partitions_of(client: ClusterClient, options: ReadOptions) -> list[TopicPartition]:
    """Every partition of the topics that are named or fit the pattern; a named topic that is not there is an error."""
    view = client.view(options.topics or None)
    if options.pattern:
        fits = re.compile(options.pattern)
        wanted = [name for name, t in view.topics.items() if not t.is_internal and not t.error and fits.fullmatch(name)]
    else:
        wanted = list(options.topics)
        missing = [name for name in wanted if name not in view.topics or view.topics[name].error]
        if missing:
            text = f"cluster {client.alias} has no topic {', '.join(missing)}, or {client.who} may not describe it"
            raise ConfigInvalid("kafka-records", [f"subscribe: {text}"])
    return [TopicPartition(name, index) for name in sorted(wanted) for index in sorted(view.topics[name].leaders)]


def resolve(
    client: ClusterClient, edge: OffsetEdge, partitions: Sequence[TopicPartition], *, read_committed: bool, default: str
) -> Offsets:
    """The offset of each partition at an edge; partitions that explicit offsets leave out are at `default`."""
    ends = _look(client, partitions, LATEST_TIME, read_committed)
    if edge.timestamp is not None:
        # Partitions without a record that late are at their end.
        found = _look(client, partitions, edge.timestamp, read_committed)
        return {p: ends[p] if offset < 0 else min(offset, ends[p]) for p, offset in found.items()}
    if edge.word == LATEST:
        return ends
    starts = _look(client, partitions, EARLIEST_TIME, read_committed)
    if not edge.offsets:
        return starts
    given = dict(edge.offsets)
    strange = sorted(given.keys() - set(partitions))
    if strange:
        raise ConfigInvalid("kafka-records", [f"offsets of {', '.join(map(str, strange))}, which are not read"])
    fallback = ends if default == LATEST else starts
    words = {-1: ends, -2: starts}
    return {p: words[given[p]][p] if given.get(p, 0) < 0 else given.get(p, fallback[p]) for p in partitions}


def _look(client: ClusterClient, partitions: Sequence[TopicPartition], timestamp: int, read_committed: bool) -> Offsets:
    found = list_offsets(client, partitions, timestamp=timestamp, read_committed=read_committed)
    return {partition: offset for partition, (offset, _) in found.items()}


def bytes_per_offset(client: ClusterClient, partition: TopicPartition, offset: int) -> float:
    """How many bytes an offset takes here, by one look at what lies at `offset`."""
    batches = read_raw(client, partition, offset).batches
    if not batches:
        return 1.0
    return max(sum(batch.size for batch in batches) / (batches[-1].last_offset - batches[0].base_offset + 1), 1.0)


def admit(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    limit: int | None,
    weights: Mapping[TopicPartition, float] | None = None,
) -> Offsets:
    """How far a batch of at most so many offsets goes, or bytes if `weights` gives each partition's bytes per offset.

    Every partition gets its share of what is behind; one offset is admitted however small the limit.
    """
    behind = {partition: max(offset - start.get(partition, 0), 0) for partition, offset in end.items()}
    weight = {partition: (weights or {}).get(partition, 1.0) for partition in end}
    total = sum(lag * weight[partition] for partition, lag in behind.items())
    if limit is None or total <= limit:
        return dict(end)
    admitted = {p: start.get(p, 0) + int(lag * limit / total) for p, lag in behind.items()}
    if all(admitted[p] == start.get(p, 0) for p in end):
        largest = max(behind, key=lambda p: behind[p])
        admitted[largest] += 1
    return admitted
