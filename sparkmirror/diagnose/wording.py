"""The text of findings: times, counts, and the commands that fix them."""

from __future__ import annotations

import datetime
import shlex

from sparkmirror.diagnose.findings import Certainty, Fact, Finding, Severity
from sparkmirror.ledger import CHECKPOINT, HEARTBEAT, SOURCE, Wish
from sparkmirror.state.facts import ClusterFacts, Copy, Facts, Subject
from sparkmirror.status import resume_command, wish_words

ON_REQUEST = "on request"


def finding(
    facts: Facts,
    rule: str,
    severity: Severity,
    certainty: Certainty,
    subject: Subject,
    *,
    cause: str,
    message: str,
    evidence: tuple[Fact, ...] = (),
    mend: str = "",
    command: str = "",
) -> Finding:
    """A finding about this flow; facts without a time were read with the flow."""
    timed = tuple(f if f.time_ms is not None else Fact(f.name, f.value, facts.now_ms) for f in evidence)
    return Finding(rule, severity, certainty, facts.name, subject, cause, message, timed, mend, command)


def subject_of(copy: Copy) -> Subject:
    """A partition as findings name it."""
    return Subject(copy.partition.topic, copy.partition.partition)


def copy_facts(copy: Copy, *more: Fact) -> tuple[Fact, ...]:
    """The numbers that most findings about a partition use."""
    found = []
    if copy.source_ends is not None:
        found.append(Fact("source log", f"{copy.source_ends[0]} to {copy.source_ends[1]}"))
    if copy.target_ends is not None:
        found.append(Fact("target log", f"{copy.target_ends[0]} to {copy.target_ends[1]}"))
    if copy.next_upstream is not None:
        whose = "ledger" if copy.basis == "ledger" else "MM2"
        found.append(Fact(f"next upstream offset by {whose}", str(copy.next_upstream), copy.position_ms))
    return (*found, *more)


def command_for(facts: Facts, verb: str, subject: Subject, more: str = "") -> str:
    """A command of ours about a topic or one of its partitions, ready for a shell."""
    place = f" --topic {shlex.quote(subject.topic)}" if subject.topic else ""
    part = f" --partition {subject.partition}" if subject.partition is not None else ""
    return f"sparkmirror {verb} {facts.file_words}{place}{part}" + (f" {more}" if more else "")


def paused_finding(facts: Facts, rule: str, wish: Wish) -> Finding:
    """Somebody asked that this be not done, until it is resumed."""
    what = {SOURCE: "copying", CHECKPOINT: "checkpoints", HEARTBEAT: "heartbeats"}[wish.connector]
    subject = Subject(wish.topic, None if wish.partition < 0 else wish.partition)
    return finding(
        facts, rule, Severity.WARNING, Certainty.PROVEN, subject,
        cause=f"{what} {wish.state} {ON_REQUEST}",
        message=wish_words(wish),
        evidence=(Fact("ledger", f"request {wish.request_id}", wish.time_ms),),
        mend="nothing is lost; resume it when the reason is gone",
        command=resume_command(wish, facts.file_words),
    )  # fmt: skip


def ago(facts: Facts, time_ms: int) -> str:
    """How long ago, in words."""
    return lasting(facts.age_s(time_ms))


def lasting(seconds: float) -> str:
    """72.4 as `1 min 12 s`, days as days."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min" if whole < 172_800 else f"{whole // 86_400} days"


def moment(time_ms: int) -> str:
    """A time as people write it, UTC."""
    try:
        at = datetime.datetime.fromtimestamp(time_ms / 1000, datetime.UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"


def size_of(count: int) -> str:
    """Bytes with thousands marked."""
    return f"{count:,} bytes"


def counted(count: int, noun: str) -> str:
    """`1 record`, `2,000 records`."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def alter_topic(cluster: ClusterFacts, topic: str, settings: str) -> str:
    """Kafka's own command that changes settings of a topic; a name without a value goes back to the default."""
    verb = "--add-config" if "=" in settings else "--delete-config"
    return (
        f"kafka-configs.sh --bootstrap-server {shlex.quote(cluster.bootstrap)} --alter --entity-type topics "
        f"--entity-name {shlex.quote(topic)} {verb} {shlex.quote(settings)}"
    )
