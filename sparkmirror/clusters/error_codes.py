"""What an error code of Kafka's means: its name, and the one table that says which may be tried again."""

from __future__ import annotations

import kafka.errors

from sparkmirror.wire import error_codes as codes

# Waiting and asking again (after a look at fresh metadata) may help. Everything else, also every unknown code, does not.
RETRIABLE = frozenset(
    {
        codes.UNKNOWN_TOPIC_OR_PARTITION,  # also while metadata spreads
        codes.LEADER_NOT_AVAILABLE,
        codes.NOT_LEADER_OR_FOLLOWER,
        codes.REQUEST_TIMED_OUT,
        codes.REPLICA_NOT_AVAILABLE,
        codes.NETWORK_EXCEPTION,
        codes.COORDINATOR_LOAD_IN_PROGRESS,
        codes.COORDINATOR_NOT_AVAILABLE,
        codes.NOT_COORDINATOR,
        codes.NOT_ENOUGH_REPLICAS,
        codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        codes.NOT_CONTROLLER,
        codes.CONCURRENT_TRANSACTIONS,
        codes.KAFKA_STORAGE_ERROR,
        codes.FETCH_SESSION_ID_NOT_FOUND,
        codes.INVALID_FETCH_SESSION_EPOCH,
        codes.LISTENER_NOT_FOUND,
        codes.FENCED_LEADER_EPOCH,
        codes.UNKNOWN_LEADER_EPOCH,
        codes.OFFSET_NOT_AVAILABLE,
        codes.THROTTLING_QUOTA_EXCEEDED,
        codes.UNKNOWN_TOPIC_ID,  # also while metadata spreads
        codes.INCONSISTENT_TOPIC_ID,
    }
)


def is_retriable(code: int) -> bool:
    """Whether waiting may mend this error."""
    return code in RETRIABLE


def name_of(code: int) -> str:
    """Kafka's name of an error code with its number."""
    known = kafka.errors.kafka_errors.get(code)
    return f"{known.message} ({code})" if known is not None else f"error {code}"
