"""The rules that the actors follow. Each can be broken alone, to prove that the judge sees it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Rules"]


@dataclass(frozen=True, slots=True)
class Rules:
    """True everywhere: the protocol. The last group is what `driver/` and `slot/` must do around `ledger/`."""

    fence: bool = True  # an attempt without closed is fenced before its successor writes (D2)
    settle: bool = True  # the high watermark is not taken for the end (D1)
    read_before_resume: bool = True  # nothing is sent again that the log was not read for (D5)
    newest_closed_only: bool = True  # a closed of an old attempt says nothing (O10)
    first_alone: bool = True  # arming (L1)
    open_first: bool = True  # open and started are acked before the first byte (D4)
    quiet_close: bool = True  # closed only with an empty window (C1)
    proven_receipts: bool = True  # receipts cover only what was proven (L5)
    check_owner: bool = True  # after its open is acked a task looks who owns the flow (O2)
    conditional_raise: bool = True  # later raises carry the held epoch (O1)

    slots_named_by_owner: bool = True  # a slot obeys only opens, stops and beats of its own owner
    owner_is_id_and_epoch: bool = True  # the owner check compares the producer id too (R11)
    new_id_new_generation: bool = True  # a raise that gives a new id opens a new generation (R11)
    every_lost_is_fenced: bool = True  # also a partition that has no leader just then
    recovers_what_it_fenced: bool = True  # a driver ends when the attempt it fenced is not the newest any more
    driver_sees_newer_owner: bool = True  # a driver ends when the ledger shows a newer owner
    closing_ends_own_attempt: bool = True  # the ack of closed does not make a slot forget a newer open
    weak_waits_for_lease: bool = True  # a new producer id fences nobody: the lease must pass (R11)
    nothing_read_is_missed: bool = True  # what a driver reads while it recovers is acted upon afterwards
    slots_know_newest_open: bool = True  # a slot takes no open that is not newer than every open it has seen
