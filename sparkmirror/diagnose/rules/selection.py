"""Whether a topic is copied at all: selected, found, and complete on the target (D8, D9, D12, C13, C14)."""

from __future__ import annotations

import shlex

from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, POSSIBLE, PROVEN, WARNING, Fact, Rule, Verdicts
from sparkmirror.diagnose.wording import counted, finding, lasting
from sparkmirror.state.facts import Facts, Subject
from sparkmirror.state.parts import Part
from sparkmirror.topology import TopicDecision

SLACK_S = 30.0  # how long a refresh and a topic creation take
MIRROR_OWN = ("internal topic", "internal topic of the brokers")


def selection_rule(facts: Facts, decision: TopicDecision) -> str:
    """Where the rule that left a topic out is written."""
    reason = decision.reason
    if reason.startswith("excluded by pattern"):
        return facts.places.get("topics.exclude", "topics.exclude")
    if reason == "matched by no include pattern":
        return facts.places.get("topics", "topics")
    if reason.startswith("refused by"):
        return facts.places.get("topic.filter.class", "topic.filter.class")
    if reason.startswith("would be a cycle"):
        return facts.places.get("replication.policy.class", "replication.policy.class")
    return "fixed: names that start with `__` or `.`, and a mirror's own topics, are never copied"


def _not_selected(facts: Facts) -> Verdicts:
    for decision in facts.decisions:
        if decision.replicated or decision.reason in MIRROR_OWN:
            continue
        yield finding(
            facts, "D8", INFO, PROVEN, Subject(decision.topic),
            cause=f"not copied: {decision.reason}",
            message=f"{decision.topic} is not copied: {decision.reason} ({selection_rule(facts, decision)})",
            evidence=(Fact("decided by", selection_rule(facts, decision)),),
            mend="if it should be copied, change that key and restart the mirror",
        )  # fmt: skip


def _not_discovered(facts: Facts) -> Verdicts:
    for decision in facts.decisions:
        if decision.replicated and facts.source.has(decision.topic) and not facts.target.has(decision.remote):
            yield from _absent(facts, decision)


def _absent(facts: Facts, decision: TopicDecision) -> Verdicts:
    flow, subject = facts.flow, Subject(decision.topic)
    where = f"{decision.topic} is on {facts.source.alias} and not on {facts.target.alias} as {decision.remote}"
    evidence = (Fact("topics on the target", f"no {decision.remote}", facts.target.read_ms),)
    brokers = len(facts.target.view.brokers) if facts.target.view is not None else 0
    factor = flow.replication_factor
    if 0 < brokers < factor:
        yield finding(
            facts, "D9", ERROR, PROVEN, subject,
            cause="the target cannot create it",
            message=f"{where}: replication.factor is {factor}, the target has {counted(brokers, 'broker')}",
            evidence=(*evidence, Fact("brokers of the target", str(brokers))),
            mend=f"set {flow.name}.replication.factor to at most {brokers}, and restart the mirror",
        )  # fmt: skip
        return
    wait = facts.refresh_topics_s
    if not flow.refresh_topics_enabled or wait < 0:
        yield finding(
            facts, "D9", WARNING, PROVEN, subject,
            cause="the refresh of topics is off",
            message=f"{where}: refresh.topics.enabled is false, so it is found only when the mirror starts",
            evidence=evidence,
            mend="restart the mirror, or set refresh.topics.enabled = true",
        )  # fmt: skip
        return
    old = facts.past_before(wait + SLACK_S)
    if old is not None and decision.topic in old.source_ids and facts.runner.is_running:
        yield finding(
            facts, "D9", ERROR, LIKELY, subject,
            cause="not created although the refresh interval is over",
            message=f"{where} since at least {lasting(facts.age_s(old.time_ms))}: its creation fails",
            evidence=(*evidence, Fact("seen on the source before", old.source_ids[decision.topic], old.time_ms)),
            mend="search for `Could not create topic` in MirrorMaker 2's log, or see the line of this topic in "
                 "`sparkmirror run`; mostly a right (Create) or a limit of the target",
        )  # fmt: skip
        return
    is_running = facts.runner.is_running
    yield finding(
        facts, "D9", INFO, PROVEN if is_running else POSSIBLE, subject,
        cause="not found yet" if is_running else "nobody runs the flow",
        message=f"{where}: topics are refreshed every {lasting(wait)}; it will be picked up within that time"
                + ("" if is_running else " once the flow runs"),
        evidence=(*evidence, Fact("refresh.topics.interval.seconds", str(wait))),
        mend="wait, then check again: with --baseline FILE doctor says whether the interval is over",
    )  # fmt: skip


