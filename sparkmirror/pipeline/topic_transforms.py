"""Which transforms the records of a topic pass; with any it is copied by the record lane."""

from __future__ import annotations

from sparkmirror.config import FlowSettings, TransformSettings
from sparkmirror.topology import name_filter

__all__ = ["TopicTransforms"]


class TopicTransforms:
    """Asked for often, so what was found is kept."""

    def __init__(self, flow: FlowSettings) -> None:
        self._filters = [(transform, name_filter(transform.topics, ())) for transform in flow.record_transforms]
        self._found: dict[str, tuple[TransformSettings, ...]] = {}

    def of(self, topic: str) -> tuple[TransformSettings, ...]:
        """In the order in which they are applied."""
        if topic not in self._found:
            self._found[topic] = tuple(transform for transform, names in self._filters if names.wants(topic))
        return self._found[topic]
