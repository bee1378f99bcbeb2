"""Why a topic or a group is not mirrored: the checks in their order, up to the first certain cause. Pure.

Where a cluster cannot be read, a question that only it answers is not answered: what the other one remembers is said, with
the time of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sparkmirror.diagnose.findings import INFO, PROVEN, Finding
from sparkmirror.diagnose.report import FlowReport
from sparkmirror.diagnose.rules.selection import selection_rule
from sparkmirror.diagnose.wording import counted, finding, moment
from sparkmirror.state.facts import Copy, Facts, Subject
from sparkmirror.state.parts import Part
from sparkmirror.topology import group_filter


@dataclass(frozen=True, slots=True)
class Step:
    """One question, its answer in words, and whether the answer is good (None: not known)."""

    question: str
    answer: str
    is_good: bool | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The chain for one subject of one flow; `cause` is the first certain one, or the most likely if none is certain.

    `is_there`: whether the flow has anything to do with the subject, as far as is known.
    """

    flow: str
    subject: str
    steps: tuple[Step, ...]
    cause: Finding | None
    also: tuple[Finding, ...]
    conclusion: str
    is_complete: bool
    is_there: bool = True


_CLUSTERS = (("do both clusters answer?", ("V1",), "yes"),)  # asked only where one does not
_TOPIC_CHAIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("is it on the target?", ("D9", "D12"), "yes"),
    ("is it being copied?", ("V7", "D11", "D1", "D2", "D10", "V3"), "yes"),
    ("is its position valid?", ("D6", "D7", "D5"), "yes"),
    ("does it make progress?", ("C12", "D4"), "yes"),
    ("is the copy correct?", ("C22", "C24", "C16", "C15"), "yes"),
    ("can positions be translated?", ("D3", "C05", "C08"), "yes"),
)
_GROUP_CHAIN: tuple[tuple[str, tuple[str, ...], str], ...] = (
    (
        "are its topics copied?",
        ("V7", "D9", "D12", "C13", "D11", "D1", "D2", "D10", "D6", "C10", "D7", "D5", "C12", "D4"),
        "yes",
    ),
    ("does it have checkpoints?", ("C04", "C25", "C05"), "yes"),
    ("are they of this incarnation of the topics?", ("C08", "C09"), "yes"),
    ("is it synced on the target?", ("C03", "C06", "C07"), "yes"),
    ("is it the same record?", ("C01", "C02", "D3"), "yes"),
)
# Information that answers the question, though nothing is wrong.
_ANSWERING = ("D3", "D5", "D8", "D9", "D11", "C03", "C04", "C25")
NAMED_MAX = 3


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
    copies = [c for c in facts.copies_of(topic) if partition is None or c.partition.partition == partition]
    if partition is not None and facts.source.view is not None and partition >= facts.source.partitions(topic):
        step = Step("is it there?", f"no: {topic} has {counted(facts.source.partitions(topic), 'partition')} on the "
                                    "source", False)
        return Answer(facts.name, name, (step,), None, (), f"{topic} has no partition {partition}", True, False)
    first = [Step("is it selected?", f"yes, {decision.reason}; it is {decision.remote} on {facts.target.alias}", True)]
    if facts.source.view is None:
        first.append(Step(f"is it on {facts.source.alias}?", _remembered(facts, copies), None))
    stopped = _stopped(copies)
    if stopped:
        first.append(Step("did its copy stop?", stopped, False))

    def concerns(found: Finding) -> bool:
        subject = found.subject
        is_here = subject.topic in ("", topic) and (None in (partition, subject.partition) or subject.partition == partition)
        if found.id == "V7" and not any(_is_leaderless(copy) for copy in copies):
            return False
        return is_here and not (subject.group and not subject.topic)

    walked, cause, also = _walk(report, _TOPIC_CHAIN, concerns)
    steps = (*first, *walked)
    conclusion = _copied(facts, name, copies) if cause is None else f"{name}: {cause.cause}"
    return Answer(facts.name, name, steps, cause, also, conclusion, _is_complete(steps))


