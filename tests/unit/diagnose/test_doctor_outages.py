"""The doctor when a cluster cannot be read: the outage comes first, what is not known is unknown, what remains is said."""

from __future__ import annotations

from dataclasses import replace

import pytest
from unit.cli.test_cli_doctor import report, text_of
from unit.diagnose.doctor_builders import (
    NOW,
    ORDERS,
    OURS,
    REMOTE,
    a_copy,
    a_group,
    cluster_of,
    ends,
    facts_of,
    one,
    our_copy,
    told,
)  # fmt: skip

from sparkmirror.cli.findings_view import report_value
from sparkmirror.clusters.probing import PartitionEnds
from sparkmirror.diagnose.findings import Finding
from sparkmirror.ledger import SourceEnd
from sparkmirror.model import Side, TopicPartition
from sparkmirror.offsets import TimedCheckpoint
from sparkmirror.state.facts import Facts, Runner
from sparkmirror.state.parts import Outage, Part, Unknown
from sparkmirror.wire.error_codes import LEADER_NOT_AVAILABLE

SEEN_MS = NOW - 7_200_000
GONE = Outage("A", "cluster A is unreachable: a:1: refused", "a broker that answers")
SOURCE_PARTS = (Part.SOURCE, Part.SOURCE_GROUPS, Part.SOURCE_ENDS, Part.SOURCE_COMMITS, Part.SOURCE_BROKERS, Part.SYNCS)
TARGET_PARTS = (Part.TARGET, Part.TARGET_GROUPS, Part.TARGET_ENDS, Part.TARGET_COMMITS, Part.LEDGER, Part.POSITIONS)
NO_LEADER = PartitionEnds(-1, -1, -1, LEADER_NOT_AVAILABLE)


def seen(end: int) -> SourceEnd:
    return SourceEnd(end, -1, SEEN_MS, "s")


def without(side: Side, *parts: str, **more: object) -> Facts:
    """The healthy flow of sparkmirror, one of whose clusters cannot be read."""
    outage = Outage("A" if side == "source" else "B", GONE.message, GONE.needs)
    missing = dict.fromkeys(parts, Unknown("does not answer"))
    base = facts_of(**({"runner": OURS, "outages": {side: outage}, "missing": missing} | more))  # type: ignore[arg-type]
    name = "source" if side == "source" else "target"
    return replace(base, **{name: replace(getattr(base, name), view=None, versions={})})  # type: ignore[arg-type]


def dead_source(**more: object) -> Facts:
    """Ten records copied of seventeen; the group's position is three before its checkpoint."""
    point = TimedCheckpoint(8, 8, SEEN_MS)
    group = a_group(source={}, target={REMOTE: 5}, checkpoints={REMOTE: point}, source_state="", is_source_known=False)
    base = {
        "copies": [our_copy(source=None, last_source=seen(17))], "source_seen_ms": SEEN_MS,
        "groups": [replace(group, translated={ORDERS: 8})],
    }  # fmt: skip
    return without("source", *SOURCE_PARTS, **(base | more))


def failover(facts: Facts) -> list[Finding]:
    return [found for found in told(facts) if isinstance(found, Finding) and found.id == "C27"]


def test_a_dead_source_is_the_first_finding_and_its_flow_is_not_running() -> None:
    found = report(dead_source())
    assert [finding.id for finding in found.findings[:2]] == ["V1", "C27"] and found.status == 4
    lines = text_of(found).splitlines()
    assert lines[0].startswith("A->B  sparkmirror source unreachable  lag ? (7 at ") and "running" not in lines[0]
    assert "1 topics, 1 partitions that B remembers; 1 groups that B remembers; A does not answer" in lines[1]
    assert one(dead_source(), "V1").message.endswith("the mirror last saw it 2027-01-15 06:00:00 UTC, 2 h 0 min ago")


def test_a_failover_without_the_source_says_what_is_lost_as_of_when_and_what_each_group_reads_again() -> None:
    lost, group = failover(dead_source())
    assert (lost.severity.letter, group.severity.letter) == ("E", "I")
    assert lost.message.startswith("7 records in 1 partition of A were not copied at the last look (2027-01-15 06:00:00 UTC")
    assert "orders-0 7 after offset 10" in lost.message and "were never seen by the mirror" in lost.message
    assert "reads 3 records again, most in A.orders-0, and what it read on A since its newest checkpoint" in group.message
    assert group.message.endswith("7 records that it had not read are lost to it")


