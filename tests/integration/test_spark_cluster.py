"""Spark's standalone cluster whose machines have no sparkmirror: a master and workers of its own, and a bare Python."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
import venv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from faults.staging import Flow, StandaloneSpark
from faults.workload import LEASH, MirrorProcess, wait_until, write_properties
from judge import java_records

from sparkmirror.local import LocalCluster, create_topic
from sparkmirror.local.ports import HOST, free_ports

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(600)]

SLOTS, PARTITIONS = 8, 8
CANARY = "canary-7f3a91"  # a password in the file of settings
SPARK_SECRET = "secret-of-the-cluster"
NOTEBOOK = """
import json, sys
from pyspark.sql import SparkSession
import sparkmirror

file, conf = sys.argv[1], json.loads(sys.argv[2])
builder = SparkSession.builder
for key, value in conf.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
statuses = sparkmirror.run(sparkmirror.load(file), once=True, session=spark)
print(json.dumps([sum(status.records for status in statuses), spark.range(10).count()]))
spark.stop()
"""


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def spark(bare_python: Path) -> Iterator[StandaloneSpark]:
    """Two machines of two cores, which encrypt."""
    with StandaloneSpark(2, cores=2, python=str(bare_python), secret=SPARK_SECRET) as cluster:
        yield cluster


def awaited(mirror: MirrorProcess, condition: Callable[[], bool], what: str) -> None:
    """Waits for a condition while the run lasts."""
    wait_until(lambda: mirror.process.poll() is not None or condition(), lambda: f"{what}: {mirror.output}")
    assert mirror.process.poll() is None, mirror.output


def asked(port: int, path: str) -> Any:
    """The answer of a run that listens, or of Spark's own pages as text."""
    with urllib.request.urlopen(f"http://{HOST}:{port}{path}", timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if path.startswith("/flows") else text


def test_eight_slots_on_four_cores_outlive_an_executor_and_a_machine_and_no_secret_is_in_clear(
    spark: StandaloneSpark, source_cluster: LocalCluster, target_cluster: LocalCluster,
    topic_name: Callable[..., str], tmp_path: Path,
) -> None:  # fmt: skip
    topic = topic_name("cluster")
    alias = topic.replace("-", "")
    create_topic(source_cluster.bootstrap, topic, partitions=PARTITIONS)
    more = f"tasks.max = {SLOTS}\n{alias}.ssl.key.password = {CANARY}"
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias=alias, topics=topic, more=more
    )
    flow = Flow(source_cluster, target_cluster, alias=alias, topic=topic, partitions=PARTITIONS)
    port, pages = free_ports(2)
    events = tmp_path / "events"
    events.mkdir()
    confs = [f"spark.eventLog.dir=file://{events}", "spark.eventLog.enabled=true", "spark.eventLog.compress=false"]
    confs += ["spark.ui.enabled=true", f"spark.ui.port={pages}"]  # the last one of a name counts
    words = [*spark.arguments, *(word for conf in confs for word in ("--conf", conf)), "--listen", str(port)]
    with flow.load(1500) as load, MirrorProcess(path, *words) as mirror:

        def slots() -> int:
            try:
                return int(asked(port, "/flows")["flows"][0]["slots_started"])
            except (OSError, IndexError):
                return -1

        awaited(mirror, lambda: slots() == SLOTS, "eight slots have a core")
        flow.await_copying(1000, why=lambda: mirror.output)
        assert _holders(spark, CANARY) == []
        for page in ("/jobs/", "/stages/", "/environment/", "/executors/"):
            assert CANARY not in asked(pages, page)
        assert f"{alias}-&gt;target slot 0" in asked(pages, "/jobs/")
        said = len(mirror.output)
        spark.executors()[0].kill()
        awaited(mirror, lambda: "SLOT_LOST" in mirror.output[said:], "slots are lost with their executor")
        awaited(mirror, lambda: slots() == SLOTS, "they are back")
        flow.await_copying(1000, why=lambda: mirror.output)
        lost = len(mirror.output)
        spark.lose_worker()
        awaited(mirror, lambda: "SLOT_LOST" in mirror.output[lost:], "slots are lost with their machine")
        flow.await_copying(1000, why=lambda: mirror.output)
        spark.add_worker()
        awaited(mirror, lambda: slots() == SLOTS, "all slots have a core again")
        awaited(mirror, lambda: _share(flow) == SLOTS, "each of them copies a partition")
        load.finish()
        flow.await_copied(lambda: mirror.output)
        assert mirror.interrupt() == 0, mirror.output
    assert flow.judge() == load.sent
    assert CANARY not in "".join(log.read_text() for log in events.rglob("*") if log.is_file())
    assert _holders(spark, CANARY) == []


