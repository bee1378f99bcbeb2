"""Rights that a cluster does not give us: whose, and which."""

from __future__ import annotations

from sparkmirror.clusters.error_codes import name_of
from sparkmirror.wire import error_codes as codes

# What an authorizer's no looks like, whatever it was about. A right may come back at any time.
AUTHORIZATION_FAILED = frozenset(
    {
        codes.TOPIC_AUTHORIZATION_FAILED,
        codes.GROUP_AUTHORIZATION_FAILED,
        codes.CLUSTER_AUTHORIZATION_FAILED,
        codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)


def is_right_missing(code: int) -> bool:
    """Whether the broker's authorizer said no."""
    return code in AUTHORIZATION_FAILED


def refusal(code: int, who: str, needs: str) -> str:
    """Kafka's name of an error; where a right is missing also who needs which, as in "Read on topic orders"."""
    text = name_of(code)
    return f"{text}: {who} needs {needs}" if is_right_missing(code) and needs else text
