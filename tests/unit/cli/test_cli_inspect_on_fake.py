"""inspect on two fake clusters: one status for every format, and who runs the flow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from fake.pair import FakePair, copied, fake_pair
from typer.testing import CliRunner, Result

from sparkmirror.cli.app import app
from sparkmirror.clusters import Committed, append_records, commit_offsets
from sparkmirror.ledger import LedgerRecord, Owner, Position, Run
from sparkmirror.model import TopicPartition
from sparkmirror.wire import encode_connect_offset, source_key

FORMATS = ("table", "csv", "csv-ext", "json")
ORDERS, REMOTE = TopicPartition("orders", 0), TopicPartition("A.orders", 0)


@pytest.fixture
def pair() -> Iterator[FakePair]:
    """Ten records on both sides, and a group that has read five of them on the source."""
    with fake_pair({}) as made:
        for cluster, client, place in (
            (made.source, made.source_client, ORDERS), (made.target, made.target_client, REMOTE)
        ):  # fmt: skip
            cluster.create_topic(place.topic)
            records = [(b"k", f"{number}".encode()) for number in range(10)]
            append_records(client, place, records, cluster.now_ms())
        commit_offsets(made.source_client, "billing", {ORDERS: Committed(5, "")})
        commit_offsets(made.target_client, "another", {REMOTE: Committed(1, "")})  # so that groups are seen to be shown
        yield made


def inspected(pair: FakePair, tmp_path: Path, *words: str) -> Result:
    file = tmp_path / "mm2.properties"
    file.write_text(
        f"clusters = A, B\nA.bootstrap.servers = {pair.source.bootstrap}\nB.bootstrap.servers = {pair.target.bootstrap}\n"
        "A->B.enabled = true\n"
    )
    return CliRunner().invoke(app, ["inspect", str(file), "--include-inactive-groups", *words], env={"NO_COLOR": "1"})


def store_position(pair: FakePair, last: int) -> None:
    """As both programs write it."""
    if "mm2-offsets.A.internal" not in pair.target.topics:
        pair.target.create_topic("mm2-offsets.A.internal")
    record = (source_key("MirrorSourceConnector", "A", ORDERS), encode_connect_offset(last))
    append_records(pair.target_client, TopicPartition("mm2-offsets.A.internal", 0), [record], pair.target.now_ms())


def an_owner(*, released: bool) -> Owner:
    return Owner(1, 0, 1, 0, "host:1:1", 1, (1,), released=released)


def runner(pair: FakePair, tmp_path: Path) -> str:
    [flow] = json.loads(inspected(pair, tmp_path, "--json").stdout)["flows"]
    return str(flow["standing"]["runner"])


@pytest.mark.parametrize(
    ("records", "status"), [([], 3), (copied("A", "orders", Position(10, 10, 10), Run(0, 0, 10)), 0)], ids=["mm2", "ours"]
)
def test_the_status_is_the_same_in_every_format(
    pair: FakePair, tmp_path: Path, records: Sequence[LedgerRecord], status: int
) -> None:
    if records:
        pair.write_ledger([an_owner(released=False), *records])
    store_position(pair, 9)
    found = {form: inspected(pair, tmp_path, "--format", form).exit_code for form in FORMATS}
    assert found == dict.fromkeys(FORMATS, status)


def test_a_flow_that_mirror_maker_runs_has_no_ledger_to_be_missed(pair: FakePair, tmp_path: Path) -> None:
    store_position(pair, 9)
    for form in FORMATS:
        assert "ledger" not in inspected(pair, tmp_path, "--format", form).stderr
    assert runner(pair, tmp_path) == "MirrorMaker 2"


@pytest.mark.parametrize("released", [True, False])
def test_a_flow_that_mirror_maker_never_ran_is_not_said_to_be_its(pair: FakePair, tmp_path: Path, released: bool) -> None:
    pair.write_ledger([an_owner(released=False), *copied("A", "orders", Position(10, 10, 10), Run(0, 0, 10))])
    store_position(pair, 9)  # the last positions come after the last receipt
    pair.write_ledger([an_owner(released=released)])
    assert runner(pair, tmp_path) == "sparkmirror"


def test_a_flow_that_mirror_maker_ran_since_is_said_to_be_its(pair: FakePair, tmp_path: Path) -> None:
    pair.write_ledger([*copied("A", "orders", Position(10, 10, 10), Run(0, 0, 10)), an_owner(released=True)])
    released_ms = pair.target.now_ms()
    while pair.target.now_ms() == released_ms:
        pass  # until the next millisecond
    store_position(pair, 11)
    assert runner(pair, tmp_path) == "MirrorMaker 2"
