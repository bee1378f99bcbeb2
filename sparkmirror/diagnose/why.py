"""Why a topic or a group is not mirrored: the checks in their order, up to the first certain cause. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.diagnose.findings import INFO, PROVEN, Finding
from sparkmirror.diagnose.report import FlowReport
from sparkmirror.diagnose.rules.selection import selection_rule
from sparkmirror.diagnose.wording import counted, finding
from sparkmirror.state.facts import Copy, Facts, Subject
from sparkmirror.topology import group_filter


@dataclass(frozen=True, slots=True)
class Step:
    """One question, its answer in words, and whether the answer is good (None: not known)."""

    question: str
    answer: str
    is_good: bool | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The chain for one subject of one flow; `cause` is the first certain one, or the most likely if none is certain."""

    flow: str
    subject: str
    steps: tuple[Step, ...]
    cause: Finding | None
    also: tuple[Finding, ...]
    conclusion: str
    is_complete: bool


_TOPIC_CHAIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("is it on the target?", ("D9", "D12"), "yes"),
    ("is it being copied?", ("D11", "D1", "D2", "D10", "V3"), "yes"),
    ("is its position valid?", ("D6", "D7", "D5"), "yes"),
    ("does it make progress?", ("C12", "D4"), "yes"),
    ("is the copy correct?", ("C22", "C24", "C16", "C15"), "yes"),
    ("can positions be translated?", ("D3", "C05", "C08"), "yes"),
)
_GROUP_CHAIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("are its topics copied?", ("D9", "D12", "C13", "D11", "D1", "D2", "D10", "D6", "C10", "D7", "D5", "C12", "D4"), "yes"),
    ("does it have checkpoints?", ("C04", "C25", "C05"), "yes"),
    ("are they of this incarnation of the topics?", ("C08", "C09"), "yes"),
    ("is it synced on the target?", ("C03", "C06", "C07"), "yes"),
    ("is it the same record?", ("C01", "C02", "D3"), "yes"),
)
# Information that answers the question, though nothing is wrong.
_ANSWERING = ("D3", "D5", "D8", "D9", "D11", "C03", "C04", "C25")


def why(report: FlowReport, word: str) -> Iterator[Answer]:
    """An answer for each thing of that name in the flow: a topic (by its name on either side), a partition, a group."""
    facts = report.facts
    topic, partition = _place(facts, word)
    is_topic = topic is not None
    if topic is not None:
        yield _why_topic(report, topic, partition)
    is_group = word in facts.source.groups or word in facts.target.groups or word in facts.groups
    if is_group:
        yield _why_group(report, word)
    if not is_topic and not is_group:
        yield _nothing(report, word)


def _place(facts: Facts, word: str) -> tuple[str | None, int | None]:
    """The source topic that a word names, and the partition behind a colon."""
    for name, number in ((word, None), _cut(word)):
        for decision in facts.decisions:
            if name == decision.topic or (decision.replicated and name == decision.remote):
                return decision.topic, number
    return None, None


def _cut(word: str) -> tuple[str, int | None]:
    name, colon, number = word.rpartition(":")
    return (name, int(number)) if colon and number.isascii() and number.isdigit() else (word, None)


# --- topics ----------------------------------------------------------------------------------------------------


def _why_topic(report: FlowReport, topic: str, partition: int | None) -> Answer:
    facts = report.facts
    decision = facts.decision(topic)
    assert decision is not None
    name = topic if partition is None else f"{topic}-{partition}"
    if not decision.replicated:
        found = next((f for f in report.findings if f.id == "D8" and f.subject.topic == topic), None) or finding(
            facts, "D8", INFO, PROVEN, Subject(topic),
            cause=f"not copied: {decision.reason}",
            message=f"{topic} is not copied: {decision.reason} ({selection_rule(facts, decision)})",
            mend="if it should be copied, change that key and restart the mirror",
        )  # fmt: skip
        step = Step("is it selected?", f"no: {decision.reason}; {selection_rule(facts, decision)}", False)
        return Answer(facts.name, name, (step,), found, (), f"{name} is not copied by {facts.name}", True)
    if partition is not None and partition >= facts.source.partitions(topic):
        step = Step("is it there?", f"no: {topic} has {counted(facts.source.partitions(topic), 'partition')} on the "
                                    "source", False)
        return Answer(facts.name, name, (step,), None, (), f"{topic} has no partition {partition}", True)
    first = Step("is it selected?", f"yes, {decision.reason}; it is {decision.remote} on {facts.target.alias}", True)

    def concerns(found: Finding) -> bool:
        subject = found.subject
        is_here = subject.topic in ("", topic) and (None in (partition, subject.partition) or subject.partition == partition)
        return is_here and not (subject.group and not subject.topic)

    steps, cause, also = _walk(report, _TOPIC_CHAIN, concerns)
    copies = [c for c in facts.copies_of(topic) if partition is None or c.partition.partition == partition]
    conclusion = _copied(facts, name, copies) if cause is None else f"{name}: {cause.cause}"
    return Answer(facts.name, name, (first, *steps), cause, also, conclusion, _is_complete(steps))


