"""Where on the source a record of the target should lie, by sparkmirror's exact map and by MirrorMaker 2's syncs. Pure."""

from __future__ import annotations

from bisect import bisect_right

from sparkmirror.ledger import Run
from sparkmirror.offsets import OffsetMap, SyncHistory
from sparkmirror.offsets.proof.values import OffsetBounds


class UpstreamMap:
    """Downstream to upstream, of one partition; what the ledger does not cover is guessed by the syncs around it."""

    def __init__(self, offset_map: OffsetMap | None, syncs: SyncHistory | None) -> None:
        runs = [] if offset_map is None else sorted(offset_map.runs(), key=lambda run: run.downstream)
        self._runs: list[Run] = runs
        self._run_starts = [run.downstream for run in runs]
        kept = [] if syncs is None else [sync for sync in syncs.kept if sync.upstream_offset >= 0]
        self._syncs = sorted((sync.downstream_offset, sync.upstream_offset) for sync in kept)

    def bounds(self, downstream: int) -> OffsetBounds | None:
        """Where the record at a downstream offset comes from; None if nothing is known at or before it."""
        index = bisect_right(self._run_starts, downstream) - 1
        if index >= 0:
            run = self._runs[index]
            behind = downstream - run.downstream
            if behind < run.length:
                return OffsetBounds(run.upstream + behind, run.upstream + behind, None)
        return self._by_syncs(downstream)

    def resumed(self, downstream: int) -> tuple[int, bool] | None:
        """Where on the source a reader at a downstream offset resumes by the ledger alone, and whether that is exact.

        None before the first run. Between two runs lies a marker of a fence, or what MM2 copied: then records may be read
        again from the end of the run before.
        """
        index = bisect_right(self._run_starts, downstream) - 1
        if index < 0:
            return None
        run = self._runs[index]
        behind = downstream - run.downstream
        if behind < run.length:
            return run.upstream + behind, True
        is_marker = index + 1 < len(self._runs) and self._run_starts[index + 1] - run.downstream - run.length == 1
        return run.end, behind == run.length or is_marker

    def _by_syncs(self, downstream: int) -> OffsetBounds | None:
        index = bisect_right(self._syncs, (downstream, 1 << 63)) - 1
        if index < 0:
            return None
        at, upstream = self._syncs[index]
        following = self._syncs[index + 1][1] if index + 1 < len(self._syncs) else None
        high = following + 1 if following is not None and following > upstream else None
        # Holes of the source lie between, never on the target: the record is where the difference says, or later.
        return OffsetBounds(upstream, upstream + downstream - at, high)
