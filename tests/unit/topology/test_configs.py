"""Which topic settings are copied, at creation and later (spec §7.4)."""

from __future__ import annotations

import pytest

from sparkmirror.config import parse
from sparkmirror.model import ConfigEntry, FlowName
from sparkmirror.topology import ConfigRules, config_changes, creation_configs

TOPIC, DYNAMIC_DEFAULT, STATIC, DEFAULT = 1, 3, 4, 5

FILE = """
clusters = A, B
A.bootstrap.servers = a:1
B.bootstrap.servers = b:1
A->B.enabled = true
"""


def rules(more: str = "") -> ConfigRules:
    return ConfigRules.of(parse(FILE + more, "file").flow(FlowName("A", "B")))


def entry(name: str, value: str | None, source: int = TOPIC, *, fixed: bool = False, secret: bool = False) -> ConfigEntry:
    return ConfigEntry(name, value, source, fixed, secret)


SOURCE = [
    entry("cleanup.policy", "compact"),
    entry("retention.ms", "1", DYNAMIC_DEFAULT),
    entry("segment.bytes", "2", STATIC),
    entry("flush.ms", "3", DEFAULT),
    entry("min.insync.replicas", "2"),
    entry("read.only", "4", fixed=True),
    entry("pass.word", None, secret=True),
]


def test_creation_takes_overrides_and_dynamic_settings() -> None:
    """testNewTopicConfigs, testConfigPropertyFiltering."""
    assert creation_configs(rules(), SOURCE) == {"cleanup.policy": "compact", "retention.ms": "1"}


def test_creation_takes_defaults_where_the_source_rules() -> None:
    """testConfigPropertyFilteringWithAlterConfigsAndSourceDefault."""
    wanted = {"cleanup.policy": "compact", "retention.ms": "1", "flush.ms": "3"}
    assert creation_configs(rules("A->B.use.defaults.from = source\n"), SOURCE) == wanted


def test_an_own_exclude_list_replaces_the_default_one() -> None:
    own = rules("config.properties.exclude = cleanup.policy\n")
    assert creation_configs(own, SOURCE) == {"retention.ms": "1", "min.insync.replicas": "2"}


def test_later_changes_set_what_differs_and_drop_what_became_a_default() -> None:
    """testConfigPropertyFilteringWithAlterConfigs."""
    target = {
        "cleanup.policy": entry("cleanup.policy", "delete"),
        "retention.ms": entry("retention.ms", "1", DEFAULT),  # the same value, but the target's default may change
        "segment.bytes": entry("segment.bytes", "9"),
        "flush.ms": entry("flush.ms", "9"),
        "min.insync.replicas": entry("min.insync.replicas", "1"),
    }
    assert config_changes(rules(), SOURCE, target) == {
        "cleanup.policy": "compact",
        "retention.ms": "1",
        "flush.ms": None,
    }


def test_nothing_is_changed_when_all_is_in_step() -> None:
    target = {e.name: e for e in SOURCE} | {"retention.ms": entry("retention.ms", "1")}
    assert config_changes(rules(), SOURCE, target) == {}


@pytest.mark.parametrize("name", ["cleanup.policy", "retention.ms"])
def test_a_setting_the_target_does_not_know_is_left_out(name: str) -> None:
    """L31: MM2 asks for all of them, and none of the topic's settings is changed."""
    target = {e.name: entry(e.name, "other") for e in SOURCE if e.name != name}
    assert name not in config_changes(rules(), SOURCE, target)
    assert config_changes(rules(), SOURCE, target)
