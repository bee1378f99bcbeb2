"""A login that a broker refuses: one error, at once, that names cluster, address, mechanism, user and key."""

from __future__ import annotations

import time
from contextlib import closing

import pytest
from fake import FakeCluster

from sparkmirror.clusters import ClusterClient
from sparkmirror.config import ClusterSettings, Secret
from sparkmirror.errors import ClusterUnreachable, LoginRefused

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def a_client(cluster: FakeCluster, user: str, password: str) -> ClusterClient:
    jaas = f'{PLAIN} required username="{user}" password="{password}";'
    login = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": Secret(jaas)}
    return ClusterClient(ClusterSettings("A", ((cluster.host, cluster.port),), login))


def test_the_right_password_is_let_in(fake_cluster: FakeCluster) -> None:
    fake_cluster.passwords = {"ann": "canary"}
    with closing(a_client(fake_cluster, "ann", "canary")) as client:
        assert client.view(()).brokers


@pytest.mark.parametrize(("user", "password"), [("ann", "wrong"), ("bob", "canary")])
def test_a_wrong_password_is_a_login_error_that_is_not_tried_again(
    user: str, password: str, fake_cluster: FakeCluster
) -> None:
    fake_cluster.passwords = {"ann": "canary"}
    with closing(a_client(fake_cluster, user, password)) as client:
        began = time.monotonic()
        with pytest.raises(LoginRefused) as caught:
            client.retry(lambda: client.view(()))
    assert time.monotonic() - began < 2
    assert (caught.value.code, caught.value.exit_status, fake_cluster.requests.count(36)) == ("LOGIN_REFUSED", 2, 1)
    assert caught.value.message == (
        f"cluster A at {fake_cluster.bootstrap}: PLAIN login of user {user} was refused: Authentication failed: Invalid "
        "username or password; check username and password in sasl.jaas.config"
    )
    assert password not in str(caught.value)


def test_a_login_where_there_is_none_and_none_where_there_is_one_are_said(fake_cluster: FakeCluster) -> None:
    with closing(a_client(fake_cluster, "ann", "canary")) as client, pytest.raises(LoginRefused) as caught:
        client.view(())
    assert "the listener wants no SASL login" in caught.value.message
    fake_cluster.passwords = {"ann": "canary"}
    settings = ClusterSettings("A", ((fake_cluster.host, fake_cluster.port),), {})
    with closing(ClusterClient(settings)) as client, pytest.raises(ClusterUnreachable) as closed:
        client.view(())
    assert "is the listener's security protocol the configured one?" in closed.value.message
