"""What the target positions of rows are worth: by their records, or without reading any by the mirror's own notes."""

from __future__ import annotations

from collections.abc import Sequence

from sparkmirror.clusters import describe_topic_configs
from sparkmirror.diagnose.group_position import RowFacts
from sparkmirror.errors import ClusterError
from sparkmirror.model import Side, TopicPartition
from sparkmirror.offsets import Basis, Translation
from sparkmirror.offsets.proof import Pair, Proof, WalkLimits, by_ledger, by_position, prove
from sparkmirror.state import CopyPosition, FlowState, copy_position
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.proof_runner import run_all

Positions = tuple[TopicPartition, TopicPartition, int, int]  # partitions and positions on both sides


class PositionWorth:
    """Proofs for rows of one flow. Rows with the same positions share one. Close it."""

    def __init__(self, state: FlowState, limits: WalkLimits | None) -> None:
        self.reads_records = limits is not None
        self._state, self._flow, self._limits = state, state.flow, limits
        self._logs = FlowLogs(state)
        self._copies: dict[TopicPartition, CopyPosition | None] = {}
        self._compacts: dict[tuple[Side, str], bool] = {}

    def close(self) -> None:
        """Drops the connections."""
        self._logs.close()

    @property
    def forbidden(self) -> set[tuple[Side, str]]:
        """Topics that we may not read."""
        return self._logs.forbidden

    def of(self, rows: Sequence[RowFacts]) -> list[Proof | None]:
        """What each row's position is worth; None where it has none, or nothing could be said without reading."""
        keys = [self._key(row) for row in rows]
        wanted = {key: row for key, row in zip(keys, rows, strict=True) if key is not None}
        found = self._estimated(wanted) if self._limits is None else self._proven(wanted, self._limits)
        return [None if key is None else found.get(key) for key in keys]

    def copy(self, partition: TopicPartition) -> CopyPosition | None:
        """How far the copy of a partition has come."""
        if partition not in self._copies:
            self._copies[partition] = copy_position(self._state, partition)
        return self._copies[partition]

    def translation(self, row: RowFacts) -> Translation | None:
        """Where the mirror's own notes put the source position; None if they do not reach back to it."""
        return None if row.source_offset is None else self._logs.translation(row.source, row.target, row.source_offset)

    def by_checkpoint(self, row: RowFacts) -> Proof | None:
        """What the target position is worth as of the group's checkpoint, for a source that cannot be read."""
        point, at = row.checkpoint, row.target_offset
        if point is None or at is None:
            return None
        exact = self._logs.translation(row.source, row.target, point.upstream_offset)
        proof = None if exact is None else by_ledger(point.upstream_offset, at, exact)
        return proof or by_ledger(point.upstream_offset, at, Translation(point.downstream_offset, Basis.EXACT))

    def _key(self, row: RowFacts) -> Positions | None:
        """The positions that are compared: with the commit, or with the checkpoint where commits are not synced."""
        at = row.target_offset
        if row.source_offset is None or row.source_ends is None:
            return None
        if at is None and not self._flow.sync_group_offsets_enabled:
            checkpoint = self._state.checkpoints().last.at(row.group, row.target)
            at = None if checkpoint is None else checkpoint.downstream
        return None if at is None or row.target_ends is None else (row.source, row.target, row.source_offset, at)

    # --- by records ----------------------------------------------------------------------------------------------

    def _proven(
        self, wanted: dict[Positions, RowFacts], limits: WalkLimits
    ) -> dict[Positions, Proof]:
        self._learn_compaction("source", {row.source.topic for row in wanted.values()})
        self._learn_compaction("target", {row.target.topic for row in wanted.values()})
        askings = [((row.source, row.target), prove(self._pair(row, key[3]))) for key, row in wanted.items()]
        return dict(zip(wanted, run_all(askings, self._logs.open(limits)), strict=True))

    def _pair(self, row: RowFacts, downstream: int) -> Pair:
        assert row.target_ends is not None and row.source_ends is not None and row.source_offset is not None
        return Pair(
            source=row.source,
            target=row.target,
            upstream=row.source_offset,
            downstream=downstream,
            source_first=row.source_ends.first,
            source_end=row.source_ends.end,
            target_first=row.target_ends.first,
            target_end=row.target_ends.end,
            bounds=self._logs.upstream_map(row.source, row.target).bounds,
            is_compacted=self._compacts["source", row.source.topic] or self._compacts["target", row.target.topic],
        )

    def _learn_compaction(self, side: Side, topics: set[str]) -> None:
        new = [topic for topic in topics if (side, topic) not in self._compacts]
        try:
            configs = describe_topic_configs(self._state.clients[side], new)
        except ClusterError:
            configs = {}  # without the right to see settings, a log counts as not compacted
        for topic in new:
            policies = [entry.value or "" for entry in configs.get(topic, []) if entry.name == "cleanup.policy"]
            self._compacts[side, topic] = any("compact" in policy for policy in policies)

    # --- without reading -----------------------------------------------------------------------------------------

    def _estimated(
        self, wanted: dict[Positions, RowFacts]
    ) -> dict[Positions, Proof]:
        found = {key: self._estimate(row, key[3]) for key, row in wanted.items()}
        return {key: proof for key, proof in found.items() if proof is not None}

    def _estimate(self, row: RowFacts, downstream: int) -> Proof | None:
        expected, ends = self.translation(row), row.target_ends
        assert row.source_offset is not None and row.source_ends is not None  # `_key` has looked
        proof = None if expected is None else by_ledger(row.source_offset, downstream, expected)
        copy = self.copy(row.source)
        if proof is not None or copy is None or ends is None:
            return proof
        return by_position(
            row.source_offset,
            downstream,
            next_upstream=copy.next_upstream_offset,
            source_end=row.source_ends.end,
            target_end=ends.end,
        )
