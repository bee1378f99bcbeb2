"""Kafka cross-cluster replication whose data path runs as Spark tasks.

    >>> import sparkmirror
    >>> settings = sparkmirror.load("mm2.properties")    # doctest: +SKIP
    >>> sparkmirror.plan(settings).is_complete           # doctest: +SKIP
    True
    >>> sparkmirror.run(settings, once=True)             # doctest: +SKIP

This file is imported by every Spark task, so it imports neither Spark nor Kafka: what needs them is imported when used.
"""

from __future__ import annotations

import collections.abc
import importlib
import typing

from sparkmirror.errors import (
    ClusterError,
    ClusterUnreachable,
    ConfigError,
    ConfigFileUnreadable,
    ConfigInvalid,
    FlowOwnedByAnother,
    InternalError,
    NoFlowEnabled,
    OwnershipError,
    ReplicationError,
    SparkmirrorError,
)
from sparkmirror.model import FlowName, TopicPartition

if typing.TYPE_CHECKING:
    from sparkmirror.config import Settings
    from sparkmirror.examination import FlowPlan, Plan
    from sparkmirror.status import FlowStatus, PartitionStatus

__all__ = [
    "ClusterError",
    "ClusterUnreachable",
    "ConfigError",
    "ConfigFileUnreadable",
    "ConfigInvalid",
    "FlowName",
    "FlowOwnedByAnother",
    "FlowPlan",
    "FlowStatus",
    "InternalError",
    "NoFlowEnabled",
    "OwnershipError",
    "PartitionStatus",
    "Plan",
    "ReplicationError",
    "Settings",
    "SparkmirrorError",
    "TopicPartition",
    "load",
    "plan",
    "run",
]

__version__ = "0.1.0"

_LATE = {
    "FlowPlan": "sparkmirror.examination",
    "FlowStatus": "sparkmirror.status",
    "PartitionStatus": "sparkmirror.status",
    "Plan": "sparkmirror.examination",
    "Settings": "sparkmirror.config",
}


def __getattr__(name: str) -> typing.Any:
    """The values that need Spark or Kafka, imported at their first use."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_LATE[name]), name)


def load(path: str) -> Settings:
    """The settings of MirrorMaker 2's properties file; raises `ConfigFileUnreadable` or `ConfigInvalid`."""
    from sparkmirror.config import load as load_file

    return load_file(path)


def plan(settings: Settings, *, targets: collections.abc.Collection[str] | None = None) -> Plan:
    """What a run would do. Reads both clusters, changes neither, starts no Spark."""
    from sparkmirror.examination import make_plan

    return make_plan(settings, targets)


def run(
    settings: Settings,
    *,
    once: bool = False,
    targets: collections.abc.Collection[str] | None = None,
    take_over: bool = False,
    standby: bool = False,
    master: str = "local[*]",
    conf: collections.abc.Mapping[str, str] | None = None,
    session: object = None,
) -> list[FlowStatus]:
    """Copies every enabled flow; returns the last status of the flows.

    With `once` it ends at the end offsets seen at the start, else when interrupted (KeyboardInterrupt drains and is
    raised again). Raises what ended a flow. A partition that stopped is in the statuses and raises nothing.

    With `session`, a `pyspark.sql.SparkSession` as notebooks have one, it runs in that session and leaves it running;
    `master` and `conf` do not count then.
    """
    from sparkmirror.control import RunOptions, run_flows
    from sparkmirror.failover import OWNER_VERBS

    options = RunOptions(once, targets, take_over, standby, master, dict(conf or {}), OWNER_VERBS, session)
    return run_flows(settings, options)
