"""Which names a flow wants: by lists of Java regular expressions that must fit the whole name, or by a user's class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from sparkmirror.config import FlowSettings
from sparkmirror.config.java_regex import JavaPattern, compile_list
from sparkmirror.config.java_regex_parser import RegexRefused
from sparkmirror.topology.custom import CustomObject, custom_object


class NameFilter(Protocol):
    """Chooses topics or groups by name."""

    def wants(self, name: str) -> bool:
        """Whether `name` passes."""

    def refusal(self, name: str) -> str | None:
        """Why `name` does not pass, or none if it does."""


class ConfigPropertyFilter(Protocol):
    """Chooses topic configs by name."""

    def wants(self, name: str) -> bool:
        """Whether the config `name` is copied."""

    def wants_source_default(self, name: str) -> bool:
        """Whether it is copied even where the source has only a default for it."""


@dataclass(frozen=True, slots=True)
class _PatternFilter:
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
class _PatternConfigFilter:
    """Wants every topic config but the excluded ones."""

    _excluded: JavaPattern
    _copies_defaults: bool

    def wants(self, name: str) -> bool:
        """Whether the config `name` is copied."""
        return not self._excluded.fullmatch(name)

    def wants_source_default(self, name: str) -> bool:
        """The same for every config: what `use.defaults.from` says."""
        return self._copies_defaults


@dataclass(frozen=True, slots=True)
class _CustomFilter:
    """Asks one method of a class of the user's."""

    own: CustomObject
    method: str

    def wants(self, name: str) -> bool:
        """The user's answer."""
        return self.own.truth(self.method, name)

    def refusal(self, name: str) -> str | None:
        """Who refused, if the user's class did."""
        return None if self.wants(name) else f"refused by {self.own.reference}"


@dataclass(frozen=True, slots=True)
class _CustomConfigFilter:
    """Asks a class of the user's; what it does not define follows `use.defaults.from`."""

    own: CustomObject
    _copies_defaults: bool

    def wants(self, name: str) -> bool:
        """The user's answer."""
        return self.own.truth("should_replicate_config_property", name)

    def wants_source_default(self, name: str) -> bool:
        """The user's answer, or what `use.defaults.from` says."""
        if self.own.has("should_replicate_source_default"):
            return self.own.truth("should_replicate_source_default", name)
        return self._copies_defaults


def topic_filter(flow: FlowSettings) -> NameFilter:
    """The filter of `topics` and `topics.exclude`, or the user's; raises `ConfigInvalid` if that cannot be used."""
    own = custom_object(flow, "topic.filter.class", flow.topic_filter_class)
    return name_filter(flow.topics, flow.topics_exclude) if own is None else _CustomFilter(own, "should_replicate_topic")


def group_filter(flow: FlowSettings) -> NameFilter:
    """The filter of `groups` and `groups.exclude`, or the user's; raises `ConfigInvalid` if that cannot be used."""
    own = custom_object(flow, "group.filter.class", flow.group_filter_class)
    return name_filter(flow.groups, flow.groups_exclude) if own is None else _CustomFilter(own, "should_replicate_group")


def config_property_filter(flow: FlowSettings) -> ConfigPropertyFilter:
    """The filter of `config.properties.exclude`, or the user's; raises `ConfigInvalid` if that cannot be used."""
    copies_defaults = flow.use_defaults_from == "source"
    own = custom_object(flow, "config.property.filter.class", flow.config_property_filter_class)
    if own is not None:
        return _CustomConfigFilter(own, copies_defaults)
    return _PatternConfigFilter(compile_list(flow.config_properties_exclude), copies_defaults)


def name_filter(include: tuple[str, ...], exclude: tuple[str, ...]) -> NameFilter:
    """A filter of two lists; raises `RegexRefused`."""
    return _PatternFilter(include, exclude, compile_list(include), compile_list(exclude))


def accepts_gap(flow: FlowSettings, topic: str) -> bool:
    """Whether records that the source deleted before they were copied are passed over (`on.source.gap`)."""
    return flow.on_source_gap == "skip" or name_filter(flow.on_source_gap_skip_topics, ()).wants(topic)


def _first_fit(patterns: tuple[str, ...], name: str) -> str:
    for pattern in patterns:
        try:
            if compile_list((pattern,)).fullmatch(name):
                return pattern
        except RegexRefused:
            break  # an item such as `(a` of the list `(a,b)` is a pattern only together with the others
    return ",".join(patterns)
