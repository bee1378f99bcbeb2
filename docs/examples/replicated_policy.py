"""Remote topics called `replicated-<source>-<topic>`. An alias with a dash in it cannot be read back from such a name."""


class ReplicatedPolicy:
    def format_remote_topic(self, source_alias: str, topic: str) -> str:
        return f"replicated-{source_alias}-{topic}"

    def topic_source(self, topic: str) -> str | None:
        parts = topic.split("-", 2)
        return parts[1] if topic.startswith("replicated-") else None

    def upstream_topic(self, topic: str) -> str | None:
        parts = topic.split("-", 2)
        return parts[2] if topic.startswith("replicated-") and len(parts) == 3 else None

    def is_internal_topic(self, topic: str) -> bool:
        return topic.endswith(".internal") or topic.startswith("__")
