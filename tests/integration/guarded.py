"""Two flows whose users have exactly the rights of docs/security.md, and a way to take single rights away again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from integration.mirroring import (
    LiveMirror,
    create_topics,
    flow_settings,
    live_mirror,
    produce,
    write_settings,
)
from integration.secured import Right, Secured, client_of, documented_rights

from sparkmirror.clusters import Committed, commit_offsets
from sparkmirror.local import LocalCluster
from sparkmirror.model import TopicPartition

FIRST_RECORDS, GROUP_AT = 50, 20
INTERVALS = (
    "emit.checkpoints.interval.seconds",
    "emit.heartbeats.interval.seconds",
    "refresh.groups.interval.seconds",
    "sync.group.offsets.interval.seconds",
    "sync.topic.acls.interval.seconds",
    "sync.topic.configs.interval.seconds",
)
ALL_ON = {"sync.group.offsets.enabled": "true", "sync.topic.configs.enabled": "true", "emit.heartbeats.enabled": "true"}
READ_ONLY = ALL_ON | {
    "offset-syncs.topic.location": "target", "lag.group.enabled": "false", "sync.topic.acls.enabled": "false",
}  # fmt: skip
# What the table says of rights that are not always needed, and what is so in which flow.
SOURCE_EXTRAS = ("offset-syncs.topic.location = source", "lag.group.enabled = true", "sync.topic.acls.enabled = true")
NOT_NEEDED = {"full": ("offset-syncs.topic.location = target",), "calm": SOURCE_EXTRAS, "same": SOURCE_EXTRAS}
READERS = {"full": "watcher", "calm": "reader", "same": "reader"}
IDENTITY = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
INTERNAL = ("mm2-ledger.A.internal", "mm2-offsets.A.internal", "mm2-offset-syncs.A.internal", "A.checkpoints.internal")
WRITER = "writer"


@dataclass
class Guarded:
    """Flow `full` has everything on; the source of `calm` is only read; `same` keeps the names of topics, and its internal
    topics were there before.
    """

    secured: Secured
    file: Path
    sent: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def make(cls, secured: Secured, folder: Path) -> Guarded:
        """Grants, topics, records and groups; nothing runs yet."""
        same = READ_ONLY | {"replication.policy.class": IDENTITY}
        flows = [cls._flow(secured, alias, more) for alias, more in (("full", ALL_ON), ("calm", READ_ONLY), ("same", same))]
        compacted = {re.sub(r"\bA\b", "same", name): (1, {"cleanup.policy": "compact"}) for name in INTERNAL}
        create_topics(secured.target, compacted)
        guarded = cls(secured, write_settings(folder / "mm2.properties", *flows))
        for alias, reader in READERS.items():
            names = names_of(alias)
            for right in rights_of(alias):
                cluster, user = guarded.holder(right.side, alias)
                right.grant(cluster, user, names)
            assert reader in secured.files.passwords
            create_topics(secured.source, {names["TOPIC"]: (1, {"retention.ms": "12345678"})})
            guarded.send(alias, FIRST_RECORDS)
            with closing(client_of("direct", secured.source.bootstrap, {})) as client:
                commit_offsets(client, names["GROUP"], {TopicPartition(names["TOPIC"], 0): Committed(GROUP_AT, "")})
        return guarded

    @staticmethod
    def _flow(secured: Secured, alias: str, more: dict[str, str]) -> dict[str, str]:
        wanted = more | {"groups": f"{alias}-group"} | dict.fromkeys(INTERVALS, "1")
        flow = flow_settings(secured.source, secured.target, alias=alias, topics=f"{alias}-guarded", more=wanted)
        for name, cluster, user in (
            (alias, secured.source, READERS[alias]), (f"{alias}-to", secured.target, WRITER),
        ):  # fmt: skip
            flow[f"{name}.bootstrap.servers"] = cluster.address_of("PLAIN")
            flow |= {f"{name}.{key}": text for key, text in secured.files.login(user).items()}
        return flow

    def holder(self, side: str, alias: str) -> tuple[LocalCluster, str]:
        """Where a right is granted, and to whom."""
        return (self.secured.source, READERS[alias]) if side == "source" else (self.secured.target, WRITER)

    def send(self, alias: str, count: int = 10) -> None:
        """More records for a flow to copy."""
        sent = self.sent.setdefault(alias, [])
        sent += [f"{alias} {number}" for number in range(len(sent), len(sent) + count)]
        produce(self.secured.source, f"{alias}-guarded", 0, [value.encode() for value in sent[-count:]])

    @contextmanager
    def without(self, alias: str, right: Right, operations: Sequence[str]) -> Iterator[None]:
        """Takes rights away, and gives them back."""
        cluster, user = self.holder(right.side, alias)
        right.revoke(cluster, user, names_of(alias), operations)
        try:
            yield
        finally:
            right.grant(cluster, user, names_of(alias))


def rights_of(alias: str) -> Iterator[Right]:
    """The rows that a flow needs, as the text below the table reads them."""
    for right in documented_rights():
        if right.only_with in NOT_NEEDED[alias]:
            continue
        if alias != "same":
            yield right
        elif right.name == "A.*":
            yield replace(right, name="TOPIC")
            yield replace(right, name="A.checkpoints.internal", operations=_without_create(right))
        elif right.name in INTERNAL:
            yield replace(right, operations=_without_create(right))
        else:
            yield right


def _without_create(right: Right) -> tuple[str, ...]:
    return tuple(operation for operation in right.operations if operation != "Create")


def remote_of(alias: str) -> str:
    """Where a flow's topic is copied to."""
    return "same-guarded" if alias == "same" else f"{alias}.{alias}-guarded"


