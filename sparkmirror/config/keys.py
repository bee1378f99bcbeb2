"""Every MirrorMaker 2 key: type, default of Kafka 4.3.1, what is valid, where it may stand, whether it is secret.

Where a key may stand (`Scope`):

    TOP        top level only: the driver's own keys
    CONNECTOR  top level, or `A->B.key`, which wins
    FLOW       `A->B.key` only; at top level MirrorMaker 2 drops it in silence
    WORKER     `B.key` of the target cluster; a few prefixes also at top level, which then wins
    SECURITY   top level, `A.key`, or `A.consumer.key` and the like
    CLIENT     behind a role: `A.consumer.key`, `A->B.producer.override.key`
    TASK       written by MirrorMaker 2 for its tasks, never by people
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType


class Kind(Enum):
    """Kafka's value types."""

    BOOLEAN = "BOOLEAN"
    SHORT = "SHORT"
    INT = "INT"
    LONG = "LONG"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    LIST = "LIST"
    CLASS = "CLASS"
    PASSWORD = "PASSWORD"


class Scope(Enum):
    """Where a key may stand in the file."""

    TOP = "top"
    CONNECTOR = "connector"
    FLOW = "flow"
    WORKER = "worker"
    SECURITY = "security"
    CLIENT = "client"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Key:
    """One key. `default` is Kafka 4.3.1's text; `our_default` is set where this program's differs from it.

    `ours` marks a key that MirrorMaker 2 does not have. `ignored` says why a key has no effect here, and its value is not
    looked at; `unused` says the same of a key whose value must be one that Kafka accepts, and which is only worth a
    warning if it is not the default. `differs` says what else is not as in MirrorMaker 2.
    """

    name: str
    kind: Kind
    default: str | None
    doc: str
    scope: Scope
    required: bool = False
    choices: tuple[str, ...] = ()
    any_case: bool = False
    low: float | None = None
    high: float | None = None
    our_default: str | None = None
    no_default: bool = False
    ignored: str = ""
    unused: str = ""
    ours: bool = False
    differs: str = ""

    @property
    def secret(self) -> bool:
        """Whether the value must never be shown."""
        return self.kind is Kind.PASSWORD

    @property
    def effective_default(self) -> str | None:
        """The text used when the key is not written."""
        if self.no_default:
            return None
        return self.default if self.our_default is None else self.our_default

    @property
    def attribute(self) -> str:
        """The key's name as an attribute of the settings."""
        return self.name.replace(".", "_").replace("-", "_")


def table(keys: Iterable[Key]) -> Mapping[str, Key]:
    """Keys by name, in the order given."""
    return MappingProxyType({key.name: key for key in keys})


BOOLEAN, SHORT, INT, LONG = Kind.BOOLEAN, Kind.SHORT, Kind.INT, Kind.LONG
STRING, LIST, CLASS = Kind.STRING, Kind.LIST, Kind.CLASS
MIRROR = "org.apache.kafka.connect.mirror."
BYTE_ARRAY_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
SIMPLE_HEADER_CONVERTER = "org.apache.kafka.connect.storage.SimpleHeaderConverter"
NO_CONNECT = "there is no Connect worker here"
COPIED = "another class is refused: records are copied byte for byte"
SOME_TRANSFORMS = "the classes of Kafka that run here are in transforms.md, others are refused; records only"
OWN_CLASS = "or a Python class as module:Class; another Java class is refused, see policies.md"
EXACTLY_ONCE = "every value is accepted: copying is exactly-once whatever is written"
NO_STATES = "no states of connectors are stored"
NO_CONFIGS = "no configs of connectors are stored"
NO_SKIPPING = "no record is ever skipped in silence: what the target refuses stops its partition"
TRIED = "what waiting mends is tried until it succeeds, anything else stops its partition"
NO_REST = "there is no internal REST server between nodes here"

# Top-level keys with these beginnings reach the worker and win over `B.key`.
WORKER_TOP_PREFIXES = (
    "offset.storage", "config.storage", "status.storage", "key.converter", "value.converter", "header.converter",
    "task", "worker", "replication.policy",
)  # fmt: skip

_TOP, _CONN, _FLOW, _WORK, _TASK = Scope.TOP, Scope.CONNECTOR, Scope.FLOW, Scope.WORKER, Scope.TASK

