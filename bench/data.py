"""The source topics: made once per run, the same bytes for every contender."""

from __future__ import annotations

import contextlib
import json
import random
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from kafka import KafkaAdminClient
from kafka.errors import UnknownTopicOrPartitionError

from bench.pipe import Pipe, address_of, list_offsets_body, read_offsets
from bench.scenarios import Scenario
from sparkmirror.clusters import PRODUCE_API, PRODUCE_BY_NAME, encode_produce, parse_produce
from sparkmirror.errors import InternalError
from sparkmirror.local import LocalCluster, create_topic, java_tool, perf_produce
from sparkmirror.local.tools import PRODUCER_PERFORMANCE
from sparkmirror.wire import Record, build_batch

__all__ = [
    "LIST_OFFSETS_API",
    "LIST_OFFSETS_VERSION",
    "SourceTopic",
    "end_offsets",
    "make_empty_topic",
    "make_topic",
    "remove_other_topics",
]

LIST_OFFSETS_API, LIST_OFFSETS_VERSION = 2, 6
JSON_LINES = 20_000  # distinct ones; the tool picks among them, so that a codec finds about what it finds in real data
BATCH_RECORDS = 32  # of 500 B: the default batch.size of 16 KB
DISTINCT_BATCHES = 64
IN_FLIGHT_MAX = 20
SEED = 20_240
REMOVE_S = LEADER_S = 60.0


@dataclass(frozen=True, slots=True)
class SourceTopic:
    """A filled topic: where each partition ends, and the bytes of its batches on disk."""

    name: str
    ends: dict[int, int]
    log_bytes: int

    @property
    def records(self) -> int:
        """Records in all partitions."""
        return sum(self.ends.values())


def make_topic(cluster: LocalCluster, scenario: Scenario, scale: float) -> SourceTopic:
    """Creates and fills the topic of a scenario."""
    records = scenario.scaled_records(scale)
    # A topic that is copied many times over hours must not lose its head to retention.
    make_empty_topic(cluster.bootstrap, scenario.key, scenario.partitions, {"retention.ms": "-1"})
    if scenario.content == "random":
        perf_produce(
            cluster.bootstrap,
            scenario.key,
            records=records,
            record_bytes=scenario.record_bytes,
            producer=scenario.producer,
        )
    elif scenario.content == "json":
        _produce_json(cluster.bootstrap, scenario, records)
    else:
        _produce_uneven(cluster.bootstrap, scenario, records)
    ends = end_offsets(cluster.bootstrap, scenario.key, scenario.partitions)
    return SourceTopic(scenario.key, ends, _log_bytes(cluster, scenario.key))


def make_empty_topic(
    bootstrap: str, name: str, partitions: int, configs: Mapping[str, str] | None = None
) -> None:
    """Creates a topic and waits until it can be written: metadata names leaders before they know that they lead."""
    create_topic(bootstrap, name, partitions=partitions, configs=configs)
    end_offsets(bootstrap, name, partitions)


def end_offsets(bootstrap: str, topic: str, partitions: int) -> dict[int, int]:
    """The end of every partition; waits until each has a leader that answers."""
    pipe, deadline = Pipe(address_of(bootstrap)), time.monotonic() + LEADER_S
    body = list_offsets_body(topic, range(partitions))
    try:
        while True:
            found = read_offsets(*pipe.ask(LIST_OFFSETS_API, LIST_OFFSETS_VERSION, [body]))
            if len(found) == partitions:
                return found
            if time.monotonic() > deadline:
                raise InternalError(f"{topic}: {partitions} end offsets asked for, {len(found)} answered")
            time.sleep(0.05)
    finally:
        pipe.close()