def test_what_a_group_had_read_beyond_the_copy_is_not_lost_to_it() -> None:
    facts = dead_source()
    ahead = replace(facts.groups["g"], checkpoints={REMOTE: TimedCheckpoint(15, 10, SEEN_MS)}, translated={ORDERS: 10})
    [_, group] = failover(replace(facts, groups={"g": ahead}))
    assert group.message.endswith("2 records that it had not read are lost to it")


def test_a_group_without_a_position_on_the_target_is_a_warning_with_the_command() -> None:
    facts = dead_source()
    [_, group] = failover(replace(facts, groups={"g": replace(facts.groups["g"], target={})}))
    assert (group.severity.letter, group.command) == ("W", "sparkmirror translate /etc/mm2.properties --group g")
    assert "has no position on B in 1 partition, only checkpoints" in group.message


@pytest.mark.parametrize(
    ("copy", "severity", "words"),
    [
        (our_copy(source=None, last_source=seen(10)), "W", "what A held in 1 partition at the last look"),
        (a_copy(source=None), "W", "nothing says where 1 partition of A ended"),
        (our_copy(source=None, next_upstream=None, last_source=seen(4)), "E", "4 records in 1 partition"),
    ],
)
def test_a_loss_that_is_nil_or_not_known_is_still_no_promise(copy: object, severity: str, words: str) -> None:
    lost = failover(dead_source(copies=[copy]))[0]
    assert (lost.severity.letter, words in lost.message) == (severity, True), lost.message
    assert lost.message.endswith("records that were written later were never seen by the mirror")


def test_no_finding_says_that_nothing_is_left_to_copy_while_nobody_knows() -> None:
    released = dead_source(runner=Runner("sparkmirror", "released", "h"))
    assert one(released, "D11").message.endswith("how much is not copied is unknown")
    assert one(released, "D11").severity.letter == "W"


def test_a_dead_target_leaves_lag_and_state_unknown_and_shows_what_the_source_has() -> None:
    copy = a_copy(target=None, next_upstream=None, basis="", sync=None, is_position_known=False)
    facts = without("target", *TARGET_PARTS, copies=[copy], runner=Runner("", "unknown"), groups=[a_group(target={})])
    text, value = text_of(report(facts)), report_value(report(facts))
    assert text.startswith("A->B  target unreachable  lag ?\n") and "ERROR    V1 cluster B does not answer" in text
    assert "1 groups" in text and "lag 0" not in text
    [flow] = value["flows"]
    assert (value["status"], flow["lag"], flow["last_lag"], flow["outage"]) == (4, None, None, "target unreachable")


def test_with_both_clusters_gone_nothing_is_counted() -> None:
    facts = without("source", *SOURCE_PARTS, *TARGET_PARTS, runner=Runner("", "unknown"))
    facts = replace(facts, copies={}, decisions=(), outages={**facts.outages, "target": Outage("B", "gone")})
    text, [flow] = text_of(report(facts)), report_value(report(facts))["flows"]
    assert "topics unknown; groups unknown" in text and "source unreachable, target unreachable" in text
    assert (flow["topics"], flow["partitions"], flow["groups"], flow["lag"]) == (None,) * 4


def test_a_refused_login_is_not_called_an_outage() -> None:
    login = Outage("A", "cluster A at a:1: PLAIN login of me was refused", is_login=True)
    facts = replace(dead_source(), outages={"source": login})
    assert one(facts, "V1").cause == "cluster A refuses the login"
    assert text_of(report(facts)).startswith("A->B  sparkmirror source refuses the login  lag ?")


def test_partitions_without_a_leader_are_one_line_with_count_and_names_and_their_lag_is_unknown() -> None:
    places = [TopicPartition("orders", n) for n in range(4)]
    copies = [
        our_copy(partition=place, remote=TopicPartition("A.orders", place.partition), source=source, last_source=last)
        for place, (source, last) in zip(places, [(ends(0, 12), None), (NO_LEADER, seen(15))] * 2, strict=True)
    ]  # fmt: skip
    facts = facts_of(copies, runner=OURS, source=cluster_of("A", {"orders": 4}), target=cluster_of("B", {"A.orders": 4}))
    found = one(facts, "V7")
    assert found.message == "2 of 4 partitions on A have no leader and are not copied: orders-1, orders-3"
    assert (facts.lag, facts.known_lag, facts.last_lag) == (None, 4, (14, SEEN_MS))
    assert "lag ? (14 at" in text_of(report(facts)) and report(facts).status == 4
