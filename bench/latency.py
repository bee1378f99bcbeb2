"""Latency at a gentle rate: from sending at the source to receiving at the target, and straight at the source."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from bench.contenders import Contender, Copy, running
from bench.data import SourceTopic, make_empty_topic
from bench.measure import Watch
from bench.probes import Order, probe_command
from sparkmirror.local.java import log_tail
from sparkmirror.local.processes import Child, ScratchFolder

__all__ = [
    "RECORDS_PER_S",
    "STRAIGHT",
    "Latency",
    "Span",
    "latency_of_copy",
    "latency_straight",
    "latency_topic",
]

PARTITIONS = 4
RECORDS_PER_S = 500
STRAIGHT = "straight"
START_S = 120.0
ARRIVED_MIN = 0.95  # of the records that were to be seen; a contender that drops behind has no latency to speak of
MS = 1e6


@dataclass(frozen=True, slots=True)
class Span:
    """How long to wait before counting, and how long to count."""

    warm_up_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles of one measurement; with `failure` set they are missing."""

    failure: str | None = None
    records: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None
    p999_ms: float | None = None
    max_ms: float | None = None


def latency_straight(source: str, topic: str, span: Span) -> Latency:
    """What a consumer of the source itself sees; no contender runs."""
    make_empty_topic(source, topic, PARTITIONS)
    scratch = ScratchFolder("bench-straight")
    producer = _start_producer(source, topic, scratch.path)
    try:
        return _poll(source, topic, span, scratch.path)
    finally:
        producer.kill()
        scratch.remove()


def latency_of_copy(contender: Contender, copy: Copy, span: Span) -> Latency:
    """What a consumer of the remote topic sees while the contender copies."""
    make_empty_topic(copy.source, copy.topic.name, PARTITIONS)
    scratch = ScratchFolder("bench-latency")
    producer = _start_producer(copy.source, copy.topic.name, scratch.path)
    try:
        with running(contender, copy) as runner:
            if not _is_copying(copy):
                print(runner.log_tail(), file=sys.stderr)
                return Latency(f"did not reach every partition in {START_S:.0f} s")
            found = _poll(copy.target, copy.remote, span, scratch.path)
            if not runner.child.is_running:
                print(runner.log_tail(), file=sys.stderr)
                return Latency(f"ended with status {runner.child.exit_status} while it was to copy")
            return found
    finally:
        producer.kill()
        scratch.remove()


def latency_topic(name: str) -> SourceTopic:
    """A topic that is filled while it is copied."""
    return SourceTopic(name, dict.fromkeys(range(PARTITIONS), 1), 0)


def _is_copying(copy: Copy) -> bool:
    watch, deadline = Watch(copy), time.monotonic() + START_S
    try:
        while time.monotonic() < deadline:
            watch.look()
            if watch.is_done:  # at least one record in every partition
                return True
            time.sleep(0.1)
        return False
    finally:
        watch.close()


def _order(bootstrap: str, topic: str, span: Span, ages: Path) -> Order:
    return Order(bootstrap, topic, PARTITIONS, RECORDS_PER_S, span.warm_up_s, span.seconds, str(ages))


def _start_producer(bootstrap: str, topic: str, folder: Path) -> Child:
    order = _order(bootstrap, topic, Span(0, 0), folder / "unused")
    return Child("bench producer", probe_command("produce", order), log_file=folder / "producer.log")


def _poll(bootstrap: str, topic: str, span: Span, folder: Path) -> Latency:
    ages_file = folder / "ages.json"
    command = probe_command("poll", _order(bootstrap, topic, span, ages_file))
    poller = Child("bench poller", command, log_file=folder / "poller.log")
    try:
        status = poller.wait(span.warm_up_s + span.seconds + START_S)
    finally:
        poller.kill()
    if status != 0:
        print(log_tail(folder / "poller.log") + log_tail(folder / "producer.log"), file=sys.stderr)
        return Latency(f"polling ended with status {status}")
    return _percentiles(sorted(json.loads(ages_file.read_text(encoding="utf-8"))), span)


def _percentiles(ages: list[int], span: Span) -> Latency:
    if len(ages) < RECORDS_PER_S * span.seconds * ARRIVED_MIN:
        return Latency(f"{len(ages)} of {RECORDS_PER_S * span.seconds:.0f} records arrived", len(ages))
    p50, p99, p999 = (ages[min(int(len(ages) * share), len(ages) - 1)] / MS for share in (0.5, 0.99, 0.999))
    return Latency(None, len(ages), p50, p99, p999, ages[-1] / MS)
