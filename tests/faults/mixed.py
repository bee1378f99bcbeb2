"""A workload of every kind of record, and a ledger of what became of each send.

It runs as a process of its own (`python mixed.py SETTINGS`), so that it and the test do not starve each other. Every record
says who it is: run, lane, partition, number and a checksum, at the head of its value, or in a header where the value is
null, empty or too short. A lane is one producer with one way of sending and one codec; several lanes write to the same
partitions. The seed decides sizes, keys, headers, times and which transactions are aborted.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
import types
import zlib
from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, NamedTuple

import kafka.codec
import kafka.record.default_records
from kafka import KafkaAdminClient, KafkaProducer, TopicPartition
from kafka.errors import InvalidTimestampError, KafkaError
from kafka.structs import OffsetAndMetadata

from sparkmirror.local import LocalCluster, create_topic
from sparkmirror.local.processes import Child
from sparkmirror.wire import compress

__all__ = ["COMPACTED", "LANES", "MIXED", "PARTITIONS", "TRANSACTED", "Lane", "MixedWorkload", "Outcome", "Sent", "send_id"]

MIXED, TRANSACTED, COMPACTED = "mixed", "transacted", "compacted"
PARTITIONS = {MIXED: 4, TRANSACTED: 2, COMPACTED: 2}
# Times inside the records go back to 1970: nothing may be deleted by them.
KEEP = {"retention.ms": "-1"}
CONFIGS: Mapping[str, Mapping[str, str]] = {
    MIXED: KEEP,
    TRANSACTED: KEEP,
    # Cleaned all the time, in the smallest segments that Kafka 4 allows; tombstones outlive the run.
    COMPACTED: {
        "cleanup.policy": "compact",
        "segment.bytes": str(1 << 20),
        "min.cleanable.dirty.ratio": "0.01",
        "max.compaction.lag.ms": "5000",
    },
}
KEYS = 300  # of the compacted topic
ID_HEADER = "id"
NULL = b"null, whatever the client thinks of it"  # known by identity
SIZE_MAX = 64 * 1024
SECONDS_BEHIND_MAX = 1.0  # what a lane could not send in an outage is not made up for
DAY_MS = 24 * 3600 * 1000
SMOOTH_SECONDS_MAX = 2.0
REFUSED_EVERY_S = 2.0
GROUPS_EVERY_S = 0.5
FLUSH_SECONDS_MAX = 60.0
FINISH_SECONDS_MAX = 150.0  # what is not known by then stays unknown
PENDING_MAX = 500  # sends of a lane without an answer: the client itself holds any number of them in an outage
DELIVERY_MS = 60_000


class Outcome(IntEnum):
    """What is known of a send; UNKNOWN until something is."""

    UNKNOWN = 0
    OK = 1
    FAILED = 2
    ABORTED = 3


class Lane(NamedTuple):
    """One producer: how it sends, where, and its part of the bytes."""

    number: int
    kind: str  # plain, idempotent, transactional, keyed or refused
    codec: str | None
    topics: tuple[str, ...]
    share: float


LANES = (
    Lane(0, "plain", None, (MIXED,), 0.25),
    Lane(1, "plain", "gzip", (MIXED,), 0.08),
    Lane(2, "idempotent", "lz4", (MIXED, TRANSACTED), 0.20),
    Lane(3, "idempotent", "zstd", (MIXED,), 0.15),
    Lane(4, "transactional", "snappy", (TRANSACTED,), 0.17),
    Lane(5, "transactional", None, (TRANSACTED,), 0.05),
    Lane(6, "keyed", None, (COMPACTED,), 0.10),
    Lane(7, "refused", None, (MIXED,), 0.0),
)
LANE_BITS = 40


def send_id(lane: int, sequence: int) -> int:
    """One number for a send among those of its partition."""
    return lane << LANE_BITS | sequence


Place = tuple[int, str, int]  # lane, topic, partition


class Sent(NamedTuple):
    """The ledger at the end: for each lane, topic and partition the outcome of every number; and what it came to."""

    outcomes: dict[Place, bytes]
    records: int
    size: int
    troubles: list[str]

    def counted(self) -> str:
        """How many of each outcome."""
        counts = {outcome: sum(codes.count(outcome) for codes in self.outcomes.values()) for outcome in Outcome}
        return ", ".join(f"{count} {outcome.name.lower()}" for outcome, count in counts.items())


class MixedWorkload:
    """The process, as a test sees it."""

    def __init__(
        self, cluster: LocalCluster, folder: Path, *, run: str, seed: object, megabytes_per_s: float, groups: Sequence[str]
    ) -> None:
        self._report, self._log = folder / f"{run}.sent.json", folder / f"{run}.workload.log"
        settings = {
            "bootstrap": cluster.bootstrap,
            "run": run,
            "seed": str(seed),
            "bytes_per_s": megabytes_per_s * 1e6,
            "groups": list(groups),
            "report": str(self._report),
        }
        for topic, partitions in PARTITIONS.items():
            create_topic(cluster.bootstrap, topic, partitions=partitions, configs=CONFIGS[topic])
        path = folder / f"{run}.workload.json"
        path.write_text(json.dumps(settings), encoding="utf-8")
        self._child = Child("mixed workload", [sys.executable, __file__, str(path)], log_file=self._log)

    def __enter__(self) -> MixedWorkload:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.kill()

    @property
    def output(self) -> str:
        """What it said."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """False once it has ended, which it does not by itself."""
        return self._child.is_running

    def finish(self) -> Sent:
        """Stops it, waits for what it still owes, and reads its ledger."""
        self._child.send(signal.SIGTERM)
        status = self._child.wait(FINISH_SECONDS_MAX * 3)
        assert status == 0, f"the workload ended with {status}: {self.output[-4000:]}"
        found = json.loads(self._report.read_text(encoding="utf-8"))
        outcomes = {
            (lane, topic, partition): zlib.decompress(base64.b64decode(codes))
            for lane, topic, partition, codes in found["outcomes"]
        }
        return Sent(outcomes, found["records"], found["size"], found["troubles"])


# --- below: inside the process ---------------------------------------------------------------------------------


class Shape(NamedTuple):
    """One record to be sent."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    timestamp_ms: int | None


