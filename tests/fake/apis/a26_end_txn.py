"""EndTxn: writes the markers at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.producer import EndTxnRequest, EndTxnResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = EndTxnRequest, EndTxnResponse, (3, 4)


INVALID_TXN_STATE, INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED = 48, 49, 90


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    known = cluster.transactions.get(request.transactional_id)
    if known is None or known.producer_id != request.producer_id:
        return {"error_code": INVALID_PRODUCER_ID_MAPPING}
    if known.epoch != request.producer_epoch:
        return {"error_code": PRODUCER_FENCED}
    wanted = "CompleteCommit" if request.committed else "CompleteAbort"
    if known.state not in ("Ongoing", wanted):
        return {"error_code": INVALID_TXN_STATE}
    cluster.end_transaction(known, commit=bool(request.committed))
    return {"error_code": 0}