def _share(flow: Flow) -> int:
    """How many slots have a partition."""
    newest = [flow.ledger().of(partition).newest for partition in flow.partitions]
    return len({(order.slot, order.incarnation) for order in newest if order is not None})


def _holders(spark: StandaloneSpark, secret: str) -> list[Path]:
    """The files of the cluster, working folders of executors included, in which it can be read."""
    return [path for path in spark.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]


def test_a_session_that_is_handed_in_copies_transforms_and_goes_on(
    spark: StandaloneSpark, source_cluster: LocalCluster, target_cluster: LocalCluster,
    topic_name: Callable[..., str], tmp_path: Path,
) -> None:  # fmt: skip
    topic, plain = topic_name("shaped"), topic_name("plain")
    alias = topic.replace("-", "")
    for name in (topic, plain):
        create_topic(source_cluster.bootstrap, name, partitions=2)
    transform = "{flow}.transform.mask"
    more = f"tasks.max = 2\n{transform}.topics = {topic}\n"
    more += f"{transform}.sql = select * except (value), concat('masked ', value) as value from records"
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias=alias, topics=f"{topic},{plain}", more=more
    )
    flows = [Flow(source_cluster, target_cluster, alias=alias, topic=name, partitions=2) for name in (topic, plain)]
    for flow in flows:
        with flow.load(2000) as load:
            wait_until(lambda load=load: load.sent >= 500, "records")
    settings = spark.settings | {"spark.master": spark.url}
    ended = _ran(NOTEBOOK, str(path), json.dumps(settings), python=spark.settings["spark.pyspark.python"])
    assert ended.returncode == 0, ended.stderr
    sources = [java_records(source_cluster.bootstrap, flow.topic) for flow in flows]
    count = sum(len(records) for source in sources for records in source.values())
    assert json.loads(ended.stdout.splitlines()[-1]) == [count, 10]
    assert flows[1].judge() == sum(map(len, sources[1].values()))
    shaped = flows[0].target_records()
    for index, records in sources[0].items():
        assert [record.value for record in shaped[index]] == [b"masked " + (record.value or b"") for record in records]


def _ran(program: str, *words: str, python: str) -> subprocess.CompletedProcess[str]:
    """A program that an engineer runs where sparkmirror is installed; tasks run in `python`."""
    command = [sys.executable, LEASH, str(os.getpid()), sys.executable, "-c", program, *words]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=200,
        env=os.environ | {"PYSPARK_PYTHON": python, "SPARK_LOCAL_IP": HOST},
    )  # fmt: skip


def test_a_python_of_another_version_is_one_error_with_its_mend(
    spark: StandaloneSpark, bare_python: Path, source_cluster: LocalCluster, target_cluster: LocalCluster,
    topic_name: Callable[..., str], tmp_path: Path,
) -> None:  # fmt: skip
    topic = topic_name("other")
    create_topic(source_cluster.bootstrap, topic)
    path = write_properties(
        tmp_path, source_cluster.bootstrap, target_cluster.bootstrap, alias=topic.replace("-", ""), topics=topic
    )
    venv.create(tmp_path / "other", symlinks=True)
    [packages] = (tmp_path / "other").glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text("import sys\nsys.version_info = (3, 10, 0, 'final', 0)\n")
    arguments = [word.replace(str(bare_python), str(tmp_path / "other" / "bin" / "python")) for word in spark.arguments]
    with MirrorProcess(path, *arguments) as mirror:
        assert mirror.wait(120) == 6, mirror.output
    error, mend = mirror.output.splitlines()[-2:]
    assert "different" in error
    assert "3.10" in error
    assert f"executors need Python {sys.version_info.major}.{sys.version_info.minor}" in mend
    assert "spark.pyspark.python" in mend
