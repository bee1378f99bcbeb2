"""What ends the stop of a partition: one table, by the code of the error that stopped it.

| resumes when …                           | the codes                                                                  |
|------------------------------------------|----------------------------------------------------------------------------|
| the target topic's settings changed      | a record that its size or timestamp limits refuse                          |
| a new attempt succeeds                   | whatever else a cluster refuses, and bytes that arrived damaged            |
| somebody decided: a move was written     | everything of which continuing would lose, double or mix up records        |
| the flow is started with another file    | what a transform cannot do                                                 |
"""

from __future__ import annotations

from enum import Enum

from sparkmirror import errors


class Resumption(Enum):
    """What has to happen before a stopped partition is copied again."""

    SETTINGS = "when the settings of the target topic change"
    RETRY = "when a new attempt succeeds"
    MOVE = "when its position is moved"
    FILE = "when the flow starts with another configuration"


_BY_CODE = {
    errors.RecordTooLarge.code: Resumption.SETTINGS,
    errors.TargetRefusedRecords.code: Resumption.RETRY,
    errors.CorruptBatch.code: Resumption.RETRY,
    errors.ReplicationError.code: Resumption.RETRY,
    errors.SourceOffsetLost.code: Resumption.MOVE,
    errors.SourceTopicRecreated.code: Resumption.MOVE,
    errors.SourceTruncated.code: Resumption.MOVE,
    errors.TargetTopicRecreated.code: Resumption.MOVE,
    errors.TargetHasStranger.code: Resumption.MOVE,
    errors.ContentDiffers.code: Resumption.MOVE,
    errors.OrderBroken.code: Resumption.MOVE,
    errors.NoStartingPoint.code: Resumption.MOVE,
    errors.PositionRemoved.code: Resumption.MOVE,
    errors.TransformFailed.code: Resumption.FILE,
    errors.TransformMissing.code: Resumption.FILE,
}


def resumption(code: str) -> Resumption:
    """What ends a stop with this code; an unknown code waits for somebody to decide."""
    return _BY_CODE.get(code, Resumption.MOVE)
