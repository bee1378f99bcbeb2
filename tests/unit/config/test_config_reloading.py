"""What becomes of keys that change while the flows run."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkmirror.config import (
    CLIENT_KEYS,
    CONNECTOR_KEYS,
    DRIVER_KEYS,
    FLOW_KEYS,
    SECURITY_KEYS,
    WORKER_KEYS,
    Key,
    ReloadKind,
    SentSettings,
    Settings,
    load,
    merge,
    parse,
    reloading,
    taken,
)
from sparkmirror.config.keys import TASK_KEYS
from sparkmirror.errors import ConfigError
from sparkmirror.model import FlowName

TABLES = (DRIVER_KEYS, CONNECTOR_KEYS, FLOW_KEYS, WORKER_KEYS, SECURITY_KEYS, TASK_KEYS, *CLIENT_KEYS.values())
KEYS = [key for table in TABLES for key in table.values()]
FILE = "clusters = A, B\nA.bootstrap.servers = h:1\nB.bootstrap.servers = h:2\nA->B.enabled = true\n"
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
CANARY = "canary-5ecret"
FLOW = FlowName("A", "B")


def settings(more: str = "", base: str = FILE) -> Settings:
    return parse(base + more, "file", {}, allow_unknown_keys=True)


@pytest.mark.parametrize("key", KEYS, ids=lambda key: f"{key.scope.value}-{key.name}")
def test_every_key_is_classified_and_one_that_works_has_an_effect(key: Key) -> None:
    found = taken(key)
    if not key.ignored and not key.unused and key.name not in TASK_KEYS:
        assert found is not ReloadKind.NO_EFFECT
    if key.name in SECURITY_KEYS:
        assert found in (ReloadKind.RECONNECT, ReloadKind.NO_EFFECT)


def test_no_set_names_a_key_that_is_not_there_or_is_in_two_of_them() -> None:
    sets = (reloading._RESTART.keys(), reloading._LIVE, reloading._FOUND_BY, SECURITY_KEYS.keys())
    assert set().union(*sets) <= {key.name for key in KEYS}
    assert sum(map(len, sets)) == len(set().union(*sets))


def test_a_new_key_that_nobody_classified_is_refused() -> None:
    with pytest.raises(LookupError, match=r"new\.key is in none"):
        taken(Key("new.key", KEYS[0].kind, None, "", KEYS[0].scope))


TOOK = {
    "A->B.topics = x": "A->B.topics: (not written) → x",
    "topics.exclude = x": "topics.exclude: (not written) → x",
    "A.consumer.fetch.max.bytes = 7": "A.consumer.fetch.max.bytes: (not written) → 7",
    f"A.sasl.jaas.config = {CANARY}": "A.sasl.jaas.config: (not written) → [hidden]",
    "A.security.protocol = SSL": "A.security.protocol: (not written) → SSL",
    "A->B.groups =": "A->B.groups: (not written) → (empty)",
}


@pytest.mark.parametrize("line", TOOK)
def test_a_key_that_can_be_taken_is(line: str) -> None:
    merged = merge(settings(), settings(line + "\n"))
    assert ([str(change) for change in merged.changed], merged.refused) == ([TOOK[line]], ())
    assert merged.settings == settings(line + "\n")


@pytest.mark.parametrize(
    "line",
    [
        "tasks.max = 3", "A->B.tasks.max = 3", "replication.policy.separator = _", "A->B.replication.policy.separator = _",
        "B->A.enabled = true", "A.consumer.isolation.level = read_committed", "B.offset.storage.topic = t",
        "A->B.source.consumer.isolation.level = read_committed", "offset-syncs.topic.location = target",
        "A->B.transform.x.topics = t\nA->B.transform.x.sql = select * from records",
        "replication.policy.my.own.key = 1", "metrics.labels.board = x",
    ],
)  # fmt: skip
def test_a_key_that_needs_a_restart_keeps_its_value_and_the_rest_is_taken(line: str) -> None:
    merged = merge(settings(), settings(f"{line}\ngroups = g\n"))
    assert [change.key for change in merged.changed] == ["groups"]
    assert {change.key for change in merged.refused} == {part.partition(" ")[0] for part in line.split("\n")}
    assert all("restart sparkmirror" in change.reason for change in merged.refused)
    assert merged.settings.flows == settings("groups = g\n").flows


def test_clusters_and_flows_that_come_or_go_wait_for_a_restart_with_all_of_their_keys() -> None:
    three = FILE.replace("A, B", "A, B, C")
    more = "C.bootstrap.servers = h:3\nA->C.enabled = true\nA->C.topics = t\ntopics = x\n"
    for now, new, topics in ((settings(), settings(more, three), ("x",)), (settings(more, three), settings(), (".*",))):
        merged = merge(now, new)
        refused = {change.key for change in merged.refused}
        assert refused == {"clusters", "C.bootstrap.servers", "A->C.enabled", "A->C.topics"}
        assert merged.settings.clusters == now.clusters
        assert {flow.name for flow in merged.settings.enabled_flows(None)} == {f.name for f in now.enabled_flows(None)}
        assert merged.settings.flow(FLOW).topics == topics


def test_nothing_that_is_only_written_differently_is_a_change() -> None:
    assert merge(settings("topics = x\n"), settings("# why\ntopics=x\n")).changed == ()


def test_a_secret_that_its_provider_gives_anew_is_a_change_of_its_key(tmp_path: Path) -> None:
    secret, file = tmp_path / "secret.properties", tmp_path / "file"
    file.write_text(
        FILE + f"config.providers = f\nconfig.providers.f.class = {FILE_PROVIDER}\n"
        f"A.sasl.jaas.config = ${{f:{secret}:jaas}}\n"
    )
    secret.write_text(f"jaas = {CANARY}\n")
    now = load(str(file))
    secret.write_text("jaas = other\n")
    merged = merge(now, load(str(file)))
    assert [str(change) for change in merged.changed] == ["A.sasl.jaas.config: [hidden] → [hidden]"]
    assert merged.settings.flow(FLOW).source.security["sasl.jaas.config"].reveal() == "other"  # type: ignore[attr-defined]


def test_settings_are_sent_without_secrets_which_are_read_where_they_are_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text(FILE + f"A.sasl.jaas.config = {CANARY}\nB.ssl.key.password = ${{x:y}}\nA->B.topics = x\n")
    sent = SentSettings.of(load(str(file)), FLOW, str(file))
    assert CANARY not in repr(sent) + sent.text()
    flow = sent.load().flow(FLOW)
    assert (flow.topics, flow.source.security["sasl.jaas.config"].reveal()) == (("x",), CANARY)  # type: ignore[attr-defined]
    file.write_text(f"tasks.max = many\nA.sasl.jaas.config = {CANARY}2\nB.ssl.key.password = z\n")
    flow = sent.load().flow(FLOW)  # whatever else the file says now
    assert (flow.topics, flow.source.security["sasl.jaas.config"].reveal()) == (("x",), f"{CANARY}2")  # type: ignore[attr-defined]
    file.write_text("tasks.max = 1\n")
    with pytest.raises(ConfigError, match=r"A\.sasl\.jaas\.config: expected the secret that the flow runs with"):
        sent.load()


def test_settings_that_are_sent_are_those_of_one_flow() -> None:
    three = FILE.replace("A, B", "A, B, C") + "C.bootstrap.servers = h:3\nA->C.enabled = true\nA->C.topics = t\ntopics = x\n"
    sent = SentSettings.of(settings(f"C.sasl.jaas.config = {CANARY}\n", three), FLOW, "file")
    assert not any("C" in key for key, _ in sent.texts) and sent.secrets == ()
    assert sent.load().flow(FLOW).topics == ("x",)
