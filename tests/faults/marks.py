"""Which tests stage which rows: what pytest itself collects, by the marks `fault` and `fault_mm2`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
MARKS = {"fault": "ours", "fault_mm2": "mm2"}
ANSWER = "SPARKMIRROR_FAULT_MARKS"  # where the collecting process writes what it found


@dataclass(frozen=True, slots=True)
class MarkedTest:
    """A test that stages rows, of sparkmirror (`ours`) or of MirrorMaker 2 (`mm2`)."""

    test: str
    whose: str
    rows: tuple[str, ...]
    is_nightly: bool


def marked_tests() -> list[MarkedTest]:
    """Every marked test, nightly ones too. Takes seconds: a process of its own imports the files that have marks."""
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if ".fault" in path.read_text(encoding="utf-8")]
    with tempfile.TemporaryDirectory(prefix="fault-marks-") as folder:
        answer = Path(folder) / "marks.json"
        options = ["--collect-only", "-q", "-o", "addopts=", "-p", "no:cacheprovider", "-p", __name__]
        command = [sys.executable, "-m", "pytest", *options, *map(str, files)]
        environment = os.environ | {"PYTHONPATH": str(TESTS), ANSWER: str(answer)}
        ended = subprocess.run(command, cwd=TESTS.parent, env=environment, capture_output=True, text=True, check=False)
        if ended.returncode:
            raise AssertionError(f"pytest could not collect the marked tests:\n{ended.stdout}{ended.stderr}")
        found = json.loads(answer.read_text(encoding="utf-8"))
    return [MarkedTest(entry["test"], entry["whose"], tuple(entry["rows"]), entry["is_nightly"]) for entry in found]


def marks_of(item: pytest.Item) -> list[MarkedTest]:
    """What the marks of one collected test say."""
    is_nightly = item.get_closest_marker("nightly") is not None
    rows = {whose: sorted({row for mark in item.iter_markers(name) for row in mark.args}) for name, whose in MARKS.items()}
    return [MarkedTest(item.nodeid, whose, tuple(found), is_nightly) for whose, found in rows.items() if found]


def pytest_collection_finish(session: pytest.Session) -> None:
    """This module is the collecting process's plugin."""
    found = [asdict(marked) for item in session.items for marked in marks_of(item)]
    Path(os.environ[ANSWER]).write_text(json.dumps(found), encoding="utf-8")
