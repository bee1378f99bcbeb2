"""A flow's maps and readers as the record proof wants them: where records should lie, and the logs of both sides."""

from __future__ import annotations

from sparkmirror.model import Side, TopicPartition
from sparkmirror.offsets import OffsetMap, Translation
from sparkmirror.offsets.proof import UpstreamMap, WalkLimits
from sparkmirror.state import FlowState, LedgerTable
from sparkmirror.state.record_reader import RecordReader


class FlowLogs:
    """One flow. Maps are made when they are asked for, connections when they are needed. Close it."""

    def __init__(self, state: FlowState) -> None:
        self._state = state
        self._readers: dict[Side, RecordReader] = {}
        self._maps: dict[tuple[TopicPartition, str], UpstreamMap] = {}

    def close(self) -> None:
        """Drops the connections."""
        for reader in self._readers.values():
            reader.close()

    def open(self, limits: WalkLimits) -> dict[Side, RecordReader]:
        """Both sides with the isolation of the flow: what the mirror does not copy, or aborted, is not read."""
        if not self._readers:
            clients, flow = self._state.clients, self._state.flow
            self._readers = {
                "source": RecordReader(clients["source"], limits, read_committed=flow.reads_committed),
                "target": RecordReader(clients["target"], limits, read_committed=flow.writes_transactions),
            }
        return self._readers

    @property
    def forbidden(self) -> set[tuple[Side, str]]:
        """Topics that we may not read."""
        return {(side, topic) for side, reader in self._readers.items() for topic in reader.forbidden}

    def upstream_map(self, source: TopicPartition, target: TopicPartition) -> UpstreamMap:
        """From offsets of the target to those of the source, exact or by syncs."""
        key = (source, target.topic)
        if key not in self._maps:
            self._maps[key] = UpstreamMap(self.exact_map(source, target), self._state.syncs().histories.of(source))
        return self._maps[key]

    def exact_map(self, source: TopicPartition, target: TopicPartition) -> OffsetMap | None:
        """The ledger's map, None if sparkmirror did not copy the partition to this topic."""
        return self._ledger.offset_map(source, target.topic)

    def resumed_upstream(self, source: TopicPartition, target: TopicPartition, offset: int) -> tuple[int, bool] | None:
        """Where the ledger puts a reader of the copy on the source, and whether that is exact; None if it has no copy."""
        end = self._ledger.copied(source, None, target.topic).end
        if end is not None and offset >= end.downstream:
            return end.upstream, offset == end.downstream
        return self.upstream_map(source, target).resumed(offset)

    def translation(self, source: TopicPartition, target: TopicPartition, offset: int) -> Translation | None:
        """Where ledger and syncs put a source position on the target; None if they do not reach back to it."""
        return self._ledger.translate(source, offset, self._state.syncs(), target.topic)

    @property
    def _ledger(self) -> LedgerTable:
        return self._state.ledger() or LedgerTable()
