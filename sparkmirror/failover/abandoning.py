"""Takes a failover back while nothing was written on the target: the flow may run again."""

from __future__ import annotations

from contextlib import closing

from sparkmirror.clusters import ClusterClient
from sparkmirror.clusters.client import PATIENCE
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.errors import ClusterError, RequestRefused
from sparkmirror.failover.looking import LOOK, recorded_failover
from sparkmirror.failover.stopping import remove_record
from sparkmirror.ledger import Failover
from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof import Asking, RecordAsk, WalkLimits
from sparkmirror.state import FlowState
from sparkmirror.state.facts import Copy, Facts
from sparkmirror.state.flow_logs import FlowLogs
from sparkmirror.state.gathering import gather
from sparkmirror.state.proof_runner import run_all

NAMED_MAX = 3
READ_MAX = 10_000  # records of one partition that are counted


def abandon(settings: Settings, flow: FlowSettings, *, is_wanted: bool) -> Failover:
    """The failover that was, or would be, taken back; raises RequestRefused if applications wrote into the copies since."""
    with closing(ClusterClient(flow.target)) as target:
        recorded = recorded_failover(target, flow)
        if recorded is None:
            raise RequestRefused(f"{flow.name} has no failover on record", hint="there is nothing to take back")
        facts, _ = gather(settings, flow, LOOK)
        written = written_since(flow, facts)
        if written:
            named = ", ".join(f"{p} {count:,}" for p, count in sorted(written.items())[:NAMED_MAX])
            raise RequestRefused(
                f"applications wrote into the copies on {flow.name.target} since: {named} records by the source's names",
                hint="bring them home first (docs/failover.md, Back): the flow would stop at them",
            )
        if is_wanted:
            remove_record(flow, target)
        return recorded


def written_since(flow: FlowSettings, facts: Facts) -> dict[TopicPartition, int]:
    """Records behind where each copy ended: nothing copies the flow any more, so none is ours. Asks the target."""
    found: dict[TopicPartition, int] = {}
    behind: list[tuple[Copy, int, int]] = []
    for copy in facts.copies.values():
        if copy.target_ends is not None and not facts.policy.is_heartbeats_topic(copy.partition.topic):
            first, end = copy.target_ends
            start = first if copy.next_downstream is None else max(copy.next_downstream, first)
            behind += [(copy, start, end)] * (start < end)
    state = FlowState(flow, PATIENCE)
    with closing(state), closing(FlowLogs(state)) as logs:
        askings = [((copy.partition, copy.remote), _count(copy, start, end, found)) for copy, start, end in behind]
        run_all(askings, logs.open(WalkLimits()))
    return found


def _count(copy: Copy, start: int, end: int, found: dict[TopicPartition, int]) -> Asking[None]:
    seen = yield RecordAsk("target", start, READ_MAX)
    if seen.trouble:
        raise ClusterError(f"what lies behind the copy in {copy.remote} cannot be read: {seen.trouble}")
    count = sum(record.offset < end for record in seen.records)
    if count:
        found[copy.partition] = count
