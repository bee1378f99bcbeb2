"""A flow's maps and readers as the record proof wants them: where records should lie, and the logs of both sides."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.groups import Copied, Translation, translate
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap
from sparkmirror.tools.evidence import FlowEvidence, Side
from sparkmirror.tools.proof import RecordReader, UpstreamMap, WalkLimits

__all__ = ["FlowLogs", "is_read_committed", "open_readers"]

_NO_MAP = OffsetMap(())


def open_readers(
    flow: FlowSettings, clients: Mapping[Side, ClusterClient], limits: WalkLimits
) -> dict[Side, RecordReader]:
    """Readers of both sides, with the isolation of the flow: what the mirror does not copy, or aborted, is not read."""
    # With exactly-once support MirrorMaker 2 writes transactions, and what it aborted is no copy.
    is_transactional = flow.exactly_once_source_support == "enabled"
    return {
        "source": RecordReader(clients["source"], limits, read_committed=is_read_committed(flow)),
        "target": RecordReader(clients["target"], limits, read_committed=is_transactional),
    }


def is_read_committed(flow: FlowSettings) -> bool:
    """Whether the mirror copies committed records only."""
    return flow.consumer.get("isolation.level") == "read_committed"


class FlowLogs:
    """One flow. Maps are made when they are asked for, connections when they are needed. Close it."""

    def __init__(self, evidence: FlowEvidence) -> None:
        self._evidence = evidence
        self._readers: dict[Side, RecordReader] = {}
        self._maps: dict[tuple[TopicPartition, str], tuple[UpstreamMap, OffsetMap | None]] = {}

    def close(self) -> None:
        """Drops the connections."""
        for reader in self._readers.values():
            reader.close()

    def open(self, limits: WalkLimits) -> dict[Side, RecordReader]:
        """Both sides as the mirror sees them."""
        if not self._readers:
            self._readers = open_readers(self._evidence.flow, self._evidence.clients, limits)
        return self._readers

    @property
    def forbidden(self) -> set[tuple[Side, str]]:
        """Topics that we may not read."""
        return {(side, topic) for side, reader in self._readers.items() for topic in reader.forbidden}

    def upstream_map(self, source: TopicPartition, target: TopicPartition) -> UpstreamMap:
        """From offsets of the target to those of the source, exact or by syncs."""
        return self._map(source, target)[0]

    def exact_map(self, source: TopicPartition, target: TopicPartition) -> OffsetMap | None:
        """The ledger's map, None if sparkmirror did not copy the partition to this topic."""
        return self._map(source, target)[1]

    def _map(self, source: TopicPartition, target: TopicPartition) -> tuple[UpstreamMap, OffsetMap | None]:
        key = (source, target.topic)
        if key not in self._maps:
            ledger = self._evidence.ledger()
            history = ledger.view.partitions.get(source) if ledger is not None else None
            newest = history.newest if history is not None else None
            is_there = newest is not None and newest.target_topic == target.topic
            exact = OffsetMap.of_blocks(history.run_blocks()) if history is not None and is_there else None
            self._maps[key] = (UpstreamMap(exact, self._evidence.syncs().histories.of(source)), exact)
        return self._maps[key]

    def translation(self, source: TopicPartition, target: TopicPartition, offset: int) -> Translation | None:
        """Where the mirror's own notes put a source position; None if they do not reach back to it."""
        ledger, exact = self._evidence.ledger(), self.exact_map(source, target)
        history = ledger.view.partitions.get(source) if ledger is not None and exact is not None else None
        end = history.position() if history is not None else None
        syncs = self._evidence.syncs().histories.of(source)
        return translate(offset, Copied(end, _NO_MAP if exact is None else exact, syncs))
