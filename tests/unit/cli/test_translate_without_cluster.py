"""`translate` with one cluster gone: what the other one holds, how sure, as of when, and what stays unknown."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from fake.cluster import FakeGroup
from fake.pair import FakePair, copied, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.client import translate_offsets
from sparkmirror.clusters import append_records
from sparkmirror.ledger import Attempt, Position, Routed, Run
from sparkmirror.model import Checkpoint, OffsetSync, TopicPartition
from sparkmirror.wire import encode_checkpoint, encode_offset_sync

ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)
CHECKPOINTS = TopicPartition("A.checkpoints.internal", 0)
SEEN_MS, SEEN = 1_700_000_000_000, "2023-11-14 22:13:20 UTC"
# Records 0 to 9 and 20 to 29 of the source; the target's 10 is the marker of a fence.
RUNS = (Run(0, 0, 10), Run(20, 11, 10))


class Dead:
    """The two clusters of a flow, and its file."""

    def __init__(self, pair: FakePair, folder: Path, more: str = "") -> None:
        self.pair, self.path = pair, folder / "mm2.properties"
        self.path.write_text(
            f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\n"
            f"B.bootstrap.servers = {pair.target.bootstrap}\nA->B.enabled = true\n"
            f"A->B.topics = orders\nreplication.factor = 1\n{more}"
        )

    def copied(self, *runs: Run) -> None:
        """Sparkmirror's ledger, and as many records on the target."""
        last = runs[-1]
        self.pair.write_ledger(copied("A", "orders", Position(last.end, last.downstream + last.length, 0), *runs))

    def fill(self, topic: str, records: int) -> None:
        """So many records on the target."""
        self.pair.target.create_topic(topic)
        append_records(self.pair.target_client, TopicPartition(topic, 0), [(b"k", b"v")] * records, SEEN_MS)

    def checkpoints(self, *points: tuple[str, TopicPartition, int, int]) -> None:
        """Written by either program."""
        self.pair.target.create_topic(CHECKPOINTS.topic)
        entries = [encode_checkpoint(Checkpoint(*point, "")) for point in points]
        append_records(self.pair.target_client, CHECKPOINTS, entries, SEEN_MS)

    def commit(self, group: str, offset: int) -> None:
        """Of the group on the target."""
        with self.pair.target.lock:
            kept = self.pair.target.groups.setdefault(group, FakeGroup())
            kept.commits[REMOTE.topic, REMOTE.partition] = (offset, "")

    def translate(self, *words: str) -> Result:
        return CliRunner().invoke(app, ["translate", str(self.path), *words], env={"NO_COLOR": "1"})

    def as_json(self, *words: str) -> Any:
        result = self.translate("--json", *words)
        found = json.loads(result.stdout)
        assert found["status"] == result.exit_code
        return found


@pytest.fixture
def pair() -> Iterator[FakePair]:
    with fake_pair({"A->B.topics": "orders"}) as made:
        yield made


@pytest.fixture
def dead_source(pair: FakePair, tmp_path: Path) -> Dead:
    pair.source.close()
    return Dead(pair, tmp_path)


@pytest.fixture
def dead_target(pair: FakePair, tmp_path: Path) -> Dead:
    pair.source.create_topic("orders")
    made = Dead(pair, tmp_path)
    made.copied(*RUNS)
    pair.target.close()
    return made


def summary(found: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (p["from"]["topic"], p["from"]["offset"], p["to"] and p["to"]["offset"], p["sureness"], p["records_again"])
        for p in found["positions"]
    ]


# --- the source is gone ------------------------------------------------------------------------------------------


