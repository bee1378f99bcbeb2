"""How far a flow has come, what Java says of it in the end, and Spark's own small cluster: what rows of processes share."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from judge import JudgeBatch, JudgeRecord, batches, compare, java_records, map_violations

from faults.workload import MirrorProcess, Workload
from sparkmirror.clusters import LATEST, ClusterClient, list_offsets
from sparkmirror.config.values import ClusterSettings
from sparkmirror.driver import FlowLedger
from sparkmirror.errors import ClusterError
from sparkmirror.ledger import LedgerView
from sparkmirror.local import LocalCluster
from sparkmirror.local.java import scratch_option
from sparkmirror.local.ports import HOST, free_ports, is_listening
from sparkmirror.local.processes import Child, ScratchFolder
from sparkmirror.model import TopicPartition
from sparkmirror.offsets import OffsetMap

# I9 promises 60 s; a test waits longer, so that its row can say how long it really took.
CONVERGE_SECONDS_MAX = 120.0
POLL_SECONDS = 0.1
SPARK_START_SECONDS_MAX = 60.0
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
EXECUTOR_MEMORY = "512m"  # the least that Spark accepts is 450 MB


@contextmanager
def client_of_all(cluster: LocalCluster) -> Iterator[ClusterClient]:
    """Our own client with every broker's address, for one of them may be down."""
    addresses = tuple((host, int(port)) for host, _, port in (a.rpartition(":") for a in cluster.bootstrap.split(",")))
    with closing(ClusterClient(ClusterSettings("test", addresses, {}))) as client:
        yield client


def await_said(mirror: MirrorProcess, words: str, seconds: float = 60.0, *, after: int = 0) -> float:
    """Waits until a run says this, `after` so many characters of its output; seconds that it took."""
    began = time.monotonic()
    while words not in mirror.output[after:]:
        passed = time.monotonic() - began
        assert passed < seconds, f"{words!r} was not said within {seconds:g} s: {mirror.output}"
        assert mirror.process.poll() is None or words in mirror.output[after:], f"ended without {words!r}: {mirror.output}"
        time.sleep(POLL_SECONDS)
    return time.monotonic() - began