def names_of(alias: str) -> dict[str, str]:
    """What the capital words of the table stand for."""
    return {"A": alias, "B": f"{alias}-to", "TOPIC": f"{alias}-guarded", "GROUP": f"{alias}-group"}


def right_of(side: str, resource: str, name: str) -> Right:
    """One row of the table."""
    [found] = [r for r in documented_rights() if (r.side, r.resource, r.name) == (side, resource, name)]
    return found


@contextmanager
def guarded_mirror(guarded: Guarded) -> Iterator[LiveMirror]:
    """A run of both flows."""
    with live_mirror(guarded.file) as mirror, told(mirror):
        for alias in READERS:
            mirror.await_said(f"{alias}-guarded-0 copying", START_S)
        yield mirror


START_S = 120.0  # until Spark has started a slot; 3 s on an idle machine


@contextmanager
def told(mirror: LiveMirror) -> Iterator[None]:
    """Lets a failure show what the mirror said."""
    try:
        yield
    except AssertionError as error:
        raise AssertionError(f"{error}\n{mirror.output}") from error


@dataclass(frozen=True)
class Loss:
    """Rights of one row of the table that are taken away, and what must be told of it, by whom."""

    alias: str
    side: str
    resource: str
    name: str
    operations: tuple[str, ...]
    told: str

    @property
    def right(self) -> Right:
        """The row."""
        return right_of(self.side, self.resource, self.name)


LOSSES = {
    "READ source": Loss("calm", "source", "Topic", "TOPIC", ("Read",), "user reader needs Read on topic calm-guarded"),
    "WRITE target": Loss("calm", "target", "Topic", "A.*", ("Write",), "user writer needs Write on topic calm.calm-guarded"),
    "READ, WRITE, … target": Loss("calm", "target", "Topic", "A.*", ("Create", "Read", "Write", "Alter", "AlterConfigs"),
                                  " on topic calm.calm-guarded"),
    "DESCRIBE_CONFIGS source": Loss("full", "source", "Topic", "TOPIC", ("DescribeConfigs",),
                                    "user watcher needs DescribeConfigs on topic full-guarded"),
    "ALTER_CONFIGS target": Loss("full", "target", "Topic", "A.*", ("AlterConfigs",),
                                 "user writer needs DescribeConfigs on topic full.full-guarded"),
    "DESCRIBE group": Loss("full", "source", "Group", "GROUP", ("Describe",),
                           "user watcher needs Describe on group full-group"),
    "DESCRIBE group that is then not listed": Loss("calm", "source", "Group", "GROUP", ("Describe",),
                                                   "user reader needs Describe on group calm-group"),
    "READ group": Loss("calm", "target", "Group", "GROUP", ("Read",), "user writer needs Read on group calm-group"),
    "READ lag group": Loss("full", "source", "Group", "connect-MirrorSourceConnector-B", ("Read",),
                           "user watcher needs Read on group connect-MirrorSourceConnector-full-to"),
    "READ target's lag group": Loss("full", "target", "Group", "connect-MirrorSourceConnector", ("Read",),
                                    "user writer needs Read on group connect-MirrorSourceConnector"),
    "DESCRIBE MirrorMaker 2's group": Loss("full", "target", "Group", "A-mm2", ("Describe",),
                                           "user writer needs Describe on group full-mm2"),
    "DESCRIBE cluster": Loss("full", "source", "Cluster", "kafka-cluster", ("Describe",),
                             "grant DESCRIBE on the cluster to user watcher"),
    "WRITE syncs on the source": Loss("full", "source", "Topic", "mm2-offset-syncs.B.internal", ("Write",),
                                      "user watcher needs Write on topic mm2-offset-syncs.full-to.internal"),
    "READ syncs on the source": Loss("full", "source", "Topic", "mm2-offset-syncs.B.internal", ("Read",),
                                     "user watcher needs Read on topic mm2-offset-syncs.full-to.internal"),
    "WRITE syncs on the target": Loss("calm", "target", "Topic", "mm2-offset-syncs.A.internal", ("Write",),
                                      "user writer needs Write on topic mm2-offset-syncs.calm.internal"),
    "WRITE positions": Loss("calm", "target", "Topic", "mm2-offsets.A.internal", ("Write",),
                            "user writer needs Write on topic mm2-offsets.calm.internal"),
    "WRITE ledger": Loss("calm", "target", "Topic", "mm2-ledger.A.internal", ("Write",),
                         "user writer needs Write on topic mm2-ledger.calm.internal"),
    "READ ledger": Loss("calm", "target", "Topic", "mm2-ledger.A.internal", ("Read",),
                        "user writer needs Read on topic mm2-ledger.calm.internal"),
    "WRITE heartbeats": Loss("calm", "target", "Topic", "heartbeats", ("Write",),
                             "user writer needs Write on topic heartbeats"),
}  # fmt: skip
