"""What executors of a cluster are given by the driver: the program with its libraries."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from sparkmirror.session.packages import packages

if TYPE_CHECKING:
    from pyspark import SparkContext

SHIP = "spark.sparkmirror.ship"  # false: the executors' Python has sparkmirror
PATH = "PYTHONPATH"
FOLDER = "sparkmirror-packages"  # in the working folder of an executor


class Equipment:
    """What one application was given; `close` leaves the Python of others as it was."""

    def __init__(self) -> None:
        self._path_before: str | None = None
        self._is_given = False

    def give(self, context: SparkContext, *, has_queries: bool) -> None:
        """Spark copies the archive to each executor before its first task."""
        from pyspark import SparkFiles

        if context.getConf().get(SHIP, "true").strip().lower() == "false":
            return
        self._path_before, self._is_given = context.environment.get(PATH), True
        context.addArchive(f"{packages(has_queries=has_queries)}#{FOLDER}")
        # Beside an executor, and beside the driver, whose JVM starts Python too, to plan a query.
        paths = [f"./{FOLDER}", SparkFiles.get(FOLDER), context.environment.get(PATH, "")]
        context.environment[PATH] = os.pathsep.join(filter(None, paths))

    def close(self, context: SparkContext) -> None:
        """Puts the path back."""
        if not self._is_given:
            return
        if self._path_before is None:
            context.environment.pop(PATH, None)
        else:
            context.environment[PATH] = self._path_before
