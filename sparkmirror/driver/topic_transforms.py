"""Which transforms the records of a topic pass; with any it is copied by the transform query."""

from __future__ import annotations

from sparkmirror.config import ConnectTransform, FlowSettings, TransformSettings
from sparkmirror.config.java_regex import compile_java
from sparkmirror.topology import name_filter, policy_for


class TopicTransforms:
    """Asked for often, so what was found is kept."""

    def __init__(self, flow: FlowSettings) -> None:
        self._flow, self._policy = flow, policy_for(flow)
        self._filters = [(transform, name_filter(transform.topics, ())) for transform in flow.record_transforms]
        self._found: dict[str, tuple[TransformSettings, ...]] = {}
        self._connected: dict[str, bool] = {}

    def of(self, topic: str) -> tuple[TransformSettings, ...]:
        """The flow's own, in the order in which they are applied. Connect's are applied behind them, to all topics."""
        if topic not in self._found:
            self._found[topic] = tuple(transform for transform, names in self._filters if names.wants(topic))
        return self._found[topic]

    def are_for(self, topic: str) -> bool:
        """Whether any transform may change, leave out or send elsewhere a record of this topic."""
        return bool(self.of(topic)) or self._is_connected(topic)

    def names(self, topic: str) -> tuple[str, ...]:
        """Of all that its records may pass."""
        connected = self._flow.connect_transforms if self._is_connected(topic) else ()
        return (*(transform.name for transform in self.of(topic)), *(transform.name for transform in connected))

    def _is_connected(self, topic: str) -> bool:
        if topic not in self._connected:
            remote = self._policy.format_remote_topic(self._flow.name.source, topic)
            chain = self._flow.connect_transforms
            self._connected[topic] = self._flow.has_simple_headers or any(_may_apply(step, remote) for step in chain)
        return self._connected[topic]


def _may_apply(transform: ConnectTransform, remote: str) -> bool:
    """A step before it may have changed the name, but then that step applies."""
    predicate = transform.predicate
    if predicate is None or predicate.type != "TopicNameMatches":
        return True
    return compile_java(predicate.options["pattern"]).fullmatch(remote) != transform.negate
