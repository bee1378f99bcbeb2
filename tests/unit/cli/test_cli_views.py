"""What a run says in lines, and what it draws on a terminal."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from datetime import datetime

import pytest
from cli_builders import a_flow, a_partition
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sparkmirror.cli.lag_text import lag_fields, lag_words
from sparkmirror.cli.live_view import LiveView, flow_picture
from sparkmirror.cli.log_view import Line, LogLevel, LogView, changes, summary
from sparkmirror.cli.run_status import Rate
from sparkmirror.cli.text import duration, fields_of, json_text, megabytes, printable
from sparkmirror.ledger import Wish
from sparkmirror.status import FlowStatus, flow_lag
from sparkmirror.status.end_history import EndHistory
from sparkmirror.status.flow_status import NOTES_MAX, FlowNotes


def drawn(flow: FlowStatus, width: int = 100, rate: Rate = Rate()) -> str:  # noqa: B008  frozen
    console = Console(file=io.StringIO(), width=width, force_terminal=True, color_system=None, legacy_windows=False)
    console.print(flow_picture(flow, rate))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


STOPPED = a_partition(state="stopped", code="SOURCE_OFFSET_LOST", reason="wanted 5, log starts at 9 (skip to 9)")


def test_a_change_is_told_once() -> None:
    flow = a_flow(STOPPED, a_partition(number=1))
    assert changes(None, flow) == [
        Line("INFO", "running"),
        Line("ERROR", "orders-0 stopped SOURCE_OFFSET_LOST: wanted 5, log starts at 9 (skip to 9)"),
        Line("INFO", "orders-1 copying"),
    ]
    assert changes(flow, flow) == []


def test_another_reason_of_the_same_state_is_a_change() -> None:
    later = a_flow(replace(STOPPED, reason="another"))
    assert changes(a_flow(STOPPED), later) == [Line("ERROR", "orders-0 stopped SOURCE_OFFSET_LOST: another")]


def logged(notes: FlowNotes, *looks: tuple[float, str]) -> list[tuple[float, str]]:
    """When which notes are logged, where each look finds a note of its own beside the earlier ones ("": none)."""
    lines: list[str] = []
    found, view = [], LogView(lines.append)
    for now, note in looks:
        notes += [note] * bool(note)
        view.show([a_flow(notes=notes.copy())], now)
        found += [(now, line.partition(" A->B ")[2]) for line in lines if " WARN " in line]
        lines.clear()
    return found


def test_a_note_is_logged_once_however_often_it_was_noted() -> None:
    notes = FlowNotes(["slot 0 died"] * 3)
    assert logged(notes, (0.0, ""), (1.0, ""), (1_000.0, "")) == [(0.0, "slot 0 died")]


def test_a_note_that_comes_again_is_logged_again() -> None:
    looks = (0.0, "slot 0 died"), (100.0, "slot 1 died"), (200.0, "slot 0 died")
    assert logged(FlowNotes(), *looks) == [*looks]


def test_a_note_that_comes_all_the_time_is_logged_once_a_minute() -> None:
    looks = [(float(second), "slot 0 died") for second in range(130)]
    assert [now for now, _ in logged(FlowNotes(), *looks)] == [0.0, 60.0, 120.0]


def test_a_repetition_that_came_too_soon_is_logged_when_the_minute_is_over() -> None:
    looks = (0.0, "n"), (1.0, "n"), (59.0, ""), (60.0, ""), (200.0, "")
    assert [now for now, _ in logged(FlowNotes(), *looks)] == [0.0, 60.0]


def test_notes_of_a_flow_that_begins_again_are_logged() -> None:
    lines: list[str] = []
    view = LogView(lines.append)
    for now in (0.0, 100.0):
        view.show([a_flow(notes=FlowNotes(["slot 0 died"]))], now)
    assert sum("slot 0 died" in line for line in lines) == 2


def test_the_notes_that_are_kept_are_the_newest_and_those_left_out_are_counted() -> None:
    notes = FlowNotes(f"note {at}" for at in range(NOTES_MAX + 5))
    notes.append("note 5")
    assert (len(notes), notes.left_out) == (NOTES_MAX, 5)
    assert next(iter(notes)) == "note 6"
    assert [*notes][-2:] == [f"note {NOTES_MAX + 4}", "note 5"]


def test_a_flood_of_notes_is_a_bounded_number_of_lines_that_say_how_many_were_left_out() -> None:
    notes = FlowNotes(f"note {at}" for at in range(10_000))
    found = [line for _, line in logged(notes, (0.0, ""), (1.0, ""))]
    assert len(found) == NOTES_MAX + 1
    assert found[-1] == f"{10_000 - NOTES_MAX} older notes were dropped"
    assert logged(notes, (0.0, "another"))[-1] == (0.0, f"{10_001 - NOTES_MAX} older notes were dropped")


def test_a_live_view_says_a_note_that_comes_again_again() -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system=None, legacy_windows=False)
    notes, view = FlowNotes(["slot 0 died"]), LiveView(console)
    for now in (0.0, 10.0, 100.0, 200.0):
        if now == 100.0:
            notes.append("slot 0 died")
        view.show([a_flow(notes=notes.copy(), chores={"configs": "slow" if now in (10.0, 200.0) else ""})], now)
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("A->B slot 0 died") == 2
    assert console.file.getvalue().count("A->B configs: slow") == 2


def test_an_orderly_end_is_no_error() -> None:
    assert changes(a_flow(), a_flow(state="stopped")) == [Line("INFO", "stopped")]
    assert summary(a_flow(state="stopped"), Rate()).level == "INFO"
    assert summary(a_flow(STOPPED), Rate()).level == "ERROR"


def test_a_thousand_partitions_that_change_alike_are_one_line() -> None:
    flow = a_flow(*(a_partition(number=at) for at in range(1_000)))
    names = "orders-0, orders-1, orders-2, orders-3, orders-4"
    assert changes(a_flow(), flow) == [Line("INFO", f"{names} and 995 more copying")]


def test_a_thousand_troubles_are_a_bounded_number_of_lines() -> None:
    flow = a_flow(*(a_partition(number=at, state="waiting", code=f"C{at}") for at in range(1_000)))
    found = changes(a_flow(), flow)
    assert len(found) == 51
    assert found[-1] == Line("WARN", "and 950 more that do not copy")


def test_a_thousand_troubles_of_one_reason_are_one_line() -> None:
    reasons = {at: f"orders-{at}: cluster B is unreachable, {at} times" for at in range(1_000)}
    flow = a_flow(*(a_partition(number=at, state="waiting", reason=text) for at, text in reasons.items()))
    [line] = changes(a_flow(), flow)
    assert line == Line("WARN", f"orders-0, orders-1, orders-10, orders-100, orders-101 and 995 more waiting: {reasons[0]}")
    assert "waiting  orders-0 and 999 more" in drawn(flow)


def test_the_summary_holds_rates_lag_and_states() -> None:
    copying = a_partition(source_end=10, next_upstream=4, records=4, record_bytes=400)
    stopped = replace(STOPPED_ONE, source_end=20)
    assert summary(a_flow(copying, stopped), Rate(1_000, 2_500_000)) == Line(
        "WARN",
        "degraded records=4 bytes=400 records/s=1000 MB/s=2.5 lag=26 lag_seconds=? partitions=2 stopped=1 copying=1",
    )


def behind(ends: int, *, taken_ms: int = 10_000, **fields: object) -> FlowStatus:
    """10 s after it was seen for the first time, one partition at offset 4, and one that is not behind."""
    history = EndHistory().seen(0, 4, 4).seen(2_000, 10, 4).seen(10_000, 10, 4)
    late = a_partition(source_end=ends, next_upstream=4, ends=history, end_seen_ms=10_000)
    idle = a_partition(number=1, source_end=0, end_seen_ms=10_000)
    return a_flow(late, idle, source_seen_ms=10_000, taken_ms=taken_ms, **fields)


@pytest.mark.parametrize(
    ("flow", "words", "fields"),
    [
        (behind(10), "lag 6, oldest 10 s", "lag=6 lag_seconds=10.0"),
        (behind(4), "lag 0", "lag=0 lag_seconds=0.0"),
        (behind(-1), "lag ?", "lag=? lag_seconds=?"),
        (behind(10, stopped_topics={"t": "no right"}), "lag 6+?, oldest 10 s+?", "lag=6+? lag_seconds=10.0+?"),
        (behind(10, taken_ms=60_000), "lag ? (6 as of 00:00:10Z), oldest 1 min 0 s+?",
         "lag=? lag_known=6 as_of=1970-01-01T00:00:10Z lag_seconds=60.0+?"),
        (behind(4, state="waiting"), "lag ? (0 as of 00:00:10Z)",
         "lag=? lag_known=0 as_of=1970-01-01T00:00:10Z lag_seconds=?"),
        (a_flow(state="starting"), "lag ?", "lag=? lag_seconds=?"),
    ],
)  # fmt: skip
def test_what_is_not_known_of_the_lag_is_a_question_mark(flow: FlowStatus, words: str, fields: str) -> None:
    assert (lag_words(flow_lag(flow)), lag_fields(flow_lag(flow))) == (words, fields)
    assert f"  {words}  copied" in drawn(flow, 160)
    assert f" {fields} partitions=" in summary(flow, Rate()).text


STOPPED_ONE = replace(STOPPED, partition=a_partition(number=7).partition)


def test_lines_have_time_level_flow_and_message() -> None:
    lines: list[str] = []
    view = LogView(lines.append)
    view.show([a_flow()], 0.0)
    view.show([a_flow()], 1.0)
    view.show([a_flow()], 5.0)
    assert len(lines) == 2
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z sparkmirror INFO A->B running", lines[0])
    assert " sparkmirror INFO A->B running records=0 " in lines[1]


def test_control_characters_in_a_reason_do_not_reach_the_terminal() -> None:
    lines: list[str] = []
    LogView(lines.append).show([a_flow(reason="\x1b[31m\nERROR forged\u202e", state="waiting")], 0.0)
    assert len(lines) == 1
    assert lines[0].endswith(r" sparkmirror WARN A->B waiting: \x1b[31m\nERROR forged\u202e")
    assert "\x1b" not in drawn(a_flow(reason="\x1b[31mred"))


def test_markup_in_a_reason_is_shown_as_it_is() -> None:
    assert "[red]boo[/red]" in drawn(a_flow(reason="[red]boo[/red]", state="waiting"))


@pytest.mark.parametrize("width", [1, 5, 20, 80, 300])
def test_the_picture_fits_any_width(width: int) -> None:
    flow = a_flow(STOPPED, a_partition(number=1, source_end=10_000_000, records=5_000))
    for line in drawn(flow, width, Rate(1e6, 1e9)).splitlines():
        assert len(line) <= width


def test_the_picture_shows_rates_states_and_reasons() -> None:
    flow = a_flow(STOPPED, a_partition(number=1, source_end=4_000, next_upstream=1_000, records=1_000))
    text = drawn(flow, 120, Rate(1_000, 2_000_000))
    for words in ("A->B  degraded (1 stopped)",
                  "1,000 records/s  2.0 MB/s  lag 3,000+?", "1 stopped, 1 copying", "25 % about 3 s"):
        assert words in text
    assert "stopped  orders-0  SOURCE_OFFSET_LOST  wanted 5, log starts at 9 (skip to 9)" in text


def test_there_is_no_progress_bar_once_the_flow_has_caught_up() -> None:
    assert "catching up" not in drawn(a_flow(a_partition(source_end=10, records=1_000_000)))


def test_the_list_of_troubles_is_bounded() -> None:
    text = drawn(a_flow(*(a_partition(number=at, state="stopped", code=f"C{at}") for at in range(100))))
    assert "and 92 more that do not copy" in text
    assert len(text.splitlines()) == 12


def test_the_live_view_says_a_note_once() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system=None)
    with LiveView(console) as view:
        for second in range(3):
            view.show([a_flow(notes=FlowNotes(["slot 0 died"]))], float(second))
        view.end([a_flow()])
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().count("slot 0 died") == 1


def test_numbers_are_readable() -> None:
    assert [megabytes(61_200_000), megabytes(12.3e9), duration(59), duration(72.4), duration(7_320)] == [
        "61.2 MB", "12.3 GB", "59 s", "1 min 12 s", "2 h 2 min",
    ]  # fmt: skip
    assert printable("plain ü") == "plain ü"


texts = st.text(st.characters(exclude_categories=()))
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(documents)
def test_json_is_to_the_letter_what_the_standard_library_writes(document: object) -> None:
    """Also of text that is not ASCII, of half surrogate pairs, and of numbers of any size."""
    assert json_text(document) == json.dumps(document, indent=2)


def test_json_has_the_fields_of_a_value_also_beside_half_a_surrogate_pair() -> None:
    line = Line("INFO", "running")
    for text in ("plain", "ü", "\ud800"):
        assert json.loads(json_text([text, line])) == [text, fields_of(line)]


def test_a_paused_flow_says_who_paused_it_and_what_else_is_paused() -> None:
    wishes = (
        Wish("source", "paused", "ann@host", 1_700_000_000_000, "r1"),
        Wish("source", "stopped", "bob@host", 1_700_000_001_000, "r2", "orders", 0),
        Wish("heartbeat", "paused", "cid@host", 1_700_000_002_000, "r3"),
    )
    flow = replace(a_flow(a_partition(state="paused", code="PAUSED")), wishes=wishes, file_words="f.properties")
    first, *rest = drawn(flow, width=160).splitlines()
    assert "paused: the flow is paused since 2023-11-14T22:13:20Z by ann@host (to resume: sparkmirror resume f" in first
    shown = [line.strip() for line in rest if "to resume" in line]
    assert shown == [
        "partition orders-0 is stopped since 2023-11-14T22:13:21Z by bob@host (to resume: sparkmirror resume f.properties "
        "--topic orders --partition 0)",
        "the heartbeat connector is paused since 2023-11-14T22:13:22Z by cid@host (to resume: sparkmirror resume "
        "f.properties --connector heartbeat)",
    ]
    assert summary(flow, Rate()).text.startswith("paused records=") and summary(flow, Rate()).level == "INFO"
    assert changes(a_flow(a_partition()), flow) == [Line("INFO", "orders-0 paused")]


def test_log_lines_as_json_hold_what_a_terminal_must_not_see_as_an_escape_and_lower_levels_are_left_out() -> None:
    lines: list[str] = []
    view = LogView(lines.append, as_json=True, level=LogLevel.WARN)
    view.say("INFO", "A->B", "running")
    view.say("WARN", "A->B", "a name with \x1b[31m and\na line end")
    view.level = LogLevel.ERROR
    view.say("WARN", "-", "left out")
    [line] = lines
    assert "\x1b" not in line and "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["flow"], found["program"]) == ("WARN", "A->B", "sparkmirror")
    assert found["message"] == "a name with \x1b[31m and\na line end"
    assert datetime.fromisoformat(found["timestamp"]).tzinfo is not None
