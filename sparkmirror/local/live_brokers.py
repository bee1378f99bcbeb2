"""Which brokers a broker counts as live."""

from __future__ import annotations

import contextlib

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

ANSWER_MS_MAX = 5_000  # a broker that accepts connections answers within milliseconds; asked again if it does not


def live_brokers(bootstrap: str) -> set[int]:
    """Ids of the brokers that are registered and not fenced; empty if nobody answers yet."""
    try:
        client = KafkaAdminClient(
            bootstrap_servers=bootstrap, bootstrap_timeout_ms=ANSWER_MS_MAX, request_timeout_ms=ANSWER_MS_MAX
        )
    except KafkaError:
        return set()
    with contextlib.closing(client):
        try:
            brokers = client.describe_cluster()["brokers"]
        except KafkaError:
            return set()
    return {broker["broker_id"] for broker in brokers if not broker.get("is_fenced", False)}
