"""The one command that goes on, for every reason that stops a partition until somebody decides."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.errors import (
    ContentDiffers,
    OrderBroken,
    PositionRemoved,
    ReplicationError,
    SourceOffsetLost,
    SourceTopicRecreated,
    SourceTruncated,
    TargetHasStranger,
    TargetTopicRecreated,
)
from sparkmirror.ledger import Open
from sparkmirror.model import TopicPartition
from sparkmirror.status.flow_status import MirroredTopic


@dataclass(frozen=True, slots=True)
class Remedies:
    """Commands that can be copied to a shell; `file` is the configuration's path, with `--flow` where it has several."""

    file: str

    def skip(self, partition: TopicPartition) -> str:
        """Goes on behind what cannot be copied."""
        return f"sparkmirror offsets skip {self._place(partition)}"

    def reset(self, partition: TopicPartition, to: int | str | None = None) -> str:
        """Restarts the copy, at the beginning unless an offset is given."""
        return f"sparkmirror offsets reset {self._place(partition)}" + ("" if to is None else f" --to {to}")

    def _place(self, partition: TopicPartition) -> str:
        return f"{self.file or 'FILE'} --topic {partition.topic} --partition {partition.partition}"

    def with_hint(self, error: ReplicationError, partition: TopicPartition, next_upstream: int) -> ReplicationError:
        """The error, with what helps against it if it does not say so itself."""
        if error.hint:
            return error
        match error:
            case SourceOffsetLost():
                error.hint = f"to accept the gap: {self.skip(partition)}"
            case SourceTopicRecreated() | TargetTopicRecreated():
                error.hint = f"to copy it from its beginning: {self.reset(partition)}"
            case SourceTruncated():
                error.hint = f"to go on at the source's end: {self.reset(partition, 'latest')}"
            case TargetHasStranger():
                error.hint = f"stop the other writer, then go on behind what it wrote: {self.skip(partition)}"
            case ContentDiffers() | OrderBroken():
                error.hint = (
                    "compare the last records of both sides; to go on behind what the target holds: "
                    f"{self.reset(partition, next_upstream)}"
                )
            case _:
                pass
        return error

    def lost(self, partition: TopicPartition, wanted: int, log_start: int) -> ReplicationError:
        """What stops a partition whose next records the source has deleted."""
        error = SourceOffsetLost(
            f"{partition}: wanted upstream offset {wanted}, but the source log starts at {log_start}; "
            f"{log_start - wanted} offsets are gone and were never copied"
        )
        return self.with_hint(error, partition, wanted)

    def truncated(self, partition: TopicPartition, wanted: int, log_end: int) -> ReplicationError:
        """What stops a partition whose source has lost records that were copied."""
        return SourceTruncated(
            f"{partition}: upstream offset {wanted} comes next, but the source ends at {log_end}: "
            f"{wanted - log_end} offsets that were copied are gone there",
            hint=f"to resume at its end: {self.reset(partition, log_end)}",
        )

    def position_removed(
        self, partition: TopicPartition, offsets_topic: str, start: int, again: str
    ) -> ReplicationError:
        """What stops a partition whose position somebody removed, if the file says so; `again`: what would come twice."""
        return PositionRemoved(
            f"{partition}: its position was removed from {offsets_topic} while the flow was stopped; a restart at upstream "
            f"offset {start} would copy {again} again",
            hint=f"to copy them again: {self.reset(partition, start)}; to continue where the copy ended: "
            "on.positions.removed = ignore",
        )

    def recreated(self, order: Open, topic: MirroredTopic) -> ReplicationError | None:
        """What stops a partition that was copied by `order`, if one of its topics is another one now."""
        partition, copied = order.partition, order.position.upstream
        error: ReplicationError
        if order.source_topic_id != topic.source_topic_id:
            error = SourceTopicRecreated(
                f"{partition}: the source topic was deleted and created again (id {topic.source_topic_id}, "
                f"expected {order.source_topic_id}); its previous incarnation was copied from upstream offset {copied} on"
            )
        elif order.target_topic != topic.remote:
            error = TargetTopicRecreated(
                f"{partition}: it was copied to topic {order.target_topic} before, and the replication policy now names "
                f"that {topic.remote}; going on there would leave the earlier records behind"
            )
        elif order.target_topic_id != topic.target_topic_id:
            error = TargetTopicRecreated(
                f"{partition}: target topic {topic.remote} was deleted and created again (id "
                f"{topic.target_topic_id}, expected {order.target_topic_id}); what was copied before is gone there"
                if topic.target_topic_id
                else f"{partition}: target topic {topic.remote} was deleted (id expected {order.target_topic_id}); what was "
                "copied before is gone there"
            )
        else:
            return None
        return self.with_hint(error, partition, copied)
