"""`sparkmirror run` as a process of its own, and topics of every shape to be copied. Sets up, judges nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

import kafka
import psutil
from host import Hosted, host_suits, start_hosted
from kafka import KafkaAdminClient, KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType, OffsetSpec

from sparkmirror.clusters import PRODUCE_API, PRODUCE_BY_NAME, Address, connect, encode_produce, parse_produce
from sparkmirror.local import LocalCluster
from sparkmirror.local.processes import Child
from sparkmirror.wire import Record, build_batch

T = TypeVar("T")
# What is promised in seconds is promised where a core is there for us: beside other tests a test waits longer for it.
IS_BUSY = "PYTEST_XDIST_WORKER" in os.environ

RUN_SECONDS_MAX = 180.0  # a run takes 6 s on two idle cores
NOTICE_SECONDS_MAX = 30.0  # a trouble must be told within this time
POLL_SECONDS = 0.05
PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
NOT_LEADING_YET = (3, 6)  # right after a topic's creation the broker may not know that it leads
TRACEBACK = "Traceback (most recent call last)"


class Outcome(NamedTuple):
    """How a run ended: its exit status, and what it said on stdout and stderr."""

    status: int | None
    output: str


def await_true(condition: Callable[[], T], seconds: float = 120.0, what: str = "") -> T:
    """What the condition returns once that is true; fails when it is not in time."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what or condition}"
        time.sleep(POLL_SECONDS)
    return found


# --- running ---------------------------------------------------------------------------------------------------


