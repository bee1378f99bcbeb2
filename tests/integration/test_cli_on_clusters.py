"""The command line on two real clusters: signals drain, an owner is named, the documents' commands run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from integration.scenario import commit

from sparkmirror.diagnose.inspector_rows import COLUMNS, HEADER, parse_csv_line
from sparkmirror.diagnose.inspector_verdicts import VERDICTS
from sparkmirror.local import LocalCluster, create_topic, perf_produce

BIN = Path(sys.executable).parent
PROGRAM = str(BIN / "sparkmirror")
SECONDS_MAX = 120.0  # a run starts in 6 s on two idle cores


def call(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *words], capture_output=True, text=True, check=False, timeout=120)


def write_file(path: Path, source: str, target: str, *, alias: str, topics: str) -> str:
    flow = f"{alias}->{alias}-to"
    path.write_text(
        f"clusters = {alias}, {alias}-to\n"
        f"{alias}.bootstrap.servers = {source}\n{alias}-to.bootstrap.servers = {target}\n"
        f"{flow}.enabled = true\n{flow}.topics = {topics}\n"
        "heartbeats.replication.enabled = false\ncheckpoints.topic.replication.factor = 1\n"
        "heartbeats.topic.replication.factor = 1\n"
        "replication.factor = 1\noffset-syncs.topic.replication.factor = 1\noffset.storage.replication.factor = 1\n"
    )
    return str(path)


def await_line(process: subprocess.Popen[str], words: str) -> None:
    """Reads what the process says until it says this."""
    assert process.stdout is not None
    deadline = time.monotonic() + SECONDS_MAX
    for line in process.stdout:
        if words in line:
            return
        assert time.monotonic() < deadline, line
    raise AssertionError(f"ended without {words!r}")


def await_metric(path: Path, pattern: str) -> None:
    """Waits until the file of figures holds this."""
    deadline = time.monotonic() + SECONDS_MAX
    while not (path.exists() and re.search(pattern, path.read_text())):
        assert time.monotonic() < deadline, path.read_text() if path.exists() else f"no {path}"
        time.sleep(0.2)


@pytest.fixture
def copying(
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A run that copies, and its file."""
    source, target = two_clusters
    topic = topic_name("signals")
    create_topic(source.bootstrap, topic)
    perf_produce(source.bootstrap, topic, records=10, record_bytes=10)
    file = write_file(
        tmp_path / "mm2.properties", source.bootstrap, target.bootstrap, alias=topic_name("live"), topics=topic
    )
    words = [PROGRAM, "run", file, "--metrics-file", str(tmp_path / "mirror.prom")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            await_line(process, f"{topic}-0 copying")
            yield process, file
        finally:
            process.kill()


def test_a_live_owner_is_named_by_plan_and_refuses_a_second_run_and_one_signal_drains(
    copying: tuple[subprocess.Popen[str], str], tmp_path: Path
) -> None:
    process, file = copying
    await_metric(tmp_path / "mirror.prom", r'mirrorsourceconnector_record_count\{source="live.*partition="0"\} 10\n')
    await_metric(tmp_path / "mirror.prom", r'sparkmirror_partition_lag\{.*\} 0\n')
    assert "which is alive: a run ends with status 5" in call("plan", file).stdout
    second = call("run", file)
    assert (second.returncode, "Traceback" in second.stderr) == (5, False)
    assert "sparkmirror: this flow is owned by" in second.stderr
    assert "--take-over" in second.stderr
    process.send_signal(signal.SIGTERM)
    output, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (0, "")
    assert output.count("draining…") == 1
    assert " stopped records=10 " in output.splitlines()[-1]
    assert "ledger: found; released by" in call("plan", file).stdout
    assert not (tmp_path / "mirror.prom").exists()


def test_a_second_signal_ends_a_run_at_once(copying: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = copying
    process.send_signal(signal.SIGINT)
    await_line(process, "draining…")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (130, "")


def test_a_run_that_nobody_reads_drains_and_ends(copying: tuple[subprocess.Popen[str], str]) -> None:
    process, _ = copying
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(SECONDS_MAX) == 1


def test_the_documents_commands_run_as_they_are_written(
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path
) -> None:
    source, target = two_clusters
    topic, alias, group = topic_name("documented"), topic_name("doc"), topic_name("readers")
    create_topic(source.bootstrap, topic)
    perf_produce(source.bootstrap, topic, records=10, record_bytes=10)
    commit(source, group, topic, {0: 7})
    write_file(tmp_path / "mm2.properties", source.bootstrap, target.bootstrap, alias=alias, topics=topic)
    here: dict[str, Any] = {"cwd": tmp_path, "text": True, "env": os.environ | {"PATH": f"{BIN}:{os.environ['PATH']}"}}
    mirror = ["connect-mirror-maker.sh", "mm2.properties"]
    with subprocess.Popen(mirror, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **here) as process:
        try:
            await_line(process, "records=10 ")
            process.send_signal(signal.SIGTERM)
            assert (process.communicate(timeout=SECONDS_MAX)[1], process.returncode) == ("", 0)
        finally:
            process.kill()
    look = [f"{BIN}/kafka-mirrormaker-offset-sync-inspector.sh", "--mm2-config", str(tmp_path / "mm2.properties")]
    look.append("--include-inactive-groups")
    told = subprocess.run(look, capture_output=True, timeout=SECONDS_MAX, check=False, **here)
    header, *lines = told.stdout.splitlines()
    assert (told.returncode, told.stderr, header) == (0, "", HEADER)
    [row] = [dict(zip(COLUMNS, parse_csv_line(line) or (), strict=True)) for line in lines if group in line]
    assert (row["TOPIC"], row["PARTITION"], row["SOURCE GROUP OFFSET"], row["IS OK"]) == (topic, "0", "7", "false")
    assert row["MESSAGE"] == VERDICTS[7].text
