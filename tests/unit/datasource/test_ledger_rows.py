"""The rows of the table `kafka-ledger` for what is said of the flow itself."""

from __future__ import annotations

from sparkmirror.datasource.ledger_source import NAMES, ledger_rows
from sparkmirror.ledger import LedgerRecord, OwnerAnswer, OwnerRequest, PartitionEnd, SourceEnds


def rows(record: LedgerRecord) -> list[dict[str, object]]:
    found = (dict(zip(NAMES, row, strict=True)) for row in ledger_rows(record, 7))
    return [{name: value for name, value in row.items() if value is not None} for row in found]


def test_the_source_ends_are_a_row_for_each_partition() -> None:
    ends = SourceEnds("t", 1, 5, "id", (PartitionEnd(100, 12, 3), PartitionEnd(101, 0, -1)))
    assert rows(ends) == [
        {"kind": "ends", "time": 7, "topic": "t", "partition": 100, "source_end": 12},
        {"kind": "ends", "time": 7, "topic": "t", "partition": 101, "source_end": 0},
    ]


def test_a_request_and_its_answer_share_the_id() -> None:
    request = OwnerRequest("r1", "offsets.skip", "ann", 1, 9, topic="t", partition=2, command="sparkmirror offsets skip")
    answer = OwnerAnswer("r1", "done", "owner", 1, 0, 4, "moved")
    assert rows(request) == [
        {
            "kind": "request", "time": 7, "topic": "t", "partition": 2, "state": "offsets.skip", "code": "r1",
            "reason": "sparkmirror offsets skip",
        }
    ]  # fmt: skip
    assert rows(answer) == [{"kind": "answer", "time": 7, "state": "done", "code": "r1", "reason": "moved"}]
    assert "topic" not in rows(OwnerRequest("r2", "restart", "ann", 1, 9))[0]
