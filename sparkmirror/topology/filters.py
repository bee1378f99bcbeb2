"""Which names a flow wants, by lists of Java regular expressions that must fit the whole name."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config import FlowSettings
from sparkmirror.config.java_regex import JavaPattern, RegexRefused, compile_list

__all__ = [
    "ConfigPropertyFilter",
    "NameFilter",
    "config_property_filter",
    "group_filter",
    "name_filter",
    "topic_filter",
]


@dataclass(frozen=True, slots=True)
class NameFilter:
    """Wants what an include pattern fits and no exclude pattern fits."""

    include: tuple[str, ...]
    exclude: tuple[str, ...]
    _included: JavaPattern
    _excluded: JavaPattern

    def wants(self, name: str) -> bool:
        """Whether `name` passes."""
        return self._included.fullmatch(name) and not self._excluded.fullmatch(name)

    def refusal(self, name: str) -> str | None:
        """Why `name` does not pass, or none if it does."""
        if self._excluded.fullmatch(name):
            return f"excluded by pattern `{_first_fit(self.exclude, name)}`"
        if not self._included.fullmatch(name):
            return "matched by no include pattern"
        return None


@dataclass(frozen=True, slots=True)
class ConfigPropertyFilter:
    """Wants every topic config but the excluded ones."""

    exclude: tuple[str, ...]
    _excluded: JavaPattern

    def wants(self, name: str) -> bool:
        """Whether the config `name` is copied."""
        return not self._excluded.fullmatch(name)


def topic_filter(flow: FlowSettings) -> NameFilter:
    """The filter of `topics` and `topics.exclude`."""
    return name_filter(flow.topics, flow.topics_exclude)


def group_filter(flow: FlowSettings) -> NameFilter:
    """The filter of `groups` and `groups.exclude`."""
    return name_filter(flow.groups, flow.groups_exclude)


def config_property_filter(flow: FlowSettings) -> ConfigPropertyFilter:
    """The filter of `config.properties.exclude`."""
    exclude = flow.config_properties_exclude
    return ConfigPropertyFilter(exclude, compile_list(exclude))


def name_filter(include: tuple[str, ...], exclude: tuple[str, ...]) -> NameFilter:
    """A filter of two lists; raises `RegexRefused`."""
    return NameFilter(include, exclude, compile_list(include), compile_list(exclude))


def _first_fit(patterns: tuple[str, ...], name: str) -> str:
    for pattern in patterns:
        try:
            if compile_list((pattern,)).fullmatch(name):
                return pattern
        except RegexRefused:
            break  # an item such as `(a` of the list `(a,b)` is a pattern only together with the others
    return ",".join(patterns)
