"""What the target's answer to one batch means. One table: the error code gives what to expect once the log was read."""

from __future__ import annotations

from enum import Enum

from sparkmirror.wire import error_codes as codes


class Expect(Enum):
    """What is expected of the partition once everything in flight is answered and the settled log was read."""

    RESUME = "resume at the first record that is not in the log"
    SPLIT = "the batch was too large: cut it smaller"
    REFUSED = "the target refuses these records, or us"
    FENCED = "another owner, or the broker forgot us"


_SPLIT = {codes.MESSAGE_TOO_LARGE, codes.RECORD_LIST_TOO_LARGE}
_REFUSED = {
    codes.CORRUPT_MESSAGE,
    codes.INVALID_TOPIC_EXCEPTION,
    codes.TOPIC_AUTHORIZATION_FAILED,
    codes.CLUSTER_AUTHORIZATION_FAILED,
    codes.INVALID_TIMESTAMP,
    codes.POLICY_VIOLATION,
    codes.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    codes.UNSUPPORTED_COMPRESSION_TYPE,
    codes.INVALID_RECORD,
}
_FENCED = {codes.INVALID_PRODUCER_EPOCH, codes.UNKNOWN_PRODUCER_ID, codes.PRODUCER_FENCED}


def expectation(error: int) -> Expect:
    """What to expect after this error code; everything unknown is looked up in the log and tried again from there."""
    if error in _SPLIT:
        return Expect.SPLIT
    if error in _REFUSED:
        return Expect.REFUSED
    if error in _FENCED:
        return Expect.FENCED
    return Expect.RESUME
