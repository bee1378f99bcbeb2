"""The settings of one combined KRaft node, made for tests: few partitions, no waiting, loopback only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sparkmirror.local.ports import HOST


@dataclass(frozen=True, slots=True)
class BrokerPorts:
    """The ports of one node; `advertised` is what clients of the second listener get, `door` where it listens.

    `more` are those of listeners that a caller adds, by name.
    """

    direct: int
    controller: int
    door: int
    advertised: int
    more: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Listener:
    """One more listener of each broker: its protocol, and its settings without their `listener.name.…` in front."""

    name: str
    protocol: str
    settings: Mapping[str, str] = field(default_factory=dict)

    def broker_settings(self) -> dict[str, str]:
        """Its settings as the broker wants them."""
        return {f"listener.name.{self.name.lower()}.{key}": value for key, value in self.settings.items()}


def broker_settings(
    broker: int, ports: Mapping[int, BrokerPorts], data: Path, *, with_door: bool, listeners: Sequence[Listener] = ()
) -> dict[str, str]:
    """All settings of one node, before a caller's own win over them."""
    return _listeners(ports[broker], listeners, with_door=with_door) | _quorum(broker, ports) | _storage(data, len(ports))


def _listeners(own: BrokerPorts, more: Sequence[Listener], *, with_door: bool) -> dict[str, str]:
    listening = [f"DIRECT://{HOST}:{own.direct}"]
    advertised = list(listening)
    if with_door:
        listening.append(f"DOOR://{HOST}:{own.door}")
        advertised.append(f"DOOR://{HOST}:{own.advertised}")
    for listener in more:
        listening.append(f"{listener.name}://{HOST}:{own.more[listener.name]}")
        advertised.append(listening[-1])
    protocols = ["DIRECT:PLAINTEXT", "DOOR:PLAINTEXT", "CONTROLLER:PLAINTEXT"]
    protocols += [f"{listener.name}:{listener.protocol}" for listener in more]
    own_settings = {key: value for listener in more for key, value in listener.broker_settings().items()}
    return {
        "listeners": ",".join([*listening, f"CONTROLLER://{HOST}:{own.controller}"]),
        "advertised.listeners": ",".join(advertised),
        "listener.security.protocol.map": ",".join(protocols),
        "inter.broker.listener.name": "DIRECT",
        "controller.listener.names": "CONTROLLER",
    } | own_settings


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
        # A lone controller has nobody to tell that it is idle: with Kafka's record each 500 ms a broker that does nothing
        # took 3.2 % of a core, without them 2.3 %.
        "metadata.max.idle.interval.ms": "0" if len(ports) == 1 else "500",
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
