"""What the target's answer to one batch means. One table; the code only tells what to expect after the log was read."""

from __future__ import annotations

from enum import Enum

__all__ = ["INVALID_TIMESTAMP", "Expect", "expectation"]

INVALID_TIMESTAMP = 32


class Expect(Enum):
    """What is expected of the partition once everything in flight is answered and the settled log was read."""

    RESUME = "resume at the first record that is not in the log"
    SPLIT = "the batch was too large: cut it smaller"
    REFUSED = "the target refuses these records, or us"
    FENCED = "another owner, or the broker forgot us"


_SPLIT = {10, 18}  # MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE
_REFUSED = {
    2,  # CORRUPT_MESSAGE
    17,  # INVALID_TOPIC
    29,  # TOPIC_AUTHORIZATION_FAILED
    31,  # CLUSTER_AUTHORIZATION_FAILED
    INVALID_TIMESTAMP,
    44,  # POLICY_VIOLATION
    53,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    76,  # UNSUPPORTED_COMPRESSION_TYPE
    87,  # INVALID_RECORD
}
_FENCED = {47, 59, 90}  # INVALID_PRODUCER_EPOCH, UNKNOWN_PRODUCER_ID, PRODUCER_FENCED


def expectation(error: int) -> Expect:
    """What to expect after this error code; everything unknown is looked up in the log and tried again from there."""
    if error in _SPLIT:
        return Expect.SPLIT
    if error in _REFUSED:
        return Expect.REFUSED
    if error in _FENCED:
        return Expect.FENCED
    return Expect.RESUME
