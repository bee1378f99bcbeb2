"""Internal topics: created if missing, used if there, and the reason if neither is possible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.driver import ensure_compacted_topic, flow_ledger
from sparkmirror.driver.flow_ledger import require_compacted
from sparkmirror.errors import BrokerRefused
from sparkmirror.model import ConfigEntry


class Door:
    """A cluster that knows some topics and answers creations with a reason, None for done."""

    alias = "B"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *topics: str, refusal: str | None = None) -> None:
        self.topics, self.refusal, self.created = set(topics), refusal, []
        monkeypatch.setattr(flow_ledger, "create_topics", self._create)

    def view(self, names: list[str]) -> Any:
        found = {name: SimpleNamespace(error=0, partitions=1) for name in names if name in self.topics}
        return SimpleNamespace(topics=found, brokers={1: None})

    def leader_node(self, partition: Any) -> int:
        return 1

    def _create(self, client: Any, topics: list[Any]) -> dict[str, str | None]:
        self.created += topics
        return {topic.name: self.refusal for topic in topics}


def test_a_missing_topic_is_created_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """MirrorUtilsTest testCreateCompactedTopic."""
    door = Door(monkeypatch)
    ensure_compacted_topic(door, "t", 1, 3, "some.key")  # type: ignore[arg-type]
    [created] = door.created
    assert (created.name, created.partitions, created.replication_factor) == ("t", 1, 3)
    assert created.configs == {"cleanup.policy": "compact"}


def test_a_topic_that_is_there_needs_no_right_to_create(monkeypatch: pytest.MonkeyPatch) -> None:
    """createCompactedTopic: topic exists, unsupported version, no rights: all as if it exists."""
    door = Door(monkeypatch, "t", refusal="CLUSTER_AUTHORIZATION_FAILED")
    ensure_compacted_topic(door, "t", 1, 3, "some.key")  # type: ignore[arg-type]
    assert door.created == []


@pytest.mark.parametrize("refusal", ["INVALID_REPLICATION_FACTOR (38): 3", "TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED"])
def test_a_topic_that_cannot_be_had_is_told_with_the_brokers_reason(monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    """createCompactedTopic: invalid configuration and timeout raise; here missing rights for a missing topic do too."""
    with pytest.raises(BrokerRefused, match="internal topic t cannot be created") as told:
        ensure_compacted_topic(Door(monkeypatch, refusal=refusal), "t", 1, 3, "some.key")  # type: ignore[arg-type]
    assert refusal.split(":")[0] in str(told.value)
    is_factor = refusal.startswith("INVALID_REPLICATION_FACTOR")
    assert ("write some.key = 1: the cluster has 1 broker" in told.value.hint) == is_factor
    assert is_factor or "create it by hand" in told.value.hint


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_a_topic_from_which_retention_deletes_is_refused_with_the_command(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    """Connect's verifyTopicCleanupPolicyOnlyCompact."""
    described = {"t": [ConfigEntry("cleanup.policy", policy, 1, False, False)]}
    monkeypatch.setattr(flow_ledger, "describe_topic_configs", lambda client, topics: described)
    with pytest.raises(BrokerRefused, match=f"internal topic t has cleanup.policy={policy}") as told:
        require_compacted(Door(monkeypatch), "t")  # type: ignore[arg-type]
    assert told.value.hint == "kafka-configs.sh --alter --topic t --add-config cleanup.policy=compact"


@pytest.mark.parametrize("described", [{}, {"t": [ConfigEntry("cleanup.policy", "compact", 1, False, False)]}])
def test_a_compacted_topic_or_one_that_may_not_be_described_is_used(
    monkeypatch: pytest.MonkeyPatch, described: dict[str, list[ConfigEntry]]
) -> None:
    monkeypatch.setattr(flow_ledger, "describe_topic_configs", lambda client, topics: described)
    require_compacted(Door(monkeypatch), "t")  # type: ignore[arg-type]