def test_group_of_a_dead_source_is_translated_from_its_checkpoint_by_the_ledger(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    dead_source.fill("A.orders", 21)
    dead_source.checkpoints(("billing", REMOTE, 25, 14))  # rough, as MirrorMaker 2's are
    dead_source.commit("billing", 14)
    found = dead_source.as_json("--group", "billing")
    assert summary(found) == [("orders", 25, 16, "ledger", None)]
    [position] = found["positions"]
    assert (position["as_of_ms"], position["current"], found["status"]) == (SEEN_MS, False, 3)
    assert position["committed"] == {"offset": 14, "records_again": 2}
    plain = dead_source.translate("--group", "billing")
    assert plain.stdout.splitlines() == [
        "from A to B",
        f"  billing orders-0 at 25: A.orders-0 at 16, ledger (as of {SEEN}; committed there at 14, from where it reads 2 "
        "records before that)",
    ]
    assert "cluster A is unreachable" in plain.stderr


def test_group_that_only_mirrormaker_has_checkpoints_of_gets_the_answer_of_remote_cluster_utils(dead_source: Dead) -> None:
    dead_source.fill("A.orders", 30)
    dead_source.checkpoints(("billing", REMOTE, 25, 14), ("audit", REMOTE, 30, 30))
    found = dead_source.as_json("--group", "billing", "--group", "audit")
    # All that the target holds is behind it: nothing is read again.
    assert summary(found) == [("orders", 30, 30, "checkpoint", 0), ("orders", 25, 14, "checkpoint", None)]
    assert [position["committed"] for position in found["positions"]] == [{"offset": None, "records_again": None}] * 2
    theirs = translate_offsets({"bootstrap.servers": dead_source.pair.target.bootstrap}, "A", "billing")
    assert {place: at.offset for place, at in theirs.items()} == {REMOTE: 14}
    text = dead_source.translate("--group", "billing").stdout
    assert f"A.orders-0 at 14, by checkpoint (may read records again; as of {SEEN}; not committed there)" in text


def test_csv_of_a_dead_source_is_what_kafkas_tool_takes_and_says_beside_it_as_of_when(dead_source: Dead) -> None:
    dead_source.fill("A.orders", 30)
    dead_source.checkpoints(("billing", REMOTE, 25, 14))
    result = dead_source.translate("--group", "billing", "--format", "csv")
    assert (result.stdout, result.exit_code) == ("A.orders,0,14\n", 3)
    assert f"billing: positions as of {SEEN}, by its checkpoints; what it read since is read again" in result.stderr


def test_ledger_that_did_not_copy_so_far_yet_leads_to_its_end(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    dead_source.fill("A.orders", 21)
    dead_source.checkpoints(("billing", REMOTE, 99, 18))
    [position] = dead_source.as_json("--group", "billing")["positions"]
    assert (position["to"]["offset"], position["reason"]) == (21, "not copied yet: resumes at the end of the copy")


def test_checkpoint_past_the_end_of_the_target_is_not_believed(dead_source: Dead) -> None:
    dead_source.fill("A.orders", 10)
    dead_source.checkpoints(("billing", REMOTE, 25, 14))
    [position] = dead_source.as_json("--group", "billing")["positions"]
    assert (position["to"]["offset"], position["sureness"]) == (10, "rough")
    assert "A.orders-0 ends at 10: what the mirror had copied up to 14 is not there any more" in position["reason"]


def test_group_without_checkpoint_is_unknown_with_the_reason(dead_source: Dead) -> None:
    dead_source.checkpoints(("billing", REMOTE, 25, 14))
    dead_source.fill("A.orders", 30)
    found = dead_source.as_json("--group", "nobody", "--group", "billing")
    reason = "cluster A does not answer, and cluster B holds no checkpoint of nobody"
    assert (found["unknown"], found["status"]) == ([{"group": "nobody", "reason": reason}], 2)
    assert f"  nobody: unknown ({reason})" in dead_source.translate("--group", "nobody").stdout
    assert f"nobody: unknown ({reason})" in dead_source.translate("--group", "nobody", "--format", "csv").stderr


def test_position_on_a_dead_source_is_exact_by_the_ledger_alone(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    dead_source.fill("A.orders", 21)
    places = [word for offset in (0, 9, 15, 25, 30, 44) for word in ("--at", f"orders:0={offset}")]
    found = dead_source.as_json(*places)
    assert [position["to"]["offset"] for position in found["positions"]] == [0, 9, 10, 16, 21, 21]
    assert {position["sureness"] for position in found["positions"]} == {"ledger"}
    assert found["status"] == 0


def test_position_on_a_dead_source_that_mirrormaker_copied_is_known_by_checkpoints_alone(dead_source: Dead) -> None:
    dead_source.fill("A.orders", 30)
    dead_source.checkpoints(("billing", REMOTE, 25, 14), ("audit", REMOTE, 22, 12))
    found = dead_source.as_json("--at", "orders:0=24", "--at", "orders:0=3")
    assert summary(found) == [("orders", 3, None, "unknown", None), ("orders", 24, 12, "checkpoint", None)]
    assert {position["reason"] for position in found["positions"]} == {
        "offset syncs: cluster A does not answer",
        "the mirror's offset mappings do not reach back to it; offset syncs: cluster A does not answer",
    }
    assert found["status"] == 2


def test_offset_syncs_on_the_target_answer_for_a_dead_source(pair: FakePair, tmp_path: Path) -> None:
    pair.source.close()
    dead = Dead(pair, tmp_path, "A->B.offset-syncs.topic.location = target\n")
    dead.fill("A.orders", 30)
    topic = pair.target.create_topic("mm2-offset-syncs.A.internal")
    entry = encode_offset_sync(OffsetSync(ORDERS, 20, 11))
    append_records(pair.target_client, TopicPartition(topic.name, 0), [entry], SEEN_MS)
    assert summary(dead.as_json("--at", "orders:0=24")) == [("orders", 24, 12, "rough", None)]


def test_that_no_flow_copies_a_topic_is_said_where_the_filters_say_it_and_nowhere_else(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    found = dead_source.as_json("--at", "other:0=3", "--at", "orders:7=3")
    reasons = {p["from"]["topic"]: p["reason"] for p in found["positions"]}
    assert reasons["other"] == "no flow of the file copies this topic"
    assert reasons["orders"] == "A.orders-7 does not exist"
    assert found["status"] == 2


def test_position_of_the_copy_leads_back_to_a_dead_source_by_the_ledger(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    dead_source.fill("A.orders", 23)
    dead_source.commit("billing", 21)
    places = [word for offset in (0, 10, 16, 21, 23) for word in ("--at", f"A.orders:0={offset}")]
    found = dead_source.as_json("--back", *places)
    assert summary(found) == [
        ("A.orders", 0, 0, "ledger", None), ("A.orders", 10, 10, "ledger", None), ("A.orders", 16, 25, "ledger", None),
        ("A.orders", 21, 30, "ledger", None), ("A.orders", 23, 30, "rough", None),
    ]  # fmt: skip
    by_group = dead_source.as_json("--back", "--group", "billing")
    assert (summary(by_group), by_group["status"]) == ([("A.orders", 21, 30, "ledger", None)], 0)
    assert by_group["positions"][0]["current"]


def test_copy_that_came_from_the_destination_is_found_there_by_its_checkpoint(pair: FakePair, tmp_path: Path) -> None:
    pair.source.close()
    dead = Dead(pair, tmp_path, "B->A.enabled = true\nB->A.topics = events\n")
    dead.fill("events", 9)
    dead.checkpoints(("billing", TopicPartition("events", 0), 6, 5))
    assert summary(dead.as_json("--flow", "A->B", "--group", "billing")) == [("B.events", 6, 5, "checkpoint", None)]


def test_records_that_a_transform_sent_elsewhere_have_a_position_of_their_own(dead_source: Dead) -> None:
    dead_source.copied(*RUNS)
    audit = TopicPartition("audit", 3)
    dead_source.pair.target.create_topic("audit", 4)
    dead_source.fill("A.orders", 21)
    append_records(dead_source.pair.target_client, audit, [(b"k", b"v")] * 4, SEEN_MS)
    dead_source.pair.write_ledger([Routed(ORDERS, Attempt(1, 0, 1), audit, "s", (Run(3, 0, 2),))])
    dead_source.checkpoints(("billing", REMOTE, 25, 16), ("billing", audit, 25, 2))
    found = dead_source.as_json("--group", "billing")["positions"]
    assert [(p["from"]["topic"], p["to"]["topic"], p["to"]["offset"], p["sureness"]) for p in found] == [
        ("orders", "A.orders", 16, "ledger"), ("orders", "audit", 2, "checkpoint"),
    ]  # fmt: skip


# --- the target is gone ------------------------------------------------------------------------------------------


def test_commits_of_the_source_are_shown_though_the_target_with_the_ledger_is_gone(dead_target: Dead) -> None:
    kept = FakeGroup()
    kept.commits["orders", 0] = (25, "")
    dead_target.pair.source.groups["billing"] = kept
    found = dead_target.as_json("--group", "billing")
    assert (summary(found), found["status"]) == ([("orders", 25, None, "unknown", None)], 2)
    [position] = found["positions"]
    assert position["reason"] == "cluster B does not answer: the ledger and the checkpoints are there"
    assert position["current"] and position["as_of_ms"] is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at", "orders:0=25"], "cluster B does not answer: the ledger and the checkpoints are there"),
        (["--back", "--at", "A.orders:0=16"], "ledger: cluster B does not answer"),
        (["--back", "--group", "billing"], "cluster B does not answer, and no flow of the file writes checkpoints"),
    ],
)
def test_what_only_a_dead_target_knows_is_unknown_with_the_reason(
    words: Sequence[str], said: str, dead_target: Dead
) -> None:
    result = dead_target.translate(*words)
    assert (result.exit_code, said in result.stdout) == (2, True), result.output


def test_a_refused_login_is_said_as_such_and_checkpoints_answer(pair: FakePair, tmp_path: Path) -> None:
    pair.source.passwords = {"ann": "right"}
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="wrong";'
    more = f"A.security.protocol = SASL_PLAINTEXT\nA.sasl.mechanism = PLAIN\nA.sasl.jaas.config = {jaas}\n"
    dead = Dead(pair, tmp_path, more)
    dead.fill("A.orders", 30)
    dead.checkpoints(("billing", REMOTE, 25, 14))
    result = dead.translate("--group", "billing")
    assert (result.exit_code, "A.orders-0 at 14, by checkpoint" in result.stdout) == (3, True), result.output
    assert "PLAIN login of user ann was refused" in result.stderr
    assert "sasl.jaas.config" in result.stderr
    assert "unreachable" not in result.output
    assert "wrong" not in result.output