def _copied(facts: Facts, name: str, copies: Sequence[Copy]) -> str:
    lag = sum(copy.lag or 0 for copy in copies)
    known = [copy for copy in copies if copy.lag is not None]
    if not known:
        return f"nothing prevents {name} from being copied, but its lag is unknown"
    state = "everything is copied" if not lag else f"{counted(lag, 'record')} are not copied yet"
    return f"{name} is copied by {facts.name}: {counted(len(known), 'partition')}, {state}"


# --- groups ----------------------------------------------------------------------------------------------------


def _why_group(report: FlowReport, name: str) -> Answer:
    facts = report.facts
    refusal = group_filter(facts.flow).refusal(name)
    if refusal is not None:
        key = "groups.exclude" if refusal.startswith("excluded") else "groups"
        step = Step("is it selected?", f"no: {refusal}; {facts.places.get(key, key)}", False)
        conclusion = f"group {name} is not mirrored by {facts.name}: {refusal}"
        return Answer(facts.name, f"group {name}", (step,), None, (), conclusion, True)
    steps = [Step("is it selected?", "yes", True)]
    group = facts.groups.get(name)
    if group is None or not group.source:
        where = "it has no commits in topics that this flow copies" if name in facts.source.groups else (
            f"it is not on {facts.source.alias}"
        )
        steps.append(Step("has it positions to mirror?", f"no: {where}", False))
        return Answer(facts.name, f"group {name}", tuple(steps), None, (), f"group {name}: {where}", True)
    steps.append(Step("has it positions to mirror?", f"yes, in {counted(len(group.source), 'partition')}", True))
    places = {(p.topic, p.partition) for p in group.source}
    topics = {p.topic for p in group.source}

    def concerns(found: Finding) -> bool:
        subject = found.subject
        if subject.group:
            return subject.group == name
        if not subject.topic:
            return True
        return subject.topic in topics and (subject.partition is None or (subject.topic, subject.partition) in places)

    more, cause, also = _walk(report, _GROUP_CHAIN, concerns)
    conclusion = (
        f"group {name} is mirrored by {facts.name}" if cause is None else f"group {name}: {cause.cause}"
    )
    return Answer(facts.name, f"group {name}", (*steps, *more), cause, also, conclusion, _is_complete(more))


def _nothing(report: FlowReport, word: str) -> Answer:
    facts = report.facts
    is_known = facts.source.view is not None
    answer = (
        f"no topic and no group called {word} is on {facts.source.alias}" if is_known
        else f"{facts.source.alias} did not answer, so it is unknown whether {word} is there"
    )  # fmt: skip
    return Answer(facts.name, word, (Step("is it there?", answer, False if is_known else None),), None, (), answer, is_known)


# --- walking ---------------------------------------------------------------------------------------------------


def _walk(
    report: FlowReport, chain: Collection[tuple[str, tuple[str, ...], str]], concerns: object
) -> tuple[tuple[Step, ...], Finding | None, tuple[Finding, ...]]:
    """Runs the checks in order; the first proven cause ends the chain, other findings are reported beside it.

    Information is not a cause if something worse was found before it, even if only likely: a copy with a hole has coarse
    offset syncs too, and these are not the cause.
    """
    assert callable(concerns)
    steps: list[Step] = []
    seen: list[Finding] = []
    cause: Finding | None = None
    for question, ids, fine in chain:
        found = sorted(
            (f for f in report.findings if f.id in ids and concerns(f) and _counts(f)),
            key=lambda f: (-f.severity, f.certainty.rank, ids.index(f.id)),
        )
        seen += found
        if cause is not None:
            continue
        opens = [o for o in report.opens if o.id in ids]
        certain = next((f for f in found if f.certainty is PROVEN), None)
        if certain is not None:
            is_worst = certain.severity is not INFO or all(f.severity is INFO for f in seen)
            cause = certain if is_worst else None
            steps.append(Step(question, f"no: {certain.cause} ({certain.id})", False))
        elif found:
            steps.append(Step(question, f"perhaps not: {found[0].cause} ({found[0].id})", None))
        elif opens:
            steps.append(Step(question, f"not known: {opens[0].reason}", None))
        else:
            steps.append(Step(question, fine, True))
    if cause is None and seen:
        cause = min(seen, key=lambda f: (-f.severity, f.certainty.rank))
    return tuple(steps), cause, tuple(f for f in seen if f is not cause)


def _counts(found: Finding) -> bool:
    return found.severity is not INFO or found.id in _ANSWERING


def _is_complete(steps: Sequence[Step]) -> bool:
    return not any(step.is_good is None and step.answer.startswith("not known") for step in steps)
