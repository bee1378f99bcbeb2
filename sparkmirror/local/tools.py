"""Kafka's own Java tools, each one call, and topic set-up.

A Java tool costs about a second to start, so `create_topic` uses the Python client: it sets up and judges nothing.
"""

from __future__ import annotations

import contextlib
import functools
import json
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka import KafkaAdminClient

from sparkmirror.caches import cache_root
from sparkmirror.errors import BrokerRefused, InternalError
from sparkmirror.local.class_archive import archive_options
from sparkmirror.local.jars import kafka_jars
from sparkmirror.local.java import QUICK_START, JavaCall, log_settings
from sparkmirror.local.processes import launch
from sparkmirror.model import TopicPartition

TOOL_SECONDS_MAX = 600.0  # the longest use is a load of some millions of records
TOOL_HEAP_MB = 512
ERROR_TEXT_MAX = 2_000  # characters of a tool's own words that an error repeats

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
DELETE_RECORDS = "org.apache.kafka.tools.DeleteRecordsCommand"
DUMP_LOG = "org.apache.kafka.tools.DumpLogSegments"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"


def tool_call(main_class: str, arguments: Sequence[str], *, options: Sequence[str] = QUICK_START) -> JavaCall:
    """The call of one Java tool; what it logs goes to its stderr."""
    jars = kafka_jars()
    options = (*options, *archive_options(jars), _tool_log_option())
    return JavaCall(jars, main_class, arguments, heap_mb=TOOL_HEAP_MB, options=options)


def java_tool(
    main_class: str, arguments: Sequence[str], *, stdin: bytes = b"", options: Sequence[str] = QUICK_START
) -> bytes:
    """Runs one Java tool to its end and returns its stdout; raises with the tool's own words if it fails."""
    command = tool_call(main_class, arguments, options=options).command()
    with launch(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as tool:
        try:
            output, errors = tool.communicate(stdin, timeout=TOOL_SECONDS_MAX)
        except BaseException:
            tool.kill()
            raise
    if tool.returncode != 0:
        words = (errors + output).decode(errors="replace").strip()[-ERROR_TEXT_MAX:]
        raise InternalError(f"{main_class} ended with status {tool.returncode}: {words}")
    return output


def create_topic(
    bootstrap: str,
    name: str,
    *,
    partitions: int = 1,
    replication_factor: int = -1,
    configs: Mapping[str, str] | None = None,
) -> None:
    """Creates a topic and waits until every partition has a leader; -1 replicas is the cluster's default."""
    wanted = {
        "num_partitions": partitions,
        "replication_factor": replication_factor,
        "configs": dict(configs or {}),
    }
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        answer = admin.create_topics({name: wanted}, wait_for_metadata=True)
    for topic in answer.get("topics", []):
        if topic.get("error_code"):
            raise BrokerRefused(f"cannot create topic {name}: {topic}", error_code=topic["error_code"])


def console_produce(
    bootstrap: str,
    topic: str,
    lines: Sequence[str],
    *,
    reader: Mapping[str, str] | None = None,
    producer: Mapping[str, str] | None = None,
) -> None:
    """Produces one record per line; `reader` holds LineMessageReader's properties (parse.key, key.separator, ...)."""
    # It waits for each record's answer, and for a second before it sends one: none would come to go with it.
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--sync", "--timeout", "0"]
    arguments += _repeated("--reader-property", reader) + _repeated("--command-property", producer)
    java_tool(CONSOLE_PRODUCER, arguments, stdin="".join(f"{line}\n" for line in lines).encode())


def perf_produce(
    bootstrap: str,
    topic: str,
    *,
    records: int,
    record_bytes: int,
    throughput: int = -1,
    producer: Mapping[str, str] | None = None,
) -> str:
    """Produces random records of one size as fast as it can, or `throughput` a second; returns the tool's last line."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic, "--num-records", str(records)]
    arguments += ["--record-size", str(record_bytes), "--throughput", str(throughput)]
    if producer:
        arguments += ["--command-property", *(f"{key}={value}" for key, value in producer.items())]
    return java_tool(PRODUCER_PERFORMANCE, arguments, options=()).decode().strip().splitlines()[-1]


def consumer_groups(bootstrap: str, *arguments: str) -> str:
    """What `kafka-consumer-groups` prints, for example with `--describe`, `--group`, `orders`."""
    return java_tool(CONSUMER_GROUPS, ["--bootstrap-server", bootstrap, *arguments]).decode()


def delete_records(bootstrap: str, before: Mapping[TopicPartition, int]) -> str:
    """Deletes the records before these offsets: moves the log start of each partition."""
    partitions = [
        {"topic": place.topic, "partition": place.partition, "offset": offset} for place, offset in before.items()
    ]
    with tempfile.NamedTemporaryFile("w", suffix=".json", encoding="utf-8") as wanted:
        json.dump({"version": 1, "partitions": partitions}, wanted)
        wanted.flush()
        arguments = ["--bootstrap-server", bootstrap, "--offset-json-file", wanted.name]
        return java_tool(DELETE_RECORDS, arguments).decode()


def dump_log(files: Sequence[Path], *extra: str) -> str:
    """What `kafka-dump-log` prints of these segment files; `--deep-iteration`, `--print-data-log` show records too."""
    return java_tool(DUMP_LOG, ["--files", ",".join(map(str, files)), *extra]).decode(errors="replace")


def _repeated(option: str, properties: Mapping[str, str] | None) -> list[str]:
    return [word for key, value in (properties or {}).items() for word in (option, f"{key}={value}")]


@functools.cache
def _tool_log_option() -> str:
    return log_settings(cache_root() / "tools-log4j2.properties", log_file=None, level="warn")
