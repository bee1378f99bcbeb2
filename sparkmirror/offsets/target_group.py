"""What may be committed for a group on the target: only while it has no members, and only forward."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from sparkmirror.model import Checkpoint, TopicPartition


@dataclass(frozen=True, slots=True)
class TargetGroup:
    """A group as the target's coordinator shows it; None for a partition whose commit some client reset to nothing."""

    has_members: bool
    committed: Mapping[TopicPartition, int | None]


def offsets_to_write(
    checkpoints: Collection[Checkpoint], group: TargetGroup, *, rewound: Collection[TopicPartition] = ()
) -> dict[TopicPartition, Checkpoint]:
    """The commits that bring the target's group to its checkpoints, without moving it back.

    `rewound`: partitions whose group was set back on the source and may be set back here (sync.group.offsets.rewind).
    """
    if group.has_members:
        return {}
    wanted = {}
    for checkpoint in checkpoints:
        found = group.committed.get(checkpoint.partition)
        is_back = found is not None and checkpoint.downstream_offset < found
        if checkpoint.downstream_offset != found and (not is_back or checkpoint.partition in rewound):
            wanted[checkpoint.partition] = checkpoint
    return wanted
