"""Where the source ends: asked every few seconds for what is shown, and written to the ledger for those who cannot ask it.

The end is the one that the flow copies up to: the high watermark, with isolation.level = read_committed the last stable
offset.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from sparkmirror.clusters import LATEST, NEWEST, Listed, ask_leaders, is_right_missing
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.errors import BrokerTooOld, ClusterUnreachable, ConnectionLost
from sparkmirror.ledger import CHUNK, PartitionEnd, SourceEnds, encode, removed
from sparkmirror.model import TopicPartition
from sparkmirror.wire.error_codes import UNKNOWN_TOPIC_OR_PARTITION

LOOK_S = 2.0
LOOKS_PER_S = 400  # asking for the ends of 2 000 partitions takes 30 ms of CPU
# Bounds what a flow of thousands of busy partitions writes; its receipts, one a second each, are fifty times as much.
RECORD_BYTES_PER_S = 4_000
UNKNOWN = -1
Chunk = tuple[str, int]


@dataclass(frozen=True, slots=True)
class SourceLook:
    """What the source said of the flow's topics at one moment; a partition whose leader did not answer has no end."""

    time_ms: int = UNKNOWN
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)
    leaders: Mapping[TopicPartition, int] = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)  # partitions of each topic
    gone: frozenset[str] = frozenset()  # topics that the source does not have
    is_whole: bool = False  # whether every leader answered
    next_s: float = LOOK_S  # until the next look


class SourceWatch:
    """The source's ends, as the driver of one flow sees them; `show` is given each look."""

    def __init__(self, context: FlowContext, show: Callable[[SourceLook], None] = lambda look: None) -> None:
        self._context, self._show = context, show
        self._newest = self._whole = SourceLook()
        self._record_due = 0.0

    # --- asking ------------------------------------------------------------------------------------------------

    @property
    def look_s(self) -> float:
        """How often to look."""
        return max(LOOK_S, len(self._context.status.partitions) / LOOKS_PER_S)

    def look(self) -> None:
        """Asks for all ends, also of idle partitions. A leader that does not answer hides only its own."""
        context, source = self._context, self._context.source
        view = source.view({p.topic for p in context.status.partitions} | selected_topics(context))
        found = [topic for topic in view.topics.values() if topic.error == 0]
        everything = [TopicPartition(topic.name, index) for topic in found for index in topic.leaders]
        leaders = {p: leader.node for p in everything if (leader := view.leader(p)) is not None}
        now_ms = int(time.time() * 1000)
        listed = ask_leaders(source, leaders, timestamp=LATEST, read_committed=context.read_committed)
        self._newest = look = SourceLook(
            time_ms=now_ms,
            ends={p: answer.offset for p, answer in listed.items() if not answer.error},
            leaders=leaders,
            topic_ids={topic.name: topic.topic_id.hex() for topic in found},
            counts={topic.name: topic.partitions for topic in found},
            gone=frozenset(t.name for t in view.topics.values() if t.error == UNKNOWN_TOPIC_OR_PARTITION),
            # Without the right nobody ever hears of a partition; the ends of the others are as good.
            is_whole=all(p in listed and (not listed[p].error or is_right_missing(listed[p].error)) for p in leaders),
            next_s=self.look_s,
        )
        if look.is_whole:
            self._whole = look
        self._show(look)
        for partition, answer in listed.items():
            if is_right_missing(answer.error):
                source.check(answer.error, f"offsets of {partition}", f"Describe on topic {partition.topic}")

    # --- writing -----------------------------------------------------------------------------------------------

    def record(self) -> None:
        """Writes what changed since the last record; the owner's next beat says until when that was all there was."""
        context, now = self._context, time.monotonic()
        if self._whole.time_ms <= context.source_seen_ms or now < self._record_due:
            return
        view, seen_ms, selected = context.ledger.view, self._whole.time_ms, selected_topics(context)
        past = {_chunk(p) for p in view.source_ends if p.topic not in selected or p.partition >= self._count(p.topic)}
        records = self._changed(selected)
        gone = [removed("ends", *chunk) for chunk in sorted(past - {(r.topic, r.chunk) for r in records})]
        context.ledger.append(records)
        context.ledger.remove(gone)
        for record in records:
            view.apply(record)
        for key, _ in gone:
            view.read(key, None)
        context.source_seen_ms = seen_ms
        self._record_due = now + sum(len(value) for _, value in map(encode, records)) / RECORD_BYTES_PER_S

    def _count(self, topic: str) -> int:
        return self._newest.counts.get(topic, 1 << 31)  # one that was not seen in this look keeps what was written of it

    def _changed(self, selected: Collection[str]) -> list[SourceEnds]:
        known, look, ids = self._context.ledger.view.source_ends, self._newest, self._newest.topic_ids
        ends = {p: end for p, end in look.ends.items() if p.topic in selected}
        told = {p: seen for p, seen in known.items() if seen.source_topic_id == ids.get(p.topic)}
        changed = [p for p, end in ends.items() if p not in told or told[p].end != end]
        newest = self._newest_timestamps(changed)
        records = []
        for topic, number in sorted({_chunk(p) for p in changed}):
            chunk = []
            for index in range(number * CHUNK, min((number + 1) * CHUNK, look.counts[topic])):
                partition = TopicPartition(topic, index)
                if partition in newest:
                    chunk.append(PartitionEnd(index, ends[partition], newest[partition]))
                elif partition in told:
                    chunk.append(PartitionEnd(index, told[partition].end, told[partition].newest_timestamp))
            records.append(SourceEnds(topic, number, look.time_ms, ids[topic], tuple(chunk)))
        return records

    def _newest_timestamps(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The newest timestamp in each, −1 if the source does not say (KIP-734). Its ends count without them, too."""
        leaders = {p: self._newest.leaders[p] for p in partitions}
        listed: dict[TopicPartition, Listed] = {}
        with suppress(BrokerTooOld, ClusterUnreachable, ConnectionLost):
            committed = self._context.read_committed
            listed = ask_leaders(self._context.source, leaders, timestamp=NEWEST, read_committed=committed)
        return {p: listed[p].timestamp if p in listed and not listed[p].error else UNKNOWN for p in partitions}


def selected_topics(context: FlowContext) -> set[str]:
    """The topics that the flow copies, or would if they were not stopped."""
    return context.topics.keys() | context.status.stopped_topics.keys()


def _chunk(partition: TopicPartition) -> Chunk:
    return partition.topic, partition.partition // CHUNK
