"""The whole error tree. Each leaf: a stable code, an exit status, an HTTP status, and a hint that fixes it.

SparkmirrorError
├── ConfigError                 the user must act
│   ├── ConfigFileUnreadable        the properties file is missing or cannot be read
│   ├── ConfigInvalid               one or more keys are wrong; carries every problem
│   ├── NoFlowEnabled               no source->target flow is enabled
│   ├── FlowUnknown                 no enabled flow has the given name
│   ├── CustomClassFailed           a class that the user wrote raised, or returned a value that it must not
│   ├── ReplicationLoop             what the flow copies would come back to where it comes from
│   ├── MoveRefused                 a position cannot be moved as requested
│   ├── RequestRefused              the owner did not carry out a request, or not in time
│   ├── EnvironmentUnfit            this machine or Spark session cannot run the flow
│   └── SparkTaskFailed             Spark cannot start the tasks of the flow
├── ClusterError                a cluster's owner must act
│   ├── ClusterUnreachable          no broker of the cluster answered
│   ├── BrokerRefused               a broker answered with an error that is not retriable
│   │   └── LoginRefused                a broker did not let us in: the login, a certificate, or a key for them
│   ├── BrokerTooOld                the broker lacks an API that copying needs
│   ├── NothingCopied               nothing says that the flow ever copied anything
│   └── ConnectionLost              a connection was lost; what was in flight is unknown
├── ReplicationError            a guarantee about the copy is at stake; one partition stops
│   ├── NoStartingPoint             no position is known and auto.offset.reset is none
│   ├── PositionRemoved             somebody removed MirrorMaker 2's position, and the file says to stop then
│   ├── CorruptBatch                the bytes are not a valid record batch
│   ├── RecordTooLarge              one record is larger than the target accepts
│   ├── SourceOffsetLost            the source deleted records before they were copied
│   ├── SourceTopicRecreated        the source topic was re-created
│   ├── SourceTruncated             the source lost records that were already copied
│   ├── TargetTopicRecreated        the target topic was re-created
│   ├── TargetHasStranger           another producer writes to the target partition
│   ├── ContentDiffers              the target's tail is not what the source holds
│   ├── OrderBroken                 a batch was appended at the wrong place
│   ├── TargetRefusedRecords        the target refuses these records by its own settings
│   │   └── TargetRefusedTimestamp      by their timestamps; the same code
│   ├── TransformFailed             the transforms cannot handle a record
│   └── TransformMissing            transforms that were removed from the file left a range of records half sent
├── OwnershipError              another process owns the flow
│   ├── FlowOwnedByAnother
│   │   └── FlowFailedOver          the flow was failed over: nobody copies it until it is failed back
│   └── RequestUnanswered           the owner did not answer a request in time
├── FailoverUnfinished          a step of a failover could not end in time
└── InternalError               our own invariant failed
"""

from __future__ import annotations


class SparkmirrorError(Exception):
    """Anything this program raises on purpose."""

    code = "ERROR"
    detail = ""  # a detail of the code, such as what the target refused
    exit_status = 2
    http_status = 500

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(SparkmirrorError):
    """The user's configuration cannot be used."""

    code, http_status = "CONFIG", 400


class ConfigFileUnreadable(ConfigError):
    """The properties file is missing or cannot be read."""

    code, exit_status = "CONFIG_FILE_UNREADABLE", 255


class ConfigInvalid(ConfigError):
    """One or more keys are wrong; `problems` holds one line for each."""

    code = "CONFIG_INVALID"

    def __init__(self, path: str, problems: list[str], *, hint: str = "") -> None:
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"{path}: {count}\n" + "\n".join(f"  {line}" for line in problems), hint=hint)
        self.problems = problems


class NoFlowEnabled(ConfigError):
    """No source->target flow is enabled."""

    code = "NO_FLOW_ENABLED"


class FlowUnknown(ConfigError):
    """No enabled flow has the name that was given, or several are enabled and none was named."""

    code = "FLOW_UNKNOWN"


class CustomClassFailed(ConfigError):
    """A class that the user wrote raised, or returned a value that it must not."""

    code = "CUSTOM_CLASS_FAILED"


class ReplicationLoop(ConfigError):
    """What the flow copies would come back to where it comes from, through other flows or at once."""

    code = "REPLICATION_LOOP"


class MoveRefused(ConfigError):
    """A position cannot be moved as requested."""

    code = "MOVE_REFUSED"


class RequestRefused(ConfigError):
    """A request to the owner of a flow was refused, or it expired before an owner could carry it out."""

    code = "REQUEST_REFUSED"


class EnvironmentUnfit(ConfigError):
    """This machine or Spark session cannot run the flow."""

    code = "ENVIRONMENT_UNFIT"


