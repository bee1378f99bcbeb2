"""`restart`: asks the owner of a flow to take stopped partitions up again."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any

import msgspec

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import FlowSettings
from sparkmirror.driver import Asker, Asking, ask_or_do, who_asks
from sparkmirror.errors import RequestRefused
from sparkmirror.ledger import OwnerAnswer, OwnerRequest
from sparkmirror.positions.stored import present_topics
from sparkmirror.topology import ledger_topic


class RestartedPartition(msgspec.Struct, frozen=True):
    """A partition that was stopped or waited, and its state after it was taken up again."""

    topic: str
    partition: int
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restarted:
    """What became of a request to restart."""

    flow: str
    owner: str
    request_id: str
    text: str
    partitions: tuple[RestartedPartition, ...]

    @property
    def stopped(self) -> int:
        """How many are stopped again."""
        return sum(partition.state == "stopped" for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class RestartScope:
    """What is restarted: of one topic, partition or slot, or of all; with `running` also what copies now.

    `connector`: "source", or a chore ("checkpoint", "heartbeat"), which is tried again by itself.
    """

    topic: str | None = None
    partition: int | None = None
    slot: int | None = None
    running: bool = False
    connector: str = "source"

    @property
    def arguments(self) -> dict[str, Any]:
        """What a request carries beside topic and partition."""
        connector = None if self.connector == "source" else self.connector
        found = {"slot": self.slot, "running": self.running or None, "connector": connector}
        return {name: value for name, value in found.items() if value is not None}


def restart(flow: FlowSettings, scope: RestartScope, asking: Asking) -> Restarted:
    """Asks and waits; raises RequestRefused if nobody runs the flow: a run tries every partition when it starts."""
    with closing(ClusterClient(flow.target)) as target:
        ledger = ledger_topic(flow.name.source)
        asker = Asker(target, ledger) if present_topics(target, [ledger]) else None
        request = asking.request(
            "restart", who_asks(target), topic=scope.topic, partition=scope.partition, arguments=scope.arguments
        )

        def read(answer: OwnerAnswer) -> Restarted:
            found = msgspec.convert(answer.detail.get("partitions", []), tuple[RestartedPartition, ...])
            return Restarted(str(flow.name), answer.owner, answer.id, answer.text, found)

        def refuse(_: OwnerRequest) -> Restarted:
            raise RequestRefused(f"no process runs {flow.name}", hint="`sparkmirror run` tries every partition at its start")

        return ask_or_do(asker, request, read, refuse)
