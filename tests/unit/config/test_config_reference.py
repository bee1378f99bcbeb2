"""The page of all keys is what the program knows of them, and every key works, is refused or is told."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sparkmirror.config import CLIENT_KEYS, CONNECTOR_KEYS, DRIVER_KEYS, FLOW_KEYS, SECURITY_KEYS, WORKER_KEYS, parse
from sparkmirror.config.keys import TASK_KEYS
from sparkmirror.config.reference import REGENERATE, render

ROOT = Path(__file__).parents[3]
HEAD = "clusters = A, B\nA.bootstrap.servers = a:1\nB.bootstrap.servers = b:1\nA->B.enabled = true\n"
# Names and values that are judged where the file is read, and never asked for afterwards.
SPENT = {
    "clusters", "config.providers", "source.cluster.alias", "target.cluster.alias", "transforms", "predicates",
    "key.converter", "value.converter", "header.converter", "forwarding.admin.class", "exactly.once.support",
    "exactly.once.source.support", "emit.heartbeats.enabled", "replication.loops.allowed",
}  # fmt: skip


def test_page_in_docs_is_the_one_the_tables_give():
    found = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert found == render(), f"the page is old; make it again: {REGENERATE}"


def test_module_prints_the_page():
    done = subprocess.run([sys.executable, "-m", "sparkmirror.config"], capture_output=True, check=True, cwd=ROOT)
    assert done.stdout.decode() == render()


def test_every_key_stands_on_the_page():
    tables = [DRIVER_KEYS, CONNECTOR_KEYS, FLOW_KEYS, WORKER_KEYS, TASK_KEYS, SECURITY_KEYS, *CLIENT_KEYS.values()]
    page = render()
    assert [key for table in tables for key in table if f"`{key}`" not in page] == []


def test_page_tells_what_is_ours_and_what_differs():
    page = render()
    assert "`replication.loops.allowed` | BOOLEAN | `false` |" in page
    ours = [key for table in (CONNECTOR_KEYS, FLOW_KEYS, SECURITY_KEYS) for key in table.values() if key.ours]
    assert page.count("**ours**") == len(ours)
    assert re.search(r"`refresh\.groups\.interval\.seconds` \| LONG \| `5` \|.*Kafka's default is `600`", page)
    assert "compression of the source, unless transforms rewrite them: `compression.gzip.level`" in page


def test_key_that_nothing_asks_for_is_said_to_have_no_effect():
    """Reads the program: an attribute that nobody reads belongs to a key that is told to have no effect."""
    files = [path for path in (ROOT / "sparkmirror").rglob("*.py") if "config" not in path.relative_to(ROOT).parts]
    asked = set(re.findall(r"\.([a-z_]+)\b", "\n".join(path.read_text(encoding="utf-8") for path in files)))
    for key in [*CONNECTOR_KEYS.values(), *FLOW_KEYS.values(), *WORKER_KEYS.values()]:
        if key.name not in SPENT and not key.ignored and not key.unused:
            assert key.attribute in asked, f"{key.name}: nothing reads it; say why in config/keys.py"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("errors.retry.timeout = -1", "tried until it succeeds"),
        ("errors.log.enable = true", "no record is ever skipped in silence"),
        ("consumer.poll.timeout.ms = 5", "fetch.max.wait.ms"),
        ("admin.timeout.ms = 5", "limits of their own"),
        ("B.offset.flush.interval.ms = 10000", "positions are recorded every 5 s"),
        ("B.task.shutdown.graceful.timeout.ms = 1", "drains for 10 s"),
        ("B.status.storage.topic = x", "no states of connectors are stored"),
        ("metric.names.formats = new", "under the legacy names"),
        ("B.producer.compression.type = zstd", "batches keep the compression of the source"),
        ("A->B.producer.override.acks = 1", "every batch waits for all replicas"),
        ("A.consumer.max.poll.records = 5", "whole batches are read"),
        ("A.admin.request.timeout.ms = 5", "limits and pauses of their own"),
        ("A.ssl.cipher.suites = x", "OpenSSL's choice of ciphers"),
        ("sasl.kerberos.kinit.cmd = /x", "Kerberos gets and renews its tickets by itself"),
        ("A.sasl.oauthbearer.assertion.file = x", "with a client secret, not with an assertion"),
        (
            "A.consumer.sasl.mechanism = PLAIN",
            "is not used: all clients of a cluster log in alike; write `A.sasl.mechanism`",
        ),
        ("A->B.source.cluster.sasl.mechanism = PLAIN", "log in alike; write `A.sasl.mechanism`"),
        ("A->B.target.admin.sasl.mechanism = PLAIN", "log in alike; write `B.sasl.mechanism`"),
        ("producer.linger.ms = 1", "no effect there either, here: producer.linger.ms (batches are copied as they are"),
    ],
)
def test_key_that_nothing_uses_is_told_with_the_reason(line, told):
    found = parse(HEAD + line + "\n", "f", {}).warnings
    assert any(told in warning and warning.startswith("line 5: ") for warning in found), found


@pytest.mark.parametrize(
    "line",
    [
        "errors.tolerance = none",
        "errors.retry.timeout = 0",
        "B.offset.flush.interval.ms = 60000",
        "B.producer.acks = all",
        "A.consumer.auto.offset.reset = latest",
        "A.consumer.auto.offset.reset = none",
        "A.consumer.auto.offset.reset = by_duration:P1DT2H",
        "A.consumer.fetch.min.bytes = 5",
        "A->B.exactly.once.support = required",
        "B.exactly.once.source.support = enabled",
        "sync.group.offsets.rewind = true",
        "lag.group.enabled = false",
        "A->B.replication.loops.allowed = true",
    ],
)
def test_key_that_works_or_keeps_its_default_is_not_told(line):
    assert parse(HEAD + line + "\n", "f", {}).warnings == ()
