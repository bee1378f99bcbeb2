"""Where a record of one log lies in another, found by what it and its neighbours hold: MirrorMaker 2 wrote it nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient
from sparkmirror.model import TopicPartition
from sparkmirror.verification.reading import LogStream
from sparkmirror.wire import Row, read_rows

AGREE = 4  # records in a row that must be the same
# How far around the expected place is searched: first near it, then where holes of compaction or markers may have moved it.
DISTANCES = (500, 20_000)


@dataclass(frozen=True, slots=True)
class Log:
    """One partition, as far as it is read: from `first` up to `end`, the latter not included."""

    client: ClusterClient
    partition: TopicPartition
    first: int
    end: int
    read_committed: bool

    def rows(self, start: int, end: int) -> Iterator[Row]:
        """The records at offsets of a range that a reader gets."""
        start, end = max(start, self.first), min(end, self.end)
        with closing(LogStream(self.client, self.partition, start, end, read_committed=self.read_committed)) as stream:
            for piece in stream:
                if piece.kind == "data":
                    yield from (row for row in read_rows(piece.batch) if start <= row[0] < end)

    def some(self, start: int, count: int) -> list[Row]:
        """The first records from an offset on."""
        found: list[Row] = []
        for row in self.rows(start, self.end):
            found.append(row)
            if len(found) == count:
                break
        return found


def find_place(wanted: list[Row], log: Log, guess: int) -> int | None:
    """The offset in `log` where the same records begin, the nearest to `guess`; None if they are not around there.

    A time is not compared: a target may set its own.
    """
    contents = [row[2] for row in wanted]
    if len(contents) < AGREE:
        return None
    for distance in DISTANCES:
        rows = list(log.rows(guess - distance, guess + distance + len(contents)))
        tails = [row[2] for row in rows]
        found = [
            rows[at][0]
            for at, tail in enumerate(tails)
            if tail == contents[0] and tails[at : at + len(contents)] == contents
        ]
        if found:
            return min(found, key=lambda offset: abs(offset - guess))
    return None
