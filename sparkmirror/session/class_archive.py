"""Spark's classes as the JVM likes to read them: archives made once per Java and Spark, used at every start.

`python -m sparkmirror.transforms` makes them. A JVM that does not like its archive starts without it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from sparkmirror.caches import cache_root


def class_archive(*, has_queries: bool = False) -> Path | None:
    """Where the archive of this Java and this Spark belongs; None without a Java.

    A JVM holds all of its archive: one without queries does not load the 100 MB of classes that those need.
    """
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin") if home else shutil.which("java")
    spec = find_spec("pyspark")
    if java is None or spec is None or spec.origin is None:
        return None
    binary = Path(java).resolve()
    key = f"{binary} {binary.stat().st_mtime_ns} {Path(spec.origin).parent}"
    kind = "spark-sql" if has_queries else "spark"
    return cache_root() / f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsa"


def archive_option(*, has_queries: bool) -> str:
    """The JVM option that uses the archive, empty while there is none."""
    archive = class_archive(has_queries=has_queries)
    return f'"-XX:SharedArchiveFile={archive}"' if archive is not None and archive.is_file() else ""
