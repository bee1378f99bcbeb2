"""The tally counts what is wrong with a copy, and nothing else; the worst line of a log is found."""

from __future__ import annotations

import pytest
from judge import JudgeRecord

from faults.mm2.flow import worst_line
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


LOG = """\
[2026-11-16 08:13:46,936] WARN All plugins have manifests (org.apache.kafka.connect.runtime.isolation.Plugins)
[2026-11-16 08:13:47,000] INFO [Consumer clientId=c, groupId=null] orders-0 is out of range (org.apache.kafka.X)
[2026-11-16 08:13:48,000] WARN [Consumer clientId=c] no such topic: orders (org.apache.kafka.clients.NetworkClient)
[2026-11-16 08:13:49,000] ERROR Error polling:  (org.apache.kafka.connect.util.KafkaBasedLog)
java.lang.RuntimeException: orders
"""


@pytest.mark.parametrize(
    ("about", "wanted"),
    [
        ((), "ERROR in the log (“Error polling: ”)"),
        (("orders",), "WARN in the log (“no such topic: orders”)"),
        (("payments",), ""),
    ],
)
def test_the_worst_line_is_quoted_and_what_every_start_says_is_none(about: tuple[str, ...], wanted: str) -> None:
    assert worst_line(LOG, about) == wanted
