"""What a slot makes of ledger records that it reads together."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.ledger import Attempt, LedgerRecord, Open, Position, Release, SlotStop
from sparkmirror.model import TopicPartition
from sparkmirror.slot.slot import Slot

PARTITION, ATTEMPT = TopicPartition("t", 0), Attempt(1, 0, 1)
ORDER = Open(
    partition=PARTITION, attempt=ATTEMPT, previous=None, slot=0, incarnation=7, target_topic="A.t", producer_id=1,
    producer_epoch=0, position=Position(0, 0, 0), source_topic_id="s", target_topic_id="t", read_committed=False,
    shared=False, fenced=False, source_compacts=False, source_leader_epoch=-1,
)  # fmt: skip


@pytest.mark.parametrize("ends", [Release(PARTITION, ATTEMPT), SlotStop(0, 7)], ids=["release", "stop"])
def test_an_order_that_is_read_together_with_its_end_is_closed(ends: LedgerRecord) -> None:
    """A slot that has just started reads both at once: it once forgot the release, and copied on until it was lost."""
    calls: list[tuple[str, Any]] = []
    slot = Slot.__new__(Slot)
    slot._attempts, slot._newest, slot._is_stopping = {}, {}, False
    slot.order = SimpleNamespace(slot=0, incarnation=7)  # type: ignore[assignment]
    slot.relay = SimpleNamespace(relays={})  # type: ignore[assignment]
    slot.opening = SimpleNamespace(  # type: ignore[assignment]
        start=lambda orders: calls.append(("start", [order.partition for order in orders])),
        release=lambda partition: calls.append(("release", partition)),
    )
    slot._take([ORDER, ends])
    assert calls == [("start", [PARTITION]), ("release", PARTITION)]
