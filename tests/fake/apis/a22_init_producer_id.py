"""InitProducerId: a new id, or the next epoch of a transactional id; a client that names an old one is fenced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.producer import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = InitProducerIdRequest, InitProducerIdResponse, (3, 4)


INVALID_PRODUCER_EPOCH, PRODUCER_FENCED = 47, 90


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer."""
    if request.transactional_id is None:
        return {"producer_id": cluster.new_producer_id(), "producer_epoch": 0}
    known = cluster.transactions.get(request.transactional_id)
    if known is None:
        known = cluster.new_transaction(request.transactional_id)
    elif request.producer_epoch == -1 or (request.producer_id, request.producer_epoch) == (known.producer_id, known.epoch):
        known.last_epoch = -1 if request.producer_epoch == -1 else known.epoch
        known.epoch += 1
        cluster.end_transaction(known, commit=False)
    elif (request.producer_id, request.producer_epoch) != (known.producer_id, known.last_epoch):  # else it is repeated
        error = PRODUCER_FENCED if request.version >= 4 else INVALID_PRODUCER_EPOCH
        return {"error_code": error, "producer_id": -1, "producer_epoch": -1}
    return {"producer_id": known.producer_id, "producer_epoch": known.epoch}
