"""A key that resembles a known one is refused; no key that MirrorMaker 2, Connect or a client knows is."""

import json
from pathlib import Path

import pytest

from sparkmirror.config import load, parse
from sparkmirror.config.nearest import KNOWN, nearest_key
from sparkmirror.errors import ConfigInvalid

ROOT = Path(__file__).parents[3]
DATA = Path(__file__).parent / "data"
HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
CLIENTS = json.loads((DATA / "client-config-defs-4.3.1.json").read_text())
CONNECTORS = json.loads((DATA / "connector-config-defs-4.3.1.json").read_text())
FILES = [*sorted(ROOT.glob("tests/fixtures/**/*.properties")), *sorted(ROOT.glob("docs/examples/*.properties"))]
# Keys of former releases of Kafka and of programs around it that stand in people's files.
OTHERS = (
    "auto.include.jmx.reporter", "internal.key.converter", "internal.value.converter",
    "internal.key.converter.schemas.enable", "rest.host.name", "rest.port", "rest.extension.classes", "admin.listeners",
    "offset.storage.file.filename",
    "offset.storage.cleanup.policy", "config.storage.min.insync.replicas", "metric.reporters", "mm.enable.internal.rest",
    "confluent.topic.bootstrap.servers", "confluent.monitoring.interceptor.bootstrap.servers", "src.kafka.bootstrap.servers",
    "consumer.interceptor.classes", "block.on.buffer.full", "metadata.fetch.timeout.ms", "timeout.ms", "schema.registry.url",
    "key.converter.schemas.enable", "value.converter.schema.registry.url", "topic.creation.default.replication.factor",
    "topic.creation.default.partitions", "producer.override.compression.type", "consumer.override.max.poll.records",
    "transforms.insert.type", "predicates.only.pattern", "emit.heartbeats", "sync.topic.configs", "emit.checkpoints",
    "errors.deadletterqueue.topic.replication.factor", "errors.deadletterqueue.context.headers.enable", "offsets.topic",
    "connect.timeout.ms", "metrics.context.connect.kafka.cluster.id", "sasl.oauthbearer.iat.validation.enabled",
)  # fmt: skip


def problems_of(lines):
    with pytest.raises(ConfigInvalid) as caught:
        parse(HEAD + lines, "f", {})
    return caught.value.problems


@pytest.mark.parametrize(
    ("line", "right", "otherwise"),
    [
        ("A->B.topic = x", "A->B.topics", "`topics` at its default `.*`"),
        ("bootstrap.server = c:1", "bootstrap.servers", "`bootstrap.servers` unset"),
        ("A.bootstrap.server = c:1", "A.bootstrap.servers", "`A.bootstrap.servers` on line 2"),
        ("sync.group.offset.enabled = true", "sync.group.offsets.enabled", "at its default `false`"),
        ("A->B.enable = true", "A->B.enabled", "`A->B.enabled` on line 4"),
        ("A->B.Topics = x", "A->B.topics", "default `.*`"),
        ("replicaton.factor = 1", "replication.factor", "default `2`"),
        ("A.consumer.isolation.levl = x", "A.consumer.isolation.level", "default `read_uncommitted`"),
        ("A->B.source.consumer.fetch.min.byte = 1", "A->B.source.consumer.fetch.min.bytes", "default `1`"),
        ("A->B.producer.override.retrie = 1", "A->B.producer.override.retries", "default `2147483647`"),
        ("A.sasl.jaas.conf = p4ss", "A.sasl.jaas.config", "`sasl.jaas.config` unset"),
        ("B.offset.storage.topics = x", "B.offset.storage.topic", "unset"),
        ("offset.syncs.topic.location = target", "offset-syncs.topic.location", "default `source`"),
        ("A->B.topics.blacklist = secret", "A->B.topics.exclude", "at its default"),
        ("topics.include = x", "topics", "default `.*`"),
        ("topics.regex = x", "topics", "default `.*`"),
        ("A->B.groups.pattern = x", "A->B.groups", "default `.*`"),
    ],
)
def test_key_that_resembles_a_known_one_is_refused_with_its_line_and_what_would_happen(line, right, otherwise):
    [problem] = problems_of(line + "\n")
    key = line.partition(" ")[0]
    assert problem.startswith(f"line 5: {key}: unknown key, expected `{right}`; without an effect it would leave ")
    assert otherwise in problem
    assert "p4ss" not in problem


def test_mistake_elsewhere_hides_no_resembling_key():
    found = problems_of("tasks.max = none\nA->B.topic = x\nA->C.enabled = true\ngroup = y\n")
    assert [problem.partition(":")[0] for problem in found] == ["line 5", "line 6", "line 7", "line 8"]


def test_resembling_alias_list_is_refused_and_hides_nothing_else():
    with pytest.raises(ConfigInvalid) as caught:
        parse(HEAD.replace("clusters", "cluster") + "tasks.max = none\n", "f", {})
    assert [problem.partition(": ")[0] for problem in caught.value.problems] == ["clusters", "line 1", "line 5"]
    assert caught.value.hint.endswith("--allow-unknown-keys")


def test_resembling_key_that_is_meant_is_a_warning():
    [warning] = parse(HEAD + "A->B.topic = x\n", "f", {}, allow_unknown_keys=True).warnings
    assert warning == "line 5: A->B.topic: has no effect: unknown key; nearest known: `A->B.topics`"


def test_old_name_written_beside_the_new_one_is_a_warning():
    [warning] = parse(HEAD + "topics.exclude = x\ntopics.blacklist = x\n", "f", {}).warnings
    assert warning == "line 6: topics.blacklist: has no effect: unknown key; nearest known: `topics.exclude`"


def test_key_that_resembles_nothing_stays_a_warning():
    assert parse(HEAD + "my.own.note = x\n", "f", {}).warnings == ("line 5: my.own.note: has no effect: unknown key",)


def test_keys_of_a_cluster_that_is_not_listed_are_warnings():
    lines = "C.bootstrap.servers = c:1\nC.offset.storage.replication.factor = 1\nd.c.sasl.jaas.config = x\n"
    assert len(parse(HEAD + lines, "f", {}).warnings) == 3


@pytest.mark.parametrize("prefix", ["", "A.", "B.", "A->B."])
@pytest.mark.parametrize("role", ["", "consumer.", "producer.", "admin.", "producer.override.", "source.consumer."])
def test_no_key_that_kafka_knows_is_refused_wherever_it_stands(prefix, role):
    names = {name for defined in (*CLIENTS.values(), *CONNECTORS.values()) for name in defined} | KNOWN | set(OTHERS)
    assert len(names) > 250
    lines = "".join(f"{prefix}{role}{name} = 1\n" for name in sorted(names))
    # One line is wrong for certain, so that there are problems to look at.
    assert [found for found in problems_of(lines + "A->C.enabled = true\n") if "unknown key" in found] == []


@pytest.mark.parametrize("level", ["top", "cluster", "flow"])
def test_no_known_key_resembles_another(level):
    assert [name for name in KNOWN if nearest_key(level, name)] == []


@pytest.mark.parametrize("text", [case["text"] for case in json.loads((DATA / "mm2-configs-4.3.1.json").read_text())])
def test_no_file_that_mirror_maker_was_asked_with_has_a_key_that_is_refused(text):
    try:
        parse(text, "f", {})
    except ConfigInvalid as invalid:
        assert [problem for problem in invalid.problems if "unknown key" in problem] == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_no_example_has_a_key_that_is_refused(path):
    try:
        load(str(path))
    except ConfigInvalid as invalid:  # some examples are parts of a file
        assert [problem for problem in invalid.problems if "unknown key" in problem] == []
