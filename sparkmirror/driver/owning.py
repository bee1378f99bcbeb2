"""How a process comes to own a flow: the pure protocol says what comes next, this does it."""

from __future__ import annotations

import threading
import time
from typing import Any

from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.ledger import AskAppend, AskIsGone, AskLedger, AskProducer, Ownership, take_ownership
from sparkmirror.process import Process
from sparkmirror.slot.slot import LEASE_S

POLL_MS = 500
WAIT_S = 0.5
# Slots judge by their own clocks when a lease is over.
LEASE_MARGIN_S = 5.0


class OwningInterrupted(Exception):
    """The user wants to stop before the flow was even owned."""


def own(context: FlowContext, stop: threading.Event) -> Ownership:
    """The flow, unless its owner is alive; raises FlowOwnedByAnother then, and Interrupted if `stop` is set meanwhile."""
    process = Process.this()
    asking = take_ownership(process.name, force=context.place.take_over)
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
                answer = process.is_dead(owner.name) or not _sees_beat(context, stop, owner.beat, watch_s)
            case AskProducer(held):
                answer = context.raise_epoch(held)
            case AskAppend(records):
                context.ledger.append(records)
                answer = None


def _sees_beat(context: FlowContext, stop: threading.Event, beat: int, watch_s: float) -> bool:
    """Whether the owner's beat changes while we watch; by our own clock only."""
    deadline = time.monotonic() + watch_s
    while time.monotonic() < deadline:
        if stop.is_set():
            raise OwningInterrupted  # nobody may be called gone who was not watched long enough
        context.ledger.poll(POLL_MS)
        owner = context.ledger.view.owner
        if owner is not None and (owner.beat != beat or owner.released):
            return not owner.released
    return False


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
