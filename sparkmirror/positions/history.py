"""`history`: what was asked of a flow's owners and what became of it, and what was given up, from the ledger."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.driver import FlowLedger
from sparkmirror.ledger import LedgerView, OwnerRequest
from sparkmirror.positions.stored import present_topics
from sparkmirror.topology import ledger_topic

WAITS = "unanswered"
GAP = "gap"


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One request with its answer, or offsets that the owner gave up by itself (`verb` is "gap").

    `state`: "done", "refused", "expired" or "unanswered". `partition` −1: all of them.
    """

    time_ms: int
    verb: str
    state: str
    text: str
    who: str = ""
    request_id: str = ""
    topic: str = ""
    partition: int = -1
    command: str = ""
    owner: str = ""
    answered_ms: int | None = None


def history_of(flow: FlowSettings) -> list[HistoryEntry]:
    """The oldest first; reads only. Empty if there is no ledger."""
    with closing(ClusterClient(flow.target)) as target:
        topic = ledger_topic(flow.name.source)
        if not present_topics(target, [topic]):
            return []
        view = FlowLedger(target, topic).read_all()
    entries = [*(_of_request(view, request) for request in view.requests.values()), *_of_gaps(view)]
    return sorted(entries, key=lambda entry: entry.time_ms)


def _of_request(view: LedgerView, request: OwnerRequest) -> HistoryEntry:
    answer = view.answers.get(request.id)
    return HistoryEntry(
        time_ms=request.time_ms,
        verb=request.verb,
        state=answer.state if answer is not None else WAITS,
        text=answer.text if answer is not None else "",
        who=request.who,
        request_id=request.id,
        topic=request.topic,
        partition=request.partition,
        command=request.command,
        owner=answer.owner if answer is not None else "",
        answered_ms=answer.time_ms if answer is not None else None,
    )


def _of_gaps(view: LedgerView) -> Iterator[HistoryEntry]:
    """Gaps of a request are named by its answer."""
    for partition, history in view.partitions.items():
        for gap in history.accepted_gaps():
            if not gap.reason.startswith("sparkmirror "):
                yield HistoryEntry(
                    time_ms=gap.time_ms,
                    verb=GAP,
                    state="done",
                    text=f"offsets {gap.upstream} to {gap.until - 1} are never copied: {gap.reason}",
                    topic=partition.topic,
                    partition=partition.partition,
                )
