"""`sparkmirror demo`, small: it ends with the proof, and leaves nothing behind."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

PROGRAM = str(Path(sys.executable).with_name("sparkmirror"))
SECONDS_MAX = 240  # 25 s on two idle cores
TOPICS = ("orders", "events", "payments", "customers")


def scratch_of(pid: int) -> list[Path]:
    return list(Path(tempfile.gettempdir()).glob(f"sparkmirror-{pid}-*"))


def test_the_demo_ends_with_identical_yes() -> None:
    words = [PROGRAM, "demo", "--records", "2000", "--size", "100"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (0, ""), output + errors
    lines = output.splitlines()
    assert lines[-1] == "identical: yes"
    for topic in TOPICS:
        assert re.search(rf"^  {topic} +[\d,]+ records +[\d.]+ MB  A\.{topic} on B: same$", output, re.MULTILINE)
    assert any(line.endswith("; lag 0") for line in lines)
    assert " WARN " not in output and " ERROR " not in output, output
    assert scratch_of(process.pid) == []


def test_an_interrupted_demo_removes_everything_and_ends_with_130() -> None:
    with subprocess.Popen([PROGRAM, "demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + SECONDS_MAX
        while not scratch_of(process.pid):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=SECONDS_MAX)
    assert (process.returncode, errors) == (130, ""), output + errors
    assert output.splitlines()[-1] == "interrupted; clusters and data are removed"
    assert scratch_of(process.pid) == []
