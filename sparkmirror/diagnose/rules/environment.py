"""The clusters: whether they can be read (V1, V7), versions (V2), rights (V3), clocks (V4), certificates (V5)."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.diagnose.findings import ERROR, PROVEN, WARNING, Fact, Rule, Severity, Verdicts
from sparkmirror.diagnose.wording import ago, counted, finding, lasting, moment
from sparkmirror.model import Side
from sparkmirror.state.facts import ClusterFacts, Facts, Subject
from sparkmirror.state.parts import Part

CERTIFICATE_DAYS = 30
SKEW_MS_MAX = 30_000  # heartbeats and ages are judged to the minute
DAY_MS = 86_400_000
NAMED_MAX = 3
LEADERLESS_MAX = 20


def _outages(facts: Facts) -> Verdicts:
    for side, outage in facts.outages.items():
        seen_ms = facts.source_seen_ms if side == "source" else None
        seen = "" if seen_ms is None else f"; the mirror last saw it {moment(seen_ms)}, {ago(facts, seen_ms)} ago"
        yield finding(
            facts, "V1", ERROR, PROVEN, Subject(cluster=outage.alias),
            cause=outage.words,
            message=f"{side} {outage.message}{seen}",
            evidence=(Fact(f"bootstrap.servers of {outage.alias}", _bootstrap(facts, side)),),
            mend="check the user and the password of this cluster" if outage.is_login else
                 f"bring {outage.alias} back, or fail over: docs/failover.md" if side == "source" else
                 f"bring {outage.alias} back: the ledger and the positions of {facts.name} are on it",
        )  # fmt: skip


def _bootstrap(facts: Facts, side: Side) -> str:
    return (facts.source if side == "source" else facts.target).bootstrap


def _leaderless(facts: Facts) -> Verdicts:
    """One line for each cluster, whatever the number of partitions."""
    copies = facts.copies.values()
    sides = (
        (facts.source, "not copied", [c.partition for c in copies if c.source is not None and c.source.has_no_leader]),
        (facts.target, "not written", [c.remote for c in copies if c.target is not None and c.target.has_no_leader]),
    )
    for cluster, what, places in sides:
        if not places:
            continue
        more = f" and {len(places) - LEADERLESS_MAX:,} more" if len(places) > LEADERLESS_MAX else ""
        names = ", ".join(str(place) for place in sorted(places)[:LEADERLESS_MAX]) + more
        yield finding(
            facts, "V7", ERROR, PROVEN, Subject(cluster=cluster.alias),
            cause=f"partitions on {cluster.alias} without a leader",
            message=f"{len(places):,} of {counted(len(facts.copies), 'partition')} on {cluster.alias} have no leader and "
                    f"are {what}: {names}",
            evidence=(Fact("partitions without a leader", names, cluster.read_ms),),
            mend="bring the brokers that hold their replicas back",
        )  # fmt: skip


def _versions(facts: Facts) -> Verdicts:
    for cluster in (facts.source, facts.target):
        for node, lacks in sorted(cluster.too_old.items()):
            yield finding(
                facts, "V2", ERROR, PROVEN, Subject(cluster=cluster.alias),
                cause="a broker is too old",
                message=f"broker {node} of {cluster.alias}: {lacks}; sparkmirror needs Kafka 3.0 or newer",
                evidence=(Fact(f"broker {node}", cluster.versions.get(node, "unknown"), cluster.read_ms),),
                mend="upgrade the broker",
            )  # fmt: skip
        found = sorted(set(cluster.versions.values()))
        if len(found) > 1:
            yield finding(
                facts, "V2", WARNING, PROVEN, Subject(cluster=cluster.alias),
                cause="brokers of different releases",
                message=f"the brokers of {cluster.alias} are of different releases: {', '.join(found)}",
                evidence=tuple(Fact(f"broker {n}", v, cluster.read_ms) for n, v in sorted(cluster.versions.items())),
                mend="finish the upgrade; until then the oldest broker limits the protocol versions",
            )  # fmt: skip


# --- rights ----------------------------------------------------------------------------------------------------


def wanted_rights(facts: Facts) -> Iterator[tuple[ClusterFacts, str, str, tuple[str, ...]]]:
    """What the mirror needs on each existing topic: cluster, role, topic, operations. As docs/security.md has it."""
    for decision in facts.decisions:
        if decision.replicated:
            yield facts.source, "source topic", decision.topic, ("READ", "DESCRIBE_CONFIGS")
            if facts.target.has(decision.remote):
                reads = ("READ",) if facts.is_ours else ()
                yield facts.target, "remote topic", decision.remote, (*reads, "WRITE", "ALTER", "ALTER_CONFIGS")
    for topic in facts.internal_topics:
        if topic.is_wanted and topic.found_partitions is not None:
            cluster = facts.source if topic.cluster == facts.source.alias else facts.target
            yield cluster, "internal topic", topic.name, ("WRITE",) if topic.what == "heartbeats" else ("READ", "WRITE")


def _rights(facts: Facts) -> Verdicts:
    lacking: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for cluster, role, topic, operations in wanted_rights(facts):
        held = cluster.topic_rights.get(topic)
        missing = tuple(o for o in operations if held is not None and o not in held and "ALL" not in held)
        if missing:
            lacking.setdefault((cluster.alias, role, missing), []).append(topic)
    for (alias, role, missing), topics in lacking.items():
        cluster = facts.source if alias == facts.source.alias else facts.target
        words = ", ".join(name.title().replace("_", "") for name in missing)
        named = ", ".join(topics[:NAMED_MAX]) + (f" and {len(topics) - NAMED_MAX} more" if len(topics) > NAMED_MAX else "")
        is_needed = bool({"READ", "WRITE"} & set(missing))
        yield finding(
            facts, "V3", ERROR if is_needed else WARNING, PROVEN,
            Subject(topics[0], cluster=alias) if role == "source topic" else Subject(cluster=alias),
            cause=f"{words} is missing on a {role}",
            message=f"{cluster.user or 'the user of this file'} lacks {words} on {counted(len(topics), role)} of {alias}: "
                    f"{named}",
            evidence=(Fact("our rights", f"without {words}", cluster.read_ms),),
            mend=f"grant {words} on {named} (docs/security.md has the whole table)",
        )  # fmt: skip
    yield from _cluster_rights(facts)


def _cluster_rights(facts: Facts) -> Verdicts:
    if not facts.flow.sync_topic_acls_enabled or facts.source.acls is None:
        return  # without an authorizer on the source there are no rights to copy
    for cluster, operations in ((facts.source, ("DESCRIBE",)), (facts.target, ("DESCRIBE", "ALTER"))):
        missing = [o for o in operations if cluster.cluster_rights is not None and o not in cluster.cluster_rights]
        if missing:
            words = ", ".join(name.title() for name in missing)
            yield finding(
                facts, "V3", WARNING, PROVEN, Subject(cluster=cluster.alias),
                cause=f"{words} on the cluster is missing",
                message=f"{cluster.user or 'the user of this file'} lacks {words} on cluster {cluster.alias}: rights of "
                        "topics are not copied",
                evidence=(Fact("our rights on the cluster", f"without {words}", cluster.read_ms),),
                mend=f"grant {words} on the cluster, or write sync.topic.acls.enabled = false",
            )  # fmt: skip


# --- clocks and certificates -----------------------------------------------------------------------------------


def _clocks(facts: Facts) -> Verdicts:
    for cluster in (facts.source, facts.target):
        if cluster.skew_ms is not None and abs(cluster.skew_ms) > SKEW_MS_MAX:
            side = "ahead of" if cluster.skew_ms > 0 else "behind"
            yield finding(
                facts, "V4", WARNING, PROVEN, Subject(cluster=cluster.alias),
                cause="clocks differ",
                message=f"the clock of {cluster.alias} is {lasting(abs(cluster.skew_ms) / 1000)} {side} ours: ages of "
                        "heartbeats and timestamp limits are wrong",
                evidence=(Fact("difference of clocks", f"{cluster.skew_ms / 1000:.1f} s", cluster.read_ms),),
                mend="synchronize the clocks of both machines with NTP",
            )  # fmt: skip


def _certificates(facts: Facts) -> Verdicts:
    for cluster in (facts.source, facts.target):
        for certificate in cluster.certificates:
            left_ms = certificate.ends_ms - facts.now_ms
            if left_ms > CERTIFICATE_DAYS * DAY_MS:
                continue
            severity: Severity = ERROR if left_ms <= 0 else WARNING
            when = "expired" if left_ms <= 0 else f"expires in {lasting(left_ms / 1000)}"
            yield finding(
                facts, "V5", severity, PROVEN, Subject(cluster=cluster.alias),
                cause=f"a certificate {'has expired' if left_ms <= 0 else 'expires soon'}",
                message=f"cluster {cluster.alias}: {certificate.whose} ({certificate.where}) {when}, on "
                        f"{moment(certificate.ends_ms)}",
                evidence=(Fact("valid until", moment(certificate.ends_ms), cluster.read_ms),),
                mend="replace it; sparkmirror reads files again when they change, MirrorMaker 2 must be restarted",
            )  # fmt: skip


RULES = (
    Rule(
        "V1", "cluster cannot be read", "E",
        means="No broker of the cluster answers, or they refuse the login. What the other cluster knows is printed with the "
              "time of it, everything else is unknown; C27 says what a failover now would cost. A single request that "
              "failed leaves its checks unanswered (status 2).",
        decides="The first request to the cluster. Every failed request is reported with the checks that are incomplete "
                "because of it.",
        needs="a broker that answers", mend="Check bootstrap.servers, the network and the login.", check=_outages,
    ),
    Rule(
        "V2", "versions", "E W",
        means="A broker is older than Kafka 3.0, or the brokers of a cluster are of different releases.",
        decides="The protocol versions that each broker offers.",
        needs="nothing", mend="Update.", check=_versions, parts=(Part.SOURCE_BROKERS, Part.TARGET_BROKERS),
    ),
    Rule(
        "V3", "rights", "E W",
        means="The user of the file lacks a right that the mirror needs, by the table of docs/security.md.",
        decides="The brokers' own answer about what this user may do on each topic and on the cluster. Rights on groups "
                "and on the transactional id are not checked: Kafka shows them only by use.",
        needs="Describe on the topics",
        mend="Grant what is named.", check=_rights, parts=(Part.SOURCE_RIGHTS, Part.TARGET_RIGHTS),
    ),
    Rule(
        "V4", "clocks", "W",
        means="The controller's clock and ours differ by more than 30 s.",
        decides="The time that the active controller reports (KRaft), compared with ours, within the time that "
                "the request took. Brokers with ZooKeeper do not report it.",
        needs="Describe on the cluster", mend="NTP.", check=_clocks, parts=(Part.SOURCE_CLOCK, Part.TARGET_CLOCK),
    ),
    Rule(
        "V5", "certificates", "E W",
        means="A certificate that a connection uses has expired or expires within 30 days: each broker's, ours, and "
              "those of the trusted authorities.",
        decides="The dates in the certificates.",
        needs="nothing", mend="Replace it.", check=_certificates, parts=(Part.SOURCE, Part.TARGET),
    ),
    Rule(
        "V7", "partitions without a leader", "E",
        means="Nothing can be read from these partitions of the source, or written to these of the target, until one of "
              "their replicas is back. Their lag is unknown.",
        decides="The brokers' answer when they are asked for the ends of each partition, repeated for three seconds.",
        needs="Describe on the topics", mend="Bring the brokers back.", check=_leaderless,
    ),
)  # fmt: skip
