"""`offsets list` with one cluster gone: `?` with the reason and the last known values, never nothing and never all."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake.pair import FakePair, copied, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import append_records
from sparkmirror.ledger import Owner, PartitionEnd, Position, Run, SourceEnds
from sparkmirror.model import TopicPartition
from sparkmirror.wire import encode_connect_offset, source_key

SEEN_MS, SEEN = 1_700_000_000_000, "2023-11-14T22:13:20Z"
OWNER = Owner(1, 0, 1, 0, "host/1", 9, (1,), released=True, source_seen_ms=SEEN_MS)
ENDS = SourceEnds("orders", 0, SEEN_MS, "s", (PartitionEnd(0, 17, SEEN_MS - 1), PartitionEnd(1, 0, -1)))
UNKNOWN = "unknown: cluster B does not answer"


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({"A->B.topics": "orders"}) as made:
        made.source.create_topic("orders", 2)
        made.target.create_topic("A.orders", 2)
        append_records(made.source_client, TopicPartition("orders", 0), [(b"k", b"v")] * 17, SEEN_MS)
        made.write_ledger([OWNER, *copied("A", "orders", Position(10, 10, 0), Run(0, 0, 10)), ENDS])
        made.target.create_topic("mm2-offsets.A.internal")
        key = source_key("MirrorSourceConnector", "A", TopicPartition("orders", 0))
        place = TopicPartition("mm2-offsets.A.internal", 0)
        append_records(made.target_client, place, [(key, encode_connect_offset(9))], SEEN_MS)
        yield made


def list_(pair: FakePair, folder: Path, *words: str, more: str = "") -> Result:
    path = folder / "mm2.properties"
    path.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\nB.bootstrap.servers = {pair.target.bootstrap}\n"
        f"A->B.enabled = true\nA->B.topics = orders\nreplication.factor = 1\n{more}"
    )
    return CliRunner().invoke(app, ["offsets", "list", str(path), *words], env={"NO_COLOR": "1"})


def test_with_both_there_nothing_is_unknown(pair: FakePair, tmp_path: Path) -> None:
    result = list_(pair, tmp_path)
    assert (result.exit_code, "?" in result.stdout, "sparkmirror: released by host/1" in result.stdout) == (0, False, True)


def test_with_the_source_gone_its_last_known_ends_are_shown_as_such(pair: FakePair, tmp_path: Path) -> None:
    pair.source.close()
    result = list_(pair, tmp_path)
    assert result.exit_code == 2
    assert [" ".join(line.split()) for line in result.stdout.splitlines() if "orders-" in line] == [
        f"orders-0 9 10 ? (ended at 17) 0 ? (7) 0 {SEEN}",
        "orders-1 - - ? (ended at 0) 0 ? (0) - -",
    ]
    assert f"source: unknown: cluster A does not answer; last seen {SEEN}" in result.stdout
    [flow] = json.loads(list_(pair, tmp_path, "--json").stdout)["flows"]
    first = flow["positions"][0]
    assert (first["lag"], first["last_lag"], first["last_source_end"], first["last_seen_ms"]) == (None, 7, 17, SEEN_MS)
    assert (first["unknown"], flow["is_complete"]) == (["source", "lag"], False)
    assert flow["unknown"].keys() == {"topics", "source ends"}


def test_with_the_target_gone_neither_ledger_nor_position_is_said_to_be_absent(pair: FakePair, tmp_path: Path) -> None:
    pair.target.close()
    result = list_(pair, tmp_path)
    assert result.exit_code == 2
    assert "no ledger" not in result.stdout and "does not run" not in result.stdout
    for words in (f"sparkmirror: ledger {UNKNOWN}", f"MirrorSourceConnector: {UNKNOWN}", "unknown whether it runs"):
        assert words in result.stdout
    assert [" ".join(line.split()) for line in result.stdout.splitlines() if "orders-" in line] == [
        "orders-0 ? ? 0 to 17 ? ? ? ?",
        "orders-1 ? ? 0 to 0 ? ? ? ?",
    ]
    [flow] = json.loads(list_(pair, tmp_path, "--json").stdout)["flows"]
    assert (flow["positions"][0]["lag"], flow["positions"][0]["source_end"]) == (None, 17)


def test_with_both_gone_it_is_not_said_that_nothing_is_stored(pair: FakePair, tmp_path: Path) -> None:
    pair.source.close()
    pair.target.close()
    result = list_(pair, tmp_path)
    assert (result.exit_code, "nothing is" in result.stdout, result.stdout.splitlines()[-1]) == (2, False, "  ?")


def test_a_refused_login_is_said_as_such(pair: FakePair, tmp_path: Path) -> None:
    pair.target.passwords = {"ann": "right"}
    pair.target.hang_up()
    more = (
        "B.security.protocol = SASL_PLAINTEXT\nB.sasl.mechanism = PLAIN\nB.sasl.jaas.config = "
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="wrong";\n'
    )
    result = list_(pair, tmp_path, more=more)
    assert (result.exit_code, "PLAIN login of user ann was refused" in result.stdout) == (2, True), result.output
    assert "does not answer" not in result.output and "unreachable" not in result.output
