"""Records as Java's console consumer reads them, and whether two topics hold the same ones in the same order.

The consumer prints each record with separators that are random for each call, so no bytes of a record can look like
one, and null differs from empty. A header is printed as `key:value`; where that can be split in two ways, a second
reading asks for the length of each header value.

When to stop: the end offsets are asked first. A partition is read when its last offset has been printed, or, if that
offset holds a control record or was compacted away, when the consumer has committed a position at or past the end.
The consumer commits only what it has printed before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import secrets
import select
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, NamedTuple

from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from kafka.errors import CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError
from kafka.protocol.consumer import IsolationLevel

from sparkmirror.errors import InternalError
from sparkmirror.local.processes import launch
from sparkmirror.local.tools import tool_call

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
# Makes a header value print as java.nio.HeapByteBuffer[pos=0 lim=LENGTH cap=LENGTH].
BUFFER_DESERIALIZER = "org.apache.kafka.common.serialization.ByteBufferDeserializer"
SILENCE_SECONDS_MAX = 60.0  # without a new record or a new position: something is broken
POSITION_SECONDS = 0.2  # how long the pipe is empty before the committed position is asked
READ_BYTES = 1 << 20  # also the size of the pipe, which Linux lets anybody raise to this
# The consumer writes each column by itself: read as it comes, a record costs a dozen wake-ups, and both sides crawl.
CROWDED_BYTES, GATHER_SECONDS = 1 << 18, 0.005
DIFFERENCES_MAX = 10  # reported for each partition; after one lost record every later one differs
_COMPARED = ("key", "value", "headers", "timestamp")

Headers = tuple[tuple[str, bytes | None], ...]


class JavaRecord(NamedTuple):
    """One record; `timestamp_type` is Java's word: CreateTime, LogAppendTime or NO_TIMESTAMP."""

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: Headers


def _token() -> bytes:
    return b"~" + secrets.token_hex(8).encode()


@dataclass(frozen=True, slots=True)
class Separators:
    """Random words that no record holds."""

    column: bytes = field(default_factory=_token)
    record: bytes = field(default_factory=_token)
    header: bytes = field(default_factory=_token)
    null: bytes = field(default_factory=_token)


class _Raw(NamedTuple):
    """One printed record with its headers still as text."""

    partition: int
    record: JavaRecord
    header_texts: tuple[bytes, ...]


def java_records(bootstrap: str, topic: str, isolation: str = "read_uncommitted") -> dict[int, list[JavaRecord]]:
    """All records of each partition, in order, up to the end that the topic has at the time of the call."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        ends = _ends(admin, topic, isolation)
        reading = _LogReading(admin, bootstrap, topic, isolation, ends)
        raws = list(reading.read())
        lengths = reading.header_lengths() if any(_is_ambiguous(raw) for raw in raws) else {}
        null = reading.separators.null
    found: dict[int, list[JavaRecord]] = {partition: [] for partition in ends}
    for raw in raws:
        record = raw.record
        if raw.header_texts:
            place = (raw.partition, record.offset)
            record = record._replace(headers=_headers(raw.header_texts, lengths.get(place), null))
        found[raw.partition].append(record)
    return found


def stream_records(
    bootstrap: str, topic: str, isolation: str = "read_uncommitted"
) -> Iterator[tuple[int, JavaRecord]]:
    """The same records with their partitions, one by one as they are read; no header name or value may hold a colon."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        reading = _LogReading(admin, bootstrap, topic, isolation, _ends(admin, topic, isolation))
        for raw in reading.read():
            if _is_ambiguous(raw):
                raise InternalError(f"{topic}: a header of offset {raw.record.offset} can be read in two ways")
            headers = _headers(raw.header_texts, None, reading.separators.null)
            yield raw.partition, raw.record._replace(headers=headers)


def topic_ends(bootstrap: str, topic: str) -> dict[int, int]:
    """End offset of each partition; 0 where nothing can be read."""
    with contextlib.closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        return _ends(admin, topic, "read_uncommitted")


