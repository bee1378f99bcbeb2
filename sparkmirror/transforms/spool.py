"""Where a task keeps its source batches while the columns that a transform uses pass through Spark.

The reader stores the unchanged source batches before it yields their rows; the writer, in another process of the same
task, reads them by offset. A value of 500 bytes that is only copied then costs Spark 8.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sparkmirror.errors import InternalError
from sparkmirror.transforms.orders import QueryOrder, range_files_folder
from sparkmirror.wire import BatchView, read_batches

# How much is read at once. Spark counts rows, and does not see the bytes that are stored here.
BYTES_MAX = 16 << 20


def lay_down(order: QueryOrder, task: int, number: int, batches: Sequence[BatchView]) -> None:
    """Stores batches of the task in order, before their rows are yielded."""
    with _path(order, task, number).open("wb") as file:
        file.writelines(batch.raw for batch in batches)


def _path(order: QueryOrder, task: int, number: int) -> Path:
    return range_files_folder(order) / f"{task}-{number}"


class Spool:
    """The batches that the reader of one task stored, read in the order of offsets."""

    def __init__(self, order: QueryOrder, task: int) -> None:
        self._order, self._task = order, task
        self._number = 0
        self._batches: list[BatchView] = []
        self._at = 0

    def pick_up(self, offsets: Sequence[int]) -> tuple[list[BatchView], int]:
        """The batches with the records at the first of these offsets, and how many offsets that are.

        Offsets ascend from call to call. It is all of them, unless the batches are large; a batch comes again as long as
        there are offsets in it.
        """
        found: list[BatchView] = []
        done = size = 0
        while done < len(offsets) and size < BYTES_MAX:
            batch = self._batch_of(offsets[done])
            found.append(batch)
            size += batch.size
            done = bisect_right(offsets, batch.last_offset, done)
        return found, done

    def clear(self) -> None:
        """Removes the batches that were not read: their records were filtered out."""
        with suppress(FileNotFoundError):
            while True:
                _path(self._order, self._task, self._number).unlink()
                self._number += 1

    def _batch_of(self, offset: int) -> BatchView:
        while True:
            while self._at < len(self._batches):
                batch = self._batches[self._at]
                if batch.base_offset > offset:
                    raise _not_read(offset)
                if offset <= batch.last_offset:
                    return batch
                self._at += 1
            self._batches, self._at = self._next(offset), 0

    def _next(self, offset: int) -> list[BatchView]:
        path = _path(self._order, self._task, self._number)
        try:
            with path.open("rb") as file:
                content = bytearray(os.fstat(file.fileno()).st_size)
                file.readinto(content)
        except FileNotFoundError as error:
            raise _not_read(offset) from error
        path.unlink()
        self._number += 1
        return read_batches(memoryview(content), 0, len(content), verify_crc=False)  # the reader did


def _not_read(offset: int) -> InternalError:
    return InternalError(f"transform query: a row arrived at offset {offset}, which was not read")
