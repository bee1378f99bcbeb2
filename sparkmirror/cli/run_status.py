"""The exit status of a run, and the copy rates of its flows. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from sparkmirror.diagnose.exit_status import INTERRUPTED, STOPPED
from sparkmirror.errors import SparkmirrorError
from sparkmirror.ledger import SOURCE
from sparkmirror.status import FlowStatus, grouped, paused_partitions, troubles, wish_reasons

NAMES_MAX = 5  # partitions named in one line about the same reason
RATE_WINDOW_S = 5.0  # receipts come once a second; five of them make a steady number


@dataclass(frozen=True, slots=True)
class Rate:
    """What was copied per second."""

    records: float = 0.0
    record_bytes: float = 0.0


class Meter:
    """Turns growing sums into rates over the last seconds."""

    def __init__(self, window_s: float = RATE_WINDOW_S) -> None:
        self._window_s = window_s
        self._samples: deque[tuple[float, int, int]] = deque()

    def take(self, now: float, records: int, record_bytes: int) -> Rate:
        """The rate including this sample. Sums restart from 0 when a standby process becomes the owner again."""
        if self._samples and records < self._samples[-1][1]:
            self._samples.clear()
        self._samples.append((now, records, record_bytes))
        # The first sample stays until the second is as old as the window, so a rate always covers the whole window.
        while len(self._samples) > 2 and self._samples[1][0] <= now - self._window_s:
            self._samples.popleft()
        since, old_records, old_bytes = self._samples[0]
        seconds = now - since
        if seconds <= 0:
            return Rate()
        return Rate((records - old_records) / seconds, (record_bytes - old_bytes) / seconds)


def exit_status(
    flows: Sequence[FlowStatus], failures: Sequence[SparkmirrorError], *, once: bool, interrupted: bool
) -> int:
    """0 unless a flow failed; with `--once` also nonzero if the run was interrupted or a partition stopped."""
    if failures:
        return failures[0].exit_status
    if not once:
        return 0
    stopped = any(f.stopped_topics or any(p.state == "stopped" for p in f.partitions.values()) for f in flows)
    unfinished = any(p.lag != 0 and p.state not in ("stopped", "paused") for f in flows for p in f.partitions.values())
    if interrupted and (unfinished or not any(f.partitions for f in flows)):
        return INTERRUPTED
    return STOPPED if stopped or any(paused_partitions(f) for f in flows) else 0


def stop_lines(flows: Sequence[FlowStatus], lines_max: int) -> list[str]:
    """One line for each reason for which partitions or topics are stopped, up to a maximum."""
    found = [
        f"{flow.name} {group.names(NAMES_MAX)} stopped: {group.first.code}: {group.first.reason}"
        for flow in flows
        for group in grouped(trouble for trouble in troubles(flow) if trouble.state == "stopped")
    ]
    found += [
        f"{flow.name} {paused_partitions(flow)} of {len(flow.partitions)} partitions were not copied: {reason}"
        for flow in flows
        if paused_partitions(flow)
        for reason in wish_reasons(flow, SOURCE)
    ]
    rest = len(found) - lines_max
    return found if rest <= 0 else [*found[:lines_max], f"and {rest} more stopped"]
