"""Each check of the doctor over facts: what it calls wrong, how sure it is, and that a healthy flow has nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.diagnose.doctor_builders import (
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
    told,
)

from sparkmirror.diagnose.findings import Finding, OpenQuestion, Severity
from sparkmirror.diagnose.rules import RULES, judge, rule_ids
from sparkmirror.ledger import Attempt, Gap
from sparkmirror.model import TopicPartition
from sparkmirror.state.facts import ComparedPair, LargeRecord, Reads, Runner, Stop, SyncPair, Unknown
from sparkmirror.state.parts import Part

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
    assert [f for f in told(facts) if isinstance(f, OpenQuestion)] == []


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
    facts = facts_of(missing={Part.SYNCS: Unknown("not authorized", "Read on topic mm2-offset-syncs.B.internal")})
    opens = [f for f in told(facts) if isinstance(f, OpenQuestion)]
    assert {o.id for o in opens} == {"D3", "C05", "C08", "C22"}
    assert all("Read on topic mm2-offset-syncs.B.internal" in o.needs for o in opens)


# --- D8, D9, D12 -----------------------------------------------------------------------------------------------


def test_D8_names_the_pattern_and_the_line() -> None:
    facts = facts_of(names=("orders", "other"), places={"topics": "line 5: A->B.topics = orders"})
    found = one(facts, "D8")
    assert found.subject.topic == "other"
    assert "matched by no include pattern" in found.message and "line 5" in found.message
    assert found.severity is Severity.INFO


def test_D9_is_information_until_the_refresh_is_over() -> None:
    target = cluster_of("B", {})
    absent = a_copy(target=None, next_upstream=None, sync=None, basis="")
    found = one(facts_of([absent], target=target), "D9")
    assert (found.severity.letter, found.certainty.value) == ("I", "proven")
    assert "10 min" in found.message
    late = one(facts_of([absent], target=target, past=(look(700),)), "D9")
    assert (late.severity.letter, late.certainty.value) == ("E", "likely")


def test_D9_says_that_the_target_has_too_few_brokers() -> None:
    found = one(facts_of(target=cluster_of("B", {}), lines="A->B.replication.factor = 3\n"), "D9")
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "replication.factor is 3" in found.message


def test_D9_warns_where_new_topics_are_not_looked_for() -> None:
    assert one(facts_of(target=cluster_of("B", {}), lines="refresh.topics.enabled = false\n"), "D9").severity.letter == "W"


def test_D12_is_an_error_where_a_partition_was_copied_that_is_not_there() -> None:
    source = cluster_of("A", {"orders": 2})
    second = a_copy(partition=TopicPartition("orders", 1), remote=TopicPartition("A.orders", 1), target=None)
    found = one(facts_of([a_copy(), second], source=source), "D12")
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "--partitions 2" in found.command and "hangs" in found.message
    new = one(facts_of([a_copy(), replace(second, next_upstream=None)], source=source), "D12")
    assert (new.severity.letter, new.certainty.value) == ("W", "likely")


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
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "offset 12 of orders-0" in found.message and "1 partition stopped" in found.message
    assert ids(facts) == [f"{name} E"]


def test_D2_gives_the_key_with_the_size_that_is_needed() -> None:
    facts = facts_of([a_copy(source=ends(0, 20))], connectors={"s": connector(tasks={0: failed(FOR_PRODUCER)})})
    assert "B.producer.max.request.size = 2000090" in one(facts, "D2").command


@pytest.mark.parametrize(
    ("code", "reason", "name"),
    [
        (
            "RECORD_TOO_LARGE",
            "record at upstream offset 12 needs a batch of 2000090 bytes, the target accepts 1048588",
            "D1",
        ),
        ("TARGET_REFUSED_RECORDS timestamp", "orders-0: INVALID_TIMESTAMP (32)", "D10"),
        ("TARGET_REFUSED_RECORDS", "by-timestamp-0 at upstream offset 3: target refuses: INVALID_RECORD (87): no", "D11"),
        ("CONTENT_DIFFERS", "the target's tail is not what the source holds", "D11"),
    ],
)
def test_a_stop_in_the_ledger_names_the_cause(code: str, reason: str, name: str) -> None:
    stop = Stop("stopped", code.split()[0], reason, NOW - 9000, "".join(code.split()[1:]))
    facts = facts_of([our_copy(source=ends(0, 20), stop=stop)], runner=OURS)
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
    assert one(facts_of([copy], runner=runner), "D11").severity.letter == severity


def test_D11_tells_two_programs_at_once() -> None:
    assert "both run" in one(facts_of(runner=replace(OURS, both=True)), "D11").message


def test_D10_warns_of_the_next_record_before_it_is_refused() -> None:
    target = cluster_of("B", {"A.orders": 1}, {"A.orders": {"message.timestamp.before.max.ms": str(7 * DAY_MS)}})
    old = LargeRecord(10, 100, NOW - 8 * DAY_MS)
    facts = facts_of([a_copy(source=ends(0, 20))], target=target, reads=Reads(next_records={ORDERS: old}))
    assert one(facts, "D10").severity.letter == "W"
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
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "restarts at the earliest record by itself" in found.message
    assert found.command == "sparkmirror offsets reset /etc/mm2.properties --topic orders --partition 0 --to earliest"


def test_D6_a_record_that_differs_proves_that_a_longer_topic_is_another_one() -> None:
    found = one(facts_of([a_copy(source=ends(0, 40))], reads=Reads(pairs={ORDERS: ComparedPair(9, 9, "differs")})), "D6")
    assert found.certainty.value == "proven" and "skipped" in found.message
    for outcome in ("same", "unknown"):
        facts = facts_of([a_copy(source=ends(0, 40))], reads=Reads(pairs={ORDERS: ComparedPair(9, 9, outcome)}))
        assert "D6 E" not in ids(facts)


def test_D6_another_topic_id_than_in_the_ledger_or_the_baseline_is_proof() -> None:
    assert one(facts_of([our_copy(source_topic_id="00")], runner=OURS), "D6").certainty.value == "proven"
    seen = look(500, source_ids={"orders": "ff"})
    assert "since 8 min" in one(facts_of(past=(seen,)), "D6").message


def test_D6_syncs_that_went_back_past_the_end_tell_that_mm2_restarted() -> None:
    copy = a_copy(source=ends(0, 10), rewind=(SyncPair(30, 30, NOW - 9), SyncPair(0, 31, NOW - 8)), target=ends(0, 41))
    found = one(facts_of([copy]), "D6")
    assert "restarted at 0" in found.message and "mixed" in found.message


def test_C10_a_commit_past_the_end_alone_is_a_likely_error_and_no_D6() -> None:
    group = a_group(source={ORDERS: 50}, translated={ORDERS: 10}, checkpoints={})
    facts = facts_of(groups=[group])
    found = one(facts, "C10")
    assert (found.severity.letter, found.certainty.value) == ("E", "likely")
    assert ids(facts) == ["C10 E"]


def test_D7_a_position_before_the_log_start_is_a_loss_of_so_many_offsets() -> None:
    found = one(facts_of([a_copy(source=ends(17, 20))]), "D7")
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "7 offsets (10 to 16)" in found.message
    ours = facts_of([our_copy(source=ends(17, 20))], runner=OURS)
    assert "sparkmirror offsets skip" in one(ours, "D7").command


def test_D7_what_lies_behind_the_newest_sync_was_copied_since_the_position_was_stored() -> None:
    assert ids(facts_of([a_copy(source=ends(17, 20), target=ends(0, 20))])) == []


def test_D7_one_offset_is_the_marker_of_a_transaction() -> None:
    assert ids(facts_of([a_copy(source=ends(11, 11))])) == []


def test_D7_a_hole_between_syncs_that_nothing_explains_is_a_likely_loss() -> None:
    found = one(facts_of(reads=Reads(lost={ORDERS: (3, 8)})), "D7")
    assert (found.severity.letter, found.certainty.value) == ("E", "likely")


def test_D7_accepted_gaps_are_information() -> None:
    gap = Gap(ORDERS, Attempt(1, 0, 1), 3, 5, "skip", NOW - 5, "00")
    facts = facts_of([our_copy(gaps=(gap,))], runner=OURS)
    assert ids(facts) == [] and "3 to 4" in one(facts, "D7").message


def test_D5_a_copy_that_begins_later_than_the_source_is_proven_by_its_first_record() -> None:
    found = one(facts_of(reads=Reads(firsts={ORDERS: 6})), "D5")
    assert (found.severity.letter, found.certainty.value) == ("E", "proven")
    assert "0 to 5" in found.message and "offsets reset" in found.command
    assert "D5 E" not in ids(facts_of(reads=Reads(firsts={ORDERS: 0})))
    trimmed = facts_of([a_copy(target=ends(3, 10))], reads=Reads(firsts={ORDERS: 6}))
    assert one(trimmed, "D5").severity.letter == "I"
    latest = facts_of(lines="A.consumer.auto.offset.reset = latest\n", reads=Reads(firsts={ORDERS: 6}))
    assert one(latest, "D5").severity.letter == "I"


def test_D5_a_target_topic_that_is_another_one_is_told_by_its_id() -> None:
    assert one(facts_of([our_copy(target_topic_id="00")], runner=OURS), "D5").severity.letter == "E"


# --- C12, D4, D3 -----------------------------------------------------------------------------------------------


def test_C12_tells_the_lag_its_age_and_its_trend() -> None:
    copy = a_copy(source=ends(0, 100), target=ends(0, 60), next_upstream=60, sync=SyncPair(59, 59, NOW))
    past = look(10, source_ends={ORDERS: 100}, target_ends={REMOTE: 20})
    facts = facts_of([copy], past=(past,), reads=Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 90_000)}))
    found = one(facts, "C12")
    assert "40 records behind" in found.message and "1 min 30 s ago" in found.message
    assert "shrinking, done in about 10 s" in found.message
    assert found.severity.letter == "I"


def test_C12_warns_of_a_partition_that_waits_and_does_not_move() -> None:
    copy = a_copy(source=ends(0, 100), target=ends(0, 60), next_upstream=60, sync=SyncPair(59, 59, NOW))
    past = look(10, source_ends={ORDERS: 100}, target_ends={REMOTE: 60})
    reads = Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 190_000)})
    assert ids(facts_of([copy], past=(past,), reads=reads)) == ["C12 W"]
    young = Reads(next_records={ORDERS: LargeRecord(60, 1, NOW - 90_000)})
    assert ids(facts_of([copy], past=(past,), reads=young)) == []


def test_D4_a_backlog_that_grows_is_too_few_tasks() -> None:
    events = TopicPartition("events", 0)
    slow = a_copy(source=ends(0, 30_000), target=ends(0, 2_000), next_upstream=2_000, sync=SyncPair(1_999, 1_999, NOW))
    quick = a_copy(partition=events, remote=TopicPartition("A.events", 0), source=ends(0, 500), target=ends(0, 500),
                   next_upstream=500, sync=SyncPair(499, 499, NOW))  # fmt: skip
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
    copy = a_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=60, sync=SyncPair(9, 9, NOW - 200_000))
    assert one(facts_of([copy]), "D3").severity.letter == "I"
    assert "50 records coarse" in one(facts_of([copy]), "D3").message
    held = look(130, target_ends={REMOTE: 60})
    assert one(facts_of([copy], past=(held,)), "D3").severity.letter == "W"
    old = {"MirrorSourceConnector": connector(tasks={0: replace(failed(""), state="RUNNING", version="3.6.1")}, own=None)}
    found = one(facts_of([copy], past=(held,), connectors=old), "D3")
    assert found.severity.letter == "I" and "MirrorMaker 2 3.6.1 writes one only every 101 records" in found.message
    ours = our_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=60, next_downstream=60)
    assert "D3" not in [f.id for f in told(facts_of([ours], runner=OURS))]
