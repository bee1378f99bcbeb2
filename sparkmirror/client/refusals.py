"""Why a request was not answered.

ClusterError
├── CheckpointsMissing      the cluster has no checkpoints topic of this source
├── LedgerMissing           the cluster has no ledger of this source
└── DeadlineReached         the answer was not complete in time (`state/following.py`)
"""

from __future__ import annotations

from sparkmirror.errors import ClusterError


class CheckpointsMissing(ClusterError):
    """The cluster has no checkpoints topic of this source."""

    code, http_status = "CHECKPOINTS_MISSING", 404

    def __init__(self, cluster: str, topic: str) -> None:
        super().__init__(
            f"cluster {cluster}: topic {topic} does not exist, so no group of that source was mirrored to it",
            hint="check the alias of the source, replication.policy.separator and emit.checkpoints.enabled of the mirror",
        )


class LedgerMissing(ClusterError):
    """The cluster has no ledger of this source."""

    code, http_status = "LEDGER_MISSING", 404

    def __init__(self, cluster: str, topic: str) -> None:
        super().__init__(
            f"cluster {cluster}: topic {topic} does not exist, so sparkmirror never copied that source to it",
            hint="remote_consumer_offsets() answers from the checkpoints that MirrorMaker 2 writes too",
        )
