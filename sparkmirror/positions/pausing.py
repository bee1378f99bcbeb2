"""`pause`, `resume` and `stop`: asks the owner of a flow, or writes the wish as its owner if nobody runs it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.control import RunOptions, TopicPlan, place_of
from sparkmirror.driver import RESUME, Asker, Asking, Outcome, ask_or_do, carry_out_as_owner, who_asks, wish_outcome
from sparkmirror.errors import RequestRefused
from sparkmirror.ledger import SOURCE, OwnerAnswer, OwnerRequest
from sparkmirror.positions.ledger_moves import LedgerFlow, open_ledger_flow
from sparkmirror.positions.stored import present_topics
from sparkmirror.topology import ledger_topic


@dataclass(frozen=True, slots=True)
class WishRequest:
    """What is to be paused, stopped or resumed; no topic: the whole flow."""

    verb: str
    topic: str | None = None
    partition: int | None = None
    connector: str = SOURCE


@dataclass(frozen=True, slots=True)
class Wished:
    """What became of it: the wishes of the flow from now on, and those that the request made or ended."""

    flow: str
    owner: str
    is_running: bool
    request_id: str
    text: str
    wishes: tuple[dict[str, Any], ...]
    changed: tuple[dict[str, Any], ...]
    open_partitions: int


def ask_for(settings: Settings, flow: FlowSettings, wanted: WishRequest, asking: Asking) -> Wished:
    """Asks and waits. With no live owner it takes the flow and writes the wish, so that the next start is paused."""
    with closing(ClusterClient(flow.target)) as target:
        ledger = ledger_topic(flow.name.source)
        has_ledger = bool(present_topics(target, [ledger]))
        request = asking.request(
            wanted.verb,
            who_asks(target),
            topic=wanted.topic,
            partition=wanted.partition,
            arguments={} if wanted.connector == SOURCE else {"connector": wanted.connector},
        )
        if not has_ledger and wanted.verb == RESUME:
            raise RequestRefused(f"{flow.name}: nothing is paused or stopped: sparkmirror never ran it (no topic {ledger})")

        def write(asked: OwnerRequest) -> Wished:
            with open_ledger_flow(settings, flow) as opened:
                return _read(flow, _write(settings, opened, asked), is_running=False)

        asker = Asker(target, ledger) if has_ledger else None
        return ask_or_do(asker, request, lambda answer: _read(flow, answer, is_running=True), write)


def _write(settings: Settings, opened: LedgerFlow, asked: OwnerRequest) -> OwnerAnswer:
    """As the owner of the flow."""
    opened.prove_no_worker()
    file_words = place_of(settings, opened.flow, RunOptions(), slots=0).file_words
    if asked.topic and asked.verb != RESUME:
        _require_topic(opened, asked)

    def decide() -> Outcome:
        outcome = wish_outcome(opened.work.ledger.view.wishes, asked, file_words)
        if outcome.entries:
            opened.work.writer.renew()
        return outcome

    opened.work.own(moves=False)
    return carry_out_as_owner(opened.work, asked, decide)


def _require_topic(opened: LedgerFlow, asked: OwnerRequest) -> None:
    """Raises RequestRefused if the flow would not copy it."""
    source, target = (client.view(None) for client in opened.clients)
    plan = TopicPlan(opened.flow, source, target, {asked.topic})
    topic = next((change for change in plan.changes if change.topic == asked.topic), None)
    if topic is None:
        raise RequestRefused(f"topic {asked.topic}: this flow does not copy it")
    if asked.partition >= topic.partitions:
        last = topic.partitions - 1
        raise RequestRefused(f"topic {asked.topic} has partitions 0 to {last}, found {asked.partition}")


def _read(flow: FlowSettings, answer: OwnerAnswer, *, is_running: bool) -> Wished:
    detail = answer.detail
    return Wished(
        flow=str(flow.name),
        owner=answer.owner,
        is_running=is_running,
        request_id=answer.id,
        text=answer.text,
        wishes=tuple(detail.get("wishes", ())),
        changed=tuple(detail.get("changed", ())),
        open_partitions=int(detail.get("open_partitions", 0)),
    )
