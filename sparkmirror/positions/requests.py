"""A request to change a flow's positions, parsed and checked before any request to a cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from sparkmirror.errors import MoveRefused
from sparkmirror.model import TopicPartition

# The connector's name in dedicated MirrorMaker 2; on a Connect cluster users choose their own.
CONNECTOR = "MirrorSourceConnector"
OFFSET_MAX = (1 << 63) - 1

Verb = Literal["set", "reset", "skip", "import"]


@dataclass(frozen=True, slots=True)
class Goal:
    """Where copying resumes: at the source's `earliest` or `latest`, at an `offset`, or at a `time` in ms."""

    kind: Literal["earliest", "latest", "offset", "time"]
    number: int = 0

    def __str__(self) -> str:
        if self.kind == "offset":
            return str(self.number)
        if self.kind == "time":
            return datetime.fromtimestamp(self.number / 1000, UTC).isoformat().replace("+00:00", "Z")
        return self.kind


EARLIEST = Goal("earliest")


@dataclass(frozen=True, slots=True)
class StoragePlace:
    """Where MirrorMaker 2 keeps its positions, if not where the file says: connector, offsets topics, workers' group."""

    connector: str = CONNECTOR
    offsets_topics: tuple[str, ...] = ()
    worker_group: str | None = None

    @property
    def is_dedicated(self) -> bool:
        """Whether nothing was given: then it is what dedicated MirrorMaker 2 derives from the file."""
        return self == StoragePlace()


@dataclass(frozen=True, slots=True)
class MoveRequest:
    """The verb, whose positions (no topic: the whole flow; no partition: all of them), where to, and how.

    `entries` are what `import` read: the next upstream offset of each partition, None for `to`, else the beginning.
    """

    verb: Verb
    topic: str | None
    partition: int | None = None
    to: Goal | None = None
    flow: str | None = None
    storage: StoragePlace = field(default_factory=StoragePlace)
    entries: Mapping[TopicPartition, int | None] | None = None
    force_unseen: bool = False
    with_target: bool = False
    undo_file: str | None = None
    reason: str = ""  # what the ledger says of it; the verb, if it is empty


def parse_goal(text: str) -> Goal:
    """`earliest`, `latest`, `41`, `offset:41`, `2026-01-31T12:00:00Z` or `time:…` as a goal; raises MoveRefused."""
    if text in ("earliest", "latest"):
        return Goal(text)  # type: ignore[arg-type]  # one of the two
    prefix, colon, rest = text.partition(":")
    number = rest if colon and prefix == "offset" else text
    if number.isascii() and number.isdigit() and int(number) <= OFFSET_MAX:
        return Goal("offset", int(number))
    moment = _moment(rest if colon and prefix == "time" else text)
    if moment is None:
        raise MoveRefused(
            f"expected earliest, latest, an offset or a time with its zone such as 2026-01-31T12:00:00Z, found {text}"
        )
    return Goal("time", moment)


def _moment(text: str) -> int | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    if found.tzinfo is None:  # whose zone would it be: this machine's, the brokers', the reader's?
        return None
    return round(found.timestamp() * 1000)