def _partition_counts(facts: Facts) -> Verdicts:
    for decision in facts.decisions:
        if not decision.replicated or not facts.target.has(decision.remote):
            continue
        wanted, found = facts.source.partitions(decision.topic), facts.target.partitions(decision.remote)
        if found < wanted:
            yield from _too_few(facts, decision, wanted, found)
        elif found > wanted:
            yield finding(
                facts, "C14", WARNING, PROVEN, Subject(decision.topic),
                cause="the target has more partitions",
                message=f"{decision.topic} has {counted(wanted, 'partition')} on the source, {decision.remote} has {found}: "
                        "the others stay empty, and keyed producers spread differently after a failover",
                evidence=(Fact("partitions", f"{wanted} and {found}", facts.target.read_ms),),
                mend="extend the source's topic to the same number, or leave it if there will be no failover",
            )  # fmt: skip


def _too_few(facts: Facts, decision: TopicDecision, wanted: int, found: int) -> Verdicts:
    was_copied = [
        copy.partition.partition
        for copy in facts.copies_of(decision.topic)
        if copy.partition.partition >= found and copy.next_upstream is not None
    ]
    wait = facts.refresh_topics_s
    is_refreshed = facts.flow.refresh_topics_enabled and wait >= 0
    is_new = not was_copied and is_refreshed and facts.runner.is_running and facts.past_before(wait + SLACK_S) is None
    here = f"{decision.topic} has {counted(wanted, 'partition')} on the source, {decision.remote} has {found} on the target"
    hang = (
        "partitions that are not on the target are not copied" if facts.is_ours else
        "MirrorMaker 2's task hangs without an error as soon as it gets a record for a missing one"
    )  # fmt: skip
    servers = shlex.quote(facts.target.bootstrap)
    yield finding(
        facts, "D12", WARNING if is_new else ERROR, LIKELY if is_new else PROVEN, Subject(decision.topic),
        cause="the target has fewer partitions",
        message=f"{here}: {hang}" + (f"; extended within {lasting(wait)} if the mirror may do that" if is_new else ""),
        evidence=(
            Fact("partitions", f"{wanted} and {found}", facts.target.read_ms),
            *((Fact("copied before", f"partitions {', '.join(map(str, was_copied))}"),) if was_copied else ()),
        ),
        mend="add the partitions" + ("" if facts.is_ours else "; MirrorMaker 2 resumes by itself"),
        command=f"kafka-topics.sh --bootstrap-server {servers} --alter --topic {shlex.quote(decision.remote)} "
                f"--partitions {wanted}",
    )  # fmt: skip


RULES = (
    Rule(
        "D8", "topic not selected", "I",
        means="The flow does not select the topic: nothing is wrong with the copy.",
        decides="The name is compared with `topics`, `topics.exclude` (or the filter class), the names never copied "
                "(`__…`, `.…`, a mirror's own topics) and the clusters that the name says it came through (a cycle). The "
                "finding names the pattern and the line of the file.",
        needs="Describe on the topics of the source",
        mend="Change the key that is named and restart the mirror.",
        check=_not_selected, parts=(Part.SOURCE,),
    ),
    Rule(
        "D9", "topic not on the target yet", "E W I",
        means="The topic is selected and exists on the source, but its copy is not on the target.",
        decides="Information while it may be younger than `refresh.topics.interval.seconds` (600 by default). Error if an "
                "earlier run (`--baseline`) saw it longer ago than that, or if `replication.factor` is more than the "
                "target has brokers. Warning if `refresh.topics.enabled` is false.",
        needs="Describe on the topics of both clusters; for the age an earlier run",
        mend="Wait for the next refresh; after that read why the creation fails.",
        check=_not_discovered, parts=(Part.SOURCE, Part.TARGET),
    ),
    Rule(
        "D12", "target has fewer partitions", "E W",
        means="Records of the missing partitions cannot be written. MirrorMaker 2 waits forever without an error; all "
              "partitions of that task make no progress, and the task is reported as running.",
        decides="Partition counts of both topics. Warning, not error, while the mirror runs, refreshes its topics and never "
                "copied the missing partitions: then the source may have been extended a moment ago.",
        needs="Describe on the topics of both clusters",
        mend="Add the partitions on the target. MirrorMaker 2 then resumes by itself.",
        check=_partition_counts, parts=(Part.SOURCE, Part.TARGET),
    ),
    Rule(
        "C14", "target has more partitions", "W",
        means="The extra partitions stay empty. After a failover producers with keys spread them differently.",
        decides="Partition counts of both topics.",
        needs="Describe on the topics of both clusters",
        mend="Extend the source's topic, if keyed consumers will ever fail over.",
    ),
)  # fmt: skip
