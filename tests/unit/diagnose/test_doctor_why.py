"""The chain of questions of `why`: where it stops, what it says beside that, and whom it takes for whom."""

from __future__ import annotations

from dataclasses import replace

from unit.diagnose.doctor_builders import (
    MM2,
    ORDERS,
    REMOTE,
    a_copy,
    a_group,
    a_proof,
    cluster_of,
    connector,
    ends,
    facts_of,
    failed,
    look,
    report_of,
)

from sparkmirror.clusters import ListedGroup
from sparkmirror.diagnose.why import Answer, why
from sparkmirror.model import TopicPartition
from sparkmirror.state.facts import Facts, Reads, Runner, Unknown
from sparkmirror.state.parts import Part


def ask(facts: Facts, word: str) -> Answer:
    """The only answer."""
    [answer] = why(report_of(facts), word)
    return answer


def questions(answer: Answer) -> list[tuple[str, bool | None]]:
    return [(step.question, step.is_good) for step in answer.steps]


def test_a_healthy_topic_answers_every_question_with_yes() -> None:
    answer = ask(facts_of(), "orders")
    assert answer.cause is None and answer.is_complete
    assert [good for _, good in questions(answer)] == [True] * 7
    assert answer.conclusion == "orders is copied by A->B: 1 partition, everything is copied"


def test_a_topic_is_known_by_its_name_on_either_side_and_a_partition_by_a_colon() -> None:
    assert ask(facts_of(), "A.orders").subject == "orders"
    assert ask(facts_of(), "orders:0").subject == "orders-0"
    assert ask(facts_of(), "orders:7").conclusion == "orders has no partition 7"


def test_the_chain_stops_at_the_first_certain_cause() -> None:
    answer = ask(facts_of(names=("orders", "other"), places={"topics": "line 5: topics = orders"}), "other")
    assert [q for q, _ in questions(answer)] == ["is it selected?"]
    assert answer.cause is not None and answer.cause.id == "D8" and "line 5" in answer.steps[0].answer
    internal = ask(facts_of(names=("orders", "mm2-offset-syncs.B.internal")), "mm2-offset-syncs.B.internal")
    assert internal.cause is not None and "internal topic" in internal.cause.message


def test_a_failed_task_hides_what_comes_after_it_but_tells_it_beside() -> None:
    stuck = a_copy(source=ends(30, 40))
    tasks = {0: failed("x: y\nCaused by: java.io.IOException: the disk is full\n")}
    answer = ask(facts_of([stuck], connectors={"MirrorSourceConnector": connector(tasks=tasks)}), "orders")
    assert answer.cause is not None and answer.cause.id == "D11"
    assert questions(answer)[-1] == ("is it being copied?", False)
    assert "D7" in [found.id for found in answer.also]


def test_another_topics_trouble_is_not_this_ones() -> None:
    events = a_copy(partition=TopicPartition("events", 0), remote=TopicPartition("A.events", 0), source=ends(17, 20))
    facts = facts_of([a_copy(), events], names=("orders", "events"), source=cluster_of("A", {"orders": 1, "events": 1}),
                     target=cluster_of("B", {"A.orders": 1, "A.events": 1}))  # fmt: skip
    assert ask(facts, "orders").cause is None
    found = ask(facts, "events:0").cause
    assert found is not None and found.id == "D7"


def test_a_likely_cause_is_told_where_none_is_certain() -> None:
    answer = ask(facts_of(reads=Reads(lost={ORDERS: (3, 8)})), "orders")
    assert answer.cause is not None and answer.cause.certainty.value == "likely"
    assert ("is its position valid?", None) in questions(answer)


