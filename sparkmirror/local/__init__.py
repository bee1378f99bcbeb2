"""Real brokers, Java's own tools and MirrorMaker 2 on this machine, for the demo, the tests and the bench."""

from sparkmirror.local.broker_settings import Listener
from sparkmirror.local.cluster import LocalCluster, open_clusters
from sparkmirror.local.jars import KAFKA_VERSION, kafka_jars
from sparkmirror.local.mirror_maker import MirrorMaker
from sparkmirror.local.processes import left_behind
from sparkmirror.local.tools import (
    console_produce,
    consumer_groups,
    create_topic,
    delete_records,
    dump_log,
    java_tool,
    perf_produce,
    tool_call,
)

__all__ = [
    "KAFKA_VERSION",
    "Listener",
    "LocalCluster",
    "MirrorMaker",
    "console_produce",
    "consumer_groups",
    "create_topic",
    "delete_records",
    "dump_log",
    "java_tool",
    "kafka_jars",
    "left_behind",
    "open_clusters",
    "perf_produce",
    "tool_call",
]
