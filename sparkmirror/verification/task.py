"""What runs inside a Spark task: compares ranges, or looks up keys. Imported by Spark's Python workers."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field

from sparkmirror.clusters import ClusterClient
from sparkmirror.comparison import AlignedComparison, ComparedRange, Entry, ExactComparison, Findings, key_digest
from sparkmirror.config import FlowSettings, load
from sparkmirror.errors import CorruptBatch, EnvironmentUnfit, SparkmirrorError
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.verification.anchors import Log
from sparkmirror.verification.reading import LogStream
from sparkmirror.wire import read_rows
from sparkmirror.wire.tails import read_tail

RECORDS_BEFORE = 10_000


@dataclass(frozen=True, slots=True)
class KeySearch:
    """Which of these records of a source partition have a later one with the same key, below `end`?"""

    source: TopicPartition
    end: int
    keys: tuple[tuple[int, bytes], ...]  # upstream offset and digest of the key


@dataclass(frozen=True, slots=True)
class Work:
    """One task. Secrets do not travel: the task reads the file itself."""

    number: int
    config_path: str
    config_digest: str
    flow: FlowName
    wanted: ComparedRange | KeySearch


@dataclass(frozen=True, slots=True)
class RangeOutcome:
    """What came of one task; `trouble` says why it read nothing or not all."""

    number: int
    findings: Findings = field(default_factory=Findings)
    newest: tuple[int, ...] = ()  # of a key search: the upstream offsets that no later record of their key explains
    trouble: str = ""
    seconds: float = 0.0


def run_work(orders: Iterable[Work]) -> Iterator[RangeOutcome]:
    """Runs one task to its end; never raises for anything that a cluster does."""
    for order in list(orders):  # a worker is reused only if its task consumed its input (R20)
        began = time.monotonic()
        try:
            flow = _flow_of(order)
            if isinstance(order.wanted, ComparedRange):
                yield RangeOutcome(order.number, compare(flow, order.wanted), seconds=time.monotonic() - began)
            else:
                yield RangeOutcome(order.number, newest=search(flow, order.wanted), seconds=time.monotonic() - began)
        except CorruptBatch as error:
            yield RangeOutcome(order.number, trouble=f"{order.wanted.source}: {error.message}")
        except SparkmirrorError as error:
            yield RangeOutcome(order.number, trouble=str(error))
        except MemoryError:
            yield RangeOutcome(order.number, trouble="out of memory")


def _flow_of(order: Work) -> FlowSettings:
    settings = load(order.config_path, allow_unknown_keys=True)
    if settings.digest != order.config_digest:
        raise EnvironmentUnfit(f"{order.config_path} changed since the command was started", hint="start it again")
    return settings.flow(order.flow)


def compare(flow: FlowSettings, wanted: ComparedRange) -> Findings:
    """What comparing the range finds."""
    with ExitStack() as opened:
        client = opened.enter_context(closing(ClusterClient(flow.source, any_release=True)))
        other = opened.enter_context(closing(ClusterClient(flow.target, any_release=True)))
        source = LogStream(client, wanted.source, wanted.start, wanted.end, read_committed=flow.reads_committed)
        target = LogStream(
            other, wanted.target, wanted.target_start, wanted.target_end, read_committed=flow.writes_transactions
        )
        opened.callback(source.close)
        opened.callback(target.close)
        compares = ExactComparison if wanted.runs is not None else AlignedComparison
        return compares(wanted, source, target, lambda: _earlier(client, flow, wanted)).run()


def _earlier(client: ClusterClient, flow: FlowSettings, wanted: ComparedRange) -> Sequence[Entry]:
    """The source's records right before a range: one of them may lie on the target again."""
    log = Log(client, wanted.source, 0, wanted.start, flow.reads_committed)
    return list(log.rows(wanted.start - RECORDS_BEFORE, wanted.start))


def search(flow: FlowSettings, wanted: KeySearch) -> tuple[int, ...]:
    """The records that are the newest of their key; reads no further than needed."""
    waiting: dict[bytes, list[int]] = {}
    for upstream, digest in sorted(wanted.keys):
        waiting.setdefault(digest, []).append(upstream)
    start = min(upstream for upstream, _ in wanted.keys) + 1
    with closing(ClusterClient(flow.source, any_release=True)) as client:
        stream = LogStream(client, wanted.source, start, wanted.end, read_committed=flow.reads_committed)
        with closing(stream):
            for piece in stream:
                if not waiting:
                    break
                if piece.kind != "data":
                    continue
                for offset, _, tail in read_rows(piece.batch):
                    key = read_tail(tail)[0]
                    if key is not None and offset < wanted.end:
                        _strike(waiting, key_digest(key), offset)
    return tuple(sorted(upstream for left in waiting.values() for upstream in left))


def _strike(waiting: dict[bytes, list[int]], digest: bytes, offset: int) -> None:
    """A record explains the loss of every earlier one with its key."""
    found = waiting.get(digest)
    if found is not None:
        found[:] = [upstream for upstream in found if upstream >= offset]
        if not found:
            del waiting[digest]
