"""DescribeTransactions: the present producer of a transactional id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.admin import DescribeTransactionsRequest, DescribeTransactionsResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = DescribeTransactionsRequest, DescribeTransactionsResponse, (0, 0)


TRANSACTIONAL_ID_NOT_FOUND = 105


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    return {"transaction_states": [_state(cluster, name) for name in request.transactional_ids]}


def _state(cluster: FakeCluster, name: str) -> dict[str, Any]:
    known = cluster.transactions.get(name)
    if known is None:
        return {"error_code": TRANSACTIONAL_ID_NOT_FOUND, "transactional_id": name, "transaction_state": "", "topics": [],
                "producer_id": 0, "producer_epoch": 0}  # fmt: skip
    return {"error_code": 0, "transactional_id": name, "transaction_state": known.state, "topics": [],
            "producer_id": known.producer_id, "producer_epoch": known.epoch}  # fmt: skip
