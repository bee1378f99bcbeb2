"""Where what a flow copies would come back to its source: by cluster ids, filters, policies and ledgers."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from sparkmirror.config import FlowSettings, Settings, parse
from sparkmirror.model import FlowName
from sparkmirror.topology import (
    CopyLoop,
    FileFlow,
    ForeignFlow,
    find_loops,
    may_loop,
    policy_for,
    refusal_of,
    split_heartbeats,
)

IDENTITY = "replication.policy.class = org.apache.kafka.connect.mirror.IdentityReplicationPolicy\n"


def settings_of(*flows: str, more: str = "", policy: str = IDENTITY) -> Settings:
    """A file of flows such as `A->B: id[a-z]+`."""
    pairs = [flow.split(": ") for flow in flows]
    aliases = sorted({alias for name, _ in pairs for alias in name.split("->")})
    text = f"clusters = {', '.join(aliases)}\n{policy}{more}"
    text += "".join(f"{alias}.bootstrap.servers = {alias.lower()}:1\n" for alias in aliases)
    text += "".join(f"{name}.enabled = true\n{name}.topics = {topics}\n" for name, topics in pairs)
    return parse(text, "f", {})


def of_file(settings: Settings, name: str) -> FileFlow:
    """A flow; the id of cluster A is `idA`."""
    flow = settings.flow(FlowName(*name.split("->")))
    return FileFlow(flow, f"id{flow.name.source}", f"id{flow.name.target}")


def other(source: str, target: str, routes: Mapping[str, str]) -> ForeignFlow:
    """A flow of another file, by its ledger."""
    ledger = "mm2-ledger.X.internal"
    return ForeignFlow(f"X->{target}, owner host/pid 1", f"id{source}", f"id{target}", ledger, "host", routes)


def ways(loops: list[CopyLoop]) -> list[tuple[str, ...]]:
    return [(loop.topic, *(f"{hop.topic}@{hop.flow.target_id}" for hop in loop.hops)) for loop in loops]


def test_patterns_that_overlap_only_in_some_names_are_a_loop_for_these() -> None:
    settings = settings_of("A->B: id[a-z]+", "B->A: .*t")
    ours, back = of_file(settings, "A->B"), of_file(settings, "B->A")
    assert ways(list(find_loops(ours, ["idt", "idx", "set"], [back]))) == [("idt", "idt@idB", "idt@idA")]


def test_a_ring_of_three_in_one_file_is_a_loop_for_each_of_its_flows() -> None:
    settings = settings_of("A->B: ring", "B->C: ring", "C->A: ring")
    flows = {name: of_file(settings, name) for name in ("A->B", "B->C", "C->A")}
    for name, flow in flows.items():
        others = [found for other_name, found in flows.items() if other_name != name]
        [loop] = find_loops(flow, ["ring"], others)
        assert len(loop.hops) == 3
    [loop] = find_loops(flows["A->B"], ["ring"], [flows["C->A"], flows["B->C"]])
    error = refusal_of(flows["A->B"], [loop], {"idA": "A", "idB": "B", "idC": "C"})
    assert (error.code, error.exit_status) == ("REPLICATION_LOOP", 2)
    assert error.message == (
        "A->B copies ring to where it comes back from: ring on A → ring on B (by A->B of this file) → ring on C (by B->C of "
        "this file) → ring on A (by C->A of this file); every record would go round for ever"
    )
    assert "disable or stop one of A->B, B->C of this file, C->A of this file" in error.hint


def test_a_ring_that_a_flow_of_another_file_closes_is_seen_by_its_ledger() -> None:
    settings = settings_of("A->B: t", "B->C: t")
    closing = other("C", "A", {"t": "t"})
    [loop] = find_loops(of_file(settings, "A->B"), ["t"], [of_file(settings, "B->C"), closing])
    assert loop.others == [of_file(settings, "B->C"), closing]
    assert list(find_loops(of_file(settings, "A->B"), ["u"], [of_file(settings, "B->C"), closing])) == []


def test_a_flow_of_another_file_is_known_by_cluster_ids_whatever_its_aliases() -> None:
    ours = of_file(settings_of("A->B: .*"), "A->B")
    assert ways(list(find_loops(ours, ["t"], [other("B", "A", {"t": "t"})]))) == [("t", "t@idB", "t@idA")]
    assert list(find_loops(ours, ["t"], [other("Z", "A", {"t": "t"})])) == []


def test_a_name_that_grows_on_its_way_back_is_a_loop_where_it_is_copied_again() -> None:
    back = other("B", "A", {"t": "B.t"})
    assert ways(list(find_loops(of_file(settings_of("A->B: .*"), "A->B"), ["t"], [back]))) == [("t", "t@idB", "B.t@idA")]
    assert list(find_loops(of_file(settings_of("A->B: t"), "A->B"), ["t"], [back])) == []


def test_flows_that_write_another_topic_into_the_source_are_no_loop() -> None:
    ours = of_file(settings_of("A->B: .*"), "A->B")
    assert list(find_loops(ours, ["t"], [other("B", "A", {"u": "u"})])) == []
    assert list(find_loops(ours, ["t"], [other("C", "A", {"t": "t"})])) == []


def test_no_flow_is_taken_twice_so_that_a_loop_of_others_ends_the_search() -> None:
    ours = of_file(settings_of("A->B: t"), "A->B")
    around = [other("B", "C", {"t": "t"}), other("C", "B", {"t": "t"})]
    assert list(find_loops(ours, ["t"], around)) == []


def test_ten_thousand_topics_that_nobody_copies_back_are_no_loop() -> None:
    topics = [f"t{number}" for number in range(10_000)]
    ours = of_file(settings_of("A->B: .*"), "A->B")
    [loop] = find_loops(ours, topics, [other("B", "A", {"t9999": "t9999"})])
    assert loop.topic == "t9999"


def test_heartbeats_that_came_back_are_left_out_instead_of_refusing_the_flow() -> None:
    settings = settings_of("A->B: orders")
    ours, back = of_file(settings, "A->B"), other("B", "A", {"A.heartbeats": "X.A.heartbeats", "orders": "orders"})
    loops = list(find_loops(ours, ["heartbeats", "orders"], [back]))
    refused, left_out = split_heartbeats(policy_for(ours.flow), loops)
    assert [loop.topic for loop in refused] == ["orders"]
    assert left_out == {"X.A.heartbeats"}


def flow_of(policy: str) -> FlowSettings:
    return settings_of("A->B: .*", policy=policy).flow(FlowName("A", "B"))


@pytest.mark.parametrize(("policy", "may"), [(IDENTITY, True), ("", False), ("replication.policy.separator = _\n", False)])
def test_only_names_that_do_not_tell_their_source_may_loop(policy: str, may: bool) -> None:
    assert may_loop(flow_of(policy)) is may
