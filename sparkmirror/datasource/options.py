"""The options of our data sources, named as Spark's own Kafka connector names them: every mistake at once."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from sparkmirror.client.properties import read_properties
from sparkmirror.config import ClusterSettings, load_option
from sparkmirror.errors import ConfigInvalid
from sparkmirror.model import TopicPartition
from sparkmirror.topology import ledger_topic

EARLIEST, LATEST = "earliest", "latest"
KAFKA = "kafka."
ISOLATION, COMPRESSION = "isolation.level", "compression.type"
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH_BYTES = "batch.size"
BATCH_BYTES_DEFAULT, BATCH_BYTES_MIN = 512 << 10, 1024
CONFIG, CLUSTER = "config", "cluster"
# As written in documentation; Spark compares them without regard to case.
READ_NAMES = (
    "subscribe", "subscribePattern", "startingOffsets", "startingTimestamp", "endingOffsets", "endingTimestamp",
    "maxOffsetsPerTrigger", "maxBytesPerTrigger", "failOnDataLoss",
)  # fmt: skip
WRITE_NAMES = ("topic",)
# What Spark itself adds to the options of a stream.
SPARK_NAMES = ("path", "checkpointlocation", "queryname", "outputmode")

Texts = Mapping[str, str]


@dataclass(frozen=True)
class ClusterOptions:
    """Which cluster: by `kafka.` keys, or by the path of a properties file and an alias in it.

    Only texts, so that it can be pickled; with a file no secret is among them.
    """

    texts: tuple[tuple[str, str], ...]

    def settings(self) -> ClusterSettings:
        """Where it is and how to log in, read where it is used."""
        texts = dict(self.texts)
        if CONFIG not in texts:
            return read_properties(texts, None)[0]
        found = load_option(texts[CONFIG])
        known = {side.alias: side for flow in found.flows for side in (flow.source, flow.target)}
        if texts[CLUSTER] not in known:
            raise ConfigInvalid(
                "kafka-records", [f"cluster: expected one of {', '.join(sorted(known))}, found {texts[CLUSTER]!r}"]
            )
        return known[texts[CLUSTER]]


@dataclass(frozen=True)
class OffsetEdge:
    """Where reading begins or ends: a word, a time in ms, or offsets of partitions."""

    word: str = ""
    timestamp: int | None = None
    offsets: tuple[tuple[TopicPartition, int], ...] = ()


@dataclass(frozen=True)
class ReadOptions:
    """What is read, from where to where, and how much at once."""

    cluster: ClusterOptions
    topics: tuple[str, ...]
    pattern: str
    start: OffsetEdge
    end: OffsetEdge
    rows_max: int | None
    bytes_max: int | None
    fail_on_loss: bool
    read_committed: bool

    @classmethod
    def of(cls, given: Texts, *, streaming: bool) -> ReadOptions:
        """From the options of a `load`; raises `ConfigInvalid` with everything that is wrong."""
        reading = _OptionReading(given, READ_NAMES)
        topics = tuple(filter(None, (name.strip() for name in reading.text("subscribe").split(","))))
        pattern = reading.text("subscribePattern")
        if bool(topics) == bool(pattern):
            reading.problem("subscribe", "expected either subscribe (topics, separated by commas) or subscribePattern")
        if pattern:
            reading.check_pattern(pattern)
        start = reading.edge("starting", LATEST if streaming else EARLIEST)
        if streaming and any(reading.has(name) for name in ("endingOffsets", "endingTimestamp")):
            reading.problem("endingOffsets", "a stream has no end; read a batch, or use the trigger availableNow")
        isolation = reading.kafka.pop(ISOLATION, "read_uncommitted").strip()
        if isolation not in ("read_uncommitted", "read_committed"):
            reading.problem(KAFKA + ISOLATION, f"expected read_uncommitted or read_committed, found {isolation!r}")
        made = cls(
            cluster=reading.cluster(),
            topics=topics,
            pattern=pattern,
            start=start,
            end=OffsetEdge(LATEST) if streaming else reading.edge("ending", LATEST),
            rows_max=reading.number("maxOffsetsPerTrigger"),
            bytes_max=reading.number("maxBytesPerTrigger"),
            fail_on_loss=reading.truth("failOnDataLoss", default=True),
            read_committed=isolation == "read_committed",
        )
        reading.end()
        return made

    @classmethod
    def of_ledger(cls, given: Texts) -> ReadOptions:
        """From the options of a `load` of a flow's ledger; raises `ConfigInvalid` with everything that is wrong."""
        reading = _OptionReading(given, ("source",), "kafka-ledger")
        source, cluster = reading.text("source"), reading.cluster()
        if not source:
            reading.problem("source", "expected the alias of the flow's source cluster, found nothing")
        reading.end()
        whole = OffsetEdge(EARLIEST), OffsetEdge(LATEST)
        return cls(cluster, (ledger_topic(source),), "", *whole, None, None, fail_on_loss=True, read_committed=False)


