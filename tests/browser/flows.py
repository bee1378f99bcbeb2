"""Flows as values for the page: what a mirror would show, without one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from sparkmirror.config import load
from sparkmirror.diagnose.findings import Severity
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.rest import HttpDoor, address_of
from sparkmirror.rest.page import OperatorPage
from sparkmirror.rest.page.readiness import GroupAtTopic, Readiness
from sparkmirror.rest.page.readings import FlowReading, Readings
from sparkmirror.status import FlowStatus, PartitionStatus
from sparkmirror.status.end_history import NO_HISTORY

HOSTILE = '<img src=x onerror="document.title=1"><script>document.title=2</script>\x1b[2J\u202egnp'
TOO_LARGE = (
    "orders-3: the record at upstream offset 4711 has 1,200,000 bytes, more than topic A.orders on B takes: 1,048,588 bytes "
    "(max.message.bytes) (to skip it: sparkmirror offsets skip mm2.properties --topic orders --partition 3 --to 4712)"
)


def now_ms() -> int:
    """As the main loop takes it."""
    return int(time.time() * 1000)


def a_partition(
    topic: str, number: int, *, state: str = "copying", lag: int = 0, code: str = "", reason: str = "", end: int = 10_000
) -> PartitionStatus:
    """One partition that is behind by so many records since two seconds."""
    seen = now_ms()
    status = PartitionStatus(TopicPartition(topic, number), state, code, reason, number % 4)
    status.next_upstream, status.source_end, status.end_seen_ms = end - lag, end, seen
    status.records, status.record_bytes = end - lag, 300 * (end - lag)
    status.newest_timestamp, status.proven_ms = seen - 180, seen - 40
    status.ends = NO_HISTORY.seen(seen - 4000, end - lag - 1, end - lag - 1).seen(seen - 2000, end, end - lag)
    return status


def a_flow(*partitions: PartitionStatus, name: str = "A->B", state: str = "running", **fields: object) -> FlowStatus:
    """A flow of these partitions, looked at now."""
    source, _, target = name.partition("->")
    remotes = {p.partition.topic: f"{source}.{p.partition.topic}" for p in partitions}
    flow = FlowStatus(FlowName(source, target), state, partitions={p.partition: p for p in partitions}, remotes=remotes)
    flow.taken_ms = flow.source_seen_ms = now_ms()
    for field, value in fields.items():
        setattr(flow, field, value)
    return flow


def healthy(topics: int = 24, partitions: int = 4, *, copied: int = 10_000) -> list[PartitionStatus]:
    """Topics that copy as they should."""
    return [a_partition(f"topic-{t:04}", p, end=copied + 13 * t + p) for t in range(topics) for p in range(partitions)]


def a_readiness(groups: Mapping[str, Mapping[str, tuple[Severity, str, int]]]) -> Readiness:
    """Groups by topic: how bad, why, and their lag."""
    found = Readiness()
    for topic, members in groups.items():
        for group, (severity, words, lag) in members.items():
            at = found.topics.setdefault(topic, {})[group] = GroupAtTopic(group, "Stable", 1, lag)
            at.severity, at.words = severity, words
            found.worst[group] = max(severity, found.worst.get(group, Severity.FINE))
    return found


def a_page(
    folder: Path, flows: list[str], reading: Callable[[str], FlowReading] | None = None
) -> tuple[OperatorPage, HttpDoor]:
    """A page with a file that no broker stands behind, and the server around it."""
    aliases = sorted({alias for name in flows for alias in name.split("->")})
    lines = [f"clusters = {', '.join(aliases)}", *(f"{name}.enabled = true" for name in flows)]
    lines += [f"{alias}.bootstrap.servers = 127.0.0.1:1" for alias in aliases]
    path = folder / "mm2.properties"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    settings = load(str(path))
    read = reading or (lambda name: FlowReading(now_ms(), 0.1, a_readiness({})))
    readings = Readings(settings, settings.enabled_flows(None), lambda _, flow: read(str(flow.name)))
    page = OperatorPage(settings, readings)
    return page, HttpDoor(address_of("0"), settings, page)
