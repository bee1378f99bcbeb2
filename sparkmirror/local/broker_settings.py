"""The settings of one combined KRaft node, made for tests: few partitions, no waiting, loopback only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkmirror.local.ports import HOST

__all__ = ["BrokerPorts", "broker_settings"]


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one node; `advertised` is what clients of the second listener are told, `door` where it listens."""

    direct: int
    controller: int
    door: int
    advertised: int


def broker_settings(
    broker: int, ports: Mapping[int, BrokerPorts], data: Path, *, with_door: bool
) -> dict[str, str]:
    """All settings of one node, before a caller's own win over them."""
    return _listeners(ports[broker], with_door=with_door) | _quorum(broker, ports) | _storage(data, len(ports))


def _listeners(own: BrokerPorts, *, with_door: bool) -> dict[str, str]:
    listening = [f"DIRECT://{HOST}:{own.direct}"]
    advertised = list(listening)
    if with_door:
        listening.append(f"DOOR://{HOST}:{own.door}")
        advertised.append(f"DOOR://{HOST}:{own.advertised}")
    return {
        "listeners": ",".join([*listening, f"CONTROLLER://{HOST}:{own.controller}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": "DIRECT:PLAINTEXT,DOOR:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "DIRECT",
        "controller.listener.names": "CONTROLLER",
    }


def _quorum(broker: int, ports: Mapping[int, BrokerPorts]) -> dict[str, str]:
    voters = ",".join(f"{node}@{HOST}:{node_ports.controller}" for node, node_ports in ports.items())
    return {
        "node.id": str(broker),
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        # One node elects itself; the wait is only for others that could be quicker.
        "controller.quorum.election.backoff.max.ms": "100",
        # A broker that comes back is refused until its old session has ended (DUPLICATE_BROKER_REGISTRATION), and asks
        # again once per heartbeat. With Kafka's 9 s and 2 s a restart took 13 s, with these 7 s. Much shorter could
        # fence a broker that merely waits for a core.
        "broker.session.timeout.ms": "4000",
        "broker.heartbeat.interval.ms": "500",
    }


def _storage(data: Path, brokers: int) -> dict[str, str]:
    in_sync = "2" if brokers == 3 else "1"
    return {
        "log.dirs": str(data),
        "auto.create.topics.enable": "false",
        "default.replication.factor": str(brokers),
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": "1",
        "offsets.topic.replication.factor": str(brokers),
        "transaction.state.log.num.partitions": "1",
        "transaction.state.log.replication.factor": str(brokers),
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": "1",
        "share.coordinator.state.topic.replication.factor": str(brokers),
        "share.coordinator.state.topic.min.isr": in_sync,
        "group.initial.rebalance.delay.ms": "0",
        # The default of 128 MB is allocated at the start, per cleaner thread, out of a heap of 256 MB.
        "log.cleaner.dedupe.buffer.size": str(8 * 1024 * 1024),
    }