def _copied(facts: Facts, name: str, copies: Sequence[Copy]) -> str:
    lag = sum(copy.lag or 0 for copy in copies)
    known = [copy for copy in copies if copy.lag is not None]
    if len(known) < len(copies) or not copies:
        which = f"the lag of {len(copies) - len(known):,} of {counted(len(copies), 'partition')}" if copies else "its lag"
        return f"nothing is known that prevents {name} from being copied, but {which} is unknown"
    state = "everything is copied" if not lag else f"{counted(lag, 'record')} are not copied yet"
    return f"{name} is copied by {facts.name}: {counted(len(known), 'partition')}, {state}"


def _is_leaderless(copy: Copy) -> bool:
    return any(ends is not None and ends.has_no_leader for ends in (copy.source, copy.target))


def _remembered(facts: Facts, copies: Sequence[Copy]) -> str:
    """What the target knows of a topic whose source cannot be read."""
    parts = [_remembered_copy(copy) for copy in copies[:NAMED_MAX]]
    if len(copies) > NAMED_MAX:
        parts.append(f"and {counted(len(copies) - NAMED_MAX, 'partition')} more")
    known = "; ".join(parts) or f"{facts.target.alias} remembers nothing of it"
    return f"not known: {_why_unread(facts, Part.SOURCE)}; last known: {known}"


def _remembered_copy(copy: Copy) -> str:
    when = "" if copy.position_ms is None else f" ({moment(copy.position_ms)})"
    copied = "not copied" if copy.reached is None else f"copied to upstream offset {copy.reached}{when}"
    if copy.last_source is None:
        return f"{copy.partition} {copied}, its end on the source is not recorded"
    ended = f"the source ended at {copy.last_source.end} ({moment(copy.last_source.time_ms)})"
    return f"{copy.partition} {copied}, {ended}"


def _stopped(copies: Sequence[Copy]) -> str:
    """The first partition of each code that stopped, and how many more there are; empty if none did."""
    by_code: dict[str, list[Copy]] = {}
    for copy in copies:
        if copy.stop is not None and copy.stop.state == "stopped":
            by_code.setdefault(copy.stop.code, []).append(copy)
    found = []
    for code, stopped in by_code.items():
        stop = stopped[0].stop
        assert stop is not None
        since = "" if stop.time_ms is None else f" since {moment(stop.time_ms)}"
        hint = f" ({stop.hint})" if stop.hint else ""
        more = f", and {counted(len(stopped) - 1, 'more partition')} with this code" if len(stopped) > 1 else ""
        reason = stop.reason.removeprefix(f"{stopped[0].partition}: ")
        found.append(f"{stopped[0].partition} stopped{since}: {code}: {reason}{hint}{more}")
    return "yes: " + "; ".join(found) if found else ""


def _why_unread(facts: Facts, part: str) -> str:
    side = part.partition(" ")[0] if part.startswith("source ") else "target"
    outage = next((outage for name, outage in facts.outages.items() if name == side), None)
    if outage is not None:
        return outage.words
    return facts.missing[part].reason if part in facts.missing else "it could not be read"


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
    held = _held(facts, name)
    steps.append(held)
    if group is None or (not group.source and held.is_good is False):
        cause = _outage(report) if held.is_good is None else None
        conclusion = f"group {name}: {held.answer.removeprefix('no: ')}"
        return Answer(facts.name, f"group {name}", tuple(steps), cause, (), conclusion, held.is_good is not None)
    held_in = set(group.source) or {copy.partition for copy in facts.copies.values() if copy.remote in group.checkpoints}
    places = {(p.topic, p.partition) for p in held_in}
    topics = {p.topic for p in held_in}

    def concerns(found: Finding) -> bool:
        subject = found.subject
        if found.id == "V7" and not any(_is_leaderless(copy) for copy in facts.copies.values() if copy.partition in held_in):
            return False
        if subject.group:
            return subject.group == name
        if found.id == "V7":
            return any(_is_leaderless(copy) for copy in facts.copies.values() if copy.partition in group.source)
        if not subject.topic:
            return True
        return subject.topic in topics and (subject.partition is None or (subject.topic, subject.partition) in places)

    cost = _cost(report, name) if "source" in facts.outages else ()
    more, cause, also = _walk(report, _GROUP_CHAIN, concerns)
    found = (*steps, *more, *cost)
    is_complete = _is_complete(found)
    if cause is not None:
        conclusion = f"group {name}: {cause.cause}"
    elif is_complete:
        conclusion = f"group {name} is mirrored by {facts.name}"
    else:
        conclusion = f"group {name}: nothing is known that prevents {facts.name} from mirroring it; not all could be read"
    return Answer(facts.name, f"group {name}", found, cause, also, conclusion, is_complete)


