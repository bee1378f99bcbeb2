"""The status of a flow by what both clusters say of it, in the values that a running mirror shows of itself.

The facts and the findings are the doctor's; from them comes a `FlowStatus`, so that state, lag and troubles are judged by
`status/` as everywhere.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import closing
from dataclasses import replace

from sparkmirror.clusters import ClusterClient, partition_ends, read_range, read_timestamp
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.diagnose.flow_positions import judged_positions
from sparkmirror.diagnose.report import FlowReport, Report
from sparkmirror.diagnose.wording import ON_REQUEST
from sparkmirror.errors import ClusterError, CorruptBatch
from sparkmirror.examination.examine import Examination, examine
from sparkmirror.ledger import Wish
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.state.facts import Copy, Facts, Runner, Stop, failed_tasks
from sparkmirror.state.gathering import GatherOptions
from sparkmirror.state.parts import Part
from sparkmirror.status import FlowStatus, GroupCounts, PartitionStatus
from sparkmirror.status.end_history import NO_HISTORY, EndHistory, ReadTimestamp
from sparkmirror.status.failed_over import FAILED_OVER, failover_words
from sparkmirror.status.wishes import CODES, resume_command, wish_words
from sparkmirror.topology import policy_for
from sparkmirror.wire import MalformedInternalRecord, decode_heartbeat, read_records

# What says whether the flow copies and whether its groups could continue on the target; the rest is for `doctor`.
STATUS_RULES = frozenset({
    "D1", "D2", "D5", "D6", "D7", "D10", "D11", "D12", "C01", "C05", "C06", "C07", "C08", "C09", "C10", "C13", "C19", "C24",
    "C27", "V1", "V7",
})  # fmt: skip
TIMESTAMPS_MAX = 100  # partitions whose next record is read for its age, those with the largest lag
HEARTBEATS_READ = 500  # of the end of the topic, in which every flow into the cluster writes
# Causes of a position that a consumer on the target would not start at, or of which that is not known.
_READY = frozenset({"synced", "exact", "behind", "empty", "too-old", "moving", "active", "came-from-target"})
_UNKNOWN = frozenset({"source-unknown", "target-unknown", "unproven"})


def report_statuses(settings: Settings, names: Collection[str] | None) -> tuple[Report, list[FlowStatus]]:
    """What the doctor finds of the flows, and the status of each. Reads only."""
    options = GatherOptions(records=False, proofs=False)
    report = examine(settings, Examination(flows=names, ids=STATUS_RULES, wait_s=0, gather=options))
    return report, [_status(flow) for flow in report.flows]


def _status(report: FlowReport) -> FlowStatus:
    facts = report.facts
    state, reason = _state(report)
    status = FlowStatus(
        facts.flow.name,
        state,
        reason,
        remotes={decision.topic: decision.remote for decision in facts.decisions if decision.replicated},
        partitions={place: _partition(facts, copy) for place, copy in facts.copies.items()},
        groups=_groups(facts),
        heartbeat_ms=_heartbeat_ms(facts),
        owner=facts.runner.who,
        owned_since_ms=-1 if facts.runner.since_ms is None else facts.runner.since_ms,
        source_seen_ms=-1 if facts.source_seen_ms is None else facts.source_seen_ms,
        taken_ms=facts.now_ms,
        wishes=facts.wishes,
        are_wishes_known=Part.LEDGER not in facts.missing,
        file_words=facts.file_words,
    )
    for _, number, task in failed_tasks(facts):
        _fail(facts, status, number, task.reason)
    _read_timestamps(facts, status)
    return status


def _state(report: FlowReport) -> tuple[str, str]:
    """As sure as the clusters are: that nobody runs the flow may be known where nothing else is."""
    facts, runner = report.facts, report.facts.runner
    silence = "; ".join(outage.words for outage in facts.outages.values())
    if facts.failover is not None and not runner.is_running:
        return FAILED_OVER, "; ".join(text for text in (failover_words(facts.name, facts.failover), silence) if text)
    if runner.state in ("released", "dead", "never") and "target" not in facts.outages:
        about_flow = (f for f in report.findings if f.id == "D11" and not f.subject.topic and ON_REQUEST not in f.cause)
        found = next(about_flow, None)
        words = {"never": "never run", "released": "not running", "dead": "not running"}[runner.state]
        return words, "; ".join(text for text in ("" if found is None else found.message, silence) if text)
    if silence or not runner.is_running:
        return "unknown", silence or _unseen(runner)
    return "running", "sparkmirror and MirrorMaker 2 both run it" if runner.both else ""


def _unseen(runner: Runner) -> str:
    return f"no heartbeat from {runner.who}" if runner.state == "silent" else "who runs it is not known"


def _partition(facts: Facts, copy: Copy) -> PartitionStatus:
    reached = copy.reached
    ends, last = copy.source_ends, copy.last_source
    if _is_another_topic(facts, copy):
        reached = None if ends is None else ends[0]  # its earlier incarnation was copied
    elif reached is None and ends is not None and copy.lag is not None:
        reached = ends[1] - copy.lag  # nothing of it was copied
    stop = copy.stop
    state = "copying" if facts.runner.is_running else "not copied"
    if stop is not None:
        state = stop.state
    wish = facts.wish_on(copy.partition)
    if wish is not None and state != "stopped":
        state, stop = "paused", Stop("paused", CODES[wish.state], wish_words(wish), wish.time_ms, hint=_resume(facts, wish))
    return PartitionStatus(
        copy.partition,
        state,
        "" if stop is None else stop.code,
        "" if stop is None else (f"{stop.reason} ({stop.hint})" if stop.hint else stop.reason),
        next_upstream=-1 if reached is None or not copy.is_position_known else reached,
        source_end=ends[1] if ends is not None else -1 if last is None else last.end,
        end_seen_ms=facts.now_ms if ends is not None else -1 if last is None else last.time_ms,
        gaps=len(copy.gaps),
        gap_offsets=sum(gap.length for gap in copy.gaps),
    )


def _resume(facts: Facts, wish: Wish) -> str:
    return f"to resume: {resume_command(wish, facts.file_words)}"


def _is_another_topic(facts: Facts, copy: Copy) -> bool:
    """Whether the ledger's position is one in a source topic that was deleted and created again."""
    last = "" if copy.last_source is None else copy.last_source.source_topic_id
    now = facts.source.topic_id(copy.partition.topic) or last
    return bool(copy.source_topic_id and now) and copy.source_topic_id != now


