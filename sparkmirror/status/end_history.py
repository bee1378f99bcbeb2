"""Since when a copy is behind: where its source partition ended at which time, no further back than the copy is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

POINTS_MAX = 32  # thinned, they reach back over a stop of days, and are dense where it is young


class SeenEnd(NamedTuple):
    """Where a source partition ended, and when that was seen first and last."""

    end: int
    first_ms: int
    last_ms: int


class ReadTimestamp(NamedTuple):
    """The timestamp of the source record at an offset, −1 if it has none."""

    offset: int
    timestamp: int


@dataclass(frozen=True, slots=True)
class EndHistory:
    """The ends of one partition, the oldest first.

    Invariant A: times do not fall, and ends grow. Invariant B: after a look, at most the first end lies at or below the
    copy's position.
    """

    points: tuple[SeenEnd, ...] = ()
    read: ReadTimestamp | None = None  # of a record that was there before the first look

    def seen(self, time_ms: int, end: int, copied: int) -> EndHistory:
        """The history after one more look, with the copy at upstream offset `copied`."""
        points, newest = self.points, SeenEnd(end, time_ms, time_ms)
        if copied >= end or (points and (end < points[-1].end or time_ms < points[-1].last_ms)):
            return EndHistory((newest,))  # nothing is behind; or it is another log, or a clock was set back
        points = points[max(self._passed(copied) - 1, 0) :]
        if points and points[-1].end == end:
            return EndHistory((*points[:-1], points[-1]._replace(last_ms=time_ms)), self.read)
        points = (*points, newest)
        return EndHistory(points if len(points) <= POINTS_MAX else _thinned(points), self.read)

    def covers(self, copied: int) -> bool:
        """Whether it reaches back to before the copy fell behind; else a record must be read to know since when."""
        return bool(self._passed(copied))

    def _passed(self, copied: int) -> int:
        return sum(point.end <= copied for point in self.points)

    def oldest_ms(self, copied: int, newest_copied_ms: int, now_ms: int) -> int | None:
        """When the oldest record that is not copied came into the log, or somewhat earlier; None if that is not known.

        `newest_copied_ms` is the timestamp of the newest copied record: where it can be true, the next one is not older.
        """
        points, passed = self.points, self._passed(copied)
        if not points:
            return None
        if passed:
            since = points[passed - 1].last_ms
            until = points[passed].first_ms if passed < len(points) else now_ms
            return newest_copied_ms if since <= newest_copied_ms <= until else since
        # Behind since before the first look, at which the record was there.
        is_read = self.read is not None and self.read.offset == copied
        known = self.read.timestamp if self.read is not None and is_read else newest_copied_ms
        return known if 0 <= known <= points[0].first_ms else None


def _thinned(points: tuple[SeenEnd, ...]) -> tuple[SeenEnd, ...]:
    """Without the one between others whose age they tell best: an age becomes larger by some part of it, never smaller."""
    now_ms = points[-1].last_ms

    def growth(at: int) -> float:
        before = now_ms - points[at - 1].last_ms
        return before / max(now_ms - points[at + 1].last_ms, 1)

    least = min(range(1, len(points) - 1), key=growth)
    return (*points[:least], *points[least + 1 :])


NO_HISTORY = EndHistory()
