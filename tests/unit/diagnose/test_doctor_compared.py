"""The doctor's checks of groups, contents, settings, rights and surroundings: what each calls wrong, and how sure it is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.diagnose.doctor_builders import (
    NOW,
    ORDERS,
    OURS,
    REMOTE,
    a_copy,
    a_group,
    a_proof,
    cluster_of,
    connector,
    ends,
    facts_of,
    ids,
    look,
    one,
    our_copy,
    settings_of,
    told,
)

from sparkmirror.diagnose.findings import Finding
from sparkmirror.diagnose.group_position import CAUSES
from sparkmirror.model import Acl, ConfigEntry, FlowName, TopicPartition
from sparkmirror.state.facts import (
    Certificate,
    Copy,
    HeartbeatTimes,
    InternalTopic,
    Malformed,
    OddKey,
    Reads,
    Stop,
    SyncPair,
    Tail,
    TimedCheckpoint,
)

TOO_LARGE = (
    "org.apache.kafka.connect.errors.ConnectException: Unrecoverable exception from producer send callback\n\tat x\n"
    "Caused by: org.apache.kafka.common.errors.RecordTooLargeException: "
)
FOR_SERVER = TOO_LARGE + "The request included a message larger than the max message size the server will accept.\n"
FOR_PRODUCER = TOO_LARGE + (
    "The message is 2000090 bytes when serialized which is larger than 1048576, which is the value of the max.request.size "
    "configuration.\n"
)
BAD_TIME = (
    "org.apache.kafka.connect.errors.ConnectException: Unrecoverable\nCaused by: "
    "org.apache.kafka.common.errors.InvalidTimestampException: One or more records have been rejected due to invalid "
    "timestamp\n"
)
DAY_MS = 86_400_000


# --- groups ----------------------------------------------------------------------------------------------------


def test_C01_ahead_is_a_loss_at_failover_and_unproven_is_said() -> None:
    ahead = a_proof("ahead", 3)
    found = one(facts_of(groups=[a_group()], proofs=(ahead,)), "C01")
    assert found.severity.letter == "E" and "would skip 3 records" in found.message
    alike = one(facts_of(groups=[a_group()], proofs=(a_proof("ahead", 3, is_certain=False),)), "C01")
    assert (alike.severity.letter, alike.certainty.value) == ("E", "likely") and "records are alike" in alike.message
    unproven = a_proof("unproven", reason="budget spent")
    assert one(facts_of(groups=[a_group()], proofs=(unproven,)), "C01").severity.letter == "I"


def test_C02_sums_what_is_read_again_and_warns_over_the_limit() -> None:
    proofs = (a_proof("behind", 4),)
    found = one(facts_of(groups=[a_group(target={REMOTE: 1})], proofs=proofs), "C02")
    assert found.severity.letter == "I" and "re-reads 4 records" in found.message
    assert one(facts_of(groups=[a_group(target={REMOTE: 1})], proofs=proofs, redelivery_max=3), "C02").severity.letter == "W"
    estimated = one(facts_of(groups=[a_group(target={REMOTE: 1})]), "C02")
    assert "about 4 records" in estimated.message and estimated.certainty.value == "likely"


def test_C03_and_C04_are_information() -> None:
    used = facts_of(groups=[a_group(target_state="Stable")])
    assert one(used, "C03").severity.letter == "I"
    off = facts_of(groups=[a_group(target={})], lines="sync.group.offsets.enabled = false\n")
    assert one(off, "C04").severity.letter == "I" and ids(off) == []


def test_C05_warns_of_a_position_before_the_first_mapping() -> None:
    group = a_group(source={ORDERS: 2}, translated={ORDERS: None}, checkpoints={}, target={})
    found = one(facts_of(groups=[group]), "C05")
    assert found.severity.letter == "W" and "once it passes 9" in found.message
    empty = facts_of([a_copy(source=ends(7, 7), next_upstream=7, sync=None)], groups=[group])
    assert "C05 W" not in ids(empty)


def test_C06_warns_of_a_checkpoint_that_is_not_committed_for_two_intervals() -> None:
    old = a_group(target={REMOTE: 1}, checkpoints={REMOTE: TimedCheckpoint(5, 5, NOW - 200_000)})
    assert ids(facts_of(groups=[old])) == ["C06 W"]
    young = a_group(target={REMOTE: 1}, checkpoints={REMOTE: TimedCheckpoint(5, 5, NOW - 50_000)})
    assert ids(facts_of(groups=[young])) == []
    used = replace(old, target_state="Stable")
    assert ids(facts_of(groups=[used])) == []


def test_C06_warns_of_a_checkpoint_that_is_not_renewed_only_with_an_earlier_look() -> None:
    group = a_group(source={ORDERS: 8}, translated={ORDERS: 8}, checkpoints={REMOTE: TimedCheckpoint(5, 5, NOW - 900_000)})
    assert ids(facts_of(groups=[group])) == []
    seen = look(400, commits={("g", ORDERS): 8})
    assert ids(facts_of(groups=[group], past=(seen,))) == ["C06 W"]


def test_C07_a_position_past_the_target_is_an_error() -> None:
    found = one(facts_of(groups=[a_group(target={REMOTE: 99})], lines="sync.group.offsets.enabled = false\n"), "C07")
    assert found.severity.letter == "E" and "ends at 10" in found.message


def test_C08_a_sync_or_checkpoint_past_the_target_is_of_an_earlier_life() -> None:
    assert "C08 E" in ids(facts_of([a_copy(sync=SyncPair(9, 30, NOW))]))
    group = a_group(checkpoints={REMOTE: TimedCheckpoint(5, 50, NOW)})
    assert "C08 E" in ids(facts_of(groups=[group]))
    committed = replace(group, target={REMOTE: 50})
    assert ids(facts_of(groups=[committed])) == ["C07 E", "C08 E"]


@pytest.mark.parametrize(
    "group",
    [
        a_group(source={ORDERS: 2}, translated={ORDERS: 2}),
        a_group(source={ORDERS: 2}, translated={ORDERS: 2}, checkpoints={REMOTE: TimedCheckpoint(2, 2, NOW - 900)}),
    ],
    ids=["checkpoint not yet lower", "checkpoint lower, target not"],
)
def test_C09_warns_of_a_group_that_was_set_back_on_the_source(group: object) -> None:
    facts = facts_of(groups=[group])  # type: ignore[list-item]
    assert ids(facts) == ["C09 W"]
    assert "skip 3 records" in one(facts, "C09").message


def test_C25_is_as_severe_for_inspect_as_for_a_first_look_of_the_doctor() -> None:
    found = one(facts_of(groups=[a_group(target={}, checkpoints={})]), "C25")
    cause = CAUSES["unknown-group"]
    assert (cause.check, cause.severity.name[0]) == ("C25", found.severity.letter)


def test_C25_is_a_warning_only_if_an_earlier_look_saw_the_group() -> None:
    group = a_group(checkpoints={}, target={})
    assert one(facts_of(groups=[group]), "C25").severity.letter == "I"
    assert one(facts_of(groups=[group], past=(look(900),)), "C25").severity.letter == "W"
    lone = a_group(source={}, translated={}, source_state="", checkpoints={})
    assert "is not on the source" in one(facts_of(groups=[lone]), "C25").message


def test_C26_tells_when_commits_expire() -> None:
    target = cluster_of("B", {"A.orders": 1}, offsets_retention_minutes=10_080)
    assert "7 days" in one(facts_of(groups=[a_group()], target=target), "C26").message


# --- contents, settings, rights --------------------------------------------------------------------------------


def test_C22_duplicates_by_reading_and_by_syncs_that_went_back() -> None:
    assert one(facts_of(reads=Reads(tails={ORDERS: Tail(3, 0, 7)})), "C22").certainty.value == "proven"
    copy = a_copy(rewind=(SyncPair(8, 8, NOW - 9), SyncPair(4, 9, NOW - 8)), target=ends(0, 15))
    found = one(facts_of([copy]), "C22")
    assert (found.severity.letter, found.certainty.value) == ("W", "likely") and "5 records" in found.message


def test_C24_foreign_records_and_the_ledgers_word() -> None:
    assert one(facts_of(reads=Reads(tails={ORDERS: Tail(0, 2, 10)})), "C24").severity.letter == "W"
    stop = Stop("stopped", "TARGET_HAS_STRANGER", "somebody else wrote at 10", NOW)
    facts = facts_of([our_copy(stop=stop)], runner=OURS)
    assert "offsets skip" in one(facts, "C24").command and ids(facts) == ["C24 W"]


def test_C15_compares_limits_and_leaves_kafkas_own_difference_alone() -> None:
    same = {"max.message.bytes": "1048588"}
    default = facts_of(source=cluster_of("A", {"orders": 1}, {"orders": same}),
                       target=cluster_of("B", {"A.orders": 1}, {"A.orders": same}))  # fmt: skip
    assert ids(default) == []
    large = {"max.message.bytes": "3000000"}
    facts = facts_of(source=cluster_of("A", {"orders": 1}, {"orders": large}),
                     target=cluster_of("B", {"A.orders": 1}, {"A.orders": same}),
                     lines="sync.topic.configs.enabled = false\nconfig.properties.exclude = max.*\n")  # fmt: skip
    assert [f.cause for f in told(facts) if f.id == "C15" and isinstance(f, Finding)] == [
        "the target takes smaller records than the source",
        "MirrorMaker 2's producer takes smaller records than the source",
    ]
    assert ids(facts_of(lines="errors.tolerance = all\n")) == ["C15 W"]


def test_C15_warns_of_a_narrower_window_of_timestamps() -> None:
    wide, narrow = str((1 << 63) - 1), str(DAY_MS)
    name = "message.timestamp.before.max.ms"
    lines = "config.properties.exclude = message.*\n"
    source = cluster_of("A", {"orders": 1}, {"orders": {name: wide}})
    facts = facts_of(source=source, target=cluster_of("B", {"A.orders": 1}, {"A.orders": {name: narrow}}), lines=lines)
    assert ids(facts) == ["C15 W"] and "24 h" in one(facts, "C15").message
    same = facts_of(source=source, target=cluster_of("B", {"A.orders": 1}, {"A.orders": {name: wide}}), lines=lines)
    assert ids(same) == []


def test_C16_tells_the_setting_both_values_and_why() -> None:
    source = cluster_of("A", {"orders": 1}, {"orders": {"retention.ms": "1000"}})
    target = cluster_of("B", {"A.orders": 1}, {"A.orders": {"retention.ms": "5000"}})
    found = one(facts_of(source=source, target=target), "C16")
    assert "retention.ms is 5000, the source has 1000" in found.message and found.certainty.value == "likely"
    off = one(facts_of(source=source, target=target, lines="sync.topic.configs.enabled = false\n"), "C16")
    assert "sync.topic.configs.enabled is false" in off.message


def test_C16_leaves_equal_values_alone_wherever_they_are_written() -> None:
    source = cluster_of("A", {"orders": 1}, {"orders": {"retention.ms": "1000"}})
    inherited = {"A.orders": {"retention.ms": ConfigEntry("retention.ms", "1000", 5, False, False)}}
    assert ids(facts_of(source=source, target=replace(cluster_of("B", {"A.orders": 1}), configs=inherited))) == []


def test_C17_missing_rights_are_warnings_and_extra_ones_information() -> None:
    read = Acl(topic="orders", principal="User:x", operation="READ")
    write = replace(read, operation="WRITE")
    source = cluster_of("A", {"orders": 1}, acls=(read, write))
    missing = facts_of(source=source, target=cluster_of("B", {"A.orders": 1}, acls=()))
    assert ids(missing) == ["C17 W"]
    there = replace(read, topic="A.orders")
    both = (there, replace(there, principal="User:y"))
    extra = facts_of(source=source, target=cluster_of("B", {"A.orders": 1}, acls=both))
    assert ids(extra) == [] and "User:y" in one(extra, "C17").message
    assert ids(facts_of(source=source, target=cluster_of("B", {"A.orders": 1}))) == []  # no authorizer


# --- internal topics, liveness ---------------------------------------------------------------------------------


SYNCS = InternalTopic("mm2-offset-syncs.B.internal", "A", "offset syncs", True, 1, 1, 1, 1, 1, "compact", 1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"policy": "delete"}, "cleanup.policy=delete"),
        ({"policy": "compact,delete"}, "cleanup.policy=compact,delete"),
        ({"found_partitions": 3}, "3 partitions, expected 1"),
        ({"replication_factor": 3}, "1 replicas, expected 3"),
        ({"min_in_sync": 2}, "min.insync.replicas=2"),
    ],
)
def test_C18_an_internal_topic_of_the_wrong_form_is_an_error(change: dict[str, object], words: str) -> None:
    found = one(facts_of(internal_topics=(replace(SYNCS, **change),)), "C18")  # type: ignore[arg-type]
    assert found.severity.letter == "E" and words in found.message
    assert ids(facts_of(internal_topics=(SYNCS, replace(SYNCS, found_partitions=None)))) == []


def test_C23_a_position_of_a_topic_that_is_no_more_is_a_warning_other_leftovers_are_not() -> None:
    place = TopicPartition("mm2-offsets.A.internal", 3)
    for kind, wanted in (("orphan position", ["C23 W"]), ("misplaced", ["C23 W"]), ("doubled", ["C23 W"]),
                         ("orphan sync", []), ("orphan checkpoint", [])):  # fmt: skip
        assert ids(facts_of(odd_keys=(OddKey(kind, place, "[…]", "words", NOW, "gone"),))) == wanted


def test_V6_a_malformed_record_is_told_with_its_offset() -> None:
    facts = facts_of(malformed=(Malformed("B", "A.checkpoints.internal-0 offset 7: text of a negative length"),))
    assert "offset 7" in one(facts, "V6").message


def test_C19_heartbeats_that_do_not_arrive_are_an_error_and_none_at_all_is_not() -> None:
    beats = HeartbeatTimes("heartbeats", "A.heartbeats", NOW - 1000, NOW - 300_000, "B->A")
    assert one(facts_of(heartbeats=beats), "C19").severity.letter == "E"
    assert one(facts_of(heartbeats=replace(beats, target_ms=None)), "C19").severity.letter == "W"
    assert one(facts_of(heartbeats=replace(beats, source_ms=NOW - 300_000)), "C19").severity.letter == "I"
    assert "C19" not in [f.id for f in told(facts_of(heartbeats=replace(beats, target_ms=NOW - 2000)))]


def test_C20_two_flows_that_copy_to_each_other_go_round() -> None:
    both = (
        "B->A.enabled = true\nB->A.topics = orders\nreplication.loops.allowed = true\n"
        "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"
    )
    settings = settings_of(both)
    copy = a_copy(remote=TopicPartition("orders", 0))
    facts = facts_of([copy], lines=both, target=cluster_of("B", {"orders": 1}), back=settings.flow(FlowName("B", "A")))
    found = one(facts, "C20")
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "C20 E" not in ids(facts_of(back=settings_of("B->A.enabled = true\n").flow(FlowName("B", "A"))))


def test_C21_connectors_that_disagree_are_an_error_another_file_is_a_warning() -> None:
    same = {"source.cluster.alias": "A", "target.cluster.alias": "B", "topics": "orders, events"}
    first = connector(settings=same)
    second = connector("Checkpoint", settings=same)
    assert ids(facts_of(connectors={c.name: c for c in (first, second)})) == []
    other = replace(second, settings={**same, "replication.policy.separator": "-"})
    assert ids(facts_of(connectors={c.name: c for c in (first, other)})) == ["C21 E"]
    elsewhere = replace(first, settings={**same, "topics": "orders"})
    assert ids(facts_of(connectors={elsewhere.name: elsewhere})) == ["C21 W"]


# --- surroundings ----------------------------------------------------------------------------------------------


def test_V2_old_and_mixed_brokers() -> None:
    old = cluster_of("A", {"orders": 1}, too_old={1: "topic ids"})
    assert ids(facts_of(source=old)) == ["V2 E"]
    mixed = replace(cluster_of("A", {"orders": 1}), versions={1: "3.9", 2: "4.3"})
    assert ids(facts_of(source=mixed)) == ["V2 W"]


def test_V3_rights_that_the_mirror_lacks() -> None:
    held = {"orders": frozenset({"DESCRIBE", "DESCRIBE_CONFIGS"})}
    reader = cluster_of("A", {"orders": 1}, topic_rights=held, user="user m")
    found = one(facts_of(source=reader), "V3")
    assert found.severity.letter == "E" and "user m lacks Read on 1 source topic of A: orders" in found.message
    writer = cluster_of("B", {"A.orders": 1}, topic_rights={"A.orders": frozenset({"WRITE", "ALTER"})})
    assert one(facts_of(target=writer), "V3").severity.letter == "W"


def test_V4_clocks_that_differ_by_more_than_half_a_minute() -> None:
    assert ids(facts_of(source=cluster_of("A", {"orders": 1}, skew_ms=-45_000))) == ["V4 W"]
    assert ids(facts_of(source=cluster_of("A", {"orders": 1}, skew_ms=20_000))) == []


@pytest.mark.parametrize(("days", "wanted"), [(31, []), (29, ["V5 W"]), (-1, ["V5 E"])])
def test_V5_certificates_are_told_thirty_days_ahead(days: int, wanted: list[str]) -> None:
    certificate = Certificate("our own certificate", "ssl.keystore.location k.pem", NOW + days * DAY_MS)
    assert ids(facts_of(source=cluster_of("A", {"orders": 1}, certificates=(certificate,)))) == wanted


# --- derived positions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("copy", "reached", "lag"),
    [
        (a_copy(), 10, 0),
        (a_copy(source=ends(0, 15), target=ends(0, 13)), 13, 2),
        (a_copy(source=ends(0, 15), target=ends(0, 99)), 15, 0),
        (a_copy(source=ends(0, 4)), 10, 0),
        (a_copy(sync=None, source=ends(0, 15)), 10, 5),
        (a_copy(next_upstream=None, basis="", sync=None, source=ends(3, 15), target=ends(0, 0)), None, 12),
        (our_copy(source=ends(0, 15), target=ends(0, 13)), 10, 5),
        (a_copy(source=None), 10, None),
    ],
)
def test_how_far_a_copy_is(copy: Copy, reached: int | None, lag: int | None) -> None:
    assert (copy.reached, copy.lag) == (reached, lag)