class Flow:
    """One topic of one flow: how far it is copied, by what the ledger proves, and Java's word about it in the end."""

    def __init__(self, source: LocalCluster, target: LocalCluster, *, alias: str, topic: str, partitions: int) -> None:
        self.source, self.target, self.alias, self.topic = source, target, alias, topic
        self.partitions = [TopicPartition(topic, index) for index in range(partitions)]

    @property
    def remote(self) -> str:
        """The copy's name."""
        return f"{self.alias}.{self.topic}"

    def load(self, per_second: int = 2000) -> Workload:
        """Records that arrive on the source, in every partition."""
        return Workload(self.source.bootstrap, self.topic, partitions=len(self.partitions), per_second=per_second)

    def ledger(self) -> LedgerView:
        """What the ledger says now; it is judged, not the judge."""
        with client_of_all(self.target) as client:
            return FlowLedger(client, f"mm2-ledger.{self.alias}.internal").read_all()

    def ends(self) -> dict[TopicPartition, int]:
        """The source's ends; empty while it does not answer."""
        try:
            with client_of_all(self.source) as client:
                found = list_offsets(client, self.partitions, timestamp=LATEST)
        except ClusterError:
            return {}
        return {partition: offset for partition, (offset, _) in found.items()}

    def await_copying(self, more: int = 2000, seconds: float = 90.0, why: Callable[[], str] = str) -> None:
        """Waits until so many more records than now are proven, some in each partition."""
        with self.positions() as copied:
            before = copied()

            def is_moving() -> bool:
                grown = [copied().get(partition, 0) - before.get(partition, 0) for partition in self.partitions]
                return min(grown) > 0 and sum(grown) >= more

            self._await(is_moving, seconds, lambda: f"{more} more records than {before}, found {copied()}; {why()}")

    def await_copied(self, why: Callable[[], str] = str) -> float:
        """Waits until everything that the source holds now is proven copied; seconds that it took."""
        began = time.monotonic()
        ends: dict[TopicPartition, int] = {}
        with self.positions() as copied:

            def is_there() -> bool:
                nonlocal ends
                ends = ends or self.ends()
                return bool(ends) and copied() == ends

            self._await(is_there, CONVERGE_SECONDS_MAX, lambda: f"copied up to {ends}, found {copied()}; {why()}")
        return time.monotonic() - began

    @contextmanager
    def positions(self) -> Iterator[Callable[[], dict[TopicPartition, int]]]:
        """Asks for the upstream offset up to which each partition is proven copied; what was last heard, in an outage."""
        with client_of_all(self.target) as client:
            ledger = FlowLedger(client, f"mm2-ledger.{self.alias}.internal")

            def look() -> dict[TopicPartition, int]:
                with suppress(ClusterError):
                    ledger.read_new()
                positions = {partition: ledger.view.of(partition).position() for partition in self.partitions}
                return {partition: at.upstream for partition, at in positions.items() if at is not None}

            yield look

    def _await(self, condition: Callable[[], bool], seconds: float, what: Callable[[], str]) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what()}"
            time.sleep(POLL_SECONDS)

    def judge(self) -> int:
        """Java reads the same records on both sides, the map leads from each to its copy; how many there are."""
        source = java_records(self.source.bootstrap, self.topic)
        target = self.target_records()
        assert compare(source, target) == []
        view = self.ledger()
        for index, records in source.items():
            offsets = OffsetMap(view.of(TopicPartition(self.topic, index)).runs())
            assert map_violations(records, target[index], offsets.downstream) == []
        return sum(len(records) for records in source.values())

    def target_records(self) -> dict[int, list[JudgeRecord]]:
        """The copy as Java reads it."""
        return java_records(self.target.bootstrap, self.remote)

    def target_batches(self, broker: int = 1) -> dict[int, list[JudgeBatch]]:
        """Each partition's batches as kafka-dump-log sees them on one broker."""
        folder = self.target.log_dirs[broker]
        return {partition.partition: batches(folder, self.remote, partition.partition) for partition in self.partitions}


def late_writes(found: list[JudgeBatch]) -> list[str]:
    """One sentence for each batch of an epoch that a fence in front of it had ended."""
    fenced: dict[int, int] = {}
    late = []
    for batch in found:
        if batch.is_control:
            fenced[batch.producer_id] = max(batch.producer_epoch, fenced.get(batch.producer_id, -1))
        elif batch.producer_epoch < fenced.get(batch.producer_id, -1):
            late.append(f"offset {batch.base_offset} was written in epoch {batch.producer_epoch}, ended before it")
    return late


