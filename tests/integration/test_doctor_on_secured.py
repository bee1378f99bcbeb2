"""The doctor where brokers have an authorizer and TLS: what it may not ask stays open by name, never a wrong verdict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from integration.authority import Authority
from integration.mirroring import create_topics, flow_settings, numbered, produce, run_cleanly, write_settings
from integration.scenario import commit
from integration.secured import PLAIN_MODULE, RESOURCES, Right, documented_rights
from integration.test_doctor_on_clusters import Told, tell

from sparkmirror.local import Listener, LocalCluster

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

ALIAS, TOPIC, GROUP = "guarded", "guarded-orders", "guarded-group"
USERS = ("nobody", "watcher", "mirror")


@dataclass
class Views:
    """What the doctor says to each user."""

    told: dict[str, Told]


def jaas(user: str) -> str:
    return f'{PLAIN_MODULE} required username="{user}" password="secret-{user}";'


def cluster_of(folder: Path) -> tuple[LocalCluster, Authority]:
    authority = Authority(folder, "authority")
    pem = authority.issue("broker", to_day=9)
    users = " ".join(f'user_{name}="secret-{name}"' for name in USERS)
    listener = Listener("LOGIN", "SASL_SSL", {
        "ssl.keystore.type": "PEM", "ssl.keystore.location": str(pem), "sasl.enabled.mechanisms": "PLAIN",
        "plain.sasl.jaas.config": f"{PLAIN_MODULE} required {users};",
    })  # fmt: skip
    rules = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
             "super.users": "User:ANONYMOUS"}  # fmt: skip
    return LocalCluster("guarded", overrides=rules, listeners=[listener]), authority


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Views]:
    """One cluster that is both sides, a flow that was copied once, and three users who look at it."""
    folder = tmp_path_factory.mktemp("guarded")
    cluster, authority = cluster_of(folder)
    told: dict[str, Told] = {}
    with cluster:
        create_topics(cluster, {TOPIC: (1, {})})
        produce(cluster, TOPIC, 0, numbered(10))
        commit(cluster, GROUP, TOPIC, {0: 4})
        more = {"groups": GROUP, "sync.topic.acls.enabled": "false", "lag.group.enabled": "true"}
        settings = flow_settings(cluster, cluster, alias=ALIAS, topics=TOPIC, more=more)
        run_cleanly(write_settings(folder / "once.properties", settings))
        for start in (f"{ALIAS}*", "mm2-*"):
            Right("source", "Topic", start, ("Describe",), "").grant(cluster, "watcher", {})
        names = {"A": ALIAS, "B": f"{ALIAS}-to", "TOPIC": TOPIC, "GROUP": GROUP}
        for right in documented_rights():
            if right.resource in RESOURCES and right.only_with != "sync.topic.acls.enabled = true":
                right.grant(cluster, "mirror", names)
        for user in USERS:
            login = {
                "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN",
                "ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.file),
                "sasl.jaas.config": jaas(user),
            }  # fmt: skip
            secured = {**settings, **login}
            for alias in (ALIAS, f"{ALIAS}-to"):
                secured[f"{alias}.bootstrap.servers"] = cluster.address_of("LOGIN")
            told[user] = tell("doctor", str(write_settings(folder / f"{user}.properties", secured)), "--wait", "0")
    yield Views(told)


@pytest.mark.parametrize("user", USERS)
def test_a_certificate_is_told_days_before_it_ends(views: Views, user: str) -> None:
    found = [f for f in views.told[user].findings if f["id"] == "V5" and "broker 1" in f["message"]]
    assert found and found[0]["severity"] == "W" and "8 days" in found[0]["message"]


def test_who_may_see_nothing_is_told_what_it_takes_and_nothing_wrong(views: Views) -> None:
    told = views.told["nobody"]
    assert told.status == 2
    assert {f["id"] for f in told.findings} <= {"V5", "C04"}
    assert all(question["reason"] for flow in told.value["flows"] for question in flow["open"])


def test_who_may_only_describe_topics_is_told_which_rights_the_mirror_lacks(views: Views) -> None:
    told = views.told["watcher"]
    assert told.status == 4
    lacking = [f["message"] for f in told.findings if f["id"] == "V3"]
    assert any(f"lacks Read, DescribeConfigs on 1 source topic of {ALIAS}" in message for message in lacking), lacking
    needs = {question["needs"] for flow in told.value["flows"] for question in flow["open"]}
    assert any(f"mm2-ledger.{ALIAS}.internal" in need for need in needs), needs
    assert {f["id"] for f in told.findings if f["severity"] == "E"} == {"V3"}


def test_the_rights_of_the_mirror_are_enough_but_for_what_it_never_asks(views: Views) -> None:
    told = views.told["mirror"]
    assert [f["message"] for f in told.findings if f["severity"] != "I" and f["id"] != "V5"] == []
    opens = {(question["id"], question["needs"]) for flow in told.value["flows"] for question in flow["open"]}
    assert told.status == 2 and {name for name, _ in opens} <= {"V4", "C26", "V1"}, opens
    assert all(needs for _, needs in opens), opens
