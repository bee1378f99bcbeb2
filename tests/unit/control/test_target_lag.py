"""What the lag group on the target commits, so that Kafka's tools show the lag."""

from __future__ import annotations

import pytest

from sparkmirror.control.target_lag import NOTHING, position
from sparkmirror.topology import is_lag_group


@pytest.mark.parametrize(
    ("end", "lag", "state", "committed"),
    [
        (10, 0, "copying", 10),
        (10, 3, "copying", 7),
        (10, 30, "copying", 0),  # the copy is shorter than what is left: the lag shown is what can be shown
        (0, 0, "copying", 0),
        (0, 3, "stopped", NOTHING),
        (10, 3, "stopped", 7),
        (10, 0, "stopped", NOTHING),
        (10, None, "copying", NOTHING),
    ],
)
def test_lag_of_a_partition_reads_0_only_if_nothing_is_left_to_copy(
    end: int, lag: int | None, state: str, committed: int
) -> None:
    assert position(end, lag, state) == committed


def test_groups_that_only_show_a_lag_are_known_by_their_names() -> None:
    assert is_lag_group("connect-MirrorSourceConnector") and is_lag_group("connect-MirrorSourceConnector-B")
    assert not is_lag_group("connect-MirrorSourceConnectors")
