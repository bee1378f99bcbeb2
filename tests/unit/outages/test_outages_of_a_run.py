"""The rest of the matrix: what a run shows when the state of its clusters comes about while it copies.

The flow copies everything, then one of the states begins; what each view shows must come to hold the words of its cell, and
from then on nothing that is false of the state.
"""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from fake.flow import FakeFlow, running_flow
from rich.console import Console
from unit.outages.worst_night import (
    ALL_IS_WELL,
    BOTH_GONE,
    COPIED,
    ENDS,
    LEADERLESS,
    LOGIN_REFUSED,
    SOURCE_GONE,
    STATES,
    TARGET_GONE,
    worst_night,
)  # fmt: skip

from sparkmirror.cli.live_view import flow_picture
from sparkmirror.cli.log_view import LogView
from sparkmirror.cli.run_status import Rate
from sparkmirror.config import load
from sparkmirror.control import Mirror, RunOptions
from sparkmirror.driver import conductor
from sparkmirror.metrics import MetricsFile
from sparkmirror.rest.answers import FlowAnswers
from sparkmirror.rest.connectors import connectors_of, find, status_document

SHOWN_S, BACK_S = 10.0, 40.0

LOGIN = "PLAIN login of user ann was refused"
GONE_A, GONE_B = "cluster A is unreachable: 127.0.0.1", "cluster B is unreachable: 127.0.0.1"
ALIVE = dict.fromkeys(STATES, ("200", '"status": "up"'))  # a process that waits for its clusters is not restarted


WAITING = {SOURCE_GONE: GONE_A, TARGET_GONE: GONE_B, BOTH_GONE: GONE_B, LOGIN_REFUSED: LOGIN}
IS_DOWN = {state: ("503", '"state": "waiting"', reason) for state, reason in WAITING.items()}
NOT_KNOWN = {state: ("200", '"state": "waiting"', reason, '"lag": null') for state, reason in WAITING.items()}
LAG_OF = 'partition_lag{source="A",target="B",topic="A.orders",partition='
NO_FIGURES = dict.fromkeys(WAITING, (
    'flow_lag{source="A",target="B"} NaN', 'flow_running{source="A",target="B"} 0',
    'flow_lag_unknown_partitions{source="A",target="B"} 2', f'{LAG_OF}"0"}} NaN', f'{LAG_OF}"1"}} NaN',
))  # fmt: skip
HALF_THE_FIGURES = (
    'flow_lag{source="A",target="B"} NaN', 'flow_lag_unknown_partitions{source="A",target="B"} 1', f'{LAG_OF}"0"}} 0',
    f'{LAG_OF}"1"}} NaN',
)  # fmt: skip
HALF_KNOWN = ("200", '"state": "running"', '"lag": null', '"lag_unknown_partitions": 1', "orders-1")
VIEWS: dict[str, dict[str, tuple[str, ...]]] = {
    "log": {
        SOURCE_GONE: ("orders-0, orders-1 waiting CLUSTER_UNREACHABLE", "A->B waiting: ", GONE_A, "lag=? lag_known=0"),
        TARGET_GONE: ("A->B waiting: ", GONE_B, "lag=? lag_known=0"),
        BOTH_GONE: ("A->B waiting: ", GONE_B, "lag=? lag_known=0"),
        LOGIN_REFUSED: ("orders-0, orders-1 waiting LOGIN_REFUSED", LOGIN, "lag=?"),
        LEADERLESS: ("orders-1 waiting SOURCE: source A: fetch of orders-1: NOT_LEADER_FOR_PARTITION", "lag=?"),
    },
    "live view": {
        SOURCE_GONE: ("A->B  waiting: ", GONE_A, "lag ? (0 as of", "waiting  orders-0 and 1 more  CLUSTER_UNREACHABLE"),
        TARGET_GONE: ("A->B  waiting: ", GONE_B, "lag ? (0 as of"),
        BOTH_GONE: ("A->B  waiting: ", GONE_B, "lag ? (0 as of"),
        LOGIN_REFUSED: ("A->B  waiting: ", LOGIN, "lag ?", "waiting  orders-0 and 1 more  LOGIN_REFUSED"),
        LEADERLESS: ("A->B  running", "lag ?", "partitions: 1 waiting, 1 copying", "waiting  orders-1  SOURCE"),
    },
    "GET /health/live": ALIVE,
    "GET /health/ready": IS_DOWN | {LEADERLESS: ("200", '"state": "running"')},
    "GET /health/flows": IS_DOWN | {LEADERLESS: ("200", '"lag": null', '"lag_unknown_partitions": 1')},
    "GET /flows": NOT_KNOWN | {LEADERLESS: HALF_KNOWN},
    "GET /flows/A->B": NOT_KNOWN | {LEADERLESS: HALF_KNOWN},
    # As a worker of Connect answers for MirrorMaker 2: its tasks are RUNNING while they wait for a cluster.
    "GET /connectors/NAME/status": dict.fromkeys(STATES, ('"state": "RUNNING"',)),
    "GET /metrics": NO_FIGURES | {LEADERLESS: HALF_THE_FIGURES},
    "metrics file": NO_FIGURES | {LEADERLESS: HALF_THE_FIGURES},
}  # fmt: skip

GONE_FALSE = r"\blag 0\b|lag=0\b|\"lag\": 0\b|_lag\{[^}]*\} 0\b|\"state\": \"running\"|A->B  running"
FALSE_OF = dict.fromkeys((SOURCE_GONE, TARGET_GONE, BOTH_GONE), GONE_FALSE) | {
    LOGIN_REFUSED: f"{GONE_FALSE}|unreachable|UNREACHABLE|does not answer",
    LEADERLESS: r"A->B .*\blag 0\b|lag=0\b|_flow_lag\{[^}]*\} 0\b",
}


