"""How a process comes to own a flow: the pure protocol says what comes next, this does it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from sparkmirror.clusters import fence_all
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.flow_ledger import Entry
from sparkmirror.errors import FlowFailedOver
from sparkmirror.ledger import AskAppend, AskIsGone, AskLedger, AskProducer, Owner, Ownership, take_ownership
from sparkmirror.process import Process
from sparkmirror.slot.slot import LEASE_S
from sparkmirror.status.failed_over import failover_hint, failover_words

POLL_MS = 500
WAIT_S = 0.5
# Slots judge by their own clocks when a lease is over.
LEASE_MARGIN_S = 5.0


class OwningInterrupted(Exception):
    """The user wants to stop before the flow was even owned."""


def own(context: FlowContext, stop: threading.Event) -> Ownership:
    """The flow, unless its owner is alive; raises FlowOwnedByAnother then, and Interrupted if `stop` is set meanwhile."""
    process = Process.this()
    clusters = (context.source.cluster_id, context.target.cluster_id)
    asking = take_ownership(process.name, force=context.place.take_over, clusters=clusters)
    answer: Any = None
    while True:
        try:
            ask = asking.send(answer)
        except StopIteration as end:
            ownership: Ownership = end.value[0]
            return ownership
        match ask:
            case AskLedger():
                answer = context.ledger.read_all()
            case AskIsGone(owner, watch_s):
                if context.status.state != "standby":
                    context.status.reason = f"is {owner.name} alive?"
                answer = not _sees_beat(context, stop, owner, watch_s)
            case AskProducer(held):
                answer = context.raise_epoch(held)
                # What a paused former owner still wants to append beside an answer is refused from here on. Only then
                # is the ledger read again: what it does not say now, nobody but the new owner will say.
                fence_all(context.target, context.transactional_id, answer, [context.ledger.partition])
            case AskAppend(records):
                context.ledger.append(records)
                answer = None


def _sees_beat(context: FlowContext, stop: threading.Event, present: Owner, watch_s: float) -> bool:
    """Whether the owner's beat changes while we watch, by our own clock only; not if it is provably dead."""
    process, deadline = Process.this(), time.monotonic() + watch_s
    while time.monotonic() < deadline and not process.is_dead(present.name):
        if stop.is_set():
            raise OwningInterrupted  # nobody may be called gone who was not watched long enough
        context.ledger.poll(POLL_MS)
        owner = context.ledger.view.owner
        if owner is not None and (owner.beat != present.beat or owner.released):
            return not owner.released
    return False


def require_not_failed_over(context: FlowContext) -> None:
    """Raises FlowFailedOver if the ledger, as far as it was read, says that applications moved to the target."""
    found = context.ledger.view.failover
    if found is None:
        return
    raise FlowFailedOver(failover_words(str(context.flow.name), found), hint=failover_hint(context.place.file_words))


def renew_producer(context: FlowContext) -> None:
    """Raises the epoch of the flow's producer while we own it: what is opened or appended as a whole now is under it."""
    owner = context.owned.owner
    producer_id, epoch = context.raise_epoch(context.owned.producer)
    if producer_id == owner.producer_id:
        context.sign(producer_epoch=epoch)
        return
    # The transactional id had expired, or its epochs were used up (R11, R12): a new id begins at epoch 0 again, and only
    # a new generation sorts its attempts behind the old ones.
    context.sign(
        generation=owner.generation + 1,
        first_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=epoch,
        producer_ids=(*owner.producer_ids, producer_id),
    )


def append_whole(context: FlowContext, entries: Sequence[Entry]) -> None:
    """Appends all or none under our present epoch, which serves for one such batch, and folds it into the view."""
    held, producer = context.appended, context.owned.producer
    assert held is None or held[0] != producer or held[1] == tuple(entries), "one batch for each epoch"
    context.appended = producer, tuple(entries)
    context.ledger.append_whole(entries, producer)
    for key, value in entries:
        context.ledger.view.read(key, value)


def wait_out_lease(context: FlowContext, stop: threading.Event) -> None:
    """The flow's producer id is new: our epoch does not fence those who write under an old one. Their lease ends."""
    deadline = time.monotonic() + LEASE_S + LEASE_MARGIN_S
    context.status.reason = f"the producer id is new: waiting {LEASE_S:g} s until the leases of the old tasks expire"
    while time.monotonic() < deadline:
        if stop.is_set():
            raise OwningInterrupted
        context.beat()
        time.sleep(WAIT_S)
    context.status.reason = ""
