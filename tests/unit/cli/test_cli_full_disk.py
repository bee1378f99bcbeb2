"""A log that cannot be written."""

from __future__ import annotations

import sys

import pytest
from rich.console import Console

from sparkmirror.cli import run


def test_lines_that_no_disk_takes_end_nothing_and_leave_nothing_to_write(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w") as full:
        view = run.view_for(Console(file=full))
        monkeypatch.setattr(sys, "stdout", full)
        for _ in range(3):
            view.say("INFO", "-", "x" * 5000)
        run.leave_nothing_to_write()
        full.flush()  # whatever was left goes nowhere
