"""Rounds of config sync against fakes at the door: what is asked for, what is told, and that nothing stops the rest."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.config import parse
from sparkmirror.control import configs
from sparkmirror.control.configs import ConfigSync
from sparkmirror.model import ConfigEntry, FlowName
from sparkmirror.status import FlowStatus

FILE = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
TOPIC, DEFAULT = 1, 5
INVALID_CONFIG, NOT_AUTHORIZED = 40, 29


class Clusters:
    """Settings of topics on both clusters; some topics cannot be described, some settings are refused."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.source: dict[str, dict[str, str]] = {}
        self.target: dict[str, dict[str, str]] = {}
        self.refused: dict[str, int] = {}
        self.asked: list[dict[str, dict[str, str | None]]] = []
        monkeypatch.setattr(configs, "describe_topic_configs", self._describe)
        monkeypatch.setattr(configs, "alter_topic_configs", self._alter)

    def sync(self, *topics: str) -> list[str]:
        """One round over these topics."""
        status = FlowStatus(FlowName("A", "B"), remotes={topic: f"A.{topic}" for topic in topics})
        flow = parse(FILE, "file").flow(FlowName("A", "B"))
        ends: Any = (SimpleNamespace(alias="A", who="user ann"), SimpleNamespace(alias="B", who="user ben"))
        return ConfigSync(flow, status, *ends).run()

    def _describe(self, client: Any, names: list[str]) -> dict[str, list[ConfigEntry]]:
        known = self.source if client.alias == "A" else self.target
        every = {"retention.ms": "7", "cleanup.policy": "delete"}
        return {
            name: [ConfigEntry(k, known[name].get(k, v), TOPIC if k in known[name] else DEFAULT, False, False)
                   for k, v in every.items()]
            for name in names if name in known
        }  # fmt: skip

    def _alter(self, client: Any, changes: dict[str, dict[str, str | None]]) -> dict[str, tuple[int, str]]:
        self.asked.append({topic: dict(settings) for topic, settings in changes.items()})
        answers = {}
        for topic, settings in changes.items():
            code = max((self.refused.get(name, 0) for name in settings), default=0)
            answers[topic] = (code, "no such thing" if code else "")
        return answers


@pytest.fixture
def clusters(monkeypatch: pytest.MonkeyPatch) -> Clusters:
    return Clusters(monkeypatch)


def test_what_differs_is_set_in_one_request(clusters: Clusters) -> None:
    clusters.source = {"t": {"retention.ms": "9"}, "u": {}, "v": {}}
    clusters.target = {"A.t": {}, "A.u": {"cleanup.policy": "compact"}, "A.v": {}}
    assert clusters.sync("t", "u", "v") == []
    assert clusters.asked == [{"A.t": {"retention.ms": "9"}, "A.u": {"cleanup.policy": None}}]


def test_a_topic_that_cannot_be_described_is_named_with_the_right_that_is_missing(clusters: Clusters) -> None:
    """MirrorSourceConnectorTest testMissingDescribeConfigsAcl; there the whole round fails."""
    clusters.source = {"t": {"retention.ms": "9"}}
    clusters.target = {"A.t": {}, "A.u": {}}
    [told] = clusters.sync("t", "u")
    assert told == "settings cannot be read on A: user ann needs DescribeConfigs on topic u"
    assert clusters.asked == [{"A.t": {"retention.ms": "9"}}]


def test_one_refused_setting_does_not_keep_the_others_from_being_set(clusters: Clusters) -> None:
    """L31."""
    clusters.source = {"t": {"retention.ms": "9", "cleanup.policy": "odd"}}
    clusters.target = {"A.t": {}}
    clusters.refused = {"cleanup.policy": INVALID_CONFIG}
    [told] = clusters.sync("t")
    assert told.startswith("B refuses cleanup.policy of topic A.t")
    assert clusters.asked[1:] == [{"A.t": {"retention.ms": "9"}}, {"A.t": {"cleanup.policy": "odd"}}]


def test_a_topic_without_rights_is_told_once_and_not_tried_setting_by_setting(clusters: Clusters) -> None:
    clusters.source = {"t": {"retention.ms": "9", "cleanup.policy": "compact"}}
    clusters.target = {"A.t": {}}
    clusters.refused = {"cleanup.policy": NOT_AUTHORIZED}
    [told] = clusters.sync("t")
    assert "A.t" in told
    assert len(clusters.asked) == 1
