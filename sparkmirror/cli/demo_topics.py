"""The topics of the demo: four kinds of data, written by Kafka's own Java tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.local import create_topic, java_tool, perf_produce

PERF = "org.apache.kafka.tools.ProducerPerformance"
CONSOLE = "org.apache.kafka.tools.ConsoleProducer"
LINES = 1_000  # different JSON records to choose from
CUSTOMERS = 500  # keys of the compacted topic
NULL = "(null)"
TRICKLE_S = 3


@dataclass(frozen=True, slots=True)
class DemoTopic:
    """One topic and its share of the records."""

    name: str
    kind: str
    share: float
    partitions: int
    produce: Callable[[str, str, int, int, Path], None]
    configs: Mapping[str, str] = field(default_factory=dict)


def fill(bootstrap: str, records: int, record_bytes: int, scratch: Path) -> dict[str, int]:
    """Creates the topics and writes to them, two at a time; returns how many records each one got."""
    (scratch / "lines.json").write_text(_json_lines(), encoding="utf-8")
    counts = {topic.name: max(int(records * topic.share), 10) for topic in TOPICS}

    def make(topic: DemoTopic) -> None:
        create_topic(bootstrap, topic.name, partitions=topic.partitions, configs=topic.configs)
        topic.produce(bootstrap, topic.name, counts[topic.name], record_bytes, scratch / "lines.json")

    pool = ThreadPoolExecutor(max_workers=2)
    try:
        list(pool.map(make, TOPICS))
    finally:
        pool.shutdown(cancel_futures=True)
    return counts


def trickle(bootstrap: str, records: int, record_bytes: int) -> None:
    """Writes a few more plain records over some seconds."""
    perf_produce(
        bootstrap, "orders", records=records, record_bytes=record_bytes, throughput=max(records // TRICKLE_S, 1)
    )


def _plain(bootstrap: str, topic: str, records: int, record_bytes: int, lines: Path) -> None:
    perf_produce(bootstrap, topic, records=records, record_bytes=record_bytes)


def _json(bootstrap: str, topic: str, records: int, record_bytes: int, lines: Path) -> None:
    _produce_lines(bootstrap, topic, records, lines, "--command-property", "compression.type=lz4")


def _transactional(bootstrap: str, topic: str, records: int, record_bytes: int, lines: Path) -> None:
    transactions = ["--transactional-id", "sparkmirror-demo", "--transaction-duration-ms", "100"]
    _produce_lines(bootstrap, topic, records, lines, *transactions)


def _produce_lines(bootstrap: str, topic: str, records: int, lines: Path, *more: str) -> None:
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    arguments += ["--payload-file", str(lines), "--throughput", "-1"]
    java_tool(PERF, [*arguments, *more], options=())


def _keyed(bootstrap: str, topic: str, records: int, record_bytes: int, lines: Path) -> None:
    """Customers that change, with two headers each; every tenth record is a tombstone."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic]
    for setting in ("parse.headers=true", "parse.key=true", f"null.marker={NULL}"):
        arguments += ["--reader-property", setting]
    text = "".join(
        f"source:web,change:{at}\tcustomer-{at * 7 % CUSTOMERS}\t{NULL if at % 10 == 9 else f'name {at}'}\n"
        for at in range(records)
    )
    java_tool(CONSOLE, arguments, stdin=text.encode())


def _json_lines() -> str:
    return "\n".join(
        json.dumps({"id": at, "item": f"item-{at * 7919 % 1000}", "price": at * 37 % 9973 / 100, "tags": ["new", "eu"]})
        for at in range(LINES)
    )


TOPICS = (
    DemoTopic("orders", "plain", 0.5, 4, _plain),
    DemoTopic("events", "JSON, lz4", 0.3, 2, _json),
    DemoTopic("payments", "transactions", 0.15, 2, _transactional),
    DemoTopic("customers", "compacted, headers, tombstones", 0.05, 1, _keyed, {"cleanup.policy": "compact"}),
)
