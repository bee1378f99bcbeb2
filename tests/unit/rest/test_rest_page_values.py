"""What the page shows of flows that are values: events, charts, what needs attention, and the two answers."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl

import pytest
from browser.flows import TOO_LARGE, a_flow, a_partition, a_readiness, healthy, now_ms
from fake.pair import FACTORS, fake_pair

from sparkmirror.config import load
from sparkmirror.diagnose.findings import Severity
from sparkmirror.rest.page.actions import ACTIONS, ActionScope, plan_of
from sparkmirror.rest.page.attention import attention, split_command
from sparkmirror.rest.page.axes import STALE_MS, copying, failover
from sparkmirror.rest.page.charts import charts
from sparkmirror.rest.page.readings import NOT_READ, FlowReading, read_flow
from sparkmirror.rest.page.samples import SAMPLE_MS, FlowRecorder, FlowSample
from sparkmirror.rest.page.wanted import PageQuery, wanted_of
from sparkmirror.status import FlowStatus

STOPPED = {"state": "stopped", "code": "RECORD_TOO_LARGE", "reason": TOO_LARGE}


def looks(recorder: FlowRecorder, *flows: FlowStatus, ms: int = 1_000) -> None:
    """One after another, so long apart."""
    start = now_ms() + (len(recorder.samples) + 1) * 100_000
    for at, flow in enumerate(flows):
        flow.taken_ms = start + at * ms
        recorder.take(flow)


def kinds(recorder: FlowRecorder) -> list[tuple[str, str]]:
    return [(event.kind, event.text.partition(":")[0]) for event in reversed(recorder.events)]


def test_partitions_that_stop_for_one_reason_are_one_event() -> None:
    recorder, before = FlowRecorder(), [a_partition("orders", number) for number in range(9)]
    after = [a_partition("orders", number, **(STOPPED if number < 5 else {})) for number in range(9)]
    looks(recorder, a_flow(*before), a_flow(*after), a_flow(*before))
    assert kinds(recorder) == [
        ("running", "flow"), ("degraded", "flow"), ("stopped", "5 partitions"),
        ("running", "flow"), ("resumed", "5 partitions"),
    ]  # fmt: skip
    assert "orders-0, orders-1, orders-2 and 2 more: RECORD_TOO_LARGE" in [event.text for event in recorder.events][2]


def test_partitions_that_open_and_copy_are_no_events() -> None:
    recorder = FlowRecorder()
    looks(recorder, a_flow(a_partition("orders", 0, state="opening")), a_flow(a_partition("orders", 0)))
    assert [kind for kind, _ in kinds(recorder)] == ["opening", "running"]


def test_a_note_is_one_event_however_often_it_is_seen() -> None:
    recorder, flow = FlowRecorder(), a_flow(*healthy(1))
    flow.notes.append("took over")
    looks(recorder, flow, flow, flow)
    assert [event.text for event in recorder.events if event.kind == "note"] == ["took over"]


def test_a_rate_is_of_what_was_copied_since_the_last_sample_and_never_negative() -> None:
    recorder = FlowRecorder()
    first, second, third = (a_flow(a_partition("orders", 0, end=end)) for end in (1_000, 6_000, 10))
    looks(recorder, first, second, third, ms=SAMPLE_MS)
    assert [sample.records_per_s for sample in recorder.samples] == [None, 1_000.0, None]


def sampled(*lags: int | None) -> list[FlowSample]:
    return [FlowSample(at * SAMPLE_MS, None, None, lag, None, None) for at, lag in enumerate(lags)]


def test_a_line_is_broken_where_nothing_was_known() -> None:
    lag = charts(sampled(1, 2, None, 4), 4 * SAMPLE_MS)[2]
    assert (lag.now, lag.highest, lag.line.count("M")) == ("4", "4", 2)
    nothing = charts(sampled(None), SAMPLE_MS)[2]
    assert (nothing.now, nothing.highest, nothing.line) == ("?", "?", "")


def test_a_chart_of_an_hour_is_small_and_keeps_its_peak() -> None:
    lag = charts(sampled(*(9_999 if at == 333 else 1 for at in range(720))), 720 * SAMPLE_MS)[2]
    assert lag.highest == "9,999" and len(lag.line) < 4_000 and lag.label.endswith("in the last 1 h")


@pytest.mark.parametrize(
    ("reason", "found"),
    [
        ("it is gone (to accept the gap: sparkmirror offsets skip f --topic t)",
         ("it is gone", "to accept the gap", "sparkmirror offsets skip f --topic t")),
        ("no command (here: none)", ("no command (here: none)", "", "")),
        ("plain", ("plain", "", "")),
        ("raise it (kafka-configs.sh --alter --topic t)", ("raise it", "", "kafka-configs.sh --alter --topic t")),
    ],
)  # fmt: skip
def test_the_command_at_the_end_of_a_reason_is_shown_by_itself(reason: str, found: tuple[str, str, str]) -> None:
    assert split_command(reason) == found


def test_one_reason_on_many_partitions_is_one_item() -> None:
    stop = {"state": "stopped", "code": "SOURCE_OFFSET_LOST"}
    many = [a_partition("orders", number, **stop, reason=f"orders-{number}: gone") for number in range(40)]
    [item] = attention(a_flow(*many, *healthy(1)), None, "f")
    assert (item.title, len(item.where), item.more) == ("40 partitions are stopped", 5, 35)
    assert "waits for a decision" in item.mend


def test_a_well_flow_needs_no_attention() -> None:
    assert attention(a_flow(*healthy(3)), None, "f") == []


@pytest.mark.parametrize(
    ("flow", "word", "text"),
    [
        (a_flow(*healthy(1, 3)), "yes", "All 3 partitions copy."),
        (a_flow(), "yes", "There is nothing to copy yet."),
        (a_flow(a_partition("a", 0), a_partition("a", 1, state="paused")), "partly", "1 of 2 partitions copy; 1 paused."),
        (a_flow(a_partition("a", 0), a_partition("a", 1, **STOPPED)), "partly", "1 of 2 partitions stopped."),
        (a_flow(state="unknown", reason="A is silent"), "unknown", "A is silent"),
        (a_flow(state="waiting", reason="B is away"), "waiting", "B is away"),
        (a_flow(state="standby"), "standby", "Another process owns the flow; this one takes over if that one ends."),
    ],
)
def test_whether_it_copies(flow: FlowStatus, word: str, text: str) -> None:
    found = copying(flow, None)
    assert (found.word, found.text) == (word, text)


def read(severity: Severity = Severity.FINE, **fields: object) -> FlowReading:
    readiness = a_readiness({"orders": {"billing": (severity, "why", 3)}})
    return FlowReading(**({"read_ms": now_ms(), "took_s": 0.1, "readiness": readiness} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("flow", "reading", "word"),
    [
        (a_flow(*healthy(1)), read(), "yes"),
        (a_flow(*healthy(1)), NOT_READ, "unknown"),
        (a_flow(*healthy(1)), read(trouble="B does not answer"), "unknown"),
        (a_flow(*healthy(1)), read(outages=("A is unreachable",)), "unknown"),
        (a_flow(*healthy(1)), read(read_ms=now_ms() - STALE_MS - 1_000), "unknown"),
        (a_flow(a_partition("a", 0, **STOPPED), *healthy(1)), read(), "at risk"),
        (a_flow(*healthy(1), state="unknown"), read(), "unknown"),
    ],
)
def test_whether_a_failover_is_safe_is_answered_apart_from_it(flow: FlowStatus, reading: FlowReading, word: str) -> None:
    assert failover(flow, reading).word == word


def test_a_whole_flow_is_paused_only_by_who_types_its_name() -> None:
    flow = a_flow(*healthy(2, 3), a_partition("a", 0, state="paused"))
    whole, topic = (plan_of(ACTIONS["pause"], ActionScope("A->B", name), flow) for name in ("", "topic-0001"))
    assert (whole.must_type, whole.partitions, topic.must_type, topic.partitions) == ("A->B", 6, "", 3)
    assert topic.command == "sparkmirror pause FILE --topic topic-0001"
    assert topic.undo_command == "sparkmirror resume FILE --topic topic-0001"
    assert plan_of(ACTIONS["resume"], ActionScope("A->B"), flow).partitions == 1


def test_what_a_reader_wants_survives_the_url() -> None:
    wanted = PageQuery("a b&c", "stopped", "lag", 3, "x", 2, True)
    assert wanted_of(dict(parse_qsl(wanted.query()))) == wanted
    assert PageQuery().query() == ""


def test_groups_findings_and_history_are_read_from_both_clusters(tmp_path: Path) -> None:
    with fake_pair({}) as pair:
        pair.source.create_topic("wanted", 2)
        path = tmp_path / "mm2.properties"
        lines = ["clusters = A, B", "A->B.enabled = true", *(f"{key} = 1" for key in FACTORS)]
        lines += [f"{name}.bootstrap.servers = {c.bootstrap}" for name, c in (("A", pair.source), ("B", pair.target))]
        path.write_text("\n".join(lines), encoding="utf-8")
        settings = load(str(path))
        found = read_flow(settings, settings.enabled_flows(None)[0])
        assert pair.writes() == []
    assert found.readiness is not None and found.readiness.groups == 0
    assert (found.trouble, found.outages, found.history) == ("", (), ())
    assert found.report is not None and "nobody runs the flow" in [finding.cause for finding in found.report.findings]