class Shaper:
    """Makes a lane's records, the same for the same seed."""

    def __init__(self, run: str, lane: Lane, seed: str) -> None:
        self.rng = random.Random(f"{seed}/{lane.number}")
        self._run, self._lane = run, lane
        noise = self.rng.randbytes(SIZE_MAX)
        # Half of it compresses well.
        self._pool = b"".join(noise[at : at + 512] + noise[:8] * 64 for at in range(0, SIZE_MAX, 512)) * 2
        self._last_ms = int(time.time() * 1000)

    def shape(self, partition: int, sequence: int) -> Shape:
        """The record of this number."""
        rng, lane = self.rng, self._lane
        key, value = self._key(sequence), self._body()
        headers = self._headers()
        if lane.kind == "keyed" and rng.random() < 0.1:
            value = None
        who = b"%s/%d/%d/%d/" % (self._run.encode(), lane.number, partition, sequence)
        room = len(who) + 9  # eight digits of checksum, and the bar behind them
        is_inside = value is not None and len(value) > room
        body = (value or b"")[room if is_inside else 0 :]
        text = who + b"%08x" % zlib.crc32(body, zlib.crc32(key or b""))
        if is_inside:
            value = text + b"|" + body
        else:
            headers.insert(rng.randint(0, len(headers)), (ID_HEADER, text))
        return Shape(key, value, headers, self._timestamp())

    def _key(self, sequence: int) -> bytes | None:
        if self._lane.kind == "keyed":
            return key_of(sequence)
        kind = self.rng.random()
        return None if kind < 0.3 else b"" if kind < 0.35 else b"%d" % self.rng.randrange(10_000)

    def _body(self) -> bytes | None:
        rng = self.rng
        kind = rng.random()
        if kind < 0.04:
            return None
        if kind < 0.08:
            return b""
        if kind < 0.5:
            size = rng.randint(1, 500)
        elif kind < 0.85:
            size = rng.randint(500, 8_000)
        elif kind < 0.97:
            size = rng.randint(8_000, 32_000)
        else:
            size = rng.randint(32_000, SIZE_MAX) if rng.random() < 0.7 else SIZE_MAX
        at = rng.randrange(len(self._pool) - size + 1)
        return self._pool[at : at + size]

    def _headers(self) -> list[tuple[str, bytes | None]]:
        if self.rng.random() < 0.5:
            return []
        # No colon: Java's console consumer could not show where the name ends.
        word = b"%x" % self.rng.getrandbits(32)
        return [("h", word), ("n", None), ("h", word[::-1]), ("e", b""), ("h", word)][: self.rng.randint(1, 5)]

    def _timestamp(self) -> int | None:
        """Old times only where nothing is sent again: a broker forgets idempotent producers by them."""
        kind, now = self.rng.random(), int(time.time() * 1000)
        if self._lane.kind == "refused":
            return now + 2 * 3600 * 1000
        if kind < 0.6:
            self._last_ms = now
        elif kind < 0.7:
            return self._last_ms - self.rng.randrange(60_000)
        elif kind < 0.75 and self._lane.kind == "plain":
            return self.rng.randrange(1_000_000)
        elif kind < 0.85 and self._lane.kind == "plain":
            return now - 2 * DAY_MS - self.rng.randrange(1000)
        return self._last_ms  # equal to the one before