class SparkTaskFailed(ConfigError):
    """Spark cannot start the tasks of the flow: several in a row failed alike before their first heartbeat."""

    code, exit_status, http_status = "SPARK_TASK_FAILED", 6, 500


class ClusterError(SparkmirrorError):
    """A cluster did not do what copying needs."""

    code, http_status = "CLUSTER", 502


class ClusterUnreachable(ClusterError):
    """No broker of the cluster answered."""

    code = "CLUSTER_UNREACHABLE"


class BrokerRefused(ClusterError):
    """A broker answered with an error that is not retriable."""

    code = "BROKER_REFUSED"

    def __init__(self, message: str, *, error_code: int, hint: str = "", needs: str = "") -> None:
        super().__init__(message, hint=hint)
        self.error_code = error_code
        self.needs = needs  # the right that is missing, as in "Read on topic orders"


class LoginRefused(BrokerRefused):
    """A broker did not let us in: the login or a certificate was refused, or a key of the file for them cannot be used."""

    code = "LOGIN_REFUSED"


class BrokerTooOld(ClusterError):
    """The broker lacks an API that copying needs."""

    code = "BROKER_TOO_OLD"


class NothingCopied(ClusterError):
    """Nothing says that the flow ever copied anything: there is no copy to look at."""

    code, http_status = "NOTHING_COPIED", 409


class ConnectionLost(ClusterError):
    """A connection was lost; what was in flight is unknown."""

    code = "CONNECTION_LOST"


class ReplicationError(SparkmirrorError):
    """A guarantee about the copy is at stake; the partition stops."""

    code, exit_status, http_status = "REPLICATION", 4, 409


class NoStartingPoint(ReplicationError):
    """No position is known and auto.offset.reset is none."""

    code = "NO_STARTING_POINT"


class PositionRemoved(ReplicationError):
    """Somebody removed MirrorMaker 2's position, and the file says to stop then."""

    code = "POSITION_REMOVED"


class CorruptBatch(ReplicationError):
    """The bytes are not a valid record batch."""

    code = "CORRUPT_BATCH"

    def __init__(self, message: str, *, offset: int | None = None) -> None:
        super().__init__(message)
        self.offset = offset


class RecordTooLarge(ReplicationError):
    """One record is larger than the target accepts."""

    code = "RECORD_TOO_LARGE"

    def __init__(self, message: str, *, offset: int, size: int, limit: int, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.offset, self.size, self.limit = offset, size, limit


class SourceOffsetLost(ReplicationError):
    """The source deleted records before they were copied."""

    code = "SOURCE_OFFSET_LOST"


class SourceTopicRecreated(ReplicationError):
    """The source topic was re-created."""

    code = "SOURCE_TOPIC_RECREATED"


class SourceTruncated(ReplicationError):
    """The source lost records that were already copied."""

    code = "SOURCE_TRUNCATED"


class TargetTopicRecreated(ReplicationError):
    """The target topic was re-created."""

    code = "TARGET_TOPIC_RECREATED"


class TargetHasStranger(ReplicationError):
    """Another producer writes to the target partition."""

    code = "TARGET_HAS_STRANGER"


class ContentDiffers(ReplicationError):
    """The target's tail is not what the source holds."""

    code = "CONTENT_DIFFERS"


class OrderBroken(ReplicationError):
    """A batch was appended at the wrong place."""

    code = "ORDER_BROKEN"


class TargetRefusedRecords(ReplicationError):
    """The target refuses these records by its own settings."""

    code = "TARGET_REFUSED_RECORDS"


class TargetRefusedTimestamp(TargetRefusedRecords):
    """The target refuses the timestamps of these records."""

    detail = "timestamp"


class TransformFailed(ReplicationError):
    """The transforms cannot handle a record."""

    code = "TRANSFORM_FAILED"


class TransformMissing(ReplicationError):
    """Transforms that were removed from the file left a range of records half sent."""

    code = "TRANSFORM_MISSING"


class OwnershipError(SparkmirrorError):
    """Another process owns the flow."""

    code, exit_status, http_status = "OWNERSHIP", 5, 409


class FlowOwnedByAnother(OwnershipError):
    """A live or newer owner writes this flow."""

    code = "FLOW_OWNED_BY_ANOTHER"


class FlowFailedOver(FlowOwnedByAnother):
    """The flow was failed over: applications write to the target now, and nobody copies into it until the failback."""

    code = "FLOW_FAILED_OVER"


class RequestUnanswered(OwnershipError):
    """The live owner did not answer a request in time: it is busy, or older than requests."""

    code = "REQUEST_UNANSWERED"


class FailoverUnfinished(SparkmirrorError):
    """A step of a failover could not end in time. The same command goes on where it was."""

    code, exit_status, http_status = "FAILOVER_UNFINISHED", 4, 409


class InternalError(SparkmirrorError):
    """An invariant of this program failed."""

    code, exit_status = "INTERNAL", 70