def _held(facts: Facts, name: str) -> Step:
    """Whether the group has commits on the source that this flow mirrors; where it was last seen if that is not known."""
    question, group, alias = "has it positions to mirror?", facts.groups.get(name), facts.source.alias
    if group is not None and group.source:
        return Step(question, f"yes, in {counted(len(group.source), 'partition')}", True)
    unread = next((part for part in (Part.SOURCE_GROUPS, Part.SOURCE_COMMITS) if part in facts.missing), None)
    if unread is None and (group is None or group.is_source_known):
        is_there = name in facts.source.groups
        where = "it has no commits in topics that this flow copies" if is_there else f"it is not on {alias}"
        return Step(question, f"no: {where}", False)
    why = _why_unread(facts, unread) if unread is not None else f"its commits on {alias} cannot be read"
    times = [] if group is None else [point.time_ms for point in group.checkpoints.values()]
    if times:
        last = f"last known: in {counted(len(times), 'partition')} by its checkpoints, the newest of {moment(max(times))}"
    elif Part.CHECKPOINTS in facts.missing:
        last = f"its checkpoints are unknown: {_why_unread(facts, Part.CHECKPOINTS)}"
    else:
        last = "it has no checkpoint"
    return Step(question, f"not known: {why}; {last}", None)


def _cost(report: FlowReport, name: str) -> tuple[Step, ...]:
    """What a failover without the source means for the group, as the doctor says it (C27)."""
    found = next((f for f in report.findings if f.id == "C27" and f.subject.group == name), None)
    text = "not known" if found is None else found.message.removeprefix(f"group {name}: ")
    return (Step("what would a failover now cost it?", text, None),)


def _nothing(report: FlowReport, word: str) -> Answer:
    """Neither topic nor group; that is certain only if both clusters showed all of theirs."""
    facts = report.facts
    source, target = facts.source.alias, facts.target.alias
    unread = [part for part in (Part.SOURCE, Part.TARGET, Part.SOURCE_GROUPS, Part.TARGET_GROUPS) if part in facts.missing]
    is_elsewhere = facts.target.has(word)
    if is_elsewhere and not unread:
        answer = f"{word} is a topic of {target} that {facts.name} does not write"
    elif not unread:
        answer = f"neither {source} nor {target} has a topic or a group called {word}"
    else:
        why = "; ".join(dict.fromkeys(_why_unread(facts, part) for part in unread))
        rest = target if "source" in facts.outages else source
        knows = "" if len(facts.outages) != 1 else f"; {rest} knows nothing of it"
        answer = f"not known, because {why}{knows}"
    step = Step("is it there?", answer, None if unread else False)
    cause = _outage(report) if unread else None
    return Answer(facts.name, word, (step,), cause, (), f"{word}: {answer}" if unread else answer, not unread, is_elsewhere)


def _outage(report: FlowReport) -> Finding | None:
    """The cluster that cannot be read, if that is why something is not known."""
    return next((found for found in report.findings if found.id == "V1"), None)


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
    for question, ids, fine in (*(_CLUSTERS if report.facts.outages else ()), *chain):
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
