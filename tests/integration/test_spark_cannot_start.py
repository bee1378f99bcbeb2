"""A Spark that cannot start, or cannot start its tasks: one sentence with the cause, a status, and a log that says more."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from integration.test_cli_on_clusters import PROGRAM, write_file

from sparkmirror.local import LocalCluster, create_topic, perf_produce

NO_PACKAGES = f"{sys.base_prefix}/bin/python3"


@pytest.mark.parametrize(
    ("environment", "words", "status", "told", "seconds"),
    [
        ({"PYSPARK_PYTHON": "/nope/python"}, [], 6, 'Cannot run program "/nope/python"', 60),
        ({"PYSPARK_PYTHON": NO_PACKAGES}, [], 6, r"ModuleNotFoundError: No module named '\w+'", 60),
        ({}, ["--master", "spark://127.0.0.1:1"], 2, "does not answer: 127.0.0.1:1: Connection refused", 30),
        ({}, ["--master", "nonsense"], 2, "Master must either be yarn or start with spark, k8s, or local", 60),
    ],
    ids=["no such Python", "a Python without the packages", "no such master", "no master at all"],
)
def test_what_keeps_spark_from_copying_is_one_sentence_and_a_status(
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path,
    environment: Mapping[str, str], words: Sequence[str], status: int, told: str, seconds: float,
) -> None:  # fmt: skip
    source, target = two_clusters
    topic = topic_name("unstarted")
    create_topic(source.bootstrap, topic)
    perf_produce(source.bootstrap, topic, records=10, record_bytes=10)
    file = write_file(
        tmp_path / "mm2.properties", source.bootstrap, target.bootstrap, alias=topic_name("start"), topics=topic
    )
    began = time.monotonic()
    ended = subprocess.run(
        [PROGRAM, "run", file, *words], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"TMPDIR": str(tmp_path)} | dict(environment),
    )  # fmt: skip
    assert time.monotonic() - began < seconds
    assert ended.returncode == status, ended.stdout + ended.stderr
    error, hint = ended.stderr.splitlines()
    assert re.search(told, error), ended.stderr
    assert "collectAndServe" not in ended.stdout + ended.stderr
    named = re.search(r"INFO - Spark's log: (\S+)", ended.stdout)
    assert named is not None
    if not error.endswith("Connection refused"):
        assert (named[1] in hint, Path(named[1]).exists()) == (True, True)


def test_the_log_of_a_run_that_ends_well_is_removed(
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path
) -> None:
    source, target = two_clusters
    topic = topic_name("started")
    create_topic(source.bootstrap, topic)
    file = write_file(
        tmp_path / "mm2.properties", source.bootstrap, target.bootstrap, alias=topic_name("start"), topics=topic
    )
    ended = subprocess.run(
        [PROGRAM, "run", file, "--once"], capture_output=True, text=True, check=False, timeout=120,
        env=os.environ | {"TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    assert list(tmp_path.glob("sparkmirror-spark-*")) == []
