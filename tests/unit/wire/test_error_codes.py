"""The names of Kafka's error codes are Kafka's own."""

from __future__ import annotations

import kafka.errors

from sparkmirror.wire import error_codes

# What kafka-python still calls by the names of older releases.
RENAMED = {
    "UNKNOWN": "UNKNOWN_SERVER_ERROR",
    "NOT_LEADER_FOR_PARTITION": "NOT_LEADER_OR_FOLLOWER",
    "MESSAGE_SIZE_TOO_LARGE": "MESSAGE_TOO_LARGE",
    "INVALID_TOPIC": "INVALID_TOPIC_EXCEPTION",
}


def test_every_code_has_the_name_that_kafka_gives_it() -> None:
    ours = {name: code for name, code in vars(error_codes).items() if name.isupper()}
    known = {error.message: code for code, error in kafka.errors.kafka_errors.items()}
    theirs = {RENAMED.get(name, name): code for name, code in known.items()}
    assert {name: theirs.get(name) for name in ours} == ours
    assert len(set(ours.values())) == len(ours)
