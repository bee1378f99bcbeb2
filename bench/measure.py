"""One copy, watched from outside: progress by the target's end offsets, cost by the process tree of the contender."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

from bench.contenders import Contender, Copy, Running, running
from bench.data import LIST_OFFSETS_API, LIST_OFFSETS_VERSION
from bench.pipe import Pipe, address_of, list_offsets_body, read_offsets
from sparkmirror.clusters import ClusterClient
from sparkmirror.config.values import ClusterSettings

__all__ = ["Measured", "Watch", "measure"]

POLL_S = 0.02
TREE_S = 0.1
PSS_S = 1.0  # the kernel walks every page of every process for it: not ten times a second
EXIT_S = 60.0
MB, GB = 1e6, 1e9


@dataclass(frozen=True, slots=True)
class Measured:
    """One copy in numbers. CPU counts from the start of the process, copying CPU from the first record seen.

    With `failure` set, `records_seen` says how far it came and the rest is missing.
    """

    failure: str | None = None
    records_seen: int = 0
    first_record_s: float | None = None
    copy_s: float | None = None
    records_per_s: float | None = None
    mb_per_s: float | None = None
    cpu_s: float | None = None
    copying_cpu_s: float | None = None
    cpu_s_per_gb: float | None = None
    copying_cpu_s_per_gb: float | None = None
    rss_peak_mb: float | None = None
    pss_peak_mb: float | None = None


class Watch:
    """How far the remote topic has come, asked at the target."""

    def __init__(self, copy: Copy) -> None:
        address = address_of(copy.target)
        self._client = ClusterClient(ClusterSettings("bench", ((address.host, address.port),), {}))
        self._pipe = Pipe(address)
        self._copy = copy
        self._body = list_offsets_body(copy.remote, copy.topic.ends)
        self._is_there = False
        self._seen: dict[int, int] = {}

    def look(self) -> None:
        """Asks once; before the topic is there, only whether it is."""
        if not self._is_there:
            found = self._client.view([self._copy.remote]).topics.get(self._copy.remote)
            self._is_there = found is not None and not found.error and found.partitions == len(self._copy.topic.ends)
        if self._is_there:
            self._seen = read_offsets(*self._pipe.ask(LIST_OFFSETS_API, LIST_OFFSETS_VERSION, [self._body]))

    @property
    def records(self) -> int:
        """How many records the remote topic has."""
        return sum(self._seen.values())

    @property
    def is_done(self) -> bool:
        """Whether every partition is as long as its source."""
        return all(self._seen.get(index, 0) >= end for index, end in self._copy.topic.ends.items())

    def close(self) -> None:
        """Drops the connections."""
        self._pipe.close()
        self._client.close()


@dataclass(slots=True)
class _Moment:
    """A point of a copy: when, how many records were there, and the CPU time until then."""

    at: float
    records: int
    cpu_s: float


def measure(contender: Contender, copy: Copy, *, timeout_s: float) -> Measured:
    """Runs one copy to its end, or until it fails or takes too long."""
    watch = Watch(copy)
    try:
        with running(contender, copy) as runner:
            first, last, failure = _follow(runner, watch, runner.started_at + timeout_s)
            if first is None or last is None:
                found = Measured(failure, watch.records)
            else:
                found = replace(_in_numbers(copy, runner, first, last), failure=_await_exit(contender, runner))
            if found.failure:
                print(f"{contender.title}: {found.failure}; its log ends:\n{runner.log_tail()}", file=sys.stderr)
            return found
    finally:
        watch.close()


def _follow(runner: Running, watch: Watch, deadline: float) -> tuple[_Moment | None, _Moment | None, str]:
    """The moments of the first and of the last record; or what went wrong."""
    first: _Moment | None = None
    next_tree = next_pss = 0.0
    while True:
        has_ended = not runner.child.is_running  # asked first: what it wrote before its end is then seen
        watch.look()
        now = time.monotonic()
        if now >= next_tree or (first is None and watch.records) or watch.is_done:
            runner.tree.find()
            runner.tree.weigh(with_pss=now >= next_pss)
            next_tree = now + TREE_S
            next_pss = now + PSS_S if now >= next_pss else next_pss
        if first is None and watch.records:
            first = _Moment(now, watch.records, runner.cpu_seconds())
        if watch.is_done:
            return first, _Moment(now, watch.records, runner.cpu_seconds()), ""
        if has_ended:
            return first, None, f"ended with status {runner.child.exit_status} before the copy was complete"
        if now > deadline:
            return first, None, "did not finish in time"
        time.sleep(max(now + POLL_S - time.monotonic(), 0.0))


def _await_exit(contender: Contender, runner: Running) -> str | None:
    """What is wrong with the end of a contender that ends by itself; MM2 does not."""
    if contender.key.startswith("mm2"):
        return None
    status = runner.child.wait(EXIT_S)
    if status is None:
        return f"copied all and did not end within {EXIT_S:.0f} s"
    return f"copied all and ended with status {status}" if status else None


def _in_numbers(copy: Copy, runner: Running, first: _Moment, last: _Moment) -> Measured:
    # What was there at the first look arrived in a time that nobody saw, so it is not part of the rate.
    seconds = max(last.at - first.at, POLL_S)
    share = 1 - first.records / last.records if last.records > first.records else 1.0
    gigabytes = copy.topic.log_bytes / GB
    copying_cpu_s = last.cpu_s - first.cpu_s
    return Measured(
        records_seen=last.records,
        first_record_s=first.at - runner.started_at,
        copy_s=seconds,
        records_per_s=copy.topic.records * share / seconds,
        mb_per_s=copy.topic.log_bytes * share / seconds / MB,
        cpu_s=last.cpu_s,
        copying_cpu_s=copying_cpu_s,
        cpu_s_per_gb=last.cpu_s / gigabytes,
        copying_cpu_s_per_gb=copying_cpu_s / (gigabytes * share),
        rss_peak_mb=runner.tree.rss_peak / MB,
        pss_peak_mb=runner.tree.pss_peak / MB,
    )
