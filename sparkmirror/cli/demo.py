"""sparkmirror demo: two real clusters, a mirror between them, and the proof that both hold the same records."""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sparkmirror.cli.demo_topics import TOPICS, fill, trickle
from sparkmirror.cli.run import drive, view_for
from sparkmirror.cli.signals import Interrupted, Signals
from sparkmirror.cli.text import amount, megabytes, printable
from sparkmirror.config import load
from sparkmirror.control import Mirror, RunOptions
from sparkmirror.diagnose.exit_status import INTERRUPTED
from sparkmirror.failover import OWNER_VERBS
from sparkmirror.local import KAFKA_VERSION, LocalCluster, kafka_jars, open_clusters
from sparkmirror.local.reading import JavaRecord, compare, java_records, topic_ends
from sparkmirror.model import TopicPartition
from sparkmirror.status import FlowStatus

# Most of the demo is starting JVMs (brokers, producers, Spark, eight console consumers: 76 s of CPU for 2,000 records);
# 400,000 records take 43 s more CPU, nearly all of it to read both sides for the comparison.
RECORDS = 200_000
RECORD_BYTES = 300
SLOTS = 2
DIFFERENT = 1

FILE_TEXT = """\
clusters = A, B
A.bootstrap.servers = {a}
B.bootstrap.servers = {b}
A->B.enabled = true
A->B.topics = {topics}
tasks.max = {slots}
# one broker each, so one replica of everything
replication.factor = 1
offset-syncs.topic.replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset.storage.replication.factor = 1
emit.heartbeats.enabled = false
"""


def demo(
    records: Annotated[int, typer.Option(min=100, max=100_000_000, help="Total number of records.")] = RECORDS,
    size: Annotated[int, typer.Option(min=1, max=900_000, help="Size of a plain record in bytes.")] = RECORD_BYTES,
) -> None:
    """Mirror between two clusters on this machine, compare every record, and clean up.

    Prints `identical: yes` and exits with 0, or prints the first difference and `identical: no` and exits with 1.
    """
    with Signals() as signals:
        try:
            status = _demo(records, size, signals)
        except Interrupted:
            status = INTERRUPTED
        if signals.asked:
            _say("interrupted; clusters and data are removed")
            status = INTERRUPTED
    sys.exit(status)


def _demo(records: int, size: int, signals: Signals) -> int:
    began = time.monotonic()
    kafka_jars(_say)
    _say(f"starting two Kafka {KAFKA_VERSION} clusters on this machine, A and B, one broker each")
    with (
        open_clusters(LocalCluster("A"), LocalCluster("B")) as (source, target),
        tempfile.TemporaryDirectory(prefix="sparkmirror-demo-") as folder,
    ):
        _say(f"  A at {source.bootstrap}, B at {target.bootstrap} ({time.monotonic() - began:.1f} s)")
        counts = _fill(source, records, size, Path(folder))
        file = _write_file(source, target, Path(folder))
        story = _mirror(source, file, sum(counts.values()), size, signals)
        if story.status or signals.asked:
            return story.status
        difference = _compare(source, target, story)
    _say(f"clusters and data are removed; the demo took {time.monotonic() - began:.0f} s")
    if difference:
        _say(f"first difference: {difference}")
    _say(f"identical: {'no' if difference else 'yes'}")
    return DIFFERENT if difference else 0


def _fill(source: LocalCluster, records: int, size: int, folder: Path) -> dict[str, int]:
    _say("filling A with Kafka's own producers")
    began = time.monotonic()
    counts = fill(source.bootstrap, records, size, folder)
    for topic in TOPICS:
        partitions = f"{topic.partitions} partition{'s' if topic.partitions > 1 else ''}"
        _say(f"  {topic.name:<10} {amount(counts[topic.name]):>9} records, {partitions}, {topic.kind}")
    _say(f"  written in {time.monotonic() - began:.1f} s")
    return counts


def _write_file(source: LocalCluster, target: LocalCluster, folder: Path) -> Path:
    topics = ", ".join(topic.name for topic in TOPICS)
    text = FILE_TEXT.format(a=source.bootstrap, b=target.bootstrap, topics=topics, slots=SLOTS)
    path = folder / "mm2.properties"
    path.write_text(text, encoding="iso-8859-1")
    _say("mm2.properties, as MirrorMaker 2 reads it:")
    for line in text.splitlines():
        _say(f"  {line}")
    return path


