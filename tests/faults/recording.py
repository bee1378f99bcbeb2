"""pytest's plugin for runs that write docs/faults.md: every result is stored when its test ends.

A run of all rows takes hours; what it has seen until something ends it is not lost.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict
from pathlib import Path

import pytest

from faults.marks import MARKS
from faults.results import Result, Run, store

STORE, RUN = "SPARKMIRROR_FAULT_STORE", "SPARKMIRROR_FAULT_RUN"
MESSAGE_CHARACTERS_MAX = 200
_OUTPUT = re.compile(r"[:;]? \d{4}-\d\d-\d\dT")
CRASHED = "???"  # what xdist calls the phase in which a test took its process down


def settings_of(path: Path, run: Run) -> dict[str, str]:
    """What the environment of a recorded run must hold."""
    return {STORE: str(path), RUN: json.dumps(asdict(run)), "SPARKMIRROR_SEED": run.seed}


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):  # xdist's workers tell the process that started them, which records
        config.pluginmanager.register(Recorder(Path(os.environ[STORE]), Run(**json.loads(os.environ[RUN]))))


class Recorder:
    """Gathers the reports of each test's phases."""

    def __init__(self, path: Path, run: Run) -> None:
        self._path, self._run = path, run
        self._phases: dict[str, list[pytest.TestReport]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """One phase of one test is over."""
        self._phases.setdefault(report.nodeid, []).append(report)
        if report.when in ("teardown", CRASHED):
            phases = self._phases.pop(report.nodeid)
            store(self._path, [result_of(phases, whose, self._run) for whose in _whose(phases)])


def result_of(phases: list[pytest.TestReport], whose: str, run: Run) -> Result:
    """What all phases of a test say together; the worst of them counts."""
    said = dict(phases[-1].user_properties)
    worst = next((phase for outcome in ("failed", "skipped") for phase in phases if phase.outcome == outcome), phases[0])
    recovered = said.get("recovered")
    return Result(
        test=phases[0].nodeid,
        whose=whose,
        rows=tuple(str(said.get(whose, "")).split()),
        outcome=worst.outcome,
        seen=str(said.get("seen", "")),
        recovered=float(str(recovered)) if recovered else None,
        seconds=round(sum(phase.duration for phase in phases), 1),
        message="" if worst.outcome == "passed" else _message(worst),
        run=run,
    )


def _whose(phases: list[pytest.TestReport]) -> list[str]:
    """For whom the test counts; one that took its process down cannot say, and counts for both until it is merged."""
    said = dict(phases[-1].user_properties)
    return [whose for whose in MARKS.values() if whose in said or phases[-1].when == CRASHED]


def _message(report: pytest.TestReport) -> str:
    reported = report.longrepr
    crash = getattr(reported, "reprcrash", None)
    text = crash.message if crash is not None else reported[2] if isinstance(reported, tuple) else str(reported)
    said = _OUTPUT.split(" ".join(str(text).split()), maxsplit=1)[0]  # what a run printed is too long
    return said[:MESSAGE_CHARACTERS_MAX]
