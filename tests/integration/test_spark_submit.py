"""The program inside the application that `spark-submit` starts: its settings, and what each signal does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import pyspark
import pytest
from integration.mirroring import await_true, create_topics, flow_settings, numbered, produce, run_cleanly, write_settings
from judge import java_records

import sparkmirror
from sparkmirror.local import LocalCluster

SECONDS_MAX = 120.0  # it starts in 8 s on two idle cores
PROGRAM = str(Path(sparkmirror.__file__).with_name("__main__.py"))


@contextmanager
def submitted(folder: Path, words: Sequence[str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`spark-submit` in a group of processes of its own; what they say is kept in the folder."""
    submit = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
    environment = os.environ | {"PYSPARK_DRIVER_PYTHON": sys.executable, "PYSPARK_PYTHON": sys.executable}
    command = [submit, "--master", "local[3]", "--name", "nightly mirror", *words, PROGRAM, "run", *arguments]
    with (
        said_file(folder).open("wb") as said,
        subprocess.Popen(command, env=environment, stdout=said, stderr=said, start_new_session=True) as process,
    ):
        whole = [psutil.Process(process.pid)]
        try:
            yield process
        finally:
            if process.poll() is None:
                whole += whole[0].children(recursive=True)
                process.kill()
            for one in whole[1:]:
                one.kill()


def said_file(folder: Path) -> Path:
    """Where `submitted` keeps what was said."""
    return folder / "said.log"


def test_it_runs_in_the_jvm_that_was_started_and_keeps_its_settings(
    two_clusters: tuple[LocalCluster, LocalCluster], topic_name: Callable[..., str], tmp_path: Path
) -> None:
    source, target = two_clusters
    alias, topic, events = topic_name("submit"), topic_name("submitted"), tmp_path / "events"
    values = numbered(100)
    create_topics(source, {topic: (1, {})})
    produce(source, topic, 0, values)
    file = write_settings(tmp_path / "mm2.properties", flow_settings(source, target, alias=alias, topics=topic))
    events.mkdir()
    settings = ["enabled=true", "compress=false", f"dir=file://{events}"]
    words = [word for setting in settings for word in ("--conf", f"spark.eventLog.{setting}")]
    with submitted(tmp_path, words, str(file), "--once") as process:
        assert process.wait(SECONDS_MAX) == 0, said_file(tmp_path).read_text()
    assert [record.value for record in java_records(target.bootstrap, f"{alias}.{topic}")[0]] == values
    told = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert '"App Name":"nightly mirror"' in told
    assert '"spark.master":"local[3]"' in told
    assert '"spark.speculation":"false"' in told


def _driver(process: subprocess.Popen[bytes]) -> int:
    """The Python process that the JVM has started."""
    [found] = [child.pid for child in psutil.Process(process.pid).children() if PROGRAM in child.cmdline()]
    return found


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("whom", "sent", "status"),
    [("driver", signal.SIGTERM, 0), ("jvm", signal.SIGTERM, 143), ("both", signal.SIGINT, 130)],
)
def test_the_driver_drains_and_without_its_jvm_all_ends_and_the_next_run_goes_on(
    whom: str, sent: int, status: int, two_clusters: tuple[LocalCluster, LocalCluster],
    topic_name: Callable[..., str], tmp_path: Path,
) -> None:  # fmt: skip
    source, target = two_clusters
    alias, topic, said = topic_name("submit"), topic_name("signalled"), said_file(tmp_path)
    first, more = numbered(100), numbered(50, first=100)
    create_topics(source, {topic: (1, {})})
    produce(source, topic, 0, first)
    file = write_settings(tmp_path / "mm2.properties", flow_settings(source, target, alias=alias, topics=topic))
    with submitted(tmp_path, [], str(file)) as process:
        await_true(lambda: f"records={len(first)} " in said.read_text(), SECONDS_MAX, "a hundred records")
        driver = _driver(process)
        whole = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        if whom == "both":
            os.killpg(process.pid, sent)  # as a terminal does at Ctrl-C
        else:
            os.kill(driver if whom == "driver" else process.pid, sent)
        assert process.wait(SECONDS_MAX) == status, said.read_text()
        _, left = psutil.wait_procs(whole, SECONDS_MAX)
        assert left == [], said.read_text()
    assert ("0 closed" in said.read_text()) == (whom == "driver"), said.read_text()
    produce(source, topic, 0, more)
    run_cleanly(file, *([] if whom == "driver" else ["--take-over"]))
    assert [record.value for record in java_records(target.bootstrap, f"{alias}.{topic}")[0]] == first + more
