"""Internal topics: created if missing, used if there, and the reason if neither is possible."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sparkmirror.errors import BrokerRefused
from sparkmirror.pipeline import ensure_compacted_topic, flow_ledger


class Door:
    """A cluster that knows some topics and answers creations with a reason, None for done."""

    alias = "B"

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *topics: str, refusal: str | None = None) -> None:
        self.topics, self.refusal, self.created = set(topics), refusal, []
        monkeypatch.setattr(flow_ledger, "create_topics", self._create)

    def view(self, names: list[str]) -> Any:
        return SimpleNamespace(topics={name: SimpleNamespace(error=0) for name in names if name in self.topics})

    def leader_node(self, partition: Any) -> int:
        return 1

    def _create(self, client: Any, topics: list[Any]) -> dict[str, str | None]:
        self.created += topics
        return {topic.name: self.refusal for topic in topics}


def test_a_missing_topic_is_created_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    """MirrorUtilsTest testCreateCompactedTopic."""
    door = Door(monkeypatch)
    ensure_compacted_topic(door, "t", 1, 3)  # type: ignore[arg-type]
    [created] = door.created
    assert (created.name, created.partitions, created.replication_factor) == ("t", 1, 3)
    assert created.configs == {"cleanup.policy": "compact"}


def test_a_topic_that_is_there_needs_no_right_to_create(monkeypatch: pytest.MonkeyPatch) -> None:
    """createCompactedTopic: topic exists, unsupported version, no rights: all as if it exists."""
    door = Door(monkeypatch, "t", refusal="CLUSTER_AUTHORIZATION_FAILED")
    ensure_compacted_topic(door, "t", 1, 3)  # type: ignore[arg-type]
    assert door.created == []


@pytest.mark.parametrize("refusal", ["INVALID_REPLICATION_FACTOR: 3", "TIMED_OUT", "TOPIC_AUTHORIZATION_FAILED"])
def test_a_topic_that_cannot_be_had_is_told_with_the_brokers_reason(monkeypatch: pytest.MonkeyPatch, refusal: str) -> None:
    """createCompactedTopic: invalid configuration and timeout raise; here missing rights for a missing topic do too."""
    with pytest.raises(BrokerRefused, match="internal topic t cannot be created") as told:
        ensure_compacted_topic(Door(monkeypatch, refusal=refusal), "t", 1, 3)  # type: ignore[arg-type]
    assert refusal.split(":")[0] in str(told.value)
    assert "replication factor" in told.value.hint