def _ends(admin: KafkaAdminClient, topic: str, isolation: str) -> dict[int, int]:
    """End offset of each partition (the last stable offset for read_committed); 0 where nothing can be read."""
    described = admin.describe_topics([topic])[0]
    places = [TopicPartition(topic, partition["partition_index"]) for partition in described["partitions"]]
    level = IsolationLevel.READ_COMMITTED if isolation == "read_committed" else IsolationLevel.READ_UNCOMMITTED
    starts = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.EARLIEST))
    ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST), isolation_level=level)
    bounds = {place.partition: (starts[place].offset, ends[place].offset) for place in places}
    return {partition: end if end > start else 0 for partition, (start, end) in sorted(bounds.items())}


class _LogReading:
    """One topic being read up to known ends."""

    def __init__(
        self, admin: KafkaAdminClient, bootstrap: str, topic: str, isolation: str, ends: Mapping[int, int]
    ) -> None:
        self.separators = Separators()
        self._admin = admin
        self._bootstrap, self._topic, self._isolation = bootstrap, topic, isolation
        self._ends = ends

    def read(self, *extra: str) -> Iterator[_Raw]:
        """Every record before the ends, in the order of printing."""
        unread = {partition: end for partition, end in self._ends.items() if end > 0}
        if not unread:
            return
        # The default groups.exclude of MirrorMaker 2 holds console-consumer-.*, so no mirror ever copies this group.
        group = f"console-consumer-{secrets.token_hex(8)}"
        with tempfile.TemporaryFile() as errors, self._consumer(group, errors, extra) as output:
            remainder = b""
            for chunk in self._chunks(output, group, unread, errors):
                *printed, remainder = (remainder + chunk).split(self.separators.record)
                for raw in parse_records(printed, self.separators):
                    end = self._ends[raw.partition]
                    if raw.record.offset < end:
                        yield raw
                    if raw.record.offset >= end - 1:
                        unread.pop(raw.partition, None)
        self._admin.delete_groups([group])

    def header_lengths(self) -> dict[tuple[int, int], list[int]]:
        """Length in bytes of each printed header value, by partition and offset."""
        raws = self.read("--formatter-property", f"headers.deserializer={BUFFER_DESERIALIZER}")
        return {(raw.partition, raw.record.offset): [_limit(text) for text in raw.header_texts] for raw in raws}

    @contextlib.contextmanager
    def _consumer(self, group: str, errors: IO[bytes], extra: tuple[str, ...]) -> Iterator[IO[bytes]]:
        command = tool_call(CONSOLE_CONSUMER, [*self._arguments(group), *extra]).command()
        process = launch(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdout is not None
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            fcntl.fcntl(process.stdout.fileno(), fcntl.F_SETPIPE_SZ, READ_BYTES)
        try:
            yield process.stdout
        finally:
            process.stdout.close()  # first, so that it is not stuck in writing when it is asked to end
            process.terminate()
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _arguments(self, group: str) -> list[str]:
        arguments = ["--bootstrap-server", self._bootstrap, "--topic", self._topic, "--from-beginning"]
        arguments += ["--isolation-level", self._isolation, "--group", group]
        arguments += ["--command-property", "auto.commit.interval.ms=200"]
        words = self.separators
        properties = {f"print.{part}": "true" for part in ("timestamp", "partition", "offset", "headers", "key")}
        properties |= {"key.separator": words.column.decode(), "line.separator": words.record.decode()}
        properties |= {"headers.separator": words.header.decode(), "null.literal": words.null.decode()}
        for name, value in properties.items():
            arguments += ["--formatter-property", f"{name}={value}"]
        return arguments

    def _chunks(self, output: IO[bytes], group: str, unread: dict[int, int], errors: IO[bytes]) -> Iterator[bytes]:
        """What the consumer prints, until nothing is unread; the caller takes partitions out of `unread`."""
        pipe, positions = output.fileno(), dict[int, int]()
        last_progress = time.monotonic()
        while unread:
            # Asked before looking at the pipe: what was printed before this position is in the pipe by then.
            all_passed = all(positions.get(partition, -1) >= end for partition, end in unread.items())
            if select.select([pipe], [], [], 0 if all_passed else POSITION_SECONDS)[0]:
                chunk = os.read(pipe, READ_BYTES)
                if not chunk:
                    raise InternalError(f"the console consumer ended too early: {_tail(errors)}")
                last_progress = time.monotonic()
                yield chunk
                if len(chunk) < CROWDED_BYTES:
                    time.sleep(GATHER_SECONDS)
            elif all_passed:
                return
            else:
                seen, positions = positions, self._positions(group)
                if positions != seen:
                    last_progress = time.monotonic()
            if time.monotonic() - last_progress > SILENCE_SECONDS_MAX:
                raise InternalError(f"{self._topic}: nothing new while {unread} is unread: {_tail(errors)}")

    def _positions(self, group: str) -> dict[int, int]:
        try:
            committed = self._admin.list_group_offsets(group)[group]
        except (CoordinatorLoadInProgressError, CoordinatorNotAvailableError, NotCoordinatorError):
            return {}  # the first group of a cluster makes the topic of positions, which takes a second
        return {place.partition: position.offset for place, position in committed.items()}


def parse_records(printed: list[bytes], words: Separators) -> Iterator[_Raw]:
    """Printed records as values; the headers stay text, because one of them alone may be ambiguous."""
    null = words.null
    for text in printed:
        fields = text.split(words.column)
        if len(fields) != 6:
            raise InternalError(f"the console consumer printed something that is no record: {text[:500]!r}")
        time_text, partition, offset, header_text, key, value = fields
        kind, _, timestamp = time_text.partition(b":")
        record = JavaRecord(
            offset=int(offset[7:]),  # "Offset:"
            timestamp=int(timestamp) if timestamp else -1,
            timestamp_type=kind.decode(),
            key=None if key == null else key,
            value=None if value == null else value,
            headers=(),
        )
        texts = () if header_text == b"NO_HEADERS" else tuple(header_text.split(words.header))
        yield _Raw(int(partition[10:]), record, texts)  # "Partition:"


def _is_ambiguous(raw: _Raw) -> bool:
    return any(text.count(b":") != 1 for text in raw.header_texts)


def _headers(texts: tuple[bytes, ...], lengths: list[int] | None, null: bytes) -> Headers:
    return tuple(_header(text, lengths[at] if lengths else None, null) for at, text in enumerate(texts))


def _header(text: bytes, length: int | None, null: bytes) -> tuple[str, bytes | None]:
    if length is None:
        key, _, value = text.partition(b":")
    else:
        key, value = text[: len(text) - length - 1], text[len(text) - length :]
    return key.decode(), None if value == null else value


def _limit(text: bytes) -> int:
    match = re.search(rb"lim=(\d+) cap=\d+\]$", text)
    if match is None:
        raise InternalError(f"no length in the header text {text!r}")
    return int(match[1])


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0)
    return errors.read().decode(errors="replace")[-2000:] or "it printed no reason"


