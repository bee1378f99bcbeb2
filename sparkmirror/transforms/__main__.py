"""`python -m sparkmirror.transforms`: makes the archives of Spark's classes unless they are there."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

from sparkmirror.session.class_archive import class_archive
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.transforms.rehearsal import rehearse


def main() -> None:
    """Both of them, as far as they are missing."""
    for has_queries in (False, True):
        archive = class_archive(has_queries=has_queries)
        if archive is not None and not archive.is_file():
            what = "for transforms" if has_queries else "once"
            print(f"preparing Spark's start ({what})", file=sys.stderr, flush=True)
            _make(archive, has_queries=has_queries)


def _make(archive: Path, *, has_queries: bool) -> None:
    """One Spark with one job, and one query, whose classes are written down at its end."""
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f"{archive.stem}.") as folder:
        part = Path(folder) / "part.jsa"
        option = f'"-XX:ArchiveClassesAtExit={part}"'
        slots = SparkSlots(master="local[2]", conf={}, slots=1, queries=int(has_queries), jvm_option=option)
        try:
            context = slots.wait()
            context.parallelize([0], 1).mapPartitions(list).collect()
            if has_queries:
                rehearse(SparkSession(context))
        finally:
            slots.stop()
        if part.is_file():
            part.replace(archive)


if __name__ == "__main__":
    main()
