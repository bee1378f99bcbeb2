"""Waits until a cluster comes to rest: nobody writes, no transaction is open, nobody reads. Names who still does."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Collection, Mapping

from sparkmirror.clusters import EARLIEST, LATEST, ClusterClient, describe_producers, list_groups, list_offsets
from sparkmirror.driver import FlowLedger
from sparkmirror.errors import BrokerRefused, FailoverUnfinished
from sparkmirror.model import TopicPartition

LOOK_S = 0.5
NAMED_MAX = 3
AT_REST = ("Empty", "Dead", "")
Waiting = Callable[[str], None]


def await_quiet(
    client: ClusterClient, places: Collection[TopicPartition], quiet_s: float, wait_s: float, waiting: Waiting
) -> str:
    """Until no partition has grown for a while and no transaction is open; raises FailoverUnfinished."""
    deadline = time.monotonic() + wait_s
    ends, since = ends_of(client, places), time.monotonic()
    while True:
        time.sleep(min(LOOK_S, quiet_s))
        now = ends_of(client, places)
        grown = {p: end - ends.get(p, 0) for p, end in now.items() if end != ends.get(p)}
        if grown:
            since = time.monotonic()
        stable = list_offsets(client, places, timestamp=LATEST, read_committed=True)
        opened = [p for p, (end, _) in stable.items() if end < now.get(p, 0)]
        if not opened and time.monotonic() - since >= quiet_s:
            return f"no producer wrote for {quiet_s:g} s, and no transaction is open"
        if time.monotonic() > deadline:
            raise _noise(client, grown, opened, wait_s)
        if grown:
            waiting(f"{_most(grown)} still written")
        elif opened:
            waiting(f"an open transaction in {named(opened)}")
        ends = now


def _noise(
    client: ClusterClient, grown: Mapping[TopicPartition, int], opened: Collection[TopicPartition], wait_s: float
) -> FailoverUnfinished:
    if opened and not grown:
        return FailoverUnfinished(
            f"a transaction in {named(opened)} of {client.alias} is open for more than {wait_s:g} s"
            f"{_producers(client, opened)}; nothing was changed",
            hint="end it, or kafka-transactions.sh find-hanging and abort",
        )
    found = f"{_most(grown)} still written" if grown else "a partition was still written a moment ago"
    return FailoverUnfinished(
        f"{client.alias}: {found} after {wait_s:g} s{_producers(client, grown)}; nothing was changed",
        hint="stop the producers, then give the same command again",
    )


def await_no_consumers(
    client: ClusterClient, groups: Collection[str], wait_s: float, waiting: Waiting, *, leave: bool
) -> str:
    """Until none of these groups has members: what they read from now on they would read again."""
    deadline = time.monotonic() + wait_s
    while True:
        listed = [group.name for group in list_groups(client) if group.name in groups and group.state not in AT_REST]
        if not listed:
            return "no group has members"
        if leave:
            return f"still reading, and reading again what they read from now on: {names(listed)}"
        if time.monotonic() > deadline:
            raise FailoverUnfinished(
                f"{names(listed)} still read from {client.alias} after {wait_s:g} s; nothing was changed",
                hint="stop the consumers and repeat the command; or --leave-consumers: they read records again",
            )
        waiting(f"members in {names(listed)}")
        time.sleep(LOOK_S)


def await_copied(
    source: ClusterClient, ledger: FlowLedger, wanted: Mapping[TopicPartition, int], wait_s: float, waiting: Waiting,
    file: str,
) -> str:
    """Until the ledger proves every record before these ends; raises FailoverUnfinished if that comes to a halt."""
    best, deadline = -1, time.monotonic() + wait_s
    while True:
        ledger.read_new()
        behind = behind_of(source, ledger, wanted)
        left = sum(behind.values())
        if not left:
            return f"all records of {len(wanted)} partitions are copied"
        if best < 0 or left < best:
            best, deadline = left, time.monotonic() + wait_s
        if time.monotonic() > deadline:
            raise FailoverUnfinished(
                f"{left:,} records of {named(behind)} were not copied within {wait_s:g} s; nothing was changed",
                hint=f"sparkmirror why {shlex.quote(file)} {next(iter(behind)).topic} says what holds them",
            )
        waiting(f"{left:,} records left in {named(behind)}")
        time.sleep(LOOK_S)


def behind_of(
    source: ClusterClient, ledger: FlowLedger, ends: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    """Offsets before these ends that are not proven to be copied, the most first."""
    positions = {place: ledger.view.of(place).position() for place in ends}
    firsts = ends_of(source, [place for place, position in positions.items() if position is None], EARLIEST)
    found = {}
    for place, end in ends.items():
        position = positions[place]
        reached = position.upstream if position is not None else firsts[place]
        if reached < end:
            found[place] = end - reached
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def ends_of(client: ClusterClient, places: Collection[TopicPartition], timestamp: int = LATEST) -> dict[TopicPartition, int]:
    """Where partitions end, or begin."""
    return {p: offset for p, (offset, _) in list_offsets(client, places, timestamp=timestamp).items()}


def _producers(client: ClusterClient, places: Collection[TopicPartition]) -> str:
    """Who writes there, as far as Kafka remembers: idempotent and transactional producers by their ids."""
    try:
        shown = describe_producers(client, list(places)[:NAMED_MAX])
    except BrokerRefused:
        return ""
    ids = sorted({producer for by in shown.values() for producer in by})
    return f" (producer ids {', '.join(map(str, ids[:NAMED_MAX]))})" if ids else ""


def _most(grown: Mapping[TopicPartition, int]) -> str:
    ordered = sorted(grown, key=lambda p: -grown[p])
    return f"{named(ordered)} {'is' if len(ordered) == 1 else 'are'}"


def named(places: Collection[TopicPartition]) -> str:
    """A few of them, by name."""
    return names([str(place) for place in places])


def names(found: Collection[str]) -> str:
    """A few of them."""
    ordered = list(found)
    rest = len(ordered) - NAMED_MAX
    return ", ".join(ordered[:NAMED_MAX]) + (f" and {rest:,} more" if rest > 0 else "")