@pytest.fixture(autouse=True)
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for what a cluster that is gone does not take any more."""
    monkeypatch.setattr(conductor, "DRAIN_S", 0.5)


@pytest.mark.parametrize("state", STATES)
def test_a_run_shows_what_it_knows_and_never_what_it_does_not(state: str, tmp_path: Path) -> None:
    with worst_night(ALL_IS_WELL, tmp_path, is_released=True) as night, running_flow(Path(night.file)) as flow:
        flow.await_true(lambda: all(flow.partition("orders", n).state == "copying" for n in range(2)))
        flow.await_true(lambda: flow.conductor.status.records == sum(ENDS) - 2 * COPIED)
        views = Views(flow, tmp_path)
        views.until(lambda shown: "lag 0" in shown["live view"] and '"lag_as_of": "' in shown["GET /flows"], BACK_S)
        views.forget()
        night.strike(state)
        shown = views.until(lambda shown: missing(state, shown) == {}, SHOWN_S)
        assert missing(state, shown) == {}, shown
        shown.pop("log")  # which also has what was true before
        found = {view: re.findall(FALSE_OF[state], text) for view, text in shown.items()}
        assert {view: words for view, words in found.items() if words} == {}, shown
        night.mend(state)
        shown = views.until(lambda shown: is_well(shown["live view"]), BACK_S)
        assert is_well(shown["live view"]), shown


def is_well(live_view: str) -> bool:
    """Whether the flow runs again, and everything is copied."""
    return "A->B  running" in live_view and "lag 0" in live_view


def missing(state: str, shown: Mapping[str, str]) -> dict[str, list[str]]:
    """The words that views do not show yet."""
    found = {view: [word for word in cells[state] if word not in shown[view]] for view, cells in VIEWS.items()}
    return {view: words for view, words in found.items() if words}


class Views:
    """What everybody who looks at the flow is shown, by name."""

    def __init__(self, flow: FakeFlow, folder: Path) -> None:
        settings = load(str(folder / "mm2.properties"))
        [self._settings] = settings.enabled_flows(None)
        self._mirror = Mirror(settings, RunOptions())
        self._mirror._conductors.append(flow.conductor)
        self._answers, self._lines = FlowAnswers(), list[str]()
        self._log, self._file = LogView(self._lines.append), folder / "metrics"
        self._metrics = MetricsFile(str(self._file))

    def forget(self) -> None:
        """What was logged so far."""
        self._lines.clear()

    def until(self, condition: Callable[[dict[str, str]], bool], seconds: float) -> dict[str, str]:
        """What is shown when it is true, or when the time is over."""
        deadline = time.monotonic() + seconds
        while not condition(shown := self.look()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return shown

    def look(self) -> dict[str, str]:
        """Everything, now."""
        [status] = self._mirror.statuses
        self._answers.show([status])
        self._log.show([status], time.monotonic())
        self._metrics._due = 0.0
        self._metrics.show([status])
        drawn = Console(file=io.StringIO(), width=200, color_system=None)
        drawn.print(flow_picture(status, Rate()))
        assert isinstance(drawn.file, io.StringIO)
        found = {"log": "\n".join(self._lines), "live view": drawn.file.getvalue(), "metrics file": self._file.read_text()}
        source = find(connectors_of(self._settings, status, {}), "MirrorSourceConnector")
        assert source is not None
        found["GET /connectors/NAME/status"] = json.dumps(status_document(source, "host:1"))
        for path in ("/health/live", "/health/ready", "/health/flows", "/flows", "/flows/A->B", "/metrics"):
            answer = self._answers.of(path)
            found[f"GET {path}"] = f"{answer.status}\n{answer.body.decode()}"
        return found


def test_a_drain_without_the_source_writes_the_positions_and_gives_the_flow_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(conductor, "POSITIONS_S", 3600.0)  # all of them are still to be written
    with worst_night(ALL_IS_WELL, tmp_path, is_released=True) as night:
        with running_flow(Path(night.file)) as flow:
            flow.await_true(lambda: flow.conductor.status.records == sum(ENDS) - 2 * COPIED)
            night.strike(SOURCE_GONE)
            flow.await_true(lambda: flow.conductor.status.state == "waiting", 40)
        assert (flow.conductor.failure, flow.conductor.status.state) == (None, "stopped")
        assert "released by" in night.call("plan", "FILE").text
        positions = night.call("records", "FILE", "positions").out
        assert f'"next_offset": {ENDS[1]}' in positions or f'"next_offset":{ENDS[1]}' in positions, positions


def test_partitions_wait_for_a_login_that_is_refused_and_go_on_when_it_is_taken(tmp_path: Path) -> None:
    with worst_night(ALL_IS_WELL, tmp_path, is_released=True) as night, running_flow(Path(night.file)) as flow:
        flow.await_true(lambda: flow.partition("orders", 1).state == "copying")
        night.strike(LOGIN_REFUSED)
        flow.await_true(lambda: flow.partition("orders", 1).code == "LOGIN_REFUSED")
        reason = flow.partition("orders", 1).reason
        assert "PLAIN login of user ann was refused" in reason and "unreachable" not in reason
        night.mend(LOGIN_REFUSED)
        flow.await_true(lambda: flow.partition("orders", 1).state == "copying")