def compare(
    source: Mapping[int, Sequence[JavaRecord]], target: Mapping[int, Sequence[JavaRecord]]
) -> list[str]:
    """One line for each difference in key, value, headers, timestamp, order or number; empty if there is none."""
    differences = []
    for partition in sorted(source.keys() | target.keys()):
        if partition not in target or partition not in source:
            where = "source" if partition not in target else "target"
            differences.append(f"partition {partition}: exists only on the {where}")
            continue
        differences += _compare_partition(partition, source[partition], target[partition])
    return differences


def _compare_partition(partition: int, source: Sequence[JavaRecord], target: Sequence[JavaRecord]) -> list[str]:
    found = []
    if len(source) != len(target):
        found.append(f"partition {partition}: {len(source)} records on the source, {len(target)} on the target")
    different = 0
    for at, (ours, theirs) in enumerate(zip(source, target, strict=False)):
        fields = [name for name in _COMPARED if getattr(ours, name) != getattr(theirs, name)]
        if not fields:
            continue
        different += 1
        if different <= DIFFERENCES_MAX:
            values = "; ".join(f"{name}: {_short(ours, name)} became {_short(theirs, name)}" for name in fields)
            found.append(f"partition {partition}: record {at}, offset {ours.offset} -> {theirs.offset}: {values}")
    if different > DIFFERENCES_MAX:
        found.append(f"partition {partition}: {different - DIFFERENCES_MAX} more records differ")
    return found


def _short(record: JavaRecord, name: str) -> str:
    text = repr(getattr(record, name))
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
