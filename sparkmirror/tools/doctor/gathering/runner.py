"""Who runs the flow: a look at the owner in sparkmirror's ledger and at MirrorMaker 2's worker group."""

from __future__ import annotations

import time
from collections.abc import Callable

from sparkmirror.clusters import ClusterClient, ListedGroup, partition_ends, read_raw
from sparkmirror.config import FlowSettings
from sparkmirror.ledger import Owner
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.process import Process
from sparkmirror.tools.doctor.facts import ALIVE_STATES, Runner
from sparkmirror.topology import ledger_topic
from sparkmirror.wire import read_records

__all__ = ["newest_time", "runner_of"]

# An owner beats each 5 s and its slots each second; who is silent for so long is not alive (protocol: 15 s).
FRESH_MS = 12_000
WATCH_S, WATCH_PAUSE_S = 6.5, 0.25
CONNECT = "connect"


def runner_of(
    flow: FlowSettings,
    owner: Owner | None,
    target: Callable[[], ClusterClient],
    groups: dict[str, ListedGroup] | None,
    *,
    mm2_ran: bool,
    ours_is_newer: bool,
) -> Runner:
    """Who copies, or did last. `groups` are those of the target, None if they are not shown."""
    workers = groups.get(flow.group_id) if groups is not None else None
    is_mm2 = workers is not None and workers.protocol == CONNECT and workers.state in ALIVE_STATES
    mm2_state = "running" if is_mm2 else "unknown" if groups is None else "dead"
    if owner is None:
        if not mm2_ran and not is_mm2:
            return Runner("", "never" if groups is not None else "unknown")
        return Runner("mm2", mm2_state, flow.group_id)
    ours = _ours(flow, owner, target)
    if ours.is_running:
        return Runner("sparkmirror", "running", ours.who, ours.seen_ms, both=is_mm2)
    if is_mm2 or (mm2_ran and not ours_is_newer):
        return Runner("mm2", mm2_state, flow.group_id)
    return ours


def _ours(flow: FlowSettings, owner: Owner, target: Callable[[], ClusterClient]) -> Runner:
    place = TopicPartition(ledger_topic(flow.name.source), 0)
    seen_ms = newest_time(target(), place)
    if owner.released:
        return Runner("sparkmirror", "released", owner.name, seen_ms)
    if Process.this().is_dead(owner.name):
        return Runner("sparkmirror", "dead", owner.name, seen_ms)
    if seen_ms is not None and abs(time.time() * 1000 - seen_ms) < FRESH_MS:
        return Runner("sparkmirror", "running", owner.name, seen_ms)
    # Its clock may be wrong, or it is gone: whoever lives writes while we look.
    before, deadline = partition_ends(target(), place)[0], time.monotonic() + WATCH_S
    while time.monotonic() < deadline:
        time.sleep(WATCH_PAUSE_S)
        if partition_ends(target(), place)[0] > before:
            return Runner("sparkmirror", "running", owner.name, seen_ms)
    return Runner("sparkmirror", "silent", owner.name, seen_ms)


def newest_time(client: ClusterClient, place: TopicPartition) -> int | None:
    """The time of the last record of a partition; None if it has none, or if what lies last is a marker."""
    end, _, _, start = partition_ends(client, place)
    if end <= start:
        return None
    times = [
        record.timestamp
        for batch in read_raw(client, place, end - 1).batches
        if not batch.is_control
        for record in read_records(batch)
    ]
    return max(times, default=None)
