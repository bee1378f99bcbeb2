"""The codes of a partition's state that no error of the tree in errors.py has. They stand in ledgers: their text stays."""

from __future__ import annotations

from enum import StrEnum


class StateCode(StrEnum):
    """Why a partition waits or recovers, that a whole topic is stopped, or that somebody paused it."""

    # waits for the world
    SOURCE = "SOURCE"
    RIGHTS = "RIGHTS"
    OPEN_TRANSACTION = "OPEN_TRANSACTION"
    NOT_ENOUGH_REPLICAS = "NOT_ENOUGH_REPLICAS"
    TARGET = "TARGET"
    LEDGER = "LEDGER"
    OTHER_WRITER = "OTHER_WRITER"
    REQUEST = "REQUEST"
    # lost its task, or its task lost the thread; recovered within moments
    SLOT_LOST = "SLOT_LOST"
    QUERY_LOST = "QUERY_LOST"
    FENCED = "FENCED"
    IN_DOUBT = "IN_DOUBT"
    TARGET_TRUNCATED = "TARGET_TRUNCATED"
    # a topic that cannot be copied as it is
    TOPIC = "TOPIC"
    # paused until somebody resumes it
    PAUSED = "PAUSED"
    STOPPED_ON_REQUEST = "STOPPED_ON_REQUEST"


# What a task gives up with these is fenced and read back by the driver; after other losses somebody must look first.
RECOVERED = frozenset({StateCode.FENCED, StateCode.IN_DOUBT, StateCode.TARGET_TRUNCATED})
