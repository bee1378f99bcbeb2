"""`python -m sparkmirror.pipeline`: makes the archive of Spark's classes unless it is there."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from sparkmirror.pipeline.class_archive import class_archive
from sparkmirror.pipeline.spark import SparkSlots

__all__: list[str] = []


def main() -> None:
    """One Spark with one job, whose classes are written down at its end."""
    archive = class_archive()
    if archive is None or archive.is_file():
        return
    print("preparing Spark's start (once)", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(dir=archive.parent, prefix=f"{archive.stem}.") as folder:
        part = Path(folder) / "part.jsa"
        slots = SparkSlots(master="local[2]", conf={}, slots=1, jvm_option=f'"-XX:ArchiveClassesAtExit={part}"')
        try:
            slots.wait().parallelize([0], 1).mapPartitions(list).collect()
        finally:
            slots.stop()
        if part.is_file():
            part.replace(archive)


if __name__ == "__main__":
    main()