def flow_settings(
    source: LocalCluster, target: LocalCluster, *, alias: str, topics: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """One flow `alias->alias-to`; `more` are keys of this flow."""
    flow = f"{alias}->{alias}-to"
    return {
        "clusters": f"{alias}, {alias}-to",
        f"{alias}.bootstrap.servers": source.bootstrap,
        f"{alias}-to.bootstrap.servers": target.bootstrap,
        f"{flow}.enabled": "true",
        f"{flow}.topics": topics,
        "tasks.max": "1",
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",  # other tests write some on the shared clusters
        "sync.topic.configs.enabled": "false",  # tests set the copies' settings by hand
        "refresh.topics.interval.seconds": "1",
        # Some tests need one broker alone: names that tell their source do not come back.
        **({f"{flow}.replication.loops.allowed": "true"} if source.bootstrap == target.bootstrap else {}),
        **{f"{flow}.{key}": value for key, value in (more or {}).items()},
    }


def write_settings(path: Path, *flows: Mapping[str, str]) -> Path:
    """The properties file of a run of one or several flows."""
    merged: dict[str, str] = {}
    for flow in flows:
        merged |= flow
    merged["clusters"] = ", ".join(flow["clusters"] for flow in flows)
    path.write_text("".join(f"{key} = {value}\n" for key, value in merged.items()), "latin-1")
    return path


def says_stopped(output: str, partition: str, code: str) -> bool:
    """Whether a line says that the partition has stopped, alone or with others for the same reason."""
    return re.search(rf"\b{re.escape(partition)}\b[^\n]* stopped {code}\b", output) is not None


class LiveMirror:
    """A run that copies until it is told to stop; on the host of this process unless it is `alone`."""

    def __init__(self, settings: Path, *arguments: str, alone: bool = False) -> None:
        self._log = settings.with_name(f"{settings.name}.{time.monotonic_ns()}.log")
        words = ["run", str(settings), *arguments]
        # Spark's own settings can be given to a JVM only when it starts.
        if alone or not host_suits() or {"--master", "--conf"} & set(arguments):
            self._child: Child | Hosted = Child("sparkmirror run", [PROGRAM, *words], log_file=self._log)
        else:
            self._child = start_hosted(words, stdout=self._log, stderr=self._log, spark=True)

    @property
    def output(self) -> str:
        """What it said so far."""
        return self._log.read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._child.pid

    def workers(self) -> list[psutil.Process]:
        """The Python processes of its slots: children of the process that forks Spark's workers."""
        found, daemons = [], set()
        spark = self._child.jvm if isinstance(self._child, Hosted) else 0
        for process in psutil.Process(spark or self.pid).children(recursive=True):  # parents come before their children
            with suppress(psutil.NoSuchProcess):  # it has ended meanwhile, or is a zombie
                if process.ppid() in daemons:
                    found += [process] * (process.status() != psutil.STATUS_ZOMBIE)
                elif "sparkmirror.worker_daemon" in process.cmdline():
                    daemons.add(process.pid)
        return found

    def await_said(self, word: str, seconds: float = NOTICE_SECONDS_MAX, *, after: int = 0) -> None:
        """Waits until it says this, `after` so many characters of its output."""

        def said() -> bool:
            assert self._child.is_running or word in self.output[after:], f"ended without {word!r}: {self.output}"
            return word in self.output[after:]

        deadline = time.monotonic() + seconds
        while not said():
            assert time.monotonic() < deadline, f"{word!r} was not said within {seconds:g} s: {self.output[after:]}"
            time.sleep(POLL_SECONDS)

    def await_stopped(self, partition: str, code: str, seconds: float = NOTICE_SECONDS_MAX) -> None:
        """Waits until a line says that the partition has stopped, alone or with others for the same reason."""
        await_true(lambda: says_stopped(self.output, partition, code), seconds, f"{partition} stops: {self.output}")

    def await_end(self, seconds: float = RUN_SECONDS_MAX) -> Outcome:
        """Waits for it to end by itself."""
        status = self._child.wait(seconds)
        assert status is not None, f"still running after {seconds:g} s: {self.output}"
        return Outcome(status, self.output)

    def stop(self) -> Outcome:
        """Asks it to end, as a service manager does, and waits."""
        self._child.send(signal.SIGTERM)
        return self.await_end(60.0)

    def kill(self) -> None:
        """Ends it at once, if it still runs."""
        self._child.kill()


@contextmanager
def live_mirror(settings: Path, *arguments: str, alone: bool = False) -> Iterator[LiveMirror]:
    """A run that is gone at the end of the block. Where the block fails, what the run said is shown with it."""
    mirror = LiveMirror(settings, *arguments, alone=alone)
    try:
        yield mirror
    except BaseException:
        print(mirror.output)
        raise
    finally:
        mirror.kill()


def run_once(settings: Path, *arguments: str) -> Outcome:
    """Copies up to the ends seen at the start, and waits for the end."""
    with live_mirror(settings, "--once", *arguments) as mirror:
        return mirror.await_end()


def run_cleanly(settings: Path, *arguments: str) -> Outcome:
    """A run in which everything must go well."""
    outcome = run_once(settings, *arguments)
    assert (outcome.status, TRACEBACK in outcome.output) == (0, False), outcome.output
    return outcome


# --- topics ----------------------------------------------------------------------------------------------------


@contextmanager
def admin_of(cluster: LocalCluster) -> Iterator[KafkaAdminClient]:
    """A client for set-up."""
    with closing(KafkaAdminClient(bootstrap_servers=cluster.bootstrap)) as admin:
        yield admin


def create_topics(cluster: LocalCluster, topics: Mapping[str, tuple[int, Mapping[str, str]]]) -> None:
    """Creates topics of (partitions, settings) in one request, and waits for their leaders."""
    wanted = {
        name: {"num_partitions": partitions, "replication_factor": 1, "configs": dict(configs)}
        for name, (partitions, configs) in topics.items()
    }
    with admin_of(cluster) as admin:
        admin.create_topics(wanted, wait_for_metadata=True)


def topics_of(cluster: LocalCluster) -> set[str]:
    """All topics' names."""
    with admin_of(cluster) as admin:
        return set(admin.list_topics())


def partitions_of(cluster: LocalCluster, topic: str) -> int:
    """How many partitions a topic has, 0 if there is none."""
    with admin_of(cluster) as admin:
        if topic not in admin.list_topics():
            return 0
        return len(admin.describe_topics([topic])[0]["partitions"])


def log_ends(cluster: LocalCluster, topic: str) -> dict[int, int]:
    """The high watermark of each partition."""
    with admin_of(cluster) as admin:
        parts = admin.describe_topics([topic])[0]["partitions"]
        places = [kafka.TopicPartition(topic, part["partition_index"]) for part in parts]
        ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
        return {place.partition: end.offset for place, end in ends.items()}


def topic_configs(cluster: LocalCluster, topic: str) -> dict[str, str]:
    """The settings that a topic has of its own."""
    with admin_of(cluster) as admin:
        found = admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    [configs] = [value for of_type in found.values() for value in of_type.values()]
    return {name: entry["value"] for name, entry in configs.items()}


def set_topic_config(cluster: LocalCluster, topic: str, configs: Mapping[str, str]) -> None:
    """Changes settings of a topic."""
    with admin_of(cluster) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs=dict(configs))])


