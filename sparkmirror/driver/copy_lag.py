"""Shows how far each partition is behind, whether it is copied, stopped, of a topic that is stopped, or never was copied."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sparkmirror.clusters import EARLIEST, ask_leaders, read_timestamp
from sparkmirror.config.parsing import parse_reset
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.source_ends import SourceLook, selected_topics
from sparkmirror.errors import ClusterUnreachable, ConnectionLost, CorruptBatch
from sparkmirror.ledger import Open
from sparkmirror.model import TopicPartition
from sparkmirror.status.end_history import ReadTimestamp
from sparkmirror.status.flow_status import PartitionStatus
from sparkmirror.status.state_code import StateCode
from sparkmirror.topology import policy_for

# Batches that are read for their timestamps, of backlogs that were there before this process; each may be some MB.
READS_PER_LOOK = 10
SLACK_S = 3.0
_IDLE_STATES = ("stopped", "waiting", "recovering", "paused")


class CopyLag:
    """The lag in the status of one flow. `stored_position` is where MirrorMaker 2 would go on with a partition."""

    def __init__(self, context: FlowContext, stored_position: Callable[[TopicPartition], int | None]) -> None:
        self._context, self._stored_position = context, stored_position
        self._policy = policy_for(context.flow)
        self._reads = 0

    def show(self, look: SourceLook) -> None:
        """Takes one look at the source."""
        status = self._context.status
        self._show_topics(look)
        self._find_positions(look)
        for partition, shown in status.partitions.items():
            if partition in look.ends and shown.state != "closed":
                end = look.ends[partition]
                shown.source_end, shown.end_seen_ms = end, look.time_ms
                shown.ends = shown.ends.seen(look.time_ms, end, shown.next_upstream)
        status.fresh_ms = round((look.next_s + SLACK_S) * 1000)
        status.source_seen_ms = look.time_ms
        self._read_timestamps(look)

    def _show_topics(self, look: SourceLook) -> None:
        """Partitions of stopped topics are stopped; those of topics that are no more have nothing left to copy."""
        context, partitions = self._context, self._context.status.partitions
        stopped, selected = context.status.stopped_topics, selected_topics(context)
        alias = context.flow.name.source
        context.status.stopped_remotes = {topic: self._policy.format_remote_topic(alias, topic) for topic in stopped}
        for topic, reason in stopped.items():
            for index in range(look.counts.get(topic, 0)):
                partition = TopicPartition(topic, index)
                shown = partitions.setdefault(partition, PartitionStatus(partition, "stopped", StateCode.TOPIC))
                if shown.code == StateCode.TOPIC:
                    shown.reason = reason
        for partition, shown in list(partitions.items()):
            shown.is_gone = partition.topic in look.gone and partition.topic not in selected
            if shown.code != StateCode.TOPIC or partition.topic in stopped:
                continue
            if partition.topic in selected:
                context.show(partition, "opening")
            else:
                del partitions[partition]

    # --- positions -----------------------------------------------------------------------------------------------

    def _find_positions(self, look: SourceLook) -> None:
        """Where the copy of what is not copied now goes on; of what no attempt that counts has copied: at its log start."""
        context, partitions = self._context, self._context.status.partitions
        unplaced: list[TopicPartition] = []
        for partition, shown in partitions.items():
            if partition not in look.ends or (shown.next_upstream >= 0 and shown.state not in _IDLE_STATES):
                continue
            history = context.ledger.view.partitions.get(partition)
            newest, position = (history.newest, history.position()) if history is not None else (None, None)
            if newest is None or position is None:
                shown.next_upstream = self._first_position(partition)
                unplaced += [partition] * (shown.next_upstream < 0 and self._is_copied_from_the_start())
            elif self._is_same_incarnation(newest, look):
                shown.next_upstream = position.upstream
            else:
                unplaced.append(partition)
        leaders = {p: look.leaders[p] for p in unplaced}
        for partition, start in ask_leaders(context.source, leaders, timestamp=EARLIEST).items():
            if not start.error:
                partitions[partition].next_upstream = start.offset

    def _first_position(self, partition: TopicPartition) -> int:
        stored = self._stored_position(partition)
        return -1 if stored is None else stored

    def _is_copied_from_the_start(self) -> bool:
        """Whether all of a partition that nobody ever copied is to be copied, as far as the settings say."""
        return parse_reset(self._context.flow.consumer.get("auto.offset.reset", "earliest")) in ("earliest", "none")

    def _is_same_incarnation(self, order: Open, look: SourceLook) -> bool:
        """Whether what the order copied is in the topics that are there now."""
        topic = self._context.topics.get(order.partition.topic)
        is_source = order.source_topic_id == look.topic_ids[order.partition.topic]
        target = (order.target_topic, order.target_topic_id)
        return is_source and (topic is None or target == (topic.remote, topic.target_topic_id))

    # --- ages ----------------------------------------------------------------------------------------------------

    def _read_timestamps(self, look: SourceLook) -> None:
        """Reads the next record of partitions that were behind before this process saw them; a few each time."""
        wanted = [shown for shown in self._context.status.partitions.values() if self._needs_read(shown, look)]
        start = self._reads % max(len(wanted), 1)
        for shown in (*wanted[start:], *wanted[:start])[:READS_PER_LOOK]:
            self._reads += 1
            try:
                found = self._read(shown.partition, shown.next_upstream, look)
            except (ClusterUnreachable, ConnectionLost):
                return  # its age stays unknown until the leader answers
            shown.ends = replace(shown.ends, read=ReadTimestamp(shown.next_upstream, found))

    def _needs_read(self, shown: PartitionStatus, look: SourceLook) -> bool:
        at, ends = shown.next_upstream, shown.ends
        if not shown.lag or ends.covers(at) or shown.partition not in look.leaders:
            return False
        if ends.read is not None and ends.read.offset == at:
            return False
        # While a backlog is copied, its copied records say it well enough.
        return shown.state in _IDLE_STATES or ends.oldest_ms(at, shown.newest_timestamp, look.time_ms) is None

    def _read(self, partition: TopicPartition, offset: int, look: SourceLook) -> int:
        source, node = self._context.source, look.leaders[partition]
        try:
            found = read_timestamp(source, node, partition, offset)
            if found < 0:  # what came next may be deleted: the oldest that is there
                start = ask_leaders(source, {partition: node}, timestamp=EARLIEST)[partition]
                found = read_timestamp(source, node, partition, start.offset) if start.offset > offset else found
        except CorruptBatch:
            return -1
        return found
