"""The mirror's internal topics: their settings (C18), what should not be in them (C23, V6)."""

from __future__ import annotations

from collections.abc import Iterator

from sparkmirror.diagnose.findings import ERROR, INFO, PROVEN, WARNING, Fact, Rule, Severity, Verdicts
from sparkmirror.diagnose.wording import alter_topic, command_for, finding
from sparkmirror.state.facts import Facts, InternalTopic, Subject
from sparkmirror.state.parts import Part


def _form(facts: Facts) -> Verdicts:
    for topic in facts.internal_topics:
        if topic.found_partitions is None:
            continue
        cluster = facts.source if topic.cluster == facts.source.alias else facts.target
        for severity, what, why, mend, command in _wrong(topic):
            yield finding(
                facts, "C18", severity, PROVEN, Subject(cluster=topic.cluster),
                cause=f"{topic.name}: {what}",
                message=f"{topic.name} on {topic.cluster} {what}: {why}",
                evidence=(Fact(topic.name, what, cluster.read_ms),),
                mend=mend, command=alter_topic(cluster, topic.name, command) if command else "",
            )  # fmt: skip


def _wrong(topic: InternalTopic) -> Iterator[tuple[Severity, str, str, str, str]]:
    if topic.policy is not None and topic.policy != "compact":
        yield (
            ERROR, f"has cleanup.policy={topic.policy}", f"{topic.what} will be lost when they grow old",
            "set it to compact", "cleanup.policy=compact",
        )  # fmt: skip
    if topic.partitions is not None and topic.found_partitions not in (None, topic.partitions):
        yield (
            ERROR, f"has {topic.found_partitions} partitions, expected {topic.partitions}",
            "readers read only the first one", "stop the flow, delete the topic, and let the mirror create it again", "",
        )  # fmt: skip
    if topic.found_replicas is not None and 0 < topic.found_replicas < topic.replication_factor:
        yield (
            ERROR, f"has {topic.found_replicas} replicas, expected {topic.replication_factor}",
            "it would be lost with one broker", "raise its replication factor (kafka-reassign-partitions.sh)", "",
        )  # fmt: skip
    reachable = topic.in_sync_replicas if topic.in_sync_replicas is not None else topic.found_replicas
    if topic.min_in_sync is not None and reachable is not None and reachable < topic.min_in_sync:
        yield (
            ERROR, f"has min.insync.replicas={topic.min_in_sync} and {reachable} replicas in sync",
            "nothing can be written to it now", "bring the replicas back, or lower min.insync.replicas",
            f"min.insync.replicas={reachable}",
        )  # fmt: skip


def _odd_keys(facts: Facts) -> Verdicts:
    for odd in facts.odd_keys:
        is_harmless = odd.kind in ("orphan sync", "orphan checkpoint")
        yield finding(
            facts, "C23", INFO if is_harmless else WARNING, PROVEN, Subject(odd.topic, None, odd.group),
            cause=_CAUSES[odd.kind],
            message=f"{odd.where.topic}: {odd.words}",
            evidence=(Fact(f"key in partition {odd.where.partition}", odd.key, odd.time_ms),),
            mend=_MENDS[odd.kind],
            command=command_for(facts, "offsets reset", Subject(odd.topic)) if odd.kind == "orphan "
                                                                                      "position" and odd.topic else "",
        )  # fmt: skip


_CAUSES = {
    "orphan position": "a position of a topic that does not exist",
    "orphan sync": "offset syncs of topics that do not exist",
    "orphan checkpoint": "checkpoints of groups or topics that do not exist",
    "misplaced": "a key in a partition where no writer puts it",
    "doubled": "a key that is in two partitions",
}
_MENDS = {
    "orphan position": "delete it before the topic is re-created: the copy would start there and skip the records before it",
    "orphan sync": "", "orphan checkpoint": "",
    "misplaced": "a reset must be written to the same partition; `sparkmirror offsets` does so",
    "doubled": "delete it in every partition that holds it; `sparkmirror offsets` does so",
}  # fmt: skip


def _malformed(facts: Facts) -> Verdicts:
    for bad in facts.malformed:
        is_tombstone = "tombstone" in bad.words
        yield finding(
            facts, "V6", WARNING, PROVEN, Subject(cluster=bad.cluster),
            cause="a tombstone that MirrorMaker 2 cannot read" if is_tombstone else "a foreign record",
            message=f"{bad.words}",
            evidence=(Fact("record", bad.words),),
            mend="MirrorMaker 2's checkpoint task may never finish loading; delete the topic while the flow is stopped"
                 if is_tombstone else "find who wrote it; it is skipped",
        )  # fmt: skip


RULES = (
    Rule(
        "C18", "internal topic is misconfigured", "E",
        means="A topic that holds the mirror's state will lose it, or cannot be written: it was created by hand or by "
              "auto-creation.",
        decides="cleanup.policy exactly compact; one partition for ledger, offset syncs, checkpoints and heartbeats; "
                "replication factor as in the file; enough replicas in sync for min.insync.replicas.",
        needs="Describe and DescribeConfigs on the internal topics",
        mend="Change the setting; where the number of partitions is wrong, delete the topic while the flow is stopped.",
        check=_form, parts=(Part.SOURCE, Part.TARGET),
    ),
    Rule(
        "C23", "orphan state", "W I",
        means="Keys of topics or groups that do not exist, or keys in a partition where a reset has no effect. A "
              "position of a deleted topic is dangerous: once re-created, the topic is copied from there on.",
        decides="Each key is compared with the topics and groups that exist, and with the partition that Java's "
                "partitioner gives it.",
        needs="Read on the internal topics, Describe on topics and groups",
        mend="`sparkmirror offsets reset` deletes positions, in the partition that holds them.",
        check=_odd_keys, parts=(Part.SOURCE, Part.POSITIONS),
    ),
    Rule(
        "V6", "malformed internal record", "W",
        means="A record in an internal topic has another format. It alone is skipped; the finding names its offset.",
        decides="Every record is decoded in the topic's format. A tombstone among offset syncs makes MirrorMaker 2 fail.",
        needs="Read on the internal topics",
        mend="Find who writes there.",
        check=_malformed,
    ),
)  # fmt: skip