def key_of(sequence: int) -> bytes:
    """The compacted topic's key of this number."""
    return b"key-%d" % (sequence * 7919 % KEYS)


class Books:
    """What became of every send, and how far each partition is acked."""

    def __init__(self) -> None:
        self.outcomes: dict[Place, bytearray] = {}
        self.acked: dict[tuple[str, int], int] = {}
        self.troubles: list[str] = []
        self.size = 0

    def issue(self, place: Place) -> int:
        """The number of a new send."""
        codes = self.outcomes.setdefault(place, bytearray())
        codes.append(Outcome.UNKNOWN)
        return len(codes) - 1

    def settle(self, place: Place, sequence: int, outcome: Outcome) -> None:
        """It is known now."""
        self.outcomes[place][sequence] = outcome

    def see(self, place: Place, offset: int) -> None:
        """The broker gave it this offset."""
        _, topic, partition = place
        self.acked[topic, partition] = max(self.acked.get((topic, partition), 0), offset)

    def complain(self, lane: Lane, error: BaseException) -> None:
        """A trouble of a producer; a few thousand are enough."""
        if len(self.troubles) < 1000:
            when, what = time.strftime("%H:%M:%S"), f"{type(error).__name__}: {error}"
            self.troubles.append(f"{when} lane {lane.number} {lane.kind}: {what}")

    def write(self, path: Path) -> None:
        """The report."""
        shown = [
            [lane, topic, partition, base64.b64encode(zlib.compress(codes)).decode()]
            for (lane, topic, partition), codes in self.outcomes.items()
        ]
        records = sum(map(len, self.outcomes.values()))
        text = json.dumps({"outcomes": shown, "records": records, "size": self.size, "troubles": self.troubles})
        path.write_text(text, encoding="utf-8")


