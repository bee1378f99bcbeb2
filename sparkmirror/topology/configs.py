"""Which settings of a source topic its remote topic gets, at its creation and later (spec §7.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sparkmirror.config import FlowSettings
from sparkmirror.model import ConfigEntry
from sparkmirror.topology.filters import ConfigPropertyFilter, config_property_filter

TOPIC_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 1, 4, 5


@dataclass(frozen=True, slots=True)
class ConfigRules:
    """The rules of one flow."""

    wanted: ConfigPropertyFilter

    @classmethod
    def of(cls, flow: FlowSettings) -> ConfigRules:
        """By `config.properties.exclude`, `config.property.filter.class` and `use.defaults.from`."""
        return cls(config_property_filter(flow))

    def concerns(self, entry: ConfigEntry) -> bool:
        """Whether the setting is the flow's business at all; the target's value of any other is left alone."""
        is_fixed = entry.is_read_only or entry.is_sensitive or entry.source == STATIC_BROKER_CONFIG
        return not is_fixed and self.wanted.wants(entry.name)

    def copies(self, entry: ConfigEntry) -> bool:
        """Whether the target gets the value; if not, it gets its own default."""
        is_default = entry.source == DEFAULT_CONFIG
        return entry.value is not None and (not is_default or self.wanted.wants_source_default(entry.name))


def creation_configs(rules: ConfigRules, entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """The settings a new remote topic gets."""
    return {e.name: e.value for e in entries if e.value is not None and rules.concerns(e) and rules.copies(e)}


def config_changes(
    rules: ConfigRules, source: Iterable[ConfigEntry], target: Mapping[str, ConfigEntry]
) -> dict[str, str | None]:
    """What brings the remote topic in step: a value to set, or None for "back to the target's default".

    A setting that the target does not know is not among them: it would fail, and with it all others (L31).
    """
    changes: dict[str, str | None] = {}
    for entry in source:
        found = target.get(entry.name)
        if found is None or not rules.concerns(entry):
            continue
        is_override = found.source == TOPIC_CONFIG
        if rules.copies(entry):
            if not is_override or found.value != entry.value:
                changes[entry.name] = entry.value
        elif is_override:
            changes[entry.name] = None
    return changes
