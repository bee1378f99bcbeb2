"""Who runs the flow: the owner in sparkmirror's ledger, and MirrorMaker 2's worker group."""

from __future__ import annotations

from dataclasses import replace

from sparkmirror.clusters import ClusterClient, ListedGroup
from sparkmirror.config import FlowSettings
from sparkmirror.process import Process
from sparkmirror.state import LedgerTable, now_ms, owner_status
from sparkmirror.state.facts import ALIVE_STATES, Runner
from sparkmirror.topology import ledger_topic

# An owner beats each 5 s and its slots each second; who is silent for so long is not alive (protocol: 15 s).
FRESH_MS = 12_000
CONNECT = "connect"


def runner_of(
    flow: FlowSettings,
    ledger: LedgerTable | None,
    target: ClusterClient,
    groups: dict[str, ListedGroup] | None,
    *,
    mm2_ran: bool,
    ours_is_newer: bool,
) -> Runner:
    """Who copies, or did last. `groups` are those of the target, None if they are not shown."""
    workers = groups.get(flow.group_id) if groups is not None else None
    is_mm2 = workers is not None and workers.protocol == CONNECT and workers.state in ALIVE_STATES
    mm2_state = "running" if is_mm2 else "unknown" if groups is None else "dead"
    if ledger is None or ledger.view.owner is None:
        if not mm2_ran and not is_mm2:
            return Runner("", "never" if groups is not None else "unknown")
        return Runner("mm2", mm2_state, flow.group_id)
    ours = _ours(flow, ledger, target)
    if ours.is_running:
        return replace(ours, both=is_mm2)
    if is_mm2 or (mm2_ran and not ours_is_newer):
        return Runner("mm2", mm2_state, flow.group_id)
    return ours


def _ours(flow: FlowSettings, ledger: LedgerTable, target: ClusterClient) -> Runner:
    owner, seen_ms = ledger.view.owner, ledger.newest_ms
    assert owner is not None
    is_fresh = not owner.released and abs(now_ms() - seen_ms) < FRESH_MS and not Process.this().is_dead(owner.name)
    found = None if is_fresh else owner_status(target, ledger_topic(flow.name.source), ledger)
    state = "running" if found is None or found.state == "alive" else found.state
    return Runner("sparkmirror", state, owner.name, seen_ms, since_ms=owner.since_ms if owner.since_ms >= 0 else None)
