"""Each check of the doctor over facts: what it calls wrong, how sure it is, and that a healthy flow has nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.tools.doctor_builders import (
    MM2,
    NOW,
    ORDERS,
    OURS,
    REMOTE,
    a_copy,
    a_group,
    cluster_of,
    connector,
    ends,
    facts_of,
    failed,
    ids,
    look,
    one,
    our_copy,
    settings_of,
    told,
)

from sparkmirror.ledger import Attempt, Gap
from sparkmirror.model import Acl, ConfigEntry, FlowName, TopicPartition
from sparkmirror.tools.doctor.checks import RULES, judge, rule_ids
from sparkmirror.tools.doctor.facts import (
    Certificate,
    Checkpointed,
    Copy,
    Heartbeats,
    InternalTopic,
    LargeRecord,
    Malformed,
    Missing,
    OddKey,
    Pair,
    Part,
    Proof,
    Reads,
    Runner,
    Stop,
    Synced,
    Tail,
)
from sparkmirror.tools.doctor.findings import Finding, Open, Severity

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


@pytest.mark.parametrize("runner", [MM2, OURS], ids=["mm2", "sparkmirror"])
def test_a_healthy_flow_has_neither_errors_nor_warnings_nor_open_questions(runner: Runner) -> None:
    facts = facts_of(groups=[a_group()], runner=runner, past=(look(3600), look(5)))
    assert ids(facts) == []
    assert [f for f in told(facts) if isinstance(f, Open)] == []


def test_every_id_of_the_specification_has_a_rule() -> None:
    wanted = {f"C{number:02}" for number in range(1, 27)} | {f"D{number}" for number in range(1, 13)}
    assert wanted <= set(RULES)
    for rule in RULES.values():
        assert rule.means
        assert rule.same_as or (rule.decides and rule.needs and rule.mend), rule.id
        assert set(rule.same_as.split(", ")) - {""} <= set(RULES)


def test_ids_are_read_in_any_spelling_and_with_the_ids_they_are_told_as() -> None:
    assert rule_ids("d6, C1") == ["D6", "C01"]
    assert rule_ids("C10") == ["C10", "D6"]
    assert rule_ids("C13") == ["C13", "D9", "D12"]
    with pytest.raises(ValueError, match="X9"):
        rule_ids("D1,X9")


def test_only_the_wanted_ids_are_told() -> None:
    facts = facts_of([a_copy(source=ends(15, 20))])
    assert [f.id for f in judge(facts, {"D7"})] == ["D7"]
    assert not [f for f in judge(facts, {"D6"}) if isinstance(f, Finding)]


def test_a_check_without_its_evidence_stays_open_and_names_the_right() -> None:
    facts = facts_of(missing={Part.SYNCS: Missing("not authorized", "Read on topic mm2-offset-syncs.B.internal")})
    opens = [f for f in told(facts) if isinstance(f, Open)]
    assert {o.id for o in opens} == {"D3", "C05", "C08", "C22"}
    assert all("Read on topic mm2-offset-syncs.B.internal" in o.needs for o in opens)


# --- D8, D9, D12 -----------------------------------------------------------------------------------------------


def test_D8_names_the_pattern_and_the_line() -> None:
    facts = facts_of(names=("orders", "other"), places={"topics": "line 5: A->B.topics = orders"})
    found = one(facts, "D8")
    assert found.subject.topic == "other"
    assert "matched by no include pattern" in found.message and "line 5" in found.message
    assert found.severity is Severity.INFORMATION


def test_D9_is_information_until_the_refresh_is_over() -> None:
    target = cluster_of("B", {})
    absent = a_copy(target=None, next_upstream=None, sync=None, basis="")
    found = one(facts_of([absent], target=target), "D9")
    assert (found.severity.value, found.certainty.value) == ("I", "proven")
    assert "10 min" in found.message
    late = one(facts_of([absent], target=target, past=(look(700),)), "D9")
    assert (late.severity.value, late.certainty.value) == ("E", "likely")


def test_D9_says_that_the_target_has_too_few_brokers() -> None:
    found = one(facts_of(target=cluster_of("B", {}), lines="A->B.replication.factor = 3\n"), "D9")
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "replication.factor is 3" in found.message


def test_D9_warns_where_new_topics_are_not_looked_for() -> None:
    assert one(facts_of(target=cluster_of("B", {}), lines="refresh.topics.enabled = false\n"), "D9").severity.value == "W"


def test_D12_is_an_error_where_a_partition_was_copied_that_is_not_there() -> None:
    source = cluster_of("A", {"orders": 2})
    second = a_copy(partition=TopicPartition("orders", 1), remote=TopicPartition("A.orders", 1), target=None)
    found = one(facts_of([a_copy(), second], source=source), "D12")
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "--partitions 2" in found.command and "hangs" in found.message
    new = one(facts_of([a_copy(), replace(second, next_upstream=None)], source=source), "D12")
    assert (new.severity.value, new.certainty.value) == ("W", "likely")


def test_C14_warns_of_more_partitions() -> None:
    assert ids(facts_of(target=cluster_of("B", {"A.orders": 3}))) == ["C14 W"]


# --- D1, D2, D10, D11 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("trace", "name"), [(FOR_SERVER, "D1"), (FOR_PRODUCER, "D2"), (BAD_TIME, "D10")])
def test_a_trace_names_the_cause_and_the_partitions_that_it_stops(trace: str, name: str) -> None:
    stuck = a_copy(source=ends(0, 20), target=ends(0, 10))
    source = cluster_of("A", {"orders": 1}, {"orders": {"max.message.bytes": "3000000"}})
    target = cluster_of("B", {"A.orders": 1}, {"A.orders": {"max.message.bytes": "3000000"}})
    reads = Reads(large={ORDERS: LargeRecord(12, 2_000_090, NOW - 5)})
    facts = facts_of([stuck], source=source, target=target, reads=reads,
                     connectors={"MirrorSourceConnector": connector(tasks={0: failed(trace)})},
                     lines="B.producer.max.request.size = 4000000\n")  # fmt: skip
    found = one(facts, name)
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "offset 12 of orders-0" in found.message and "1 partition stopped" in found.message
    assert ids(facts) == [f"{name} E"]


def test_D2_gives_the_key_with_the_size_that_is_needed() -> None:
    facts = facts_of([a_copy(source=ends(0, 20))], connectors={"s": connector(tasks={0: failed(FOR_PRODUCER)})})
    assert "B.producer.max.request.size = 2000090" in one(facts, "D2").command


@pytest.mark.parametrize(
    ("code", "reason", "name"),
    [
        ("RECORD_TOO_LARGE", "record at upstream offset 12 needs a batch of 2000090 bytes, the target accepts "
                             "1048588", "D1"),
        ("TARGET_REFUSED_RECORDS", "orders-0: INVALID_TIMESTAMP (32)", "D10"),
        ("CONTENT_DIFFERS", "the target's tail is not what the source holds", "D11"),
    ],
)
def test_a_stop_in_the_ledger_names_the_cause(code: str, reason: str, name: str) -> None:
    facts = facts_of([our_copy(source=ends(0, 20), stop=Stop("stopped", code, reason, NOW - 9000))], runner=OURS)
    found = one(facts, name)
    assert found.severity is Severity.ERROR and reason in found.message
    assert found.facts[-1].time_ms == NOW - 9000


def test_D11_tells_a_task_that_failed_otherwise_with_the_innermost_cause() -> None:
    trace = "java.lang.RuntimeException: outer\nCaused by: java.io.IOException: the disk is full\n"
    found = one(facts_of(connectors={"MirrorSourceConnector": connector(tasks={0: failed(trace)})}), "D11")
    assert "java.io.IOException: the disk is full" in found.message and found.severity is Severity.ERROR


@pytest.mark.parametrize(
    ("runner", "lag", "severity"),
    [
        (Runner("sparkmirror", "released", "h"), 0, "I"),
        (Runner("sparkmirror", "released", "h"), 5, "W"),
        (Runner("sparkmirror", "dead", "h"), 0, "E"),
        (Runner("sparkmirror", "silent", "h"), 0, "E"),
        (Runner("mm2", "dead", "A-mm2"), 0, "E"),
        (Runner("", "never"), 10, "W"),
    ],
)
def test_D11_tells_that_nobody_copies(runner: Runner, lag: int, severity: str) -> None:
    copy = our_copy(source=ends(0, 10 + lag)) if runner.program == "sparkmirror" else a_copy(source=ends(0, 10 + lag))
    assert one(facts_of([copy], runner=runner), "D11").severity.value == severity


def test_D11_tells_two_programs_at_once() -> None:
    assert "both run" in one(facts_of(runner=replace(OURS, both=True)), "D11").message


def test_D10_warns_of_the_next_record_before_it_is_refused() -> None:
    target = cluster_of("B", {"A.orders": 1}, {"A.orders": {"message.timestamp.before.max.ms": str(7 * DAY_MS)}})
    old = LargeRecord(10, 100, NOW - 8 * DAY_MS)
    facts = facts_of([a_copy(source=ends(0, 20))], target=target, reads=Reads(next_records={ORDERS: old}))
    assert one(facts, "D10").severity.value == "W"
    young = Reads(next_records={ORDERS: replace(old, timestamp=NOW)})
    fresh = facts_of([a_copy(source=ends(0, 20))], target=target, reads=young)
    assert "D10 W" not in ids(fresh)
    stamped = {"message.timestamp.before.max.ms": "1", "message.timestamp.type": "LogAppendTime"}
    append = facts_of([a_copy(source=ends(0, 20))], target=cluster_of("B", {"A.orders": 1}, {"A.orders": stamped}),
                      reads=Reads(next_records={ORDERS: old}))  # fmt: skip
    assert "D10 W" not in ids(append)


# --- D5, D6, D7 ------------------------------------------------------------------------------------------------


def test_D6_a_position_past_the_end_proves_that_the_source_was_cut() -> None:
    found = one(facts_of([a_copy(source=ends(0, 4))]), "D6")
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "begins at the earliest record by itself" in found.message
    assert found.command == "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 0 --to earliest"


def test_D6_a_record_that_differs_proves_that_a_longer_topic_is_another_one() -> None:
    found = one(facts_of([a_copy(source=ends(0, 40))], reads=Reads(pairs={ORDERS: Pair(9, 9, "differs")})), "D6")
    assert found.certainty.value == "proven" and "skipped" in found.message
    for outcome in ("same", "unknown"):
        facts = facts_of([a_copy(source=ends(0, 40))], reads=Reads(pairs={ORDERS: Pair(9, 9, outcome)}))
        assert "D6 E" not in ids(facts)


def test_D6_another_topic_id_than_in_the_ledger_or_the_baseline_is_proof() -> None:
    assert one(facts_of([our_copy(source_topic_id="00")], runner=OURS), "D6").certainty.value == "proven"
    seen = look(500, source_ids={"orders": "ff"})
    assert "since 8 min" in one(facts_of(past=(seen,)), "D6").message


def test_D6_syncs_that_went_back_past_the_end_tell_that_mm2_began_anew() -> None:
    copy = a_copy(source=ends(0, 10), rewind=(Synced(30, 30, NOW - 9), Synced(0, 31, NOW - 8)), target=ends(0, 41))
    found = one(facts_of([copy]), "D6")
    assert "begun anew at 0" in found.message and "mixed" in found.message


def test_D6_a_commit_past_the_end_alone_is_a_likely_warning() -> None:
    group = a_group(source={ORDERS: 50}, translated={ORDERS: 10}, checkpoints={})
    found = one(facts_of(groups=[group]), "D6")
    assert (found.severity.value, found.certainty.value) == ("W", "likely")


def test_D7_a_position_before_the_log_start_is_a_loss_of_so_many_offsets() -> None:
    found = one(facts_of([a_copy(source=ends(17, 20))]), "D7")
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "7 offsets (10 to 16)" in found.message
    ours = facts_of([our_copy(source=ends(17, 20))], runner=OURS)
    assert "sparkmirror offsets skip" in one(ours, "D7").command


def test_D7_what_lies_behind_the_newest_sync_was_copied_since_the_position_was_stored() -> None:
    assert ids(facts_of([a_copy(source=ends(17, 20), target=ends(0, 20))])) == []


def test_D7_one_offset_is_the_marker_of_a_transaction() -> None:
    assert ids(facts_of([a_copy(source=ends(11, 11))])) == []


def test_D7_a_hole_between_syncs_that_nothing_explains_is_a_likely_loss() -> None:
    found = one(facts_of(reads=Reads(lost={ORDERS: (3, 8)})), "D7")
    assert (found.severity.value, found.certainty.value) == ("E", "likely")


def test_D7_accepted_gaps_are_information() -> None:
    gap = Gap(ORDERS, Attempt(1, 0, 1), 3, 5, "skip", NOW - 5, "00")
    facts = facts_of([our_copy(gaps=(gap,))], runner=OURS)
    assert ids(facts) == [] and "3 to 4" in one(facts, "D7").message


def test_D5_a_copy_that_begins_later_than_the_source_is_proven_by_its_first_record() -> None:
    found = one(facts_of(reads=Reads(firsts={ORDERS: 6})), "D5")
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
    assert "0 to 5" in found.message and "offsets reset" in found.command
    assert "D5 E" not in ids(facts_of(reads=Reads(firsts={ORDERS: 0})))
    trimmed = facts_of([a_copy(target=ends(3, 10))], reads=Reads(firsts={ORDERS: 6}))
    assert one(trimmed, "D5").severity.value == "I"
    latest = facts_of(lines="A.consumer.auto.offset.reset = latest\n", reads=Reads(firsts={ORDERS: 6}))
    assert one(latest, "D5").severity.value == "I"


def test_D5_a_target_topic_that_is_another_one_is_told_by_its_id() -> None:
    assert one(facts_of([our_copy(target_topic_id="00")], runner=OURS), "D5").severity.value == "E"


# --- C12, D4, D3 -----------------------------------------------------------------------------------------------


def test_C12_tells_the_lag_its_age_and_its_trend() -> None:
    copy = a_copy(source=ends(0, 100), target=ends(0, 60), next_upstream=60, sync=Synced(59, 59, NOW))
    past = look(10, source_ends={ORDERS: 100}, target_ends={REMOTE: 20})
    facts = facts_of([copy], past=(past,), reads=Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 90_000)}))
    found = one(facts, "C12")
    assert "40 records behind" in found.message and "1 min 30 s ago" in found.message
    assert "shrinking, done in about 10 s" in found.message
    assert found.severity.value == "I"


def test_C12_warns_of_a_partition_that_waits_and_does_not_move() -> None:
    copy = a_copy(source=ends(0, 100), target=ends(0, 60), next_upstream=60, sync=Synced(59, 59, NOW))
    past = look(10, source_ends={ORDERS: 100}, target_ends={REMOTE: 60})
    reads = Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 190_000)})
    assert ids(facts_of([copy], past=(past,), reads=reads)) == ["C12 W"]
    young = Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 90_000)})
    assert ids(facts_of([copy], past=(past,), reads=young)) == []


def test_D4_a_backlog_that_grows_is_too_few_tasks() -> None:
    events = TopicPartition("events", 0)
    slow = a_copy(source=ends(0, 30_000), target=ends(0, 2_000), next_upstream=2_000, sync=Synced(1_999, 1_999, NOW))
    quick = a_copy(partition=events, remote=TopicPartition("A.events", 0), source=ends(0, 500), target=ends(0, 500),
                   next_upstream=500, sync=Synced(499, 499, NOW))  # fmt: skip
    there = {REMOTE: 1_500, TopicPartition("A.events", 0): 400}
    past = look(5, source_ends={ORDERS: 20_000, events: 400}, target_ends=there)
    facts = facts_of([slow, quick], past=(past,), source=cluster_of("A", {"orders": 1, "events": 1}),
                     target=cluster_of("B", {"A.orders": 1, "A.events": 1}), names=("orders", "events"))  # fmt: skip
    found = one(facts, "D4")
    assert found.cause == "some tasks carry more than they can copy"
    assert "2 partitions on 1 task" in found.message and "tasks.max to 2" in found.mend


def test_what_mm2_copied_before_it_first_stored_a_position_is_no_lag() -> None:
    young = a_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=None, basis="", is_unstored=True)
    assert (young.reached, young.lag) == (60, 0)
    assert "C12" not in [f.id for f in told(facts_of([young]))]
    reset = replace(young, is_unstored=False)  # somebody took its position back: everything will come again
    assert (reset.reached, reset.lag) == (None, 60)


def test_D3_is_information_unless_the_same_sync_stays_for_two_flushes() -> None:
    copy = a_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=60, sync=Synced(9, 9, NOW - 200_000))
    assert one(facts_of([copy]), "D3").severity.value == "I"
    assert "50 records coarse" in one(facts_of([copy]), "D3").message
    held = look(130, target_ends={REMOTE: 60})
    assert one(facts_of([copy], past=(held,)), "D3").severity.value == "W"
    old = {"MirrorSourceConnector": connector(tasks={0: replace(failed(""), state="RUNNING", version="3.6.1")}, own=None)}
    found = one(facts_of([copy], past=(held,), connectors=old), "D3")
    assert found.severity.value == "I" and "MirrorMaker 2 3.6.1 writes one only every 101 records" in found.message
    ours = our_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=60, next_downstream=60)
    assert "D3" not in [f.id for f in told(facts_of([ours], runner=OURS))]


# --- groups ----------------------------------------------------------------------------------------------------


def test_C01_ahead_is_a_loss_at_failover_and_unproven_is_said() -> None:
    ahead = Proof("g", ORDERS, "ahead", 3, "ahead by 3", NOW)
    found = one(facts_of(groups=[a_group()], proofs=(ahead,)), "C01")
    assert found.severity.value == "E" and "would skip 3 records" in found.message
    unproven = Proof("g", ORDERS, "unproven", None, "budget spent", NOW)
    assert one(facts_of(groups=[a_group()], proofs=(unproven,)), "C01").severity.value == "I"


def test_C02_sums_what_is_read_again_and_warns_over_the_limit() -> None:
    proofs = (Proof("g", ORDERS, "behind", 4, "behind by 4", NOW),)
    found = one(facts_of(groups=[a_group(target={REMOTE: 1})], proofs=proofs), "C02")
    assert found.severity.value == "I" and "re-reads 4 records" in found.message
    assert one(facts_of(groups=[a_group(target={REMOTE: 1})], proofs=proofs, redelivery_max=3), "C02").severity.value == "W"
    estimated = one(facts_of(groups=[a_group(target={REMOTE: 1})]), "C02")
    assert "about 4 records" in estimated.message and estimated.certainty.value == "likely"


def test_C03_and_C04_are_information() -> None:
    used = facts_of(groups=[a_group(target_state="Stable")])
    assert one(used, "C03").severity.value == "I"
    off = facts_of(groups=[a_group(target={})], lines="sync.group.offsets.enabled = false\n")
    assert one(off, "C04").severity.value == "I" and ids(off) == []


def test_C05_warns_of_a_position_before_the_first_mapping() -> None:
    group = a_group(source={ORDERS: 2}, translated={ORDERS: None}, checkpoints={}, target={})
    found = one(facts_of(groups=[group]), "C05")
    assert found.severity.value == "W" and "once it passes 9" in found.message
    empty = facts_of([a_copy(source=ends(7, 7), next_upstream=7, sync=None)], groups=[group])
    assert "C05 W" not in ids(empty)


def test_C06_warns_of_a_checkpoint_that_is_not_committed_for_two_intervals() -> None:
    old = a_group(target={REMOTE: 1}, checkpoints={REMOTE: Checkpointed(5, 5, NOW - 200_000)})
    assert ids(facts_of(groups=[old])) == ["C06 W"]
    young = a_group(target={REMOTE: 1}, checkpoints={REMOTE: Checkpointed(5, 5, NOW - 50_000)})
    assert ids(facts_of(groups=[young])) == []
    used = replace(old, target_state="Stable")
    assert ids(facts_of(groups=[used])) == []


def test_C06_warns_of_a_checkpoint_that_is_not_renewed_only_with_an_earlier_look() -> None:
    group = a_group(source={ORDERS: 8}, translated={ORDERS: 8}, checkpoints={REMOTE: Checkpointed(5, 5, NOW - 900_000)})
    assert ids(facts_of(groups=[group])) == []
    seen = look(400, commits={("g", ORDERS): 8})
    assert ids(facts_of(groups=[group], past=(seen,))) == ["C06 W"]


def test_C07_a_position_past_the_target_is_an_error() -> None:
    found = one(facts_of(groups=[a_group(target={REMOTE: 99})], lines="sync.group.offsets.enabled = false\n"), "C07")
    assert found.severity.value == "E" and "ends at 10" in found.message


def test_C08_a_sync_or_checkpoint_past_the_target_is_of_an_earlier_life() -> None:
    assert "C08 E" in ids(facts_of([a_copy(sync=Synced(9, 30, NOW))]))
    group = a_group(checkpoints={REMOTE: Checkpointed(5, 50, NOW)})
    assert "C08 E" in ids(facts_of(groups=[group]))


@pytest.mark.parametrize(
    "group",
    [
        a_group(source={ORDERS: 2}, translated={ORDERS: 2}),
        a_group(source={ORDERS: 2}, translated={ORDERS: 2}, checkpoints={REMOTE: Checkpointed(2, 2, NOW - 900)}),
    ],
    ids=["checkpoint not yet lower", "checkpoint lower, target not"],
)
def test_C09_warns_of_a_group_that_was_set_back_on_the_source(group: object) -> None:
    facts = facts_of(groups=[group])  # type: ignore[list-item]
    assert ids(facts) == ["C09 W"]
    assert "skip 3 records" in one(facts, "C09").message


def test_C25_is_a_warning_only_if_an_earlier_look_saw_the_group() -> None:
    group = a_group(checkpoints={}, target={})
    assert one(facts_of(groups=[group]), "C25").severity.value == "I"
    assert one(facts_of(groups=[group], past=(look(900),)), "C25").severity.value == "W"
    lone = a_group(source={}, translated={}, source_state="", checkpoints={})
    assert "is not on the source" in one(facts_of(groups=[lone]), "C25").message


def test_C26_tells_when_commits_expire() -> None:
    target = cluster_of("B", {"A.orders": 1}, offsets_retention_minutes=10_080)
    assert "7 days" in one(facts_of(groups=[a_group()], target=target), "C26").message


# --- contents, settings, rights --------------------------------------------------------------------------------


def test_C22_duplicates_by_reading_and_by_syncs_that_went_back() -> None:
    assert one(facts_of(reads=Reads(tails={ORDERS: Tail(3, 0, 7)})), "C22").certainty.value == "proven"
    copy = a_copy(rewind=(Synced(8, 8, NOW - 9), Synced(4, 9, NOW - 8)), target=ends(0, 15))
    found = one(facts_of([copy]), "C22")
    assert (found.severity.value, found.certainty.value) == ("W", "likely") and "5 records" in found.message


def test_C24_foreign_records_and_the_ledgers_word() -> None:
    assert one(facts_of(reads=Reads(tails={ORDERS: Tail(0, 2, 10)})), "C24").severity.value == "W"
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
    assert found.severity.value == "E" and words in found.message
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
    beats = Heartbeats("heartbeats", "A.heartbeats", NOW - 1000, NOW - 300_000, "B->A")
    assert one(facts_of(heartbeats=beats), "C19").severity.value == "E"
    assert one(facts_of(heartbeats=replace(beats, target_ms=None)), "C19").severity.value == "W"
    assert one(facts_of(heartbeats=replace(beats, source_ms=NOW - 300_000)), "C19").severity.value == "I"
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
    assert (found.severity.value, found.certainty.value) == ("E", "proven")
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
    assert found.severity.value == "E" and "user m lacks Read on 1 source topic of A: orders" in found.message
    writer = cluster_of("B", {"A.orders": 1}, topic_rights={"A.orders": frozenset({"WRITE", "ALTER"})})
    assert one(facts_of(target=writer), "V3").severity.value == "W"


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