# --- mirroring -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Story:
    """The result of the run."""

    status: int = 0
    lag: int = 0
    copied: int = 0
    copied_bytes: int = 0
    seconds: float = 0.0


class _Watch:
    """Decides when the demo is done: the first load is copied, and so are some records written during the run."""

    def __init__(self, bootstrap: str, first_load: int, size: int) -> None:
        self._bootstrap, self._first_load = bootstrap, first_load
        live = max(first_load // 100, 30)
        self._trickle = threading.Thread(target=trickle, args=(bootstrap, live, size), daemon=True)
        self._ends: dict[TopicPartition, int] = {}
        self._has_begun = False
        self.story = _Story()

    def is_enough(self, flows: Sequence[FlowStatus]) -> bool:
        [flow] = flows
        if not self._has_begun:
            self._has_begun = any(p.state == "copying" for p in flow.partitions.values())
            if not self._has_begun:
                return False
            self._trickle.start()
        if not self.story.copied and flow.records >= self._first_load:
            # The first receipt reports that a partition is being copied; by then the whole partition may be copied already.
            self.story.seconds = time.monotonic() - min(p.taken_at for p in flow.partitions.values() if p.taken_at)
            self.story.copied, self.story.copied_bytes = flow.records, flow.record_bytes
        if self._trickle.is_alive():
            return False
        if not self._ends:
            for topic in TOPICS:
                for partition, end in topic_ends(self._bootstrap, topic.name).items():
                    self._ends[TopicPartition(topic.name, partition)] = end
        behind = [end - flow.partitions[p].next_upstream for p, end in self._ends.items() if p in flow.partitions]
        self.story.lag = sum(max(lag, 0) for lag in behind)
        return len(behind) == len(self._ends) and self.story.lag == 0


def _mirror(source: LocalCluster, file: Path, first_load: int, size: int, signals: Signals) -> _Story:
    _say(f"sparkmirror run mm2.properties: Spark in local mode, {SLOTS} slots, each one long task that copies batches")
    _say("  as bytes from A to B; some more records are written to A while it runs")
    watch = _Watch(source.bootstrap, first_load, size)
    mirror = Mirror(load(str(file)), RunOptions(verbs=OWNER_VERBS))
    try:
        watch.story.status = drive(mirror, view_for(Console()), signals, once=False, is_enough=watch.is_enough)
    finally:
        signals.is_deferred = False
    return watch.story


# --- comparing -------------------------------------------------------------------------------------------------


def _compare(source: LocalCluster, target: LocalCluster, story: _Story) -> str:
    """The first difference, or an empty string."""
    _say("reading A and B with Kafka's own console consumer, comparing key, value, headers, timestamp, order")
    first_difference = ""
    total, total_bytes = 0, 0
    for topic in TOPICS:
        ours, theirs = _read_both(source, topic.name, target, f"A.{topic.name}")
        count, size = sum(map(len, ours.values())), sum(_size(r) for found in ours.values() for r in found)
        total, total_bytes = total + count, total_bytes + size
        differences = compare(ours, theirs)
        verdict = "different" if differences else "same"
        _say(f"  {topic.name:<10} {amount(count):>9} records {megabytes(size):>9}  A.{topic.name} on B: {verdict}")
        if differences and not first_difference:
            first_difference = f"{topic.name}, {differences[0]}"
    rate = ""
    if story.seconds:
        records, size_rate = story.copied / story.seconds, story.copied_bytes / story.seconds
        rate = f"; first load copied at {amount(records)} records/s, {megabytes(size_rate)}/s"
    _say(f"{amount(total)} records, {megabytes(total_bytes)}{rate}; lag {story.lag}")
    return first_difference


Records = dict[int, list[JavaRecord]]


def _read_both(source: LocalCluster, topic: str, target: LocalCluster, remote: str) -> tuple[Records, Records]:
    with ThreadPoolExecutor(max_workers=2) as pool:
        ours = pool.submit(java_records, source.bootstrap, topic)
        theirs = pool.submit(java_records, target.bootstrap, remote)
        return ours.result(), theirs.result()


def _size(record: JavaRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


def _say(line: str) -> None:
    print(printable(line), flush=True)