@dataclass(frozen=True)
class WriteOptions:
    """Where records go that name no topic, and how batches are made."""

    cluster: ClusterOptions
    topic: str
    codec: int
    batch_bytes: int

    @classmethod
    def of(cls, given: Texts) -> WriteOptions:
        """From the options of a `save` or `start`; raises `ConfigInvalid` with everything that is wrong."""
        reading = _OptionReading(given, WRITE_NAMES)
        codec = reading.kafka.pop(COMPRESSION, "none").strip()
        if codec not in CODECS:
            reading.problem(KAFKA + COMPRESSION, f"expected one of {', '.join(CODECS)}, found {codec!r}")
        size = reading.kafka.pop(BATCH_BYTES, str(BATCH_BYTES_DEFAULT)).strip()
        if not size.isdigit() or int(size) < BATCH_BYTES_MIN:
            reading.problem(KAFKA + BATCH_BYTES, f"expected bytes, {BATCH_BYTES_MIN} or more, found {size!r}")
        made = cls(reading.cluster(), reading.text("topic"), CODECS.get(codec, 0), int(size) if size.isdigit() else 0)
        reading.end()
        return made


class _OptionReading:
    """The options of one call, with what is wrong about them."""

    def __init__(self, given: Texts, names: Iterable[str], who: str = "kafka-records") -> None:
        self._who = who
        self._given = {key.lower(): str(value) for key, value in given.items()}
        self.kafka = {k[len(KAFKA) :]: v for k, v in self._given.items() if k.startswith(KAFKA)}
        self._problems: list[str] = []
        known = {name.lower() for name in names} | {CONFIG, CLUSTER} | set(SPARK_NAMES)
        for key in self._given:
            if not key.startswith(KAFKA) and key not in known:
                self.problem(key, f"is not an option here; expected {', '.join(names)}, {CONFIG}, {CLUSTER} or {KAFKA}…")

    def problem(self, name: str, sentence: str) -> None:
        self._problems.append(f"{name}: {sentence}")

    def end(self) -> None:
        if self._problems:
            raise ConfigInvalid(self._who, self._problems)

    def has(self, name: str) -> bool:
        return name.lower() in self._given

    def text(self, name: str) -> str:
        return self._given.get(name.lower(), "").strip()

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if not self.has(name):
            return None
        if not text.isdigit() or int(text) == 0:
            self.problem(name, f"expected a number above 0, found {text!r}")
            return None
        return int(text)

    def truth(self, name: str, *, default: bool) -> bool:
        text = self.text(name) or str(default).lower()
        if text.lower() not in ("true", "false"):
            self.problem(name, f"expected true or false, found {text!r}")
        return text.lower() == "true"

    def check_pattern(self, pattern: str) -> None:
        try:
            re.compile(pattern)
        except re.error as error:
            self.problem("subscribePattern", f"is no regular expression: {error}")

    def cluster(self) -> ClusterOptions:
        if self.has(CONFIG):
            if self.kafka or not self.text(CLUSTER):
                self.problem(CONFIG, f"expected a properties file with {CLUSTER} = an alias in it, and no {KAFKA} keys")
            return ClusterOptions(((CONFIG, self.text(CONFIG)), (CLUSTER, self.text(CLUSTER))))
        texts = ClusterOptions(tuple(sorted(self.kafka.items())))
        try:
            texts.settings()
        except ConfigInvalid as error:
            self._problems += [f"{KAFKA}{problem}" for problem in error.problems]
        return texts

    def edge(self, side: str, default: str) -> OffsetEdge:
        """`startingOffsets`/`startingTimestamp`, or the same of the end."""
        offsets, time = f"{side}Offsets", f"{side}Timestamp"
        if self.has(offsets) and self.has(time):
            self.problem(offsets, f"expected {offsets} or {time}, found both")
        if self.has(time):
            return OffsetEdge(timestamp=self.number(time))
        text = self.text(offsets) or default
        if text in (EARLIEST, LATEST):
            return OffsetEdge(word=text)
        try:
            return OffsetEdge(offsets=tuple(_offsets(json.loads(text))))
        except (ValueError, TypeError, AttributeError):
            wanted = '{"topic": {"0": 17, "1": -2}} (-2 earliest, -1 latest)'
            self.problem(offsets, f"expected {EARLIEST}, {LATEST} or {wanted}, found {text[:200]!r}")
            return OffsetEdge(word=default)


def _offsets(parsed: Mapping[str, Mapping[str, int]]) -> Iterator[tuple[TopicPartition, int]]:
    for topic, partitions in parsed.items():
        for partition, offset in partitions.items():
            if not isinstance(offset, int) or offset < -2:
                raise ValueError(offset)
            yield TopicPartition(topic, int(partition)), offset
