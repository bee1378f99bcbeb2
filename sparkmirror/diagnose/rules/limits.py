"""Limits of the target that records of the source may exceed: C15, and D10 before it happens."""

from __future__ import annotations

from sparkmirror.diagnose.findings import INFO, LIKELY, POSSIBLE, WARNING, Fact, Finding, Rule, Verdicts
from sparkmirror.diagnose.wording import alter_topic, copy_facts, finding, lasting, moment, size_of, subject_of
from sparkmirror.state.facts import Copy, Facts, Subject
from sparkmirror.state.parts import Part
from sparkmirror.topology import TopicDecision

# Kafka's defaults differ by this much on purpose: max.message.bytes counts the batch header, max.request.size does not.
BATCH_HEAD_BYTES = 12
FOR_EVER_MS = 1 << 62
WINDOW = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms")


def _sizes(facts: Facts) -> Verdicts:
    for decision in facts.decisions:
        may_exist = facts.source.number(decision.topic, "max.message.bytes")
        taken = facts.target.number(decision.remote, "max.message.bytes")
        if not decision.replicated or may_exist is None:
            continue
        if taken is not None and taken < may_exist:
            yield finding(
                facts, "C15", WARNING, POSSIBLE, Subject(decision.topic),
                cause="the target takes smaller records than the source",
                message=f"records of up to {size_of(may_exist)} can be in {decision.topic}, {decision.remote} takes "
                        f"{size_of(taken)}: a larger one would stop the copy (D1)",
                evidence=(Fact("max.message.bytes", f"{may_exist} and {taken}", facts.target.read_ms),),
                mend="raise max.message.bytes of the target topic",
                command=alter_topic(facts.target, decision.remote, f"max.message.bytes={may_exist}"),
            )  # fmt: skip
        limit = int(facts.flow.producer.get("max.request.size", "1048576"))
        if not facts.is_ours and facts.runner.program == "mm2" and may_exist > limit + BATCH_HEAD_BYTES:
            key = f"{facts.flow.name.target}.producer.max.request.size"
            yield finding(
                facts, "C15", WARNING, POSSIBLE, Subject(decision.topic),
                cause="MirrorMaker 2's producer takes smaller records than the source",
                message=f"records of up to {size_of(may_exist)} can be in {decision.topic}, max.request.size is "
                        f"{size_of(limit)}: a larger one would stop its task (D2)",
                evidence=(Fact("max.message.bytes and max.request.size", f"{may_exist} and {limit}", facts.source.read_ms),),
                mend=f"write {key} = {may_exist} and restart MirrorMaker 2",
            )  # fmt: skip
    for decision in facts.decisions:
        if decision.replicated:
            yield from _narrower_window(facts, decision)
    if facts.flow.errors_tolerance == "all" and not facts.is_ours:
        yield finding(
            facts, "C15", WARNING, LIKELY, Subject(),
            cause="errors.tolerance is all",
            message="errors.tolerance = all: MirrorMaker 2 silently drops records that cannot be written",
            evidence=(Fact("errors.tolerance", facts.places.get("errors.tolerance", "all")),),
            mend="write errors.tolerance = none",
        )  # fmt: skip


def _narrower_window(facts: Facts, decision: TopicDecision) -> Verdicts:
    """A target that accepts fewer timestamps than the source."""
    if facts.target.setting(decision.remote, "message.timestamp.type") == "LogAppendTime":
        return
    for name in WINDOW:
        ours, theirs = facts.source.number(decision.topic, name), facts.target.number(decision.remote, name)
        if ours is not None and theirs is not None and theirs < min(ours, FOR_EVER_MS):
            yield finding(
                facts, "C15", WARNING, POSSIBLE, Subject(decision.topic),
                cause="the target takes fewer timestamps than the source",
                message=f"{decision.remote} refuses records more than {lasting(theirs / 1000)} away from now ({name}), "
                        f"{decision.topic} takes them: such a record would stop the copy (D10)",
                evidence=(Fact(name, f"{ours} and {theirs}", facts.target.read_ms),),
                mend=f"widen {name} of the target topic",
                command=alter_topic(facts.target, decision.remote, f"{name}={ours}"),
            )  # fmt: skip


def refused_timestamps(facts: Facts) -> Verdicts:
    """Partitions whose next record the target would refuse by its timestamp."""
    for partition, record in facts.reads.next_records.items():
        copy = facts.copies.get(partition)
        if copy is None or copy.stop is not None or record.timestamp < 0:
            continue
        remote = copy.remote.topic
        if facts.target.setting(remote, "message.timestamp.type") == "LogAppendTime":
            continue
        before = facts.target.number(remote, "message.timestamp.before.max.ms")
        after = facts.target.number(remote, "message.timestamp.after.max.ms")
        if before is not None and before < FOR_EVER_MS and facts.now_ms - record.timestamp > before:
            yield _outside(facts, copy, record.timestamp, "message.timestamp.before.max.ms", before)
        elif after is not None and after < FOR_EVER_MS and record.timestamp - facts.now_ms > after:
            yield _outside(facts, copy, record.timestamp, "message.timestamp.after.max.ms", after)


def _outside(facts: Facts, copy: Copy, timestamp: int, name: str, limit_ms: int) -> Finding:
    is_moving = facts.runner.is_running
    return finding(
        facts, "D10", WARNING if is_moving else INFO, LIKELY, subject_of(copy),
        cause="the target's timestamp limits refuse the next record",
        message=f"the next record of {copy.partition} is of {moment(timestamp)}, outside of the {lasting(limit_ms / 1000)} "
                f"that {copy.remote.topic} takes ({name})",
        evidence=copy_facts(copy, Fact("timestamp of the next record", moment(timestamp)), Fact(name, str(limit_ms))),
        mend=f"widen {name} of the target topic",
        command=alter_topic(facts.target, copy.remote.topic, f"{name}=9223372036854775807"),
    )  # fmt: skip


RULES = (
    Rule(
        "C15", "size and timestamp limits", "W",
        means="Records can be on the source that the target, or MirrorMaker 2's producer, would refuse: D1, D2 and D10 "
              "before they happen.",
        decides="Effective max.message.bytes of both topics; max.request.size of MirrorMaker 2 (12 bytes less is Kafka's "
                "own default and no finding); the window of timestamps that both topics take. Also `errors.tolerance = "
                "all`, which silently drops records.",
        needs="DescribeConfigs on the topics of both clusters",
        mend="Raise the smaller limit.",
        check=_sizes, parts=(Part.SOURCE_CONFIGS, Part.TARGET_CONFIGS),
    ),
)  # fmt: skip
