"""The tally counts what is wrong with a copy, and nothing else."""

from __future__ import annotations

import pytest
from judge import JudgeRecord

from faults.mm2.tally import Tally, contents, tally


@pytest.mark.parametrize(
    ("found", "wanted"),
    [
        ((0, 1, 2, 3), Tally(4)),
        ((0, 1, 3), Tally(4, lost=1)),
        ((), Tally(4, lost=4)),
        ((0, 1, 2, 1, 2, 3), Tally(4, doubled=2)),
        ((0, 1, 1, 1, 2, 3), Tally(4, doubled=2)),
        ((0, 2, 1, 3), Tally(4, disordered=1)),
        ((0, 1, 2, 3, 99), Tally(4, strange=1)),
        ((0, 0, 3, 2, 99, 99), Tally(4, lost=1, doubled=1, strange=2, disordered=1)),
    ],
)
def test_what_is_wrong_with_a_copy_is_counted(found: tuple[int, ...], wanted: Tally) -> None:
    assert tally({0: [0, 1, 2, 3]}, {0: found}) == wanted


def test_what_is_twice_on_the_source_may_be_twice_on_the_target() -> None:
    assert tally({0: [0, 1, 1]}, {0: [0, 1, 1]}) == Tally(3)
    assert tally({0: [0, 1, 1]}, {0: [0, 1]}) == Tally(3, lost=1)


def test_a_record_in_another_partition_is_lost_and_strange() -> None:
    assert tally({0: [0], 1: [1]}, {0: [0, 1]}) == Tally(2, lost=1, strange=1)


def test_records_differ_by_every_part_but_the_offset() -> None:
    one = JudgeRecord(5, 1000, "CreateTime", b"k", b"v", (("h", None),))
    changes = {"key": None, "value": b"", "headers": (), "timestamp": 1}
    others = [one._replace(**{name: new}) for name, new in changes.items()]
    assert tally(contents({0: [one]}), contents({0: [one._replace(offset=9)]})) == Tally(1)
    assert tally(contents({0: [one]}), contents({0: others})) == Tally(1, lost=1, strange=4)


def test_a_tally_is_told_in_words() -> None:
    assert str(Tally(4000)) == "nothing lost, nothing twice of 4,000 records"
    assert str(Tally(4000, lost=1, doubled=1200)) == "1 lost and 1,200 twice of 4,000 records"
