"""`why` with one cluster gone: what the other one remembers is said with its time, and nothing is said that nobody knows."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake.cluster import FakeGroup
from fake.pair import FakePair, copied, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import append_records
from sparkmirror.ledger import Open, Owner, PartitionEnd, Position, Receipt, Run, SourceEnds, State
from sparkmirror.model import Checkpoint, TopicPartition
from sparkmirror.wire import encode_checkpoint

REMOTE, CHECKPOINTS = TopicPartition("A.orders", 0), TopicPartition("A.checkpoints.internal", 0)
SEEN_MS, SEEN = 1_700_000_000_000, "2023-11-14 22:13:20 UTC"
OWNER = Owner(1, 0, 1, 0, "host/1", 9, (1,), released=True, source_seen_ms=SEEN_MS)
ENDS = SourceEnds("orders", 0, SEEN_MS, "s", (PartitionEnd(0, 17, SEEN_MS - 1),))
WRONG = (
    "A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = "
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="wrong";\n'
)


class Night:
    """A flow that copied ten of the seventeen records that the source had."""

    def __init__(self, pair: FakePair, folder: Path) -> None:
        self.pair, self._path = pair, folder / "mm2.properties"
        source, target = pair.source.create_topic("orders"), pair.target.create_topic("A.orders")
        for client, name, count in ((pair.source_client, "orders", 17), (pair.target_client, "A.orders", 10)):
            append_records(client, TopicPartition(name, 0), [(b"k", b"v")] * count, SEEN_MS)
        begin, receipt = copied("A", "orders", Position(10, 10, 0), Run(0, 0, 10))
        assert isinstance(begin, Open) and isinstance(receipt, Receipt)
        self.order = replace(begin, source_topic_id=source.topic_id.hex, target_topic_id=target.topic_id.hex)
        pair.write_ledger([OWNER, self.order, receipt, ENDS])
        pair.target.create_topic(CHECKPOINTS.topic)
        points = [encode_checkpoint(Checkpoint("billing", REMOTE, 8, 8, ""))]
        append_records(pair.target_client, CHECKPOINTS, points, SEEN_MS)
        with pair.target.lock, pair.source.lock:
            pair.source.groups["billing"] = FakeGroup({("orders", 0): (9, "")})
            pair.target.groups["other"] = FakeGroup()  # who is shown none may not be allowed to see them

    def why(self, *words: str, more: str = "") -> Result:
        pair = self.pair
        self._path.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\n"
            f"B.bootstrap.servers = {pair.target.bootstrap}\nA->B.enabled = true\n"
            f"A->B.topics = orders\nreplication.factor = 1\n{more}"
        )
        return CliRunner().invoke(app, ["why", str(self._path), *words, "--wait", "0"], env={"NO_COLOR": "1"})


@pytest.fixture
def night(tmp_path: Path) -> Iterator[Night]:
    with fake_pair({"A->B.topics": "orders"}) as pair:
        yield Night(pair, tmp_path)


def test_topic_of_a_dead_source_is_told_with_what_the_ledger_remembers(night: Night) -> None:
    night.pair.source.close()
    result = night.why("orders")
    assert result.exit_code == 4, result.output
    assert "? is it on A? not known: cluster A does not answer; last known: orders-0 copied to upstream" in result.stdout
    assert "copied to upstream offset 10 (" in result.stdout
    assert f"the source ended at 17 ({SEEN})" in result.stdout
    assert "✗ do both clusters answer? no: cluster A does not answer (V1)" in result.stdout
    assert night.why("A.orders:0").exit_code == 4


def test_partition_that_only_a_dead_source_may_have_is_not_said_to_be_missing(night: Night) -> None:
    assert night.why("orders:7").exit_code == 4
    assert "orders has no partition 7" in night.why("orders:7").stdout
    night.pair.source.close()
    result = night.why("orders:7")
    assert "has no partition" not in result.stdout
    assert "? is it on A? not known: cluster A does not answer; last known: B remembers nothing of it" in result.stdout


def test_group_of_a_dead_source_is_known_by_its_checkpoints_and_not_said_to_be_absent(night: Night) -> None:
    night.pair.source.close()
    result = night.why("billing")
    assert result.exit_code == 4, result.output
    assert "it is not on A" not in result.stdout
    said = f"not known: cluster A does not answer; last known: in 1 partition by its checkpoints, the newest of {SEEN}"
    assert f"? has it positions to mirror? {said}" in result.stdout
    assert "? what would a failover now cost it? has no position on B in 1 partition, only checkpoints" in result.stdout


def test_group_that_the_target_alone_has_is_not_said_to_be_absent_from_a_dead_source(night: Night) -> None:
    with night.pair.target.lock:
        night.pair.target.groups["local"] = FakeGroup({("else", 0): (1, "")})
    assert "it is not on A" in night.why("local").stdout
    night.pair.source.close()
    result = night.why("local")
    assert (result.exit_code, "it is not on A" in result.stdout) == (4, False)
    assert "not known: cluster A does not answer; it has no checkpoint" in result.stdout


def test_what_neither_cluster_has_is_an_error_only_if_both_answered(night: Night) -> None:
    result = night.why("nosuch")
    assert (result.exit_code, "neither A nor B has a topic or a group called nosuch" in result.stdout) == (4, True)
    night.pair.source.close()
    result = night.why("nosuch", "--json")
    [answer] = json.loads(result.stdout)["answers"]
    assert (answer["complete"], answer["steps"][0]["good"], answer["cause"]["id"]) == (False, None, "V1")
    assert answer["conclusion"] == "nosuch: not known, because cluster A does not answer; B knows nothing of it"
    assert result.exit_code == 4


def test_with_a_dead_target_the_sources_facts_are_told_and_the_rest_is_not_known(night: Night) -> None:
    night.pair.target.close()
    for word in ("orders", "billing"):
        result = night.why(word)
        assert (result.exit_code, "no: cluster B does not answer (V1)" in result.stdout) == (4, True), result.output
        assert "is copied by" not in result.stdout and "is mirrored by" not in result.stdout
    assert "has it positions to mirror? yes, in 1 partition" in night.why("billing").stdout
    assert "neither" not in night.why("nosuch").stdout


def test_with_both_clusters_gone_nothing_is_stated(night: Night) -> None:
    night.pair.source.close()
    night.pair.target.close()
    result = night.why("orders")
    assert result.exit_code == 4
    assert "not known, because cluster A does not answer; cluster B does not answer" in result.stdout


def test_a_refused_login_is_the_cause_and_nothing_is_called_silent(night: Night) -> None:
    night.pair.source.passwords = {"ann": "right"}
    night.pair.source.hang_up()
    for word in ("orders", "billing", "nosuch"):
        result = night.why(word, more=WRONG)
        assert (result.exit_code, "cluster A refuses the login" in result.stdout) == (4, True), result.output
        assert "PLAIN login of user ann was refused" in result.stdout
        assert "does not answer" not in result.output
        assert "wrong" not in result.output


@pytest.mark.parametrize("is_dead", [False, True])
def test_a_stopped_partition_is_told_with_code_and_command(night: Night, is_dead: bool) -> None:
    stop = State(
        night.order.partition, night.order.attempt, "stopped", "SOURCE_TOPIC_RECREATED",
        "orders-0: the source topic was deleted and created again",
        "to copy it from its beginning: sparkmirror offsets reset f --topic orders --partition 0",
    )  # fmt: skip
    night.pair.write_ledger([stop])
    if is_dead:
        night.pair.source.close()
    result = night.why("orders")
    assert result.exit_code == 4
    assert "✗ did its copy stop? yes: orders-0 stopped since " in result.stdout
    for words in ("SOURCE_TOPIC_RECREATED: the source topic was deleted", "sparkmirror offsets reset f --topic orders"):
        assert words in result.stdout


def test_a_stop_without_a_rule_of_its_own_names_its_command_too(night: Night) -> None:
    hint = "compare the last records of both sides; to go on: sparkmirror offsets reset f --topic orders --to 10"
    night.pair.write_ledger(
        [State(night.order.partition, night.order.attempt, "stopped", "CONTENT_DIFFERS", "orders-0: the tail differs", hint)]
    )
    result = night.why("orders", "--json")
    [answer] = json.loads(result.stdout)["answers"]
    cause = answer["cause"]
    assert (cause["id"], "CONTENT_DIFFERS" in cause["message"], cause["mend"]) == ("D11", True, hint)