def remove_other_topics(bootstrap: str, keep: Collection[str]) -> None:
    """Deletes every topic but these and Kafka's own, and waits until none is left."""
    deadline = time.monotonic() + REMOVE_S
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        while True:
            others = [name for name in admin.list_topics() if name not in keep and not name.startswith("__")]
            if not others:
                return
            if time.monotonic() > deadline:
                raise InternalError(f"topics are still there {REMOVE_S:.0f} s after they were deleted: {others}")
            with contextlib.suppress(UnknownTopicOrPartitionError):
                admin.delete_topics(others)
            time.sleep(0.1)


def _log_bytes(cluster: LocalCluster, topic: str) -> int:
    [folder] = cluster.log_dirs.values()
    return sum(segment.stat().st_size for segment in folder.glob(f"{topic}-*/*.log"))


def _produce_json(bootstrap: str, scenario: Scenario, records: int) -> None:
    with tempfile.NamedTemporaryFile("w", prefix="sparkmirror-bench-", suffix=".json", encoding="utf-8") as lines:
        lines.writelines(f"{line}\n" for line in _json_lines())
        lines.flush()
        arguments = ["--bootstrap-server", bootstrap, "--topic", scenario.key, "--num-records", str(records)]
        arguments += ["--payload-file", lines.name, "--throughput", "-1"]
        if scenario.producer:
            arguments += ["--command-property", *(f"{key}={value}" for key, value in scenario.producer.items())]
        java_tool(PRODUCER_PERFORMANCE, arguments, options=())


def _json_lines() -> Iterator[str]:
    """Orders of a shop, about 500 B each."""
    chance = random.Random(SEED)
    names = ["lamp", "chair", "table", "carpet", "spool", "mirror", "curtain", "cushion", "blanket", "vase"]
    cities = ["Lisbon", "Oslo", "Graz", "Turin", "Leeds", "Ghent", "Brno", "Malmö", "Porto", "Cork"]
    for number in range(JSON_LINES):
        lines = [
            {"sku": f"{chance.choice(names)}-{chance.randrange(900):03}", "count": chance.randrange(1, 9)}
            for _ in range(chance.randrange(2, 5))
        ]
        order = {
            "id": f"{chance.getrandbits(128):032x}",
            "created_at": 1_700_000_000_000 + number * 137,
            "customer": {"id": chance.randrange(10**7), "city": chance.choice(cities), "tier": chance.randrange(4)},
            "session": f"{chance.getrandbits(160):040x}",
            "lines": lines,
            "total": round(chance.random() * 400, 2),
            "currency": "EUR",
            "state": chance.choice(["placed", "paid", "packed", "sent", "returned"]),
            "agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko)",
        }
        yield json.dumps(order, ensure_ascii=False)


def _produce_uneven(bootstrap: str, scenario: Scenario, records: int) -> None:
    """Fills partition n with 1/(n+1) of what partition 0 gets (Zipf), in batches as a Java producer makes them."""
    shares = [1 / (index + 1) for index in range(scenario.partitions)]
    left = [max(round(records * share / sum(shares) / BATCH_RECORDS), 1) for share in shares]
    batches = _random_batches(scenario.record_bytes)
    pipe, sent = Pipe(address_of(bootstrap)), 0
    while any(left):
        wanted = [index for index, count in enumerate(left) if count]
        items = [(index, batches[(sent + index) % DISTINCT_BATCHES]) for index in wanted]
        pipe.send(PRODUCE_API, PRODUCE_BY_NAME, encode_produce({scenario.key: items}))
        sent += 1
        for index in wanted:
            left[index] -= 1
        while pipe.in_flight > (IN_FLIGHT_MAX if any(left) else 0):
            for verdict in parse_produce(*pipe.receive(), by_id=False):
                if verdict.error:
                    raise InternalError(f"{scenario.key}-{verdict.partition}: error {verdict.error} {verdict.message}")
    pipe.close()


def _random_batches(record_bytes: int) -> list[bytearray]:
    chance, now = random.Random(SEED), int(time.time() * 1000)
    return [
        build_batch([Record(i, now, None, chance.randbytes(record_bytes)) for i in range(BATCH_RECORDS)])
        for _ in range(DISTINCT_BATCHES)
    ]
