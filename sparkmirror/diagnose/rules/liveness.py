"""Whether the flow delivers (C19), forms a cycle (C20), and runs with one set of settings (C21)."""

from __future__ import annotations

from collections.abc import Mapping

from sparkmirror.config import CONNECTOR_KEYS
from sparkmirror.diagnose.findings import ERROR, INFO, LIKELY, PROVEN, WARNING, Fact, Rule, Verdicts
from sparkmirror.diagnose.wording import ago, finding, paused_finding
from sparkmirror.ledger import HEARTBEAT
from sparkmirror.state.facts import COMPARED_KEYS, Facts, Subject
from sparkmirror.state.parts import Part
from sparkmirror.topology import policy_for, select_topics

STALE_S_MIN = 60.0
STALE_INTERVALS = 10


def _heartbeats(facts: Facts) -> Verdicts:
    yield from (paused_finding(facts, "C19", wish) for wish in facts.paused(HEARTBEAT))
    beats = facts.heartbeats
    if beats is None or beats.source_ms is None:
        return
    limit_s = max(STALE_S_MIN, STALE_INTERVALS * facts.flow.emit_heartbeats_interval_seconds)
    evidence = (
        Fact(beats.source_topic, "newest heartbeat on the source", beats.source_ms),
        Fact(beats.target_topic, "newest copy on the target", beats.target_ms),
    )
    if facts.age_s(beats.source_ms) > limit_s:
        yield finding(
            facts, "C19", INFO, PROVEN, Subject(),
            cause="no heartbeats are written",
            message=f"the newest heartbeat on {facts.source.alias} is {ago(facts, beats.source_ms)} old: {beats.writer} "
                    "does not write any, so heartbeats say nothing about this flow",
            evidence=evidence, mend=f"run {beats.writer}'s heartbeats if they are monitored",
        )  # fmt: skip
    elif beats.target_ms is None or facts.age_s(beats.target_ms) > limit_s:
        age = "ever" if beats.target_ms is None else f"for {ago(facts, beats.target_ms)}"
        is_new = beats.target_ms is None
        yield finding(
            facts, "C19", WARNING if is_new else ERROR, LIKELY if is_new else PROVEN, Subject(),
            cause="heartbeats do not arrive",
            message=f"heartbeats are written on {facts.source.alias}, but {facts.name} delivered none {age} to "
                    f"{beats.target_topic}",
            evidence=evidence, mend="see D11 and C12: the flow copies nothing, or not this topic",
        )  # fmt: skip


def _loop(facts: Facts) -> Verdicts:
    if facts.back is None:
        return
    back, there = facts.back, [d for d in facts.decisions if d.replicated]
    again = {d.topic: d for d in select_topics(back, policy_for(back), [d.remote for d in there])}
    for decision in there:
        found = again[decision.remote]
        if found.replicated and not facts.policy.is_heartbeats_topic(decision.topic):
            yield finding(
                facts, "C20", ERROR, PROVEN if found.remote == decision.topic else LIKELY, Subject(decision.topic),
                cause="records go round",
                message=f"{facts.name} copies {decision.topic} to {decision.remote}, and {back.name} copies that back to "
                        f"{found.remote}",
                evidence=(Fact("both flows", f"{facts.name}, {back.name}"),),
                mend="give the two flows different `topics`, or use the default replication policy in both",
            )  # fmt: skip


# --- C21 -------------------------------------------------------------------------------------------------------


def _settings(facts: Facts) -> Verdicts:
    if facts.is_ours:
        return
    found = {c.name: c.settings for c in facts.connectors.values() if c.settings}
    for key in COMPARED_KEYS:
        values = {name: _effective(settings, key) for name, settings in found.items()}
        wanted = {name: v for name, v in values.items() if key in _known_to(name)}
        if len(set(wanted.values())) > 1:
            yield finding(
                facts, "C21", ERROR, PROVEN, Subject(),
                cause=f"connectors disagree on {key}",
                message=f"the connectors of {facts.name} run with different {key}: "
                        + ", ".join(f"{name} {value or 'nothing'}" for name, value in sorted(wanted.items())),
                evidence=(Fact(key, ", ".join(sorted(set(wanted.values())))),),
                mend=f"give all connectors the same {key} and restart them",
            )  # fmt: skip
    yield from _other_file(facts, found)


