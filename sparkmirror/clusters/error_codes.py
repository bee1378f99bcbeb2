"""Kafka's error codes: names, and the one table that says which may be tried again."""

from __future__ import annotations

import kafka.errors

__all__ = ["is_retriable", "name_of"]

# Waiting and asking again (after a look at fresh metadata) may help. Everything else, also every unknown code, does not.
RETRIABLE = frozenset(
    {
        3,  # UNKNOWN_TOPIC_OR_PARTITION: also while metadata spreads
        5,  # LEADER_NOT_AVAILABLE
        6,  # NOT_LEADER_OR_FOLLOWER
        7,  # REQUEST_TIMED_OUT
        9,  # REPLICA_NOT_AVAILABLE
        13,  # NETWORK_EXCEPTION
        14,  # COORDINATOR_LOAD_IN_PROGRESS
        15,  # COORDINATOR_NOT_AVAILABLE
        16,  # NOT_COORDINATOR
        19,  # NOT_ENOUGH_REPLICAS
        20,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
        41,  # NOT_CONTROLLER
        51,  # CONCURRENT_TRANSACTIONS
        56,  # KAFKA_STORAGE_ERROR
        70,  # FETCH_SESSION_ID_NOT_FOUND
        71,  # INVALID_FETCH_SESSION_EPOCH
        72,  # LISTENER_NOT_FOUND
        74,  # FENCED_LEADER_EPOCH
        75,  # UNKNOWN_LEADER_EPOCH
        78,  # OFFSET_NOT_AVAILABLE
        89,  # THROTTLING_QUOTA_EXCEEDED
        100,  # UNKNOWN_TOPIC_ID: also while metadata spreads
        103,  # INCONSISTENT_TOPIC_ID
    }
)


def is_retriable(code: int) -> bool:
    """Whether waiting may mend this error."""
    return code in RETRIABLE


def name_of(code: int) -> str:
    """Kafka's name of an error code with its number."""
    known = kafka.errors.kafka_errors.get(code)
    return f"{known.message} ({code})" if known is not None else f"error {code}"
