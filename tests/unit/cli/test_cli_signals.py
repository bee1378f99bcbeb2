"""Which signals ask for a graceful shutdown, and which end the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from sparkmirror.cli.signals import Signals

# Drains for 1.5 s after the first signal, as a run drains its flows.
PROGRAM = """
import time
from sparkmirror.cli.signals import Signals
with Signals() as signals:
    signals.is_deferred = True
    print("ready", flush=True)
    while not signals.asked:
        time.sleep(0.01)
    print("draining", flush=True)
    end = time.monotonic() + 1.5
    while time.monotonic() < end:
        time.sleep(0.01)
print("drained", flush=True)
"""
TERM, INT, HUP = signal.SIGTERM, signal.SIGINT, signal.SIGHUP


def started(*before: str) -> subprocess.Popen[str]:
    process = subprocess.Popen([*before, sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=30)
    return process.returncode, output.splitlines()[-1]


@pytest.mark.parametrize("numbers", [(TERM, TERM), (TERM, HUP), (HUP, TERM), (HUP, HUP, TERM), (INT, TERM)])
def test_signals_of_one_request_drain(numbers: tuple[signal.Signals, ...]) -> None:
    with started() as process:
        for number in numbers:
            process.send_signal(number)
        assert ended(process) == (0, "drained")


def test_a_hangup_asks_for_a_reload_each_time_and_ends_nothing() -> None:
    program = PROGRAM.replace("    while not signals.asked:\n", "    while not signals.asked:\n"
                              "        if signals.take_reload():\n            print('reload', flush=True)\n")  # fmt: skip
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for _ in range(2):
            process.send_signal(HUP)
            assert process.stdout.readline() == "reload\n"
        process.send_signal(TERM)
        assert ended(process) == (0, "drained")


def test_a_hangup_of_the_terminal_drains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shell and kernel send it when a terminal closes."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    with Signals() as signals:
        signals.is_deferred = True
        signal.raise_signal(HUP)
        assert (signals.asked, signals.is_reload_asked) == (True, False)


def test_gnu_timeout_drains() -> None:
    """Told to end, as at the end of its time, it signals its child and then the group of both."""
    with started("timeout", "600") as process:
        process.send_signal(TERM)
        assert ended(process) == (0, "drained")


def test_a_second_interrupt_ends_at_once() -> None:
    with started() as process:
        process.send_signal(INT)
        assert process.stdout is not None
        assert process.stdout.readline() == "draining\n"
        process.send_signal(INT)
        output, _ = process.communicate(timeout=30)
        assert (process.returncode, output) == (130, "")


def test_a_second_terminate_ends_at_once_after_a_second() -> None:
    program = PROGRAM.replace("end = ", "time.sleep(1.1); print('later', flush=True); end = ")
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(TERM)
        assert [process.stdout.readline(), process.stdout.readline()] == ["draining\n", "later\n"]
        process.send_signal(TERM)
        output, _ = process.communicate(timeout=30)
        assert (process.returncode, output) == (130, "")


def test_a_hangup_that_the_caller_ignores_stays_ignored() -> None:
    with started("nohup") as process:
        process.send_signal(HUP)
        process.send_signal(TERM)
        assert process.stdout is not None
        assert process.stdout.readline() == "draining\n"
        assert ended(process) == (0, "drained")