DRIVER_KEYS = table([
    Key("clusters", LIST, None, "aliases of all clusters", _TOP, required=True),
    Key("dedicated.mode.enable.internal.rest", BOOLEAN, "false", "REST between nodes", _TOP, ignored=NO_REST),
    Key("listeners", LIST, "http://:8083", "where the internal REST server listens", _TOP, ignored=NO_REST),
    Key("rest.advertised.host.name", STRING, None, "host name advertised to other nodes", _TOP, ignored=NO_REST),
    Key("rest.advertised.port", INT, None, "port advertised to other nodes", _TOP, ignored=NO_REST),
    Key("rest.advertised.listener", STRING, None, "http or https, advertised to other nodes", _TOP, ignored=NO_REST),
    Key("access.control.allow.origin", STRING, "", "CORS origin", _TOP, ignored=NO_REST),
    Key("access.control.allow.methods", STRING, "", "CORS methods", _TOP, ignored=NO_REST),
    Key("response.http.headers.config", STRING, "", "rules for response headers", _TOP, ignored=NO_REST),
    Key("ssl.client.auth", STRING, "none", "client certificates at the internal REST server", _TOP,
        choices=("none", "requested", "required"), ignored=NO_REST),
])  # fmt: skip

_COMMON = [
    Key("name", STRING, None, "connector name", _CONN, required=True, ignored=NO_CONNECT),
    Key("connector.class", STRING, None, "connector class", _CONN, required=True, ignored=NO_CONNECT),
    Key("connector.plugin.version", STRING, None, "version of the connector plug-in", _CONN, ignored=NO_CONNECT),
    Key("tasks.max", INT, "1", "most tasks of the flow at once", _CONN, low=1,
        no_default=True, differs="not written: the machine's cores, shared by the flows"),
    Key("tasks.max.enforce", BOOLEAN, "true", "fail if there are more tasks than tasks.max", _CONN, ignored=NO_CONNECT),
    Key("key.converter", CLASS, None, "key converter", _CONN, differs=COPIED),
    Key("key.converter.plugin.version", STRING, None, "version of the key converter", _CONN, ignored=NO_CONNECT),
    Key("value.converter", CLASS, None, "value converter", _CONN, differs=COPIED),
    Key("value.converter.plugin.version", STRING, None, "version of the value converter", _CONN, ignored=NO_CONNECT),
    Key("header.converter", CLASS, None, "header converter", _CONN,
        differs="SimpleHeaderConverter only with `transforms`: as in MirrorMaker 2 the source's headers become base64; "
        "another class is refused"),
    Key("header.converter.plugin.version", STRING, None, "version of the header converter", _CONN, ignored=NO_CONNECT),
    Key("transforms", LIST, "", "single message transforms", _CONN, differs=SOME_TRANSFORMS),
    Key("predicates", LIST, "", "conditions of transforms", _CONN, differs=SOME_TRANSFORMS),
    Key("config.action.reload", STRING, "restart", "what a changed provider value does", _CONN,
        choices=("none", "restart"), ignored="changed values are taken while the flow runs"),
    Key("errors.retry.timeout", LONG, "0", "how long a failed operation is tried again, -1 = for ever", _CONN,
        unused=TRIED),
    Key("errors.retry.delay.max.ms", LONG, "60000", "longest pause between two tries", _CONN, unused=TRIED),
    Key("errors.tolerance", STRING, "none", "all = skip records that the target rejects", _CONN,
        choices=("none", "all"),
        differs="all = pass over what a transform cannot handle, say so and keep the gap in the ledger; what the target "
        "refuses stops its partition"),
    Key("errors.deadletterqueue.topic.name", STRING, "",
        "topic of the target to which such records go as they are, with __connect.errors.* headers; made unless it is there",
        _CONN, ours=True),
    Key("errors.log.enable", BOOLEAN, "false", "log skipped records", _CONN, unused=NO_SKIPPING),
    Key("errors.log.include.messages", BOOLEAN, "false", "with topic, partition and offset", _CONN,
        unused=NO_SKIPPING),
    Key("enabled", BOOLEAN, "true", "whether the flow copies", _CONN,
        our_default="false", differs="MirrorMaker 2 too writes false for a flow that does not say so"),
    Key("source.cluster.alias", STRING, None, "alias of the source", _CONN, required=True,
        differs="refused unless it is the alias of the flow"),
    Key("target.cluster.alias", STRING, "target", "alias of the target", _CONN,
        differs="refused unless it is the alias of the flow"),
    Key("admin.timeout.ms", LONG, "60000", "longest time for one piece of topic work", _CONN,
        unused="requests have limits of their own"),
    Key("replication.policy.class", CLASS, MIRROR + "DefaultReplicationPolicy", "how remote topics are named", _CONN,
        differs=OWN_CLASS),
    Key("replication.policy.separator", STRING, ".", "between alias and topic in a remote name", _CONN,
        differs="refused if topic names cannot hold it"),
    Key("replication.policy.internal.topic.separator.enabled", BOOLEAN, "true",
        "use the separator in names of internal topics too; read only if the separator is written", _CONN),
    Key("replication.loops.allowed", BOOLEAN, "false",
        "start although two flows that keep topic names copy to each other and their `topics` overlap", _CONN, ours=True),
    Key("forwarding.admin.class", CLASS, "org.apache.kafka.clients.admin.ForwardingAdmin",
        "who creates topics and changes configs", _CONN, differs="another class is refused"),
    Key("metric.reporters", LIST, "org.apache.kafka.common.metrics.JmxReporter", "Java metric reporters", _CONN,
        ignored="figures: `run --listen` and `--metrics-file`"),
    Key("config.providers", LIST, "", "names of config providers", _CONN,
        differs="Kafka's File, Directory and EnvVar providers; another class is refused"),
]  # fmt: skip

