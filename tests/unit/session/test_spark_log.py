"""Spark's own log: a file of bounded size that an error can name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from sparkmirror.session import spark_log
from sparkmirror.session.spark_log import LOG_BYTES_MAX, SparkLog


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_the_log_is_bounded_and_keeps_what_came_last() -> None:
    log = SparkLog()
    line = b"x" * 1023 + b"\n"
    for _ in range(3 * LOG_BYTES_MAX // len(line)):
        os.write(log.sink, line)
    os.write(log.sink, b"the last words\n")
    log.is_kept = True
    log.close()
    found = Path(log.path).read_bytes()
    assert LOG_BYTES_MAX // 2 <= len(found) <= LOG_BYTES_MAX + len(spark_log.DROPPED)
    assert found.startswith(spark_log.DROPPED)
    assert found.endswith(b"x\nthe last words\n")


def test_the_log_is_removed_unless_an_error_named_it(folder: Path) -> None:
    quiet, named = SparkLog(), SparkLog()
    assert os.stat(named.path).st_mode & 0o77 == 0, "others must not read it"
    os.write(named.sink, b"no java\n")
    named.is_kept = True
    quiet.close()
    named.close()
    assert [entry.read_text() for entry in folder.iterdir()] == ["no java\n"]


def test_a_log_that_a_killed_run_left_is_removed_after_a_day(folder: Path) -> None:
    old, new, other = (folder / name for name in ("sparkmirror-spark-1-a.log", "sparkmirror-spark-2-b.log", "other.log"))
    for entry in (old, new, other):
        entry.write_text("left")
    long_ago = time.time() - 2 * spark_log.LEFT_S
    for entry in (old, other):
        os.utime(entry, (long_ago, long_ago))
    SparkLog().close()
    assert sorted(folder.iterdir()) == sorted([new, other])
