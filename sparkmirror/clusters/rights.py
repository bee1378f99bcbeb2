"""Rights that a cluster does not give us: whose, and which."""

from __future__ import annotations

from sparkmirror.clusters.error_codes import name_of

__all__ = ["is_right_missing", "refusal"]

# TOPIC_, GROUP_, CLUSTER_ and TRANSACTIONAL_ID_AUTHORIZATION_FAILED. A right may come back at any time.
NO_RIGHTS = frozenset({29, 30, 31, 53})


def is_right_missing(code: int) -> bool:
    """Whether the broker's authorizer said no."""
    return code in NO_RIGHTS


def refusal(code: int, who: str, needs: str) -> str:
    """Kafka's name of an error; where a right is missing also who needs which, as in "Read on topic orders"."""
    told = name_of(code)
    return f"{told}: {who} needs {needs}" if is_right_missing(code) and needs else told
