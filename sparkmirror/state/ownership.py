"""Whether the last owner of a flow is alive, by its ledger."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient, LogReader
from sparkmirror.model import TopicPartition
from sparkmirror.process import Process
from sparkmirror.state.internal_topics import LedgerTable, RouteTable

# Owners write a heartbeat each 5 s; one that is alive shows it within this time.
WATCH_S = 6.5
POLL_MS = 250


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """Who owned the flow last.

    "nobody", "released", "alive", "dead", "silent" (no heartbeat seen while we waited), "unknown" (the ledger was not read).
    """

    state: str
    name: str = ""


def owner_status(
    client: ClusterClient,
    topic: str,
    ledger: LedgerTable | RouteTable,
    *,
    watch_s: float = WATCH_S,
    while_waiting: Callable[[], None] = lambda: None,
) -> OwnerStatus:
    """Waits for a heartbeat: a released or provably dead owner needs no waiting, another one must write a heartbeat.

    Reads the ledger on from where `ledger` ended, and folds what it sees into it.
    """
    owner = ledger.owner
    if owner is None:
        return OwnerStatus("nobody")
    if owner.released:
        return OwnerStatus("released", owner.name)
    if Process.this().is_dead(owner.name):
        return OwnerStatus("dead", owner.name)
    place = TopicPartition(topic, 0)
    reader, deadline = LogReader(client, place, ledger.next_offset), time.monotonic() + watch_s
    while time.monotonic() < deadline:
        for record in reader.poll(POLL_MS):
            ledger.take(place, record)
        while_waiting()
        now = ledger.owner
        if now is not None and now != owner:
            return OwnerStatus("released" if now.released else "alive", now.name)
    return OwnerStatus("silent", owner.name)