def set_broker_config(cluster: LocalCluster, configs: Mapping[str, str]) -> None:
    """Changes dynamic settings of the first broker."""
    with admin_of(cluster) as admin:
        resource = ConfigResource(ConfigResourceType.BROKER, "1", configs=dict(configs))
        admin.alter_configs([resource], raise_on_unknown=False)


def move_log_start(cluster: LocalCluster, topic: str, partition: int, offset: int) -> None:
    """Deletes the records before an offset."""
    with admin_of(cluster) as admin:
        admin.delete_records({kafka.TopicPartition(topic, partition): offset})


def recreate_topic(cluster: LocalCluster, topic: str, partitions: int = 1) -> None:
    """Deletes a topic and creates another one of the same name; a mirror may be quicker to create it."""
    with admin_of(cluster) as admin:
        before = admin.describe_topics([topic])[0]["topic_id"]
        admin.delete_topics([topic])

        def is_gone() -> bool:
            if topic not in admin.list_topics():
                return True
            [found] = admin.describe_topics([topic])
            return found["error_code"] == 0 and found["topic_id"] != before

        await_true(is_gone, what=f"{topic} is deleted")
    create_topics(cluster, {topic: (partitions, {})})


# --- records ---------------------------------------------------------------------------------------------------


def produce_raw(cluster: LocalCluster, topic: str, batches: Mapping[int, Sequence[bytes | bytearray]]) -> None:
    """Appends ready-made batches to partitions, each as a batch of its own, in order."""
    host, port = cluster.bootstrap.split(",")[0].split(":")
    with closing(connect(Address(host, int(port)), alias="raw", security={}, timeout_s=10)) as connection:
        for at in range(max((len(row) for row in batches.values()), default=0)):
            row = {partition: found[at] for partition, found in batches.items() if at < len(found)}
            deadline = time.monotonic() + 60
            while row:
                parts = encode_produce({topic: row.items()})
                frame, start = connection.exchange(PRODUCE_API, PRODUCE_BY_NAME, parts, timeout_s=30)
                verdicts = parse_produce(frame, start, by_id=False)
                refused = [verdict for verdict in verdicts if verdict.error]
                assert time.monotonic() < deadline or not refused, refused
                assert all(verdict.error in NOT_LEADING_YET for verdict in refused), refused
                row = {verdict.partition: row[verdict.partition] for verdict in refused}


def batch_of(
    values: Iterable[bytes | None],
    *,
    keys: Iterable[bytes | None] | None = None,
    codec: str = "none",
    timestamp: int | None = None,
) -> bytearray:
    """A batch of plain records with one timestamp."""
    values = list(values)
    stamp = now_ms() if timestamp is None else timestamp
    named = list(keys) if keys is not None else [b"k%d" % at for at in range(len(values))]
    records = [Record(at, stamp, key, value) for at, (key, value) in enumerate(zip(named, values, strict=True))]
    return build_batch(records, codec=CODECS[codec])


def numbered(count: int, *, first: int = 0, size: int = 20) -> list[bytes]:
    """Values that all differ, `size` bytes each, and do not compress well."""
    return [(b"%d:" % at + os.urandom(size))[:size] if size else b"" for at in range(first, first + count)]


def produce(cluster: LocalCluster, topic: str, partition: int, values: Collection[bytes], *, batch: int = 100) -> None:
    """Appends plain records in batches of so many."""
    wanted = list(values)
    batches = [batch_of(wanted[at : at + batch]) for at in range(0, len(wanted), batch)]
    produce_raw(cluster, topic, {partition: batches})


@contextmanager
def transactional(cluster: LocalCluster, name: str) -> Iterator[KafkaProducer]:
    """A producer of transactions."""
    options = {"transactional_id": name, "transaction_timeout_ms": 600_000}
    with closing(KafkaProducer(bootstrap_servers=cluster.bootstrap, **options)) as producer:
        producer.init_transactions()
        yield producer


def transaction(
    producer: KafkaProducer, topic: str, values: Sequence[bytes], *, commit: bool, partition: int = 0
) -> None:
    """One whole transaction."""
    producer.begin_transaction()
    for value in values:
        producer.send(topic, value, b"k", partition=partition)
    producer.flush()
    (producer.commit_transaction if commit else producer.abort_transaction)()


def now_ms() -> int:
    """The time as records carry it."""
    return int(time.time() * 1000)


def segment_files(cluster: LocalCluster, topic: str, partition: int) -> list[Path]:
    """The log segments of a partition on the first broker, oldest first."""
    return sorted((cluster.log_dirs[1] / f"{topic}-{partition}").glob("*.log"))
