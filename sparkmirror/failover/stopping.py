"""Stops a flow for good: its owner writes that it was failed over and ends; without an owner we take the flow and write it.

From then on no process copies it: every run finds the record before it takes the flow, also `--once`, `--standby` and
`--take-over`, and gives the reason.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.config import FlowSettings, Settings
from sparkmirror.control import RunOptions, place_of
from sparkmirror.driver import (
    Asker,
    Asking,
    Outcome,
    OwnerWork,
    Repositioning,
    Steps,
    Verb,
    ask_or_do,
    carry_out_as_owner,
    who_asks,
)
from sparkmirror.errors import RequestRefused, RequestUnanswered
from sparkmirror.ledger import Failover, OwnerAnswer, OwnerRequest, encode, removed
from sparkmirror.model import TopicPartition
from sparkmirror.positions import LIVE_VERBS, present_topics
from sparkmirror.topology import ledger_topic

VERB = "failover"
POLL_MS = 200
DRAIN_S = 60.0  # an owner drains within 10 s, and writes the last round of checkpoints and commits
KINDS = ("planned", "unplanned")
FENCED = "nobody ran the flow; its last owner is fenced"


def fail_over(work: OwnerWork, request: OwnerRequest) -> Steps:
    """The verb of a running owner: after its answer the flow drains and ends."""
    yield
    kind = str(request.arguments.get("kind", ""))
    if kind not in KINDS:
        raise RequestRefused(f"expected a failover of kind {' or '.join(KINDS)}, found {kind!r}")
    work.positions.writer.renew()
    return _outcome(kind, request)


def _outcome(kind: str, request: OwnerRequest) -> Outcome:
    record = Failover(request.id, kind, "begun", request.who, int(time.time() * 1000), request.command)
    return Outcome(f"the flow ends: {kind} failover", {"kind": kind}, entries=[encode(record)])


def stop_flow(settings: Settings, flow: FlowSettings, kind: str, asking: Asking) -> str:
    """Returns when nobody can write behind it any more; says who stopped it. Doing it again does no harm."""
    topic = ledger_topic(flow.name.source)
    taken: list[str] = []  # what we said if we took the flow ourselves

    def take(asked: OwnerRequest) -> str:
        taken.append(_stop_as_owner(settings, flow, kind, asked))
        return taken[0]

    with closing(ClusterClient(flow.target)) as target:
        asker = Asker(target, topic) if present_topics(target, [topic]) else None
        view = asker.ledger.read_all() if asker is not None else None
        if view is None or view.failover is None:
            request = asking.request(VERB, who_asks(target), topic=None, partition=None, arguments={"kind": kind})
            ask_or_do(asker, request, _words, take)
        if asker is not None and (name := _await_release(asker)):
            return FENCED if taken else f"{name} ended the flow"
    return _make_sure(settings, flow)


def _words(answer: OwnerAnswer) -> str:
    return answer.text


def _await_release(asker: Asker) -> str:
    """The owner that gave the flow back, empty if it died or never does."""
    deadline = time.monotonic() + DRAIN_S
    asker.ledger.read_all()
    while time.monotonic() < deadline:
        owner = asker.ledger.view.owner
        if owner is not None and owner.released:
            return owner.name
        if asker.owner().state in ("dead", "silent", "nobody"):
            return ""
        asker.ledger.poll(POLL_MS)
    owner = asker.ledger.view.owner
    raise RequestUnanswered(
        f"owner {owner.name if owner else 'unknown'} did not end the flow within {DRAIN_S:g} s",
        hint="end that process, then give the same command again: it goes on where it was",
    )


def _stop_as_owner(settings: Settings, flow: FlowSettings, kind: str, asked: OwnerRequest) -> str:
    work = Repositioning.outside(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        work.own(moves=False)

        def decide() -> Outcome:
            work.fence_lost()
            work.writer.renew()
            return _outcome(kind, asked)

        return carry_out_as_owner(work, asked, decide).text
    finally:
        work.close()


def _make_sure(settings: Settings, flow: FlowSettings) -> str:
    """Fences an owner that died before it gave the flow back."""
    work = Repositioning.outside(flow, place_of(settings, flow, RunOptions(), slots=0))
    try:
        work.own(moves=False)
        work.fence_lost()
        return FENCED
    finally:
        work.close()


OWNER_VERBS: Mapping[str, Verb] = {**LIVE_VERBS, VERB: fail_over}  # what the owner of a flow can be asked for


# --- the record ----------------------------------------------------------------------------------------------------


def write_record(flow: FlowSettings, target: ClusterClient, record: Failover) -> None:
    """Replaces what the ledger says of the failover."""
    place = TopicPartition(ledger_topic(flow.name.source), 0)
    append_records(target, place, [encode(record)], int(time.time() * 1000))


def remove_record(flow: FlowSettings, target: ClusterClient) -> None:
    """Lets the flow run again."""
    place = TopicPartition(ledger_topic(flow.name.source), 0)
    append_records(target, place, [removed(VERB)], int(time.time() * 1000))