def _fail(facts: Facts, status: FlowStatus, number: int, reason: str) -> None:
    """A task of MirrorMaker 2 that failed copies none of its partitions."""
    for connector in facts.connectors.values():
        for place in connector.assigned.get(number, ()) if connector.kind == "source" else ():
            if place in status.partitions:
                found = status.partitions[place]
                found.state, found.code, found.reason = "stopped", "TASK_FAILED", f"task {number}: {reason}"


def _groups(facts: Facts) -> GroupCounts | None:
    """By the causes that `inspect` and `doctor` show; None where groups are not listed, or their offsets not synced."""
    flow = facts.flow
    if not (flow.emit_checkpoints_enabled and flow.sync_group_offsets_enabled) or Part.TARGET_GROUPS in facts.missing:
        return None
    causes: dict[str, set[str]] = {
        group.name: set() if group.is_source_known and group.is_target_known else {"source-unknown"}
        for group in facts.groups.values()
    }
    for position in judged_positions(facts):
        causes[position.group.name].add(position.finding.cause.id)
    unknown = sum(bool(found & _UNKNOWN) or not found for found in causes.values())
    ready = sum(bool(found) and found <= _READY for found in causes.values())
    if Part.SOURCE_GROUPS in facts.missing and not causes:
        return None
    return GroupCounts(ready, len(causes) - ready - unknown, unknown)


# --- what the doctor does not read ---------------------------------------------------------------------------------


def _heartbeat_ms(facts: Facts) -> int:
    """When the newest heartbeat of the flow was written on the target, −1 if that is not known."""
    topic = policy_for(facts.flow).heartbeats_topic
    if "target" in facts.outages or not facts.target.has(topic):
        return -1
    place, newest = TopicPartition(topic, 0), -1
    with closing(ClusterClient(facts.flow.target, any_release=True)) as client:
        try:
            high_watermark, _, _, log_start = partition_ends(client, place)
            first = max(high_watermark - HEARTBEATS_READ, log_start)
            for batch in read_range(client, place, first, high_watermark, read_committed=False, is_whole=False):
                for record in read_records(batch):
                    newest = max(newest, _time_of(facts.flow, record.key, record.value))
        except (ClusterError, CorruptBatch):
            return newest
    return newest


def _time_of(flow: FlowSettings, key: bytes | None, value: bytes | None) -> int:
    try:
        found = decode_heartbeat(key or b"", value or b"")
    except MalformedInternalRecord:
        return -1
    return found.timestamp_ms if FlowName(found.source, found.target) == flow.name else -1


def _read_timestamps(facts: Facts, status: FlowStatus) -> None:
    """The age of the next record of partitions that are behind; of the others it stays unknown."""
    behind = sorted((p for p in status.partitions.values() if p.lag), key=lambda p: -(p.lag or 0))[:TIMESTAMPS_MAX]
    if "source" in facts.outages or not behind or facts.source.view is None:
        return
    with closing(ClusterClient(facts.flow.source, any_release=True)) as client:
        for shown in behind:
            leader = facts.source.view.leader(shown.partition)
            if leader is None:
                continue
            ends = facts.copies[shown.partition].source_ends
            first = shown.next_upstream if ends is None else max(shown.next_upstream, ends[0])  # the rest is deleted
            try:
                timestamp = read_timestamp(client, leader.node, shown.partition, first)
            except (ClusterError, CorruptBatch):
                return
            history: EndHistory = NO_HISTORY.seen(facts.now_ms, shown.source_end, shown.next_upstream)
            shown.ends = replace(history, read=ReadTimestamp(shown.next_upstream, timestamp))
