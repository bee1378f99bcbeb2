"""Taking over from MirrorMaker 2: its positions, its last offset syncs, and a walk along both logs where it was killed.

MM2 stores a position each 60 s, so a killed one has written records past it. Its last sync names a record on both sides;
from there both logs are walked record by record to the target's end, and copying starts after the last match (D11).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from functools import partial
from typing import Any

from sparkmirror.clusters import EARLIEST, ClusterClient, list_offsets, partition_ends, read_raw
from sparkmirror.errors import ReplicationError
from sparkmirror.ledger import (
    AskEnds,
    AskPause,
    AskSource,
    AskTarget,
    Baseline,
    Ends,
    Found,
    Position,
    Run,
    SourceChunk,
    find_out,
)
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.status.flow_status import MirroredTopic

# Of each log at a time. Several partitions are compared at once, and what the driver holds of them all is its peak, of which
# something stays: with 4 MB two more after each recovery.
READ_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Inherited:
    """Where copying starts after MM2, which pairs were seen on the way, and what the user should know."""

    position: Position
    runs: tuple[Run, ...]
    note: str


class BlockingFinder:
    """Runs the pure recovery generators on the driver."""

    def __init__(self, source: ClusterClient, target: ClusterClient, sleep: Any) -> None:
        self._source = source
        self._target = target
        self._sleep = sleep

    def run(
        self, asking: Generator[Any, Any, Any], partition: TopicPartition, target: TopicPartition, *, read_committed: bool
    ) -> Any:
        """Drives `asking` to its end."""
        answer: Any = None
        while True:
            try:
                ask = asking.send(answer)
            except StopIteration as end:
                return end.value
            match ask:
                case AskPause(seconds):
                    self._sleep(seconds)
                    answer = None
                case AskEnds():
                    answer = Ends(*partition_ends(self._target, target))
                case AskTarget(offset):
                    answer = read_raw(self._target, target, offset, bytes_max=READ_BYTES).batches
                case AskSource(offset):
                    answer = self._read_source(partition, offset, read_committed=read_committed)

    def _read_source(self, partition: TopicPartition, offset: int, *, read_committed: bool) -> SourceChunk:
        read_from = partial(read_raw, self._source, partition, read_committed=read_committed, bytes_max=READ_BYTES)
        read = read_from(offset)
        log_start = read.log_start
        if log_start < 0:  # out of range: the answer tells nothing of the log, not even where it begins
            log_start = list_offsets(self._source, [partition], timestamp=EARLIEST)[partition][0]
            if log_start > offset:
                read = read_from(log_start)
        return SourceChunk(read.batches, (read.aborted or []) if read_committed else None, log_start)


def walk_from_sync(
    finder: BlockingFinder,
    topic: MirroredTopic,
    partition: TopicPartition,
    sync: OffsetSync | None,
    *,
    stored: int | None,
    read_committed: bool,
) -> Inherited:
    """Where to start on a partition that MM2 wrote: after the last target record that is a source record."""
    target = TopicPartition(topic.remote, partition.partition)
    if sync is not None:
        base = Baseline(
            partition=partition,
            target=target,
            position=Position(sync.upstream_offset, sync.downstream_offset, 0),
            producer_ids=None,
            sequenced_by=None,
            shared=False,
            source_compacts=topic.source_compacts,
            target_compacts=topic.target_compacts,
            compare_timestamps=not topic.target_log_append_time,
        )
        try:
            found = finder.run(find_out(base), partition, target, read_committed=read_committed)
            if isinstance(found, Found) and found.position.upstream > (stored if stored is not None else -1):
                return Inherited(found.position._replace(sequence=0), tuple(found.runs), "")
        except ReplicationError as error:
            note = f"{partition}: MM2's tail could not be matched ({error.message})"
        else:
            note = f"{partition}: MM2's last sync is not where its log ends"
    else:
        note = f"{partition}: MM2 left no offset sync"
    end = settled_end(finder, partition, target)
    start = stored + 1 if stored is not None else 0
    return Inherited(
        Position(start, end, 0),
        (),
        f"{note}; copying starts at upstream offset {start}, records MM2 wrote after that are written again",
    )


def settled_end(finder: BlockingFinder, partition: TopicPartition, target: TopicPartition) -> int:
    """Where the target's log ends, once its followers have everything (R1)."""
    return int(finder.run(_end(), partition, target, read_committed=False))


def _end() -> Generator[Any, Any, int]:
    while True:
        ends = yield AskEnds()
        if ends.high_watermark == ends.log_end:
            return int(ends.log_end)
        yield AskPause(0.05)
