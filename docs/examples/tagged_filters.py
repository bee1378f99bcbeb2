"""Filters that read a key of their own: only topics and groups of one team are copied."""

from collections.abc import Mapping


class TeamTopics:
    def __init__(self, config: Mapping[str, str]) -> None:
        self.prefix = config["team.name"] + "-"

    def should_replicate_topic(self, topic: str) -> bool:
        return topic.startswith(self.prefix)


class TeamGroups:
    def __init__(self, config: Mapping[str, str]) -> None:
        self.prefix = config["team.name"] + "-"

    def should_replicate_group(self, group: str) -> bool:
        return group.startswith(self.prefix)


class RetentionOnly:
    def should_replicate_config_property(self, name: str) -> bool:
        return name.startswith("retention.")

    def should_replicate_source_default(self, name: str) -> bool:
        return False