def test_certain_information_does_not_hide_a_likely_error() -> None:
    coarse = a_copy(source=ends(0, 60), target=ends(0, 60), next_upstream=60)
    answer = ask(facts_of([coarse], reads=Reads(lost={ORDERS: (3, 8)})), "orders")
    assert answer.cause is not None and (answer.cause.id, answer.cause.certainty.value) == ("D7", "likely")
    assert [found.id for found in answer.also] == ["D3"]
    assert questions(answer)[-1] == ("can positions be translated?", False)
    alone = ask(facts_of([coarse]), "orders")
    assert alone.cause is not None and alone.cause.id == "D3"


def test_what_could_not_be_asked_is_said_and_makes_the_answer_incomplete() -> None:
    answer = ask(facts_of(missing={Part.POSITIONS: Unknown("not authorized", "Read on topic p")}), "orders")
    assert not answer.is_complete
    assert any(step.is_good is None and "not authorized" in step.answer for step in answer.steps)


def test_a_topic_that_is_not_on_the_target_yet_is_told_with_the_time_to_wait() -> None:
    absent = a_copy(target=None, next_upstream=None, sync=None, basis="")
    answer = ask(facts_of([absent], target=cluster_of("B", {})), "orders")
    assert answer.cause is not None and answer.cause.id == "D9" and "10 min" in answer.cause.message


def test_a_group_is_followed_from_its_filter_to_the_record() -> None:
    answer = ask(facts_of(groups=[a_group()]), "g")
    assert answer.conclusion == "group g is mirrored by A->B"
    assert [good for _, good in questions(answer)] == [True] * 7


def test_a_group_that_the_filter_leaves_out_is_told_so() -> None:
    facts = facts_of(lines="groups.exclude = x.*\n", places={"groups.exclude": "line 9: groups.exclude = x.*"})
    listed = {"xy": ListedGroup("xy", "consumer", "Empty", "classic")}
    answer = ask(replace(facts, source=replace(facts.source, groups=listed)), "xy")
    assert "excluded by pattern `x.*`" in answer.conclusion and "line 9" in answer.steps[0].answer


def test_a_group_that_reads_nothing_of_the_flow_is_told_so() -> None:
    facts = facts_of()
    listed = {"idle": ListedGroup("idle", "consumer", "Empty", "classic")}
    answer = ask(replace(facts, source=replace(facts.source, groups=listed)), "idle")
    assert "no commits in topics that this flow copies" in answer.conclusion


def test_a_groups_cause_may_lie_in_the_copy_of_its_topic() -> None:
    answer = ask(facts_of([a_copy(source=ends(17, 20))], groups=[a_group()]), "g")
    assert answer.cause is not None and answer.cause.id == "D7"
    assert questions(answer)[-1] == ("are its topics copied?", False)


def test_a_group_that_would_skip_records_is_told_by_the_proof() -> None:
    proof = a_proof("ahead", 3)
    answer = ask(facts_of(groups=[a_group(target={REMOTE: 8}, checkpoints={})], proofs=(proof,)), "g")
    assert answer.cause is not None and answer.cause.id == "C01"


def test_other_groups_do_not_matter() -> None:
    bad = a_group("bad", target={REMOTE: 99})
    assert ask(facts_of(groups=[a_group(), bad]), "g").cause is None


def test_a_name_that_is_both_has_two_answers_and_one_that_is_neither_says_so() -> None:
    facts = facts_of(groups=[a_group("orders")])
    assert [answer.subject for answer in why(report_of(facts), "orders")] == ["orders", "group orders"]
    assert ask(facts, "nobody").conclusion == "neither A nor B has a topic or a group called nobody"
    missing = {Part.SOURCE: Unknown("cluster A does not answer")}
    blind = replace(facts, source=replace(facts.source, view=None), decisions=(), missing=missing)
    assert not ask(blind, "nobody").is_complete


def test_nobody_who_runs_the_flow_is_the_cause() -> None:
    answer = ask(facts_of(runner=Runner("mm2", "dead", "A-mm2"), past=(look(5),)), "orders")
    assert answer.cause is not None and answer.cause.id == "D11"
    assert MM2.is_running
