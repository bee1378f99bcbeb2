"""AddPartitionsToTxn of clients: opens the transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafka.protocol.producer import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from fake.cluster import FakeCluster

REQUEST, RESPONSE, VERSIONS = AddPartitionsToTxnRequest, AddPartitionsToTxnResponse, (3, 3)


INVALID_PRODUCER_ID_MAPPING, NOT_ATTEMPTED, PRODUCER_FENCED = 49, 55, 90


def answer(cluster: FakeCluster, request: Any) -> dict[str, Any]:
    """The broker's answer: all partitions are added, or none."""
    places = [(topic.name, index) for topic in request.v3_and_below_topics for index in topic.partitions]
    known = cluster.transactions.get(request.v3_and_below_transactional_id)
    if known is None or known.producer_id != request.v3_and_below_producer_id:
        codes = dict.fromkeys(places, INVALID_PRODUCER_ID_MAPPING)
    elif known.epoch != request.v3_and_below_producer_epoch:
        codes = dict.fromkeys(places, PRODUCER_FENCED)
    else:
        topics = {topic.name: topic for topic in request.v3_and_below_topics}
        codes = {place: cluster.log_of(topics[place[0]], place[1])[0] for place in places}
        if any(codes.values()):
            codes = {place: code or NOT_ATTEMPTED for place, code in codes.items()}
        else:
            known.partitions |= set(places)
            known.state = "Ongoing"
    results = [
        {"name": topic.name, "results_by_partition": [
            {"partition_index": index, "partition_error_code": codes[topic.name, index]} for index in topic.partitions]}
        for topic in request.v3_and_below_topics
    ]  # fmt: skip
    return {"results_by_topic_v3_and_below": results}