_SOURCE = [
    Key("topics", LIST, ".*", "regexes of topics to copy", _CONN),
    Key("topics.exclude", LIST, r"mm2.*\.internal,.*\.replica,__.*", "regexes of topics not to copy; wins", _CONN),
    Key("config.properties.exclude", LIST,
        "follower.replication.throttled.replicas,leader.replication.throttled.replicas,"
        "message.timestamp.difference.max.ms,log.message.timestamp.before.max.ms,log.message.timestamp.after.max.ms,"
        "message.timestamp.type,unclean.leader.election.enable,min.insync.replicas",
        "regexes of topic configs not to copy", _CONN),
    Key("topic.filter.class", CLASS, MIRROR + "DefaultTopicFilter", "how topics are chosen", _CONN, differs=OWN_CLASS),
    Key("config.property.filter.class", CLASS, MIRROR + "DefaultConfigPropertyFilter", "how configs are chosen", _CONN,
        differs=OWN_CLASS),
    Key("consumer.poll.timeout.ms", LONG, "1000", "longest wait for records in one poll", _CONN,
        unused="a fetch waits for fetch.max.wait.ms of the consumer"),
    Key("refresh.topics.enabled", BOOLEAN, "true", "refresh topics and partitions", _CONN),
    Key("refresh.topics.interval.seconds", LONG, "600", "pause between two refreshes of topics",
        _CONN, our_default="5"),
    Key("sync.topic.configs.enabled", BOOLEAN, "true", "copy topic configs", _CONN),
    Key("sync.topic.configs.interval.seconds", LONG, "600", "pause between two copies of configs", _CONN),
    Key("sync.topic.acls.enabled", BOOLEAN, "true", "copy read rights of topics", _CONN),
    Key("sync.topic.acls.interval.seconds", LONG, "600", "pause between two copies of rights", _CONN),
    Key("replication.factor", INT, "2", "replicas of new remote topics, -1 = the broker's default", _CONN),
    Key("offset-syncs.topic.replication.factor", SHORT, "3", "replicas of the offset-syncs topic", _CONN),
    Key("offset.lag.max", LONG, "100", "how many records may pass without an offset sync", _CONN),
    Key("offset-syncs.topic.location", STRING, "source", "cluster of the offset-syncs topic", _CONN,
        choices=("source", "target")),
    Key("emit.offset-syncs.enabled", BOOLEAN, "true", "write offset syncs", _CONN),
    Key("heartbeats.replication.enabled", BOOLEAN, "true", "copy heartbeats topics whatever `topics` says", _CONN),
    Key("lag.group.enabled", BOOLEAN, "true",
        "commit the mirror's position on the source as group connect-MirrorSourceConnector-<target>, and its lag on the "
        "target as group connect-MirrorSourceConnector, so that lag tools show it", _CONN, ours=True),
    Key("metric.names.formats", LIST, "legacy", "names of metrics", _CONN, choices=("legacy", "new"),
        unused="figures are written under the legacy names"),
    Key("on.source.gap", STRING, "stop",
        "when the source deleted records before they were copied: stop the partition and say so, or skip them, say so once "
        "and keep the gap in the ledger", _CONN, choices=("stop", "skip"), ours=True),
    Key("on.source.gap.skip.topics", LIST, "", "regexes of topics that skip although the flow stops", _CONN, ours=True),
    Key("on.positions.removed", STRING, "reset",
        "when positions were removed from the offsets topic while the flow was stopped (a tombstone, or the topic deleted): "
        "restart these partitions at auto.offset.reset as MirrorMaker 2 does, stop them, or ignore it and write the "
        "positions again", _CONN, choices=("reset", "stop", "ignore"), ours=True),
]  # fmt: skip

