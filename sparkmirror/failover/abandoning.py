"""Takes a failover back while nothing was written on the target: the flow may run again."""

from __future__ import annotations

from contextlib import closing

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import RequestRefused
from sparkmirror.failover.looking import recorded_failover
from sparkmirror.failover.stopping import remove_record
from sparkmirror.ledger import Failover
from sparkmirror.state.gathering import GatherOptions, gather

NAMED_MAX = 3


def abandon(settings: Settings, flow: FlowSettings, *, is_wanted: bool) -> Failover:
    """The failover that was, or would be, taken back; raises RequestRefused if applications wrote into the copies since."""
    with closing(ClusterClient(flow.target)) as target:
        recorded = recorded_failover(target, flow)
        if recorded is None:
            raise RequestRefused(f"{flow.name} has no failover on record", hint="there is nothing to take back")
        facts, _ = gather(settings, flow, GatherOptions(proofs=False))
        written = {p: tail.foreign for p, tail in facts.reads.tails.items() if tail.foreign}
        if written:
            named = ", ".join(f"{p} {count:,}" for p, count in sorted(written.items())[:NAMED_MAX])
            raise RequestRefused(
                f"applications wrote into the copies on {flow.name.target} since: {named} records by the source's names",
                hint="bring them home first (docs/failover.md, Back): the flow would stop at them",
            )
        if is_wanted:
            remove_record(flow, target)
        return recorded
