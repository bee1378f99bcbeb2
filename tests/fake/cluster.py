"""The state of the fake cluster, and the socket that it answers at."""

from __future__ import annotations

import base64
import contextlib
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from fake.apis import HANDLERS, Handler
from fake.log import FakeLog
from fake.server import Server

__all__ = ["FakeCluster", "FakeGroup", "FakeTopic", "FakeTransaction"]

NODE = 1
UNKNOWN_TOPIC, NOT_LEADER, UNKNOWN_TOPIC_ID = 3, 6, 100


@dataclass
class FakeTopic:
    """A topic: its logs, and the settings that were given for it."""

    name: str
    topic_id: uuid.UUID
    logs: list[FakeLog]
    configs: dict[str, str]


@dataclass
class FakeGroup:
    """What a group committed (offset, metadata), the ids of its members, and the protocol that they speak."""

    commits: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    members: list[str] = field(default_factory=list)
    protocol: str = "consumer"  # of the members

    @property
    def state(self) -> str:
        """As brokers call it."""
        return "Stable" if self.members else "Empty"

    @property
    def protocol_type(self) -> str:
        """Empty where nobody ever joined."""
        return self.protocol if self.members else ""


@dataclass
class FakeTransaction:
    """A transactional id with its producer, and the partitions of the transaction that is open."""

    producer_id: int
    epoch: int
    last_epoch: int = -1  # whose owner raised it
    partitions: set[tuple[str, int]] = field(default_factory=set)
    state: str = "Empty"


class FakeCluster:
    """A cluster of one broker. Tests may look at and change what it holds, under `lock` where a client is at work."""

    def __init__(self, *, has_authorizer: bool = False) -> None:
        self.cluster_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        self.topics: dict[str, FakeTopic] = {}
        self.groups: dict[str, FakeGroup] = {}
        self.transactions: dict[str, FakeTransaction] = {}
        self.acls: list[dict[str, Any]] | None = [] if has_authorizer else None
        self.handlers: dict[int, Handler] = dict(HANDLERS)
        self.requests: list[int] = []  # API keys, as they came; negative if only validated
        self.is_silent = False
        self.leaderless: set[tuple[str, int]] = set()  # partitions whose only broker is another one, which is away
        self.passwords: dict[str, str] | None = None  # by user, where nobody is answered without a SASL/PLAIN login
        self.lock = threading.Condition()
        self._producer_ids = iter(range(1000, 1 << 62))
        self._server = Server(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every connection."""
        with self.lock:
            self.is_silent = False
            self.lock.notify_all()
        self._server.close()

    def reopen(self) -> None:
        """Listens again where it did before it was closed."""
        self._server = Server(self, self.port)

    @property
    def host(self) -> str:
        """Where it listens."""
        return self._server.host

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.port

    @property
    def bootstrap(self) -> str:
        """As `bootstrap.servers` takes it."""
        return f"{self.host}:{self.port}"

    def hang_up(self) -> None:
        """Ends every connection that there is; clients may dial again."""
        self._server.hang_up()

    @contextlib.contextmanager
    def silent(self) -> Iterator[None]:
        """Answers nothing in the block; what was asked is answered afterwards."""
        self.is_silent = True
        try:
            yield
        finally:
            with self.lock:
                self.is_silent = False
                self.lock.notify_all()

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> FakeTopic:
        """A topic without asking the API."""
        topic = FakeTopic(name, uuid.uuid4(), [FakeLog() for _ in range(partitions)], dict(configs or {}))
        self.topics[name] = topic
        return topic

    def topic_of(self, entry: Any) -> FakeTopic | None:
        """The topic that an entry of a request names, by name or by id."""
        name = getattr(entry, "name", None) or getattr(entry, "topic", None)
        if name:
            return self.topics.get(name)
        return next((topic for topic in self.topics.values() if topic.topic_id == entry.topic_id), None)

    def log_of(self, entry: Any, partition: int) -> tuple[int, FakeLog]:
        """(error code, log); an empty log beside an error."""
        topic = self.topic_of(entry)
        if topic is not None and (topic.name, partition) in self.leaderless:
            return NOT_LEADER, FakeLog()
        if topic is None:
            is_by_id = not (getattr(entry, "name", None) or getattr(entry, "topic", None))
            return (UNKNOWN_TOPIC_ID if is_by_id else UNKNOWN_TOPIC), FakeLog()
        return (0, topic.logs[partition]) if 0 <= partition < len(topic.logs) else (UNKNOWN_TOPIC, FakeLog())

    def group_of(self, name: str) -> FakeGroup:
        """The group, or one that is not kept yet."""
        return self.groups.get(name) or FakeGroup()

    def new_transaction(self, transactional_id: str) -> FakeTransaction:
        """A transactional id that was not used before."""
        return self.transactions.setdefault(transactional_id, FakeTransaction(self.new_producer_id(), 0))

    def end_transaction(self, known: FakeTransaction, *, commit: bool) -> None:
        """Writes the markers of the transaction that is open, if one is."""
        for name, index in sorted(known.partitions):
            if name in self.topics:
                log = self.topics[name].logs[index]
                log.end_transaction(known.producer_id, known.epoch, commit=commit, now_ms=self.now_ms())
        if known.state == "Ongoing":
            known.state = "CompleteCommit" if commit else "CompleteAbort"
        known.partitions.clear()

    def new_producer_id(self) -> int:
        """One that nobody has."""
        return next(self._producer_ids)

    @property
    def broker(self) -> dict[str, Any]:
        """The one broker, as answers name it."""
        return {"node_id": NODE, "host": self.host, "port": self.port}

    @staticmethod
    def now_ms() -> int:
        """The time now."""
        return time.time_ns() // 1_000_000