_CHECKPOINT = [
    Key("groups", LIST, ".*", "regexes of consumer groups to translate", _CONN),
    Key("groups.exclude", LIST, "console-consumer-.*,connect-.*,__.*", "regexes of groups left out; wins", _CONN),
    Key("group.filter.class", CLASS, MIRROR + "DefaultGroupFilter", "how groups are chosen", _CONN, differs=OWN_CLASS),
    Key("refresh.groups.enabled", BOOLEAN, "true", "refresh groups", _CONN),
    Key("refresh.groups.interval.seconds", LONG, "600",
        "pause between two refreshes of groups", _CONN, our_default="5"),
    Key("emit.checkpoints.enabled", BOOLEAN, "true", "write checkpoints", _CONN),
    Key("emit.checkpoints.interval.seconds", LONG, "60", "pause between two rounds of checkpoints", _CONN),
    Key("sync.group.offsets.enabled", BOOLEAN, "false", "commit translated offsets for idle groups", _CONN),
    Key("sync.group.offsets.interval.seconds", LONG, "60", "pause between two rounds of commits", _CONN),
    Key("sync.group.offsets.rewind", BOOLEAN, "false",
        "move a group on the target back when it was set back on the source", _CONN, ours=True),
    Key("checkpoints.topic.replication.factor", SHORT, "3", "replicas of the checkpoints topic", _CONN),
]  # fmt: skip

_HEARTBEAT = [
    Key("emit.heartbeats.enabled", BOOLEAN, "true", "write heartbeats", _CONN),
    Key("emit.heartbeats.interval.seconds", LONG, "1", "pause between two heartbeats", _CONN),
    Key("heartbeats.topic.replication.factor", SHORT, "3", "replicas of the heartbeats topic", _CONN),
]

# What each of MirrorMaker 2's connectors adds to what all of them read.
CONNECTOR_SECTIONS = MappingProxyType({
    "Flows": table(_COMMON), "Topics and records": table(_SOURCE), "Consumer groups": table(_CHECKPOINT),
    "Heartbeats": table(_HEARTBEAT),
})  # fmt: skip
CONNECTOR_KEYS = table(key for section in CONNECTOR_SECTIONS.values() for key in section.values())

FLOW_KEYS = table([
    Key("use.defaults.from", STRING, "target", "source = also copy configs that are defaults on the source", _FLOW),
    Key("exactly.once.support", STRING, "requested", "required = refuse to start without exactly-once", _FLOW,
        choices=("requested", "required"), any_case=True, differs=EXACTLY_ONCE),
    Key("transaction.boundary", STRING, "poll", "what one transaction holds", _FLOW,
        choices=("poll", "interval", "connector"), any_case=True, ignored=NO_CONNECT),
    Key("transaction.boundary.interval.ms", LONG, None, "longest transaction", _FLOW, low=0, ignored=NO_CONNECT),
    Key("offsets.storage.topic", STRING, None, "own topic for stored positions", _FLOW, ignored=NO_CONNECT),
    Key("topic.creation.groups", LIST, "", "rules for topics Connect creates", _FLOW, ignored=NO_CONNECT),
])  # fmt: skip

TASK_KEYS = table([
    Key("task.assigned.partitions", LIST, None, "partitions of one task", _TASK, ignored=NO_CONNECT),
    Key("task.assigned.groups", LIST, None, "groups of one task", _TASK, ignored=NO_CONNECT),
    Key("task.index", INT, None, "number of one task", _TASK, ignored=NO_CONNECT),
])

