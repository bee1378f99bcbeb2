"""Brokers that are older than Kafka 3.0: one clear error at the first connection, and nobody asks again."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest
from kafka.protocol.broker_version_data import BROKER_API_VERSIONS
from kafka.protocol.metadata import ApiVersionsResponse
from test_hostile_broker import HostileServer, frame

from sparkmirror.clusters import ClusterClient, committed_offsets, connect
from sparkmirror.config import parse
from sparkmirror.config.values import ClusterSettings
from sparkmirror.control.flows import check_reachable
from sparkmirror.errors import BrokerTooOld, ClusterUnreachable
from sparkmirror.model import TopicPartition

API_VERSIONS, UNSUPPORTED_VERSION = 18, 35
Release = tuple[int, int]


class OldBroker(HostileServer):
    """Says which versions it speaks, as a broker of that release does, and closes the connection on anything else."""

    def __init__(self, release: Release) -> None:
        self.asked: list[int] = []
        self._versions = BROKER_API_VERSIONS[release]
        super().__init__(self._answer)

    @property
    def settings(self) -> ClusterSettings:
        return ClusterSettings("A", ((self.address.host, self.address.port),), {})

    def _answer(self, sock: socket.socket, request: bytes) -> None:
        api, version, correlation = struct.unpack_from(">hhi", request)
        self.asked.append(api)
        if api != API_VERSIONS:
            sock.shutdown(socket.SHUT_RDWR)
            return
        is_known = version <= self._versions[API_VERSIONS][1]
        spoken = version if is_known else 0
        entry = ApiVersionsResponse.ApiVersion
        answer = ApiVersionsResponse(
            version=spoken,
            error_code=0 if is_known else UNSUPPORTED_VERSION,
            api_keys=[
                entry(version=spoken, api_key=int(key), min_version=low, max_version=high)
                for key, (low, high) in self._versions.items()
            ],
        )
        sock.sendall(frame(struct.pack(">i", correlation) + bytes(answer.encode())))


@pytest.fixture
def broker() -> Iterator[Callable[[Release], OldBroker]]:
    with ExitStack() as opened:
        yield lambda release: opened.enter_context(closing(OldBroker(release)))


@pytest.mark.parametrize("release", [(2, 0), (2, 4), (2, 7), (2, 8)])
def test_the_error_names_the_api_the_version_found_and_the_version_needed(
    broker: Callable[[Release], OldBroker], release: Release
) -> None:
    old = broker(release)
    found = BROKER_API_VERSIONS[release][10][1]
    with pytest.raises(BrokerTooOld) as raised:
        connect(old.address, alias="A", security={}, timeout_s=5.0)
    assert f"FindCoordinator is needed in version 4, found 0 to {found}" in raised.value.message
    assert f"cluster A at {old.address}" in raised.value.message
    assert "Kafka 3.0" in str(raised.value)


@pytest.mark.parametrize("release", [(3, 0), (3, 9), (4, 0)])
def test_a_broker_from_3_0_on_is_taken(broker: Callable[[Release], OldBroker], release: Release) -> None:
    with closing(connect(broker(release).address, alias="A", security={}, timeout_s=5.0)) as connection:
        assert connection.supports(65, 0)


@pytest.mark.parametrize(
    "action",
    [
        lambda client: client.view(()),
        lambda client: client.leader_node(TopicPartition("t", 0)),
        lambda client: client.coordinator("g", transactional=True),
        lambda client: committed_offsets(client, ["g"]),
    ],
)
def test_nobody_asks_an_old_broker_again(
    broker: Callable[[Release], OldBroker], action: Callable[[ClusterClient], object]
) -> None:
    old = broker((2, 8))
    with closing(ClusterClient(old.settings)) as client, pytest.raises(BrokerTooOld):
        action(client)
    assert old.asked == [API_VERSIONS, API_VERSIONS]  # in our version, which it does not know, and in its own


def test_who_examines_a_cluster_may_talk_to_an_old_broker(broker: Callable[[Release], OldBroker]) -> None:
    old = broker((2, 8))
    with closing(ClusterClient(old.settings, any_release=True)) as client, pytest.raises(ClusterUnreachable):
        client.view(())
    assert 3 in old.asked


@pytest.mark.parametrize("all_of_them", [True, False])
def test_a_run_with_an_old_cluster_ends_before_it_starts(
    broker: Callable[[Release], OldBroker], all_of_them: bool
) -> None:
    old = broker((2, 8)).address
    text = f"clusters = A, B\nA.bootstrap.servers = {old}\nB.bootstrap.servers = {old}\nA->B.enabled = true\n"
    flows = parse(text, "mm2.properties").flows
    with pytest.raises(BrokerTooOld):
        check_reachable(flows, all_of_them=all_of_them)
