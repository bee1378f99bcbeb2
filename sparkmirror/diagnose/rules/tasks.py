"""Whether a process copies the flow, and what made a task stop: D1, D2, D10, D11.

For MirrorMaker 2 the stack traces decide; they are in the status topic, so that neither REST nor log files are
needed. For sparkmirror the ledger holds code and reason of each partition that stopped.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, PROVEN, WARNING, Fact, Finding, Rule, Severity, Verdicts
from sparkmirror.diagnose.rules.limits import refused_timestamps
from sparkmirror.diagnose.wording import (
    ago,
    alter_topic,
    command_for,
    copy_facts,
    counted,
    finding,
    paused_finding,
    size_of,
    subject_of,
)
from sparkmirror.errors import RecordTooLarge, TargetRefusedTimestamp
from sparkmirror.ledger import SOURCE
from sparkmirror.state.facts import (
    TOO_LARGE_FOR_PRODUCER,
    Connector,
    Copy,
    Facts,
    LargeRecord,
    Stop,
    Subject,
    TaskState,
    failed_tasks,
    refused_by,
)
from sparkmirror.state.parts import Part
from sparkmirror.status.failed_over import failover_words

RUNNING = ("RUNNING", "RESTARTING")
# Codes that stop a partition of sparkmirror until the operator decides; positions.py has its own checks for these.
REPORTED_ELSEWHERE = (
    "SOURCE_OFFSET_LOST", "SOURCE_TOPIC_RECREATED", "SOURCE_TRUNCATED", "TARGET_TOPIC_RECREATED", "TARGET_HAS_STRANGER",
)  # fmt: skip


# --- MirrorMaker 2 ---------------------------------------------------------------------------------------------


def _mm2(facts: Facts, wanted: str) -> Iterator[Finding]:
    for connector, number, task in failed_tasks(facts):
        if refused_by(task) == wanted and connector.kind == "source":
            yield _poisoned(facts, wanted, connector, number, task)


def _poisoned(facts: Facts, wanted: str, connector: Connector, number: int, task: TaskState) -> Finding:
    stuck = [copy for copy in facts.copies.values() if copy.partition in connector.assigned.get(number, ()) and copy.lag]
    culprits = {c.partition: facts.reads.large[c.partition] for c in stuck if c.partition in facts.reads.large}
    known = next(iter(sorted(culprits)), None) or (stuck[0].partition if len(stuck) == 1 else None)
    subject = Subject() if known is None else Subject(known.topic, known.partition)
    record = culprits.get(known) if known is not None else None
    what = "a record" if record is None else f"the record at offset {record.offset} of {known}"
    evidence = (
        Fact(f"{connector.name} task {number}", f"FAILED: {task.reason}", task.time_ms),
        Fact("partitions that it blocks", _named(stuck)),
    )
    cause, why, mend, command = _remedy(facts, wanted, task, None if known is None else facts.copies[known], record)
    return finding(
        facts, wanted, ERROR, PROVEN, subject,
        cause=cause,
        message=f"task {number} of {connector.name} failed {ago(facts, task.time_ms)} ago: {what} {why}; "
                f"{counted(len(stuck), 'partition')} stopped by it",
        evidence=evidence, mend=f"{mend}, then restart MirrorMaker 2 (or the task by REST)", command=command,
    )  # fmt: skip


def _remedy(
    facts: Facts, wanted: str, task: TaskState, copy: Copy | None, record: LargeRecord | None
) -> tuple[str, str, str, str]:
    """The cause, what is wrong with the record, what to do, and the command."""
    remote = copy.remote.topic if copy is not None else ""
    if wanted == "D2":
        found = TOO_LARGE_FOR_PRODUCER.search(task.trace)
        needed, taken = (int(found[1]), int(found[2])) if found else (0, 0)
        key = f"{facts.flow.name.target}.producer.max.request.size"
        return (
            "MirrorMaker 2's own producer refuses a large record",
            f"has {size_of(needed)}, its producer takes {size_of(taken)} (max.request.size, before compression)",
            f"write {key} = {needed} or more (producer.override.max.request.size on a Connect cluster), see that "
            "buffer.memory and the target's max.message.bytes (D1) are large enough",
            f"{key} = {needed}",
        )
    if wanted == "D10":
        return _timestamp_remedy(facts, remote, record)
    limit = facts.target.number(remote, "max.message.bytes") if remote else None
    size = record.size if record is not None else None
    words = f"has {size_of(size)}" if size is not None else "is larger than the target allows"
    words += f", the target topic takes {size_of(limit)} (max.message.bytes)" if limit is not None else ""
    raised = max(size or 0, facts.source.number(copy.partition.topic, "max.message.bytes") or 0) if copy is not None else 0
    return (
        "the target's brokers refuse a large record",
        words,
        f"raise max.message.bytes of {remote or 'the target topic'}" + (f" to {raised} or more" if raised else ""),
        alter_topic(facts.target, remote, f"max.message.bytes={raised}") if remote and raised else "",
    )


def _timestamp_remedy(facts: Facts, remote: str, record: LargeRecord | None) -> tuple[str, str, str, str]:
    limits = [
        f"{name}={value}"
        for name in ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms", "message.timestamp.type")
        if remote and (value := facts.target.setting(remote, name)) is not None
    ]
    words = "has a timestamp that the target does not take"
    if record is not None:
        is_old = record.timestamp <= facts.now_ms
        words += f": it is {ago(facts, record.timestamp)} old" if is_old else ": it is in the future"
    return (
        "the target's timestamp limits refuse records",
        words + (f" ({', '.join(limits)})" if limits else ""),
        f"widen message.timestamp.before.max.ms or message.timestamp.after.max.ms of {remote or 'the target topic'}",
        alter_topic(facts.target, remote, "message.timestamp.before.max.ms=9223372036854775807") if remote else "",
    )


def _named(copies: list[Copy]) -> str:
    names = [str(copy.partition) for copy in copies]
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "") if names else "none with lag"


# --- sparkmirror -----------------------------------------------------------------------------------------------


def _ours(facts: Facts, wanted: str) -> Iterator[Finding]:
    for copy in facts.copies.values():
        stop = copy.stop
        if stop is None or _stop_id(stop) != wanted or (stop.state == "waiting" and facts.wish_on(copy.partition)):
            continue
        is_waiting = stop.state == "waiting"
        record = facts.reads.large.get(copy.partition)
        cause, mend, command = _own_remedy(facts, wanted, copy, record)
        since = "" if stop.time_ms is None else f" {ago(facts, stop.time_ms)} ago"
        yield finding(
            facts, wanted, WARNING if is_waiting else ERROR, PROVEN, subject_of(copy),
            cause="a partition waits" if is_waiting else cause,
            message=f"{copy.partition} {'waiting' if is_waiting else f'stopped{since}'}: {stop.code}: {stop.reason}",
            evidence=copy_facts(copy, Fact("ledger", f"{stop.code}: {stop.reason}", stop.time_ms)),
            mend=mend, command=command,
        )  # fmt: skip


def _stop_id(stop: Stop) -> str:
    if stop.code == RecordTooLarge.code:
        return "D1"
    if stop.code == TargetRefusedTimestamp.code and stop.detail == TargetRefusedTimestamp.detail:
        return "D10"
    return "" if stop.code in REPORTED_ELSEWHERE else "D11"


def _own_remedy(facts: Facts, wanted: str, copy: Copy, record: LargeRecord | None) -> tuple[str, str, str]:
    remote = copy.remote.topic
    skip = command_for(facts, "offsets skip", subject_of(copy))
    if wanted == "D1":
        size = max(record.size if record else 0, facts.source.number(copy.partition.topic, "max.message.bytes") or 0)
        command = alter_topic(facts.target, remote, f"max.message.bytes={size}") if size else ""
        return (
            "the target's brokers refuse a large record",
            f"raise max.message.bytes of {remote}: {RESUMES}; or skip the record: {skip} --to OFFSET",
            command,
        )
    if wanted == "D10":
        cause, _, mend, command = _timestamp_remedy(facts, remote, record)
        return cause, f"{mend}: {RESUMES}", command
    hint = copy.stop.hint if copy.stop is not None else ""
    return "a partition stopped", hint or "docs/stops.md has the command for each code", ""


# --- checks ----------------------------------------------------------------------------------------------------


def _too_large_for_target(facts: Facts) -> Verdicts:
    yield from _mm2(facts, "D1")
    yield from _ours(facts, "D1")


def _too_large_for_producer(facts: Facts) -> Verdicts:
    yield from _mm2(facts, "D2")  # sparkmirror has no such limit


def _timestamps(facts: Facts) -> Verdicts:
    yield from _mm2(facts, "D10")
    yield from _ours(facts, "D10")
    yield from refused_timestamps(facts)


def _alive(facts: Facts) -> Verdicts:
    yield from _runner(facts)
    yield from _ours(facts, "D11")
    yield from (paused_finding(facts, "D11", wish) for wish in facts.paused(SOURCE))
    if facts.is_ours:
        return
    for connector in facts.connectors.values():
        if connector.kind == "heartbeat":
            continue
        for number, task in sorted(connector.tasks.items()):
            if task.state == "FAILED" and (refused_by(task) == "D11" or connector.kind != "source"):
                yield _bad_state(facts, f"task {number} of {connector.name}", task, ERROR)
            elif task.state not in (*RUNNING, "FAILED") and facts.runner.is_running:
                yield _bad_state(facts, f"task {number} of {connector.name}", task, WARNING)
        if connector.own is not None and connector.own.state not in RUNNING and facts.runner.is_running:
            severity = ERROR if connector.own.state == "FAILED" else WARNING
            yield _bad_state(facts, connector.name, connector.own, severity)


def _bad_state(facts: Facts, what: str, task: TaskState, severity: Severity) -> Finding:
    why = f": {task.reason}" if task.reason else ""
    return finding(
        facts, "D11", severity, PROVEN, Subject(),
        cause=f"{what} is {task.state}",
        message=f"{what} is {task.state} since {ago(facts, task.time_ms)}{why}",
        evidence=(Fact(what, f"{task.state}{why}", task.time_ms),),
        mend="fix the cause and restart MirrorMaker 2, or by REST: POST /connectors/NAME/tasks/NUMBER/restart "
             "(PUT /connectors/NAME/resume if it is paused)",
    )  # fmt: skip


def _runner(facts: Facts) -> Verdicts:
    runner = facts.runner
    if facts.failover is not None and not runner.is_running:
        yield finding(
            facts, "D11", WARNING, PROVEN, Subject(),
            cause="the flow was failed over", message=failover_words(facts.name, facts.failover),
            evidence=(Fact("ledger", f"request {facts.failover.request_id}", facts.failover.time_ms),),
            mend="bring home what applications write on the target when they move back",
            command=f"sparkmirror failback {facts.file_words}",
        )  # fmt: skip
        return
    lag = facts.lag
    evidence = (Fact("who runs the flow", f"{runner.program or 'nobody'}, {runner.state} "
                                          f"{runner.who}".strip(), runner.seen_ms),)
    if runner.both:
        yield finding(
            facts, "D11", ERROR, PROVEN, Subject(),
            cause="two programs copy the same flow",
            message="sparkmirror and MirrorMaker 2 both run this flow: every record may come twice",
            evidence=evidence, mend="stop one of them",
        )  # fmt: skip
    if runner.state in ("running", "unknown"):
        return
    when = "" if runner.seen_ms is None else f", last seen {ago(facts, runner.seen_ms)} ago"
    start = f"sparkmirror run {facts.file_words.split(' --flow')[0]}" if facts.is_ours or not runner.program else ""
    name = {"sparkmirror": "sparkmirror", "mm2": "MirrorMaker 2"}.get(runner.program, "nobody")
    severity, certainty, cause = {
        "released": (INFO if lag == 0 else WARNING, PROVEN, f"{name} was shut down cleanly"),
        "dead": (ERROR, PROVEN, f"{name} died"),
        "silent": (ERROR, LIKELY, f"{name} writes no heartbeats"),
        "never": (WARNING, PROVEN, "nobody has run this flow yet"),
    }[runner.state]
    yield finding(
        facts, "D11", severity, certainty, Subject(),
        cause=cause, message=f"nobody copies {facts.name}: {cause}{when}; "
                + ("how much is not copied is unknown" if lag is None else f"{counted(lag, 'record')} not copied"),
        evidence=evidence, mend="start it" if start else "start MirrorMaker 2", command=start,
    )  # fmt: skip


RESUMES = "a running mirror resumes within a minute"
_TRACE_NEEDS = "for MirrorMaker 2 Read on `mm2-status.A.internal`, for sparkmirror Read on the ledger, both on the target"
RULES = (
    Rule(
        "D1", "target refuses a large record", "E",
        means="One record is larger than the target topic takes. The task (MirrorMaker 2) or the partition (sparkmirror) "
              "stops; one poison record of MirrorMaker 2 blocks every partition of its task.",
        decides="The task failed with RecordTooLargeException from the brokers, or the ledger says RECORD_TOO_LARGE. The "
                "record is searched for from the stored position on.",
        needs=_TRACE_NEEDS + "; to name the record, Read on the topic",
        mend="Raise max.message.bytes of the target topic. MirrorMaker 2's task must be restarted; sparkmirror resumes.",
        check=_too_large_for_target, parts=(Part.CONNECT, Part.LEDGER),
    ),
    Rule(
        "D2", "mirror's own producer refuses a large record", "E",
        means="MirrorMaker 2's max.request.size is smaller than a record. It counts bytes before compression, so a "
              "record that was small on the source can be too large here.",
        decides="The trace says so, with both numbers.",
        needs=_TRACE_NEEDS,
        mend="Raise `B.producer.max.request.size` and restart.",
        check=_too_large_for_producer, parts=(Part.CONNECT, Part.LEDGER),
    ),
    Rule(
        "D10", "target refuses timestamps", "E W",
        means="The target topic takes only timestamps within a window around now, and a record lies outside of it.",
        decides="Error: the trace or the ledger says so. Warning: the next record to be copied lies outside of "
                "`message.timestamp.before.max.ms` or `message.timestamp.after.max.ms` of the target topic.",
        needs=_TRACE_NEEDS + "; DescribeConfigs on the target topics, Read on the source topics",
        mend="Widen the limits of the target topic, or let it use LogAppendTime.",
        check=_timestamps, parts=(Part.CONNECT, Part.LEDGER),
    ),
    Rule(
        "D11", "nobody copies, or a task failed", "E W I",
        means="No process runs the flow, a connector or task failed or is paused, or two programs run it at the same time. "
              "Or somebody paused or stopped the flow, the topic or the partition with sparkmirror.",
        decides="MirrorMaker 2: the state of its worker group on the target says whether it is alive, the status topic "
                "what its connectors and tasks do. sparkmirror: heartbeats of its owner in the ledger, and what it holds as "
                "paused, with who asked for it and when. A flow that was shut "
                "down cleanly is information while nothing is left to copy.",
        needs=_TRACE_NEEDS + "; Describe on the groups of the target",
        mend="Start it, or fix what the trace says and restart the task.",
        check=_alive, parts=(Part.CONNECT, Part.LEDGER),
    ),
)  # fmt: skip