WORKER_KEYS = table([
    Key("group.id", STRING, None, "Connect group; not written: A-mm2", _WORK, ignored=NO_CONNECT),
    Key("client.id", STRING, "", "client name; not written: A->B", _WORK, unused="clients are named by this program"),
    Key("offset.storage.topic", STRING, None, "stored positions; not written: mm2-offsets.A.internal", _WORK),
    Key("offset.storage.partitions", INT, "25", "partitions of that topic, -1 = the broker's default", _WORK),
    Key("offset.storage.replication.factor", SHORT, "3", "replicas of that topic and the ledger, -1 = the broker's default",
        _WORK, differs="not written: the largest of the three `…topic.replication.factor` of internal topics, at most 3"),
    Key("status.storage.topic", STRING, None, "connector states; not written: mm2-status.A.internal", _WORK,
        unused=NO_STATES),
    Key("status.storage.partitions", INT, "5", "partitions of that topic", _WORK, unused=NO_STATES),
    Key("status.storage.replication.factor", SHORT, "3", "replicas of that topic", _WORK, unused=NO_STATES),
    Key("config.storage.topic", STRING, None, "connector configs; not written: mm2-configs.A.internal", _WORK,
        unused=NO_CONFIGS),
    Key("config.storage.replication.factor", SHORT, "3", "replicas of that topic", _WORK, unused=NO_CONFIGS),
    Key("offset.flush.interval.ms", LONG, "60000", "pause between two records of positions", _WORK,
        unused="positions are recorded every 5 s"),
    Key("offset.flush.timeout.ms", LONG, "5000", "longest time to record positions", _WORK,
        unused="positions are recorded until the target has them"),
    Key("exactly.once.source.support", STRING, "disabled", "exactly-once copying", _WORK,
        choices=("disabled", "preparing", "enabled"), any_case=True, differs=EXACTLY_ONCE),
    Key("connect.protocol", STRING, "sessioned", "rebalance protocol", _WORK, ignored=NO_CONNECT,
        choices=("eager", "compatible", "sessioned"), any_case=True),
    Key("session.timeout.ms", INT, "10000", "member timeout", _WORK, ignored=NO_CONNECT),
    Key("heartbeat.interval.ms", INT, "3000", "member heartbeat", _WORK, ignored=NO_CONNECT),
    Key("rebalance.timeout.ms", INT, "60000", "longest join", _WORK, ignored=NO_CONNECT),
    Key("scheduled.rebalance.max.delay.ms", INT, "300000", "how long a lost node's work waits", _WORK,
        ignored=NO_CONNECT),
    Key("worker.sync.timeout.ms", INT, "3000", "wait for other workers", _WORK, ignored=NO_CONNECT),
    Key("worker.unsync.backoff.ms", INT, "300000", "pause after a failed wait", _WORK, ignored=NO_CONNECT),
    Key("task.shutdown.graceful.timeout.ms", LONG, "5000", "how long tasks may take to stop", _WORK,
        unused="a stop drains for 10 s at most"),
    Key("topic.creation.enable", BOOLEAN, "true", "Connect creates topics", _WORK, ignored=NO_CONNECT),
    Key("topic.tracking.enable", BOOLEAN, "true", "Connect notes used topics", _WORK, ignored=NO_CONNECT),
    Key("topic.tracking.allow.reset", BOOLEAN, "true", "that note may be reset", _WORK, ignored=NO_CONNECT),
    Key("connector.client.config.override.policy", STRING, "All", "which client keys may be overridden", _WORK,
        ignored="every override is accepted"),
    Key("plugin.path", LIST, None, "directories of Java plug-ins", _WORK, ignored="Java plug-ins cannot be loaded"),
    Key("plugin.discovery", STRING, "hybrid_warn", "how Java plug-ins are found", _WORK,
        ignored="Java plug-ins cannot be loaded"),
    Key("inter.worker.key.generation.algorithm", STRING, "HmacSHA256", "session key", _WORK, ignored=NO_REST),
    Key("inter.worker.key.size", INT, None, "session key size", _WORK, ignored=NO_REST),
    Key("inter.worker.key.ttl.ms", INT, "3600000", "lifetime of a session key", _WORK, ignored=NO_REST),
    Key("inter.worker.signature.algorithm", STRING, "HmacSHA256", "signature", _WORK, ignored=NO_REST),
    Key("inter.worker.verification.algorithms", LIST, "HmacSHA256", "accepted signatures", _WORK, ignored=NO_REST),
])  # fmt: skip
