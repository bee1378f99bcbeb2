"""Where a task keeps the parts of its records that no transform looks at, while their offsets pass through Spark.

The reader lays them down before it hands over the offsets, the writer, in another process of the same task, picks them up by
offset. A value of 500 bytes that is only copied then costs Spark 8.
"""

from __future__ import annotations

import marshal
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sparkmirror.errors import InternalError
from sparkmirror.pipeline.lane.orders import LaneOrder, slips_folder
from sparkmirror.wire import Columns

__all__ = ["Shelf", "lay_down"]

# Of what is picked up at once. Spark counts rows, and does not see what of them lies here.
BYTES_MAX = 16 << 20


def lay_down(order: LaneOrder, task: int, number: int, columns: Columns) -> None:
    """The records of the task's batch of this number, all columns of them; before its rows are handed over."""
    told = (columns.offsets, columns.timestamps, columns.keys, columns.values, columns.headers)
    with _path(order, task, number).open("wb") as file:
        marshal.dump(told, file)  # for a process of the same Python


def _path(order: LaneOrder, task: int, number: int) -> Path:
    return slips_folder(order) / f"{task}-{number}"


class Shelf:
    """What the reader of one task laid down, picked up in the order of offsets."""

    def __init__(self, order: LaneOrder, task: int) -> None:
        self._order, self._task = order, task
        self._number = self._size = 0
        self._part = Columns()

    def pick_up(self, offsets: Sequence[int]) -> Columns:
        """The records at the first of these offsets, which ascend from call to call; at all, unless they are large."""
        found = Columns()
        at = size = 0
        while at < len(offsets) and size < BYTES_MAX:
            while not self._part.offsets or self._part.offsets[-1] < offsets[at]:
                self._part, self._size = self._next()
            until = bisect_right(offsets, self._part.offsets[-1], at)
            _add(found, self._part, offsets[at:until])
            size += self._size
            at = until
        return found

    def clear(self) -> None:
        """Removes what nobody asked for: their records were left out."""
        with suppress(FileNotFoundError):
            while True:
                _path(self._order, self._task, self._number).unlink()
                self._number += 1

    def _next(self) -> tuple[Columns, int]:
        path = _path(self._order, self._task, self._number)
        try:
            with path.open("rb") as file:
                part, size = Columns(*marshal.load(file)), file.tell()
        except FileNotFoundError as error:
            raise InternalError("record lane: rows came at offsets that were not read") from error
        path.unlink()
        self._number += 1
        return part, size


def _add(found: Columns, part: Columns, offsets: Sequence[int]) -> None:
    """Most often they are one stretch; where a transform leaves records out, each is looked up."""
    start, end = bisect_left(part.offsets, offsets[0]), bisect_left(part.offsets, offsets[-1]) + 1
    rows = range(start, end) if part.offsets[start:end] == offsets else [bisect_left(part.offsets, o) for o in offsets]
    if isinstance(rows, range):
        chosen = slice(start, end)
        found.timestamps += part.timestamps[chosen]
        found.keys += part.keys[chosen]
        found.values += part.values[chosen]
        found.headers += part.headers[chosen]
    else:
        if [part.offsets[row] for row in rows] != list(offsets):
            raise InternalError("record lane: rows came at offsets that were not read")
        found.timestamps += [part.timestamps[row] for row in rows]
        found.keys += [part.keys[row] for row in rows]
        found.values += [part.values[row] for row in rows]
        found.headers += [part.headers[row] for row in rows]
    found.offsets += offsets