class StandaloneSpark:
    """Spark's own master and workers: there, unlike in local mode, executors can die.

    Tasks run in `python`. With a `secret` everybody proves to know it, and encrypts.
    """

    def __init__(self, workers: int = 2, *, cores: int = 1, python: str = sys.executable, secret: str = "") -> None:
        self._wanted, self._cores, self._python = workers, cores, python
        self._guard = {
            "spark.authenticate": "true", "spark.authenticate.secret": secret, "spark.network.crypto.enabled": "true",
        } if secret else {}  # fmt: skip
        self._scratch: ScratchFolder | None = None
        self._master: Child | None = None
        self.workers: list[Child] = []

    def __enter__(self) -> StandaloneSpark:
        self._scratch = ScratchFolder("standalone-spark")
        self._port, self._page = free_ports(2)
        try:
            arguments = ["--host", HOST, "--port", str(self._port), "--webui-port", str(self._page)]
            self._master = self._launch("org.apache.spark.deploy.master.Master", arguments, "master")
            self._await(lambda: is_listening(self._port), "the master listens")
            for number in [self._launch_worker() for _ in range(self._wanted)]:
                self._await_worker(number)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """What `--master` wants."""
        return f"spark://{HOST}:{self._port}"

    @property
    def settings(self) -> dict[str, str]:
        """What Spark needs to run slots here, on this machine."""
        return {
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.driver.memory": "512m",
            "spark.executor.memory": EXECUTOR_MEMORY,
            "spark.executor.cores": str(self._cores),
            "spark.cores.max": str(self._cores * self._wanted),
            "spark.ui.enabled": "false",
            "spark.pyspark.python": self._python,
            **self._guard,
        }

    @property
    def arguments(self) -> list[str]:
        """The same for `sparkmirror run`."""
        confs = [word for key, value in self.settings.items() for word in ("--conf", f"{key}={value}")]
        return ["--master", self.url, *confs]

    def add_worker(self) -> None:
        """One more machine, as it were."""
        self._await_worker(self._launch_worker())

    def lose_worker(self) -> None:
        """One machine less: the worker, and its executors with it."""
        worker = next(worker for worker in self.workers if worker.is_running)
        lost = _descendants(worker.pid)
        worker.kill()
        for process in lost:
            if process.is_running():
                process.kill()

    def _launch_worker(self) -> int:
        number, (port, page) = len(self.workers) + 1, free_ports(2)
        arguments = ["--host", HOST, "--port", str(port), "--webui-port", str(page), "--cores", str(self._cores)]
        arguments += ["--memory", "1g"]
        arguments += ["--work-dir", str(self.folder / f"work-{number}"), self.url]
        self.workers.append(self._launch("org.apache.spark.deploy.worker.Worker", arguments, f"worker-{number}"))
        return number

    def _await_worker(self, number: int) -> None:
        log = self.folder / f"worker-{number}.log"
        self._await(lambda: "Successfully registered with master" in log.read_text(), f"worker {number} registers")

    def executors(self) -> list[psutil.Process]:
        """The executors that run, the oldest first."""
        found = [p for worker in self.workers if worker.is_running for p in _descendants(worker.pid) if _is_executor(p)]
        return sorted(found, key=lambda process: process.create_time())

    def busy(self) -> tuple[Child, psutil.Process]:
        """A worker and its executor that run a slot: beside Python's daemon there is a process of its task."""
        for worker in self.workers:
            for executor in _descendants(worker.pid):
                if _is_executor(executor) and sum("python" in p.name() for p in _descendants(executor.pid)) > 1:
                    return worker, executor
        raise AssertionError("no executor runs a slot")

    def close(self) -> None:
        """Ends all of it, executors too."""
        executors = self.executors()
        for child in [*self.workers, *([self._master] if self._master is not None else [])]:
            child.kill()
        for process in executors:
            if process.is_running():
                process.kill()
        psutil.wait_procs(executors, timeout=30)
        if self._scratch is not None:
            self._scratch.remove()
            self._scratch = None

    @property
    def folder(self) -> Path:
        """Where its processes write, executors too."""
        assert self._scratch is not None
        return self._scratch.path

    def _launch(self, main_class: str, arguments: list[str], name: str) -> Child:
        program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
        environment = ["SPARK_LOCAL_IP=" + HOST, "SPARK_DAEMON_MEMORY=192m", "SPARK_LOCAL_DIRS=" + str(self.folder)]
        options = [scratch_option(self.folder), *(f"-D{key}={value}" for key, value in self._guard.items())]
        environment.append(f"SPARK_DAEMON_JAVA_OPTS={' '.join(options)}")
        command = ["/usr/bin/env", *environment, program, main_class, *arguments]
        return Child(f"Spark {name}", command, log_file=self.folder / f"{name}.log")

    def _await(self, condition: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + SPARK_START_SECONDS_MAX
        while not condition():
            assert time.monotonic() < deadline, f"{what}: not within {SPARK_START_SECONDS_MAX:g} s: {self._log_tails()}"
            time.sleep(POLL_SECONDS)

    def _log_tails(self) -> str:
        return "\n".join(path.read_text(errors="replace")[-2000:] for path in self.folder.glob("*.log"))


def _descendants(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def _is_executor(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE and EXECUTOR in process.cmdline()
    except psutil.Error:
        return False
