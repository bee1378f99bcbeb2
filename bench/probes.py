"""The two ends of a latency measurement, each a process of its own, the same for every contender.

`python -m bench.probes produce ORDER` sends records with the time of sending inside, until it is killed.
`python -m bench.probes poll ORDER` fetches from the end on and writes the age of every record when it was received.
Both read the monotonic clock, which all processes of one machine share.
"""

from __future__ import annotations

import json
import struct
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.data import end_offsets
from bench.pipe import Pipe, address_of
from sparkmirror.clusters import (
    FETCH_API,
    FETCH_BY_NAME,
    PRODUCE_API,
    PRODUCE_BY_NAME,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    encode_produce,
    parse_fetch,
    parse_produce,
)
from sparkmirror.wire import BatchView, Record, build_batch, read_batches, read_records

__all__ = ["Order", "probe_command"]

SENT_AT = struct.Struct(">q")
PADDING = bytes(192)  # with the time: a value of 200 B
LIMITS = FetchLimits(wait_ms=100, bytes_min=1, bytes_max=50 << 20, partition_bytes_max=1 << 20, isolation=0)


@dataclass(frozen=True, slots=True)
class Order:
    """What a probe does; `ages_file` gets nanoseconds as JSON, of records that were sent after the warm-up."""

    bootstrap: str
    topic: str
    partitions: int
    records_per_s: int
    warm_up_s: float
    seconds: float
    ages_file: str


def probe_command(verb: str, order: Order) -> list[str]:
    """The command line of a probe."""
    return [sys.executable, "-m", "bench.probes", verb, json.dumps(asdict(order))]


def produce(order: Order) -> None:
    """One record per request, each at its time, whether or not the one before was answered."""
    pipe, start, number = Pipe(address_of(order.bootstrap)), time.monotonic(), 0
    while True:
        due = start + number / order.records_per_s
        while pipe.in_flight and pipe.has_answer(due - time.monotonic()):
            _check(*pipe.receive())
        time.sleep(max(due - time.monotonic(), 0.0))
        value = SENT_AT.pack(time.monotonic_ns()) + PADDING
        batch = build_batch([Record(0, int(time.time() * 1000), None, value)])
        items = [(number % order.partitions, batch)]
        pipe.send(PRODUCE_API, PRODUCE_BY_NAME, encode_produce({order.topic: items}))
        number += 1


def _check(frame: bytearray, at: int) -> None:
    for verdict in parse_produce(frame, at, by_id=False):
        if verdict.error:
            sys.exit(f"produce: error {verdict.error} {verdict.message}")


def poll(order: Order) -> None:
    """Fetches until the time is over."""
    pipe = Pipe(address_of(order.bootstrap))
    positions = end_offsets(order.bootstrap, order.topic, order.partitions)
    counts_from = time.monotonic_ns() + int(order.warm_up_s * 1e9)
    until = counts_from + int(order.seconds * 1e9)
    ages: list[int] = []
    while time.monotonic_ns() < until:
        wanted = [FetchFrom(index, offset) for index, offset in positions.items()]
        frame, at = pipe.ask(FETCH_API, FETCH_BY_NAME, [encode_fetch({order.topic: wanted}, LIMITS)])
        now = time.monotonic_ns()
        for part in parse_fetch(frame, at, by_id=False).partitions:
            for batch in read_batches(memoryview(frame), part.start, part.end):
                sent = _sent_at(batch, positions[part.partition])
                ages += [now - moment for moment in sent if moment >= counts_from]
                positions[part.partition] = batch.last_offset + 1
    Path(order.ages_file).write_text(json.dumps(ages), encoding="utf-8")


def _sent_at(batch: BatchView, from_offset: int) -> list[int]:
    """When the records of a batch were sent; one that lies before the position was seen already."""
    if batch.is_control:
        return []
    fresh = [record for record in read_records(batch) if record.offset >= from_offset]
    return [SENT_AT.unpack_from(record.value or b"")[0] for record in fresh]


if __name__ == "__main__":
    {"produce": produce, "poll": poll}[sys.argv[1]](Order(**json.loads(sys.argv[2])))
