"""Settings and rights of topics that differ from what the flow would set: C16, C17."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.diagnose.findings import INFO, LIKELY, POSSIBLE, PROVEN, WARNING, Fact, Rule, Verdicts
from sparkmirror.diagnose.wording import alter_topic, finding, lasting
from sparkmirror.model import Acl
from sparkmirror.state.facts import Facts, Subject
from sparkmirror.state.parts import Part
from sparkmirror.topology import ConfigRules, acls_for_target, config_changes


def _settings(facts: Facts) -> Verdicts:
    rules = ConfigRules.of(facts.flow)
    is_synced = facts.flow.sync_topic_configs_enabled
    interval = facts.flow.sync_topic_configs_interval_seconds
    for decision in facts.decisions:
        ours, theirs = facts.source.configs.get(decision.topic), facts.target.configs.get(decision.remote)
        if not decision.replicated or ours is None or theirs is None:
            continue
        for name, wanted in config_changes(rules, ours.values(), theirs).items():
            found = theirs[name].value
            if found == (wanted if wanted is not None else ours[name].value):
                continue  # the same value, but written in another place
            should = f"the source has its default, {ours[name].value}" if wanted is None else f"the source has {wanted}"
            why = f"due within {lasting(interval)}" if is_synced else "sync.topic.configs.enabled is false"
            yield finding(
                facts, "C16", WARNING, LIKELY if is_synced else PROVEN, Subject(decision.topic),
                cause=f"{name} differs" + ("" if is_synced else ", and settings are not synced"),
                message=f"{decision.remote}: {name} is {found}, {should} ({why})",
                evidence=(Fact(f"{name} on both sides", f"{ours[name].value} and {found}", facts.target.read_ms),),
                mend="check the mirror's rights (AlterConfigs on the topic)" if is_synced else "set it by hand, or sync "
                                                                                                 "settings",
                command=alter_topic(facts.target, decision.remote, name if wanted is None else f"{name}={wanted}"),
            )  # fmt: skip


def _rights(facts: Facts) -> Verdicts:
    if not facts.flow.sync_topic_acls_enabled or facts.source.acls is None or facts.target.acls is None:
        return
    wanted, found = set(_expected(facts)), set(facts.target.acls)
    remotes = {decision.remote: decision.topic for decision in facts.decisions if decision.replicated}
    for acl in sorted(wanted - found):
        if acl.topic not in remotes:
            continue  # a topic that is not there yet
        yield finding(
            facts, "C17", WARNING, LIKELY, Subject(remotes[acl.topic]),
            cause="a right that is missing on the target",
            message=f"missing on the target: {acl} (set within {lasting(facts.flow.sync_topic_acls_interval_seconds)} if "
                    "the mirror may do that)",
            evidence=(Fact("rights of the target", f"without {acl}", facts.target.read_ms),),
            mend="grant Alter on the target cluster to the mirror's user, or add the right by hand",
        )  # fmt: skip
    for acl in sorted(found - wanted):
        if acl.topic in remotes and acl.pattern == "LITERAL":
            yield finding(
                facts, "C17", INFO, PROVEN if acl.permission == "DENY" else POSSIBLE, Subject(remotes[acl.topic]),
                cause="a right that the source does not have",
                message=f"only on the target: {acl} (a mirror never revokes rights)",
                evidence=(Fact("rights of the source", "none like it", facts.source.read_ms),),
            )  # fmt: skip


def _expected(facts: Facts) -> Iterator[Acl]:
    """MirrorMaker 2 copies only rights on literal names; sparkmirror expands patterns to the topics they cover."""
    topics = [decision.topic for decision in facts.decisions]
    acls = [acl for acl in facts.source.acls or () if facts.is_ours or (acl.pattern == "LITERAL" and acl.topic != "*")]
    yield from acls_for_target(facts.flow, facts.policy, acls, topics)


RULES = (
    Rule(
        "C16", "topic settings differ", "W",
        means="A setting of the copy is not what the flow would set: the sync is off, or it fails.",
        decides="MirrorMaker 2's own rule: not read-only, not sensitive, not in `config.properties.exclude`, with "
                "`use.defaults.from`. Likely while the sync is on, since a round may be due.",
        needs="DescribeConfigs on the topics of both clusters",
        mend="Grant AlterConfigs on the target topics, or set it by hand.",
        check=_settings, parts=(Part.SOURCE_CONFIGS, Part.TARGET_CONFIGS),
    ),
    Rule(
        "C17", "rights of topics differ", "W I",
        means="A right of the source is not on the target (readers will be refused after a failover), or the target has "
              "one more.",
        decides="Rights on topics of the source, renamed, without WRITE, ALL reduced to READ. Rights that only the target "
                "has are information: a mirror never revokes any.",
        needs="Describe on both clusters",
        mend="Grant Alter on the target cluster to the mirror's user.",
        check=_rights, parts=(Part.SOURCE_ACLS, Part.TARGET_ACLS),
    ),
)  # fmt: skip