def _other_file(facts: Facts, found: Mapping[str, Mapping[str, str]]) -> Verdicts:
    source = next((settings for name, settings in found.items() if "Source" in name), None)
    if source is None:
        return
    ours = {
        "topics": ",".join(facts.flow.topics), "topics.exclude": ",".join(facts.flow.topics_exclude),
        "replication.policy.class": facts.flow.replication_policy_class,
        "replication.policy.separator": facts.flow.replication_policy_separator,
        "offset-syncs.topic.location": facts.flow.offset_syncs_topic_location,
    }  # fmt: skip
    for key, mine in ours.items():
        theirs = _effective(source, key)
        if _items(theirs) != _items(mine):
            yield finding(
                facts, "C21", WARNING, PROVEN, Subject(),
                cause="MirrorMaker 2 runs with other settings than this file",
                message=f"MirrorMaker 2 runs with {key} = {theirs or 'nothing'}, this file says {mine or 'nothing'}",
                evidence=(Fact(key, f"{theirs} and {mine}"),),
                mend="restart MirrorMaker 2 with this file, or run doctor with the file that MirrorMaker 2 uses",
            )  # fmt: skip


def _known_to(connector: str) -> frozenset[str]:
    """Filters of topics are read by source and checkpoint connector, filters of groups by the latter alone."""
    if "Heartbeat" in connector:
        return frozenset({"source.cluster.alias", "target.cluster.alias"})
    return frozenset(COMPARED_KEYS)


def _effective(settings: Mapping[str, str], key: str) -> str:
    old = key.replace(".exclude", ".blacklist")
    found = settings.get(key, settings.get(old))
    if found is not None:
        return found if key == "replication.policy.separator" else found.strip()
    known = CONNECTOR_KEYS.get(key)
    return (known.effective_default or "") if known is not None else ""


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",")) if "," in text else (text.strip(),)


RULES = (
    Rule(
        "C19", "heartbeats do not arrive", "E W I",
        means="Heartbeats are written on the source, and their copies on the target are old: the flow delivers nothing. "
              "Where no heartbeats are written, or they are not replicated, nothing is said. That somebody "
              "paused the heartbeats of this flow is a warning.",
        decides="The newest record of both topics of heartbeats; old is more than a minute and more than ten intervals. "
                "For A->B the heartbeats are those that B->A writes on A, and their copy `A.heartbeats` on B.",
        needs="Read on both topics of heartbeats",
        mend="See D11 and C12.",
        check=_heartbeats, parts=(Part.HEARTBEATS,),
    ),
    Rule(
        "C20", "records go round", "E",
        means="Two flows copy the same topics to each other: every record comes back, endlessly.",
        decides="Each remote topic is compared with the topics that the flow in the other direction selects.",
        needs="Describe on the topics of the source",
        mend="Different `topics`, or the default policy.",
        check=_loop, parts=(Part.SOURCE,),
    ),
    Rule(
        "C21", "connector settings disagree", "E W",
        means="The connectors of one flow run with different names, places or filters: checkpoints are read where "
              "none are written. Or MirrorMaker 2 runs with another file than the one given here.",
        decides="MirrorMaker 2's topic of settings, key by key, against each other and against the file.",
        needs="Read on `mm2-configs.A.internal` on the target",
        mend="One set of settings for all connectors, then restart them.",
        check=_settings, parts=(Part.CONNECT_SETTINGS,),
    ),
)  # fmt: skip
