"""The one door to Kafka."""

from sparkmirror.clusters.acls import create_topic_acls, describe_topic_acls
from sparkmirror.clusters.appending import Appender
from sparkmirror.clusters.client import ClusterClient
from sparkmirror.clusters.connection import Address, Buffer, Connection, connect
from sparkmirror.clusters.error_codes import is_retriable, name_of
from sparkmirror.clusters.fetch import (
    FETCH_API,
    FETCH_BY_ID,
    FETCH_BY_NAME,
    FetchAnswer,
    FetchedPartition,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    parse_fetch,
)
from sparkmirror.clusters.groups import (
    Committed,
    GroupOffsets,
    ListedGroup,
    commit_offsets,
    committed_offsets,
    list_groups,
)
from sparkmirror.clusters.lane import Lane, Reply
from sparkmirror.clusters.log import LogReader, append_records, read_range, read_raw, read_to_end
from sparkmirror.clusters.metadata import (
    METADATA_API,
    METADATA_VERSIONS,
    ClusterView,
    Leader,
    TopicView,
    metadata_request,
    read_metadata,
)
from sparkmirror.clusters.offsets import (
    EARLIEST,
    LATEST,
    leader_epoch_request,
    list_offsets,
    list_offsets_request,
    partition_ends,
)
from sparkmirror.clusters.pool import ConnectionPool
from sparkmirror.clusters.produce import (
    PRODUCE_API,
    PRODUCE_BY_ID,
    PRODUCE_BY_NAME,
    ProducedPartition,
    encode_produce,
    parse_produce,
)
from sparkmirror.clusters.producers import (
    describe_flow_request,
    describe_producers,
    fence,
    fence_all,
    find_coordinator_request,
    flow_producer,
    new_producer,
    raise_producer_epoch,
)
from sparkmirror.clusters.rights import is_right_missing, refusal
from sparkmirror.clusters.security import principal_of
from sparkmirror.clusters.topics import (
    NewTopic,
    alter_topic_configs,
    create_topics,
    describe_configs_request,
    describe_topic_configs,
    extend_topics,
    read_topic_configs,
)

__all__ = [
    "EARLIEST",
    "FETCH_API",
    "FETCH_BY_ID",
    "FETCH_BY_NAME",
    "LATEST",
    "METADATA_API",
    "METADATA_VERSIONS",
    "PRODUCE_API",
    "PRODUCE_BY_ID",
    "PRODUCE_BY_NAME",
    "Address",
    "Appender",
    "Buffer",
    "ClusterClient",
    "ClusterView",
    "Committed",
    "Connection",
    "ConnectionPool",
    "FetchAnswer",
    "FetchFrom",
    "FetchLimits",
    "FetchedPartition",
    "GroupOffsets",
    "Lane",
    "Leader",
    "ListedGroup",
    "LogReader",
    "NewTopic",
    "ProducedPartition",
    "Reply",
    "TopicView",
    "alter_topic_configs",
    "append_records",
    "commit_offsets",
    "committed_offsets",
    "connect",
    "create_topic_acls",
    "create_topics",
    "describe_configs_request",
    "describe_flow_request",
    "describe_producers",
    "describe_topic_acls",
    "describe_topic_configs",
    "encode_fetch",
    "encode_produce",
    "extend_topics",
    "fence",
    "fence_all",
    "find_coordinator_request",
    "flow_producer",
    "is_retriable",
    "is_right_missing",
    "leader_epoch_request",
    "list_groups",
    "list_offsets",
    "list_offsets_request",
    "metadata_request",
    "name_of",
    "new_producer",
    "parse_fetch",
    "parse_produce",
    "partition_ends",
    "principal_of",
    "raise_producer_epoch",
    "read_metadata",
    "read_range",
    "read_raw",
    "read_to_end",
    "read_topic_configs",
    "refusal",
]
