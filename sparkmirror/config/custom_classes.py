"""Keys that may name a Python class of the user's as `module:Class`, and what such a class must have.

Only the text is judged here: a task reads the file too, and nothing of the user's is imported there.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_REFERENCE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*:[A-Za-z_]\w*\Z", re.ASCII)

# Key to the methods its class must have, each with its arguments.
CUSTOM_METHODS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "replication.policy.class": {
        "format_remote_topic": ("source_alias", "topic"),
        "topic_source": ("topic",),
        "upstream_topic": ("topic",),
    },
    "topic.filter.class": {"should_replicate_topic": ("topic",)},
    "group.filter.class": {"should_replicate_group": ("group",)},
    "config.property.filter.class": {"should_replicate_config_property": ("name",)},
})  # fmt: skip


def is_class_reference(text: str) -> bool:
    """Whether `text` names a Python class."""
    return _REFERENCE.match(text) is not None and ".py:" not in text


def signatures(key: str) -> str:
    """The methods that the class of `key` must have, in words."""
    return ", ".join(f"{name}({', '.join(arguments)})" for name, arguments in CUSTOM_METHODS[key].items())