class LaneRunner:
    """One lane's thread."""

    def __init__(self, lane: Lane, settings: Mapping[str, Any], books: Books, stop: threading.Event) -> None:
        self._lane, self._settings, self._books, self._stop = lane, settings, books, stop
        self._shaper = Shaper(settings["run"], lane, settings["seed"])
        self._rate = max(lane.share * settings["bytes_per_s"], 1.0)
        self._began, self._sent = time.monotonic(), 0.0
        self._free = threading.Semaphore(PENDING_MAX)
        self.thread = threading.Thread(target=self._run, name=f"lane {lane.number}", daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(self._producer()) as producer:
                    if self._lane.kind == "transactional":
                        self._transact(producer)
                    else:
                        self._stream(producer)
            except KafkaError as error:
                self._books.complain(self._lane, error)
                self._stop.wait(0.2)
        if self._lane.kind == "transactional":
            self._leave_nothing_open()

    def _producer(self) -> KafkaProducer:
        options: dict[str, Any] = {"bootstrap_servers": self._settings["bootstrap"], "acks": "all"}
        options |= {"compression_type": self._lane.codec, "linger_ms": 10, "delivery_timeout_ms": DELIVERY_MS}
        options |= {"reconnect_backoff_max_ms": 1000}
        if self._lane.kind in ("plain", "refused"):
            options |= {"enable_idempotence": False, "retries": 0}
        if self._lane.kind == "transactional":
            options |= {"transactional_id": f"{self._settings['run']}-{self._lane.number}"}
        producer = KafkaProducer(**options)
        if self._lane.kind == "transactional":
            producer.init_transactions()
        return producer

    def _wait_for_turn(self) -> bool:
        """False when it is time to end."""
        if self._lane.kind == "refused":
            return not self._stop.wait(REFUSED_EVERY_S) and self._free.acquire()
        while not self._stop.is_set():
            due = (time.monotonic() - self._began) * self._rate
            if due - self._sent > SECONDS_BEHIND_MAX * self._rate:
                self._sent = due - SECONDS_BEHIND_MAX * self._rate
            if self._sent > due:
                self._stop.wait((self._sent - due) / self._rate + 0.002)
            elif self._free.acquire(timeout=0.2):
                return True
        return False

    def _next(self) -> tuple[Place, int, Shape]:
        topic = self._shaper.rng.choice(self._lane.topics)
        partition = self._shaper.rng.randrange(PARTITIONS[topic])
        place = (self._lane.number, topic, partition)
        sequence = self._books.issue(place)
        shape = self._shaper.shape(partition, sequence)
        size = len(shape.value or b"") + 40
        self._sent += size
        self._books.size += size
        return place, sequence, shape

    def _stream(self, producer: KafkaProducer) -> None:
        try:
            while self._wait_for_turn():
                place, sequence, shape = self._next()
                future = self._send(producer, place, shape)
                future.add_callback(self._is_ok, place, sequence)
                future.add_errback(self._is_not_ok, place, sequence)
        finally:
            producer.flush(timeout=FLUSH_SECONDS_MAX)

    def _send(self, producer: KafkaProducer, place: Place, shape: Shape) -> Any:
        _, topic, partition = place
        key, value = (NULL if part is None else part for part in (shape.key, shape.value))
        headers = [(name, NULL if part is None else part) for name, part in shape.headers]
        when = shape.timestamp_ms
        try:
            future = producer.send(topic, value, key, headers=headers, partition=partition, timestamp_ms=when)
        except KafkaError:
            self._free.release()
            raise
        return future.add_both(lambda _: self._free.release())

    def _is_ok(self, place: Place, sequence: int, metadata: Any) -> None:
        self._books.settle(place, sequence, Outcome.OK)
        self._books.see(place, metadata.offset)

    def _is_not_ok(self, place: Place, sequence: int, error: BaseException) -> None:
        if isinstance(error, InvalidTimestampError):  # the broker's own word
            self._books.settle(place, sequence, Outcome.FAILED)
        else:
            self._books.complain(self._lane, error)

    def _transact(self, producer: KafkaProducer) -> None:
        rng = self._shaper.rng
        while self._wait_for_turn():
            sends: list[tuple[Place, int]] = []
            answers = []
            began = time.monotonic()
            try:
                producer.begin_transaction()
                for number in range(rng.randint(1, 30)):
                    if number and not self._free.acquire(timeout=FLUSH_SECONDS_MAX):
                        break
                    place, sequence, shape = self._next()
                    sends.append((place, sequence))
                    answers.append(self._send(producer, place, shape).add_callback(self._is_acked, place))
                producer.flush(timeout=FLUSH_SECONDS_MAX)
                is_abort = rng.random() < 0.3
                if is_abort:
                    producer.abort_transaction()
            except KafkaError:
                # It was never committed, and whoever takes the id next ends it.
                self._settle(sends, Outcome.ABORTED)
                raise
            if is_abort:
                self._settle(sends, Outcome.ABORTED)
                continue
            producer.commit_transaction()  # if this fails they stay unknown
            # Seen three times: the broker was restarted in mid-transaction, every send and the commit succeeded, and Java's
            # consumer finds not one of its records on the source. What took longer than a healthy broker takes is unknown:
            # it may be there or not, but on both sides alike.
            is_smooth = time.monotonic() - began < SMOOTH_SECONDS_MAX
            if is_smooth and all(answer.succeeded() for answer in answers):
                self._settle(sends, Outcome.OK)

    def _is_acked(self, place: Place, metadata: Any) -> None:
        self._books.see(place, metadata.offset)

    def _settle(self, sends: Sequence[tuple[Place, int]], outcome: Outcome) -> None:
        for place, sequence in sends:
            self._books.settle(place, sequence, outcome)

    def _leave_nothing_open(self) -> None:
        """A new producer of the same id ends what the last one may have left."""
        while True:
            try:
                self._producer().close()
            except KafkaError as error:
                self._books.complain(self._lane, error)
            else:
                return


class GroupRunner:
    """Groups that go forward, each at its own pace, as consumers that come and go would commit."""

    def __init__(self, settings: Mapping[str, Any], books: Books, stop: threading.Event) -> None:
        self._settings, self._books, self._stop = settings, books, stop
        self._rng = random.Random(f"{settings['seed']}/groups")
        self._at: dict[tuple[str, str, int], int] = {}
        self.thread = threading.Thread(target=self._run, name="groups", daemon=True)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                with contextlib.closing(KafkaAdminClient(bootstrap_servers=self._settings["bootstrap"])) as admin:
                    while not self._stop.wait(GROUPS_EVERY_S):
                        for group in self._rng.sample(self._settings["groups"], k=len(self._settings["groups"])):
                            wanted = dict(self._forward(group))
                            if wanted:
                                admin.alter_group_offsets(group, wanted)
            except KafkaError as error:
                self._books.complain(Lane(-1, "groups", None, (), 0.0), error)
                self._stop.wait(0.5)

    def _forward(self, group: str) -> Iterator[tuple[TopicPartition, OffsetAndMetadata]]:
        for (topic, partition), acked in list(self._books.acked.items()):
            if topic == COMPACTED or self._rng.random() < 0.5:
                continue
            at = self._at.get((group, topic, partition), 0)
            # Mostly close behind, sometimes not at all.
            at = self._rng.choice([at, self._rng.randint(at, max(at, acked + 1)), max(at, acked + 1)])
            self._at[group, topic, partition] = at
            yield TopicPartition(topic, partition), OffsetAndMetadata(at, "", -1)


def _teach_client() -> None:
    """kafka-python asks for three packages more to compress, and refuses null in headers and in key and value at once.

    The compressed bytes are ours here; brokers and Java read them.
    """
    module = kafka.record.default_records
    for number, name in ((2, "snappy"), (3, "lz4"), (4, "zstd")):
        setattr(kafka.codec, name, types.SimpleNamespace())
        setattr(module, f"{name}_encode", lambda data, number=number: compress(number, bytes(data)))
    builder = module.DefaultRecordBatchBuilder
    append = builder.append

    def with_nulls(self: Any, offset: int, timestamp: Any, key: Any, value: Any, headers: Any) -> Any:
        key, value = (None if part is NULL else part for part in (key, value))
        headers = [(name, None if part is NULL else part) for name, part in headers]
        return append(self, offset, timestamp, key, value, headers)

    builder.append = with_nulls


def main(settings_path: str) -> None:
    """Sends until SIGTERM, then writes its ledger."""
    settings = json.loads(Path(settings_path).read_text(encoding="utf-8"))
    _teach_client()
    stop = threading.Event()
    faulthandler.register(signal.SIGUSR1)  # shows where each lane is
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    books = Books()
    runners = [LaneRunner(lane, settings, books, stop) for lane in LANES]
    groups = GroupRunner(settings, books, stop)
    for thread in (*(runner.thread for runner in runners), groups.thread):
        thread.start()
    while not stop.wait(1.0):
        dead = [runner.thread.name for runner in runners if not runner.thread.is_alive()]
        if dead:
            raise SystemExit(f"dead: {dead}")
    deadline = time.monotonic() + FINISH_SECONDS_MAX
    for thread in (*(runner.thread for runner in runners), groups.thread):
        thread.join(max(deadline - time.monotonic(), 0.0))
        if thread.is_alive():
            books.troubles.append(f"{thread.name} did not end: what it owes is unknown")
    books.write(Path(settings["report"]))
    for trouble in books.troubles:
        print(trouble)
    sys.stdout.flush()
    os._exit(0)  # nothing that is still on its way may hold it up


if __name__ == "__main__":
    main(sys.argv[1])
