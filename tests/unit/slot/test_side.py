"""What a slot says of a cluster that it cannot reach."""

from __future__ import annotations

import time
from contextlib import closing

from sparkmirror.config import ClusterSettings
from sparkmirror.local.ports import HOST, free_ports
from sparkmirror.slot.loop import Loop, Procedure
from sparkmirror.slot.side import ClusterSide

SECONDS_MAX = 30.0
LOOKS = 4


class CountedSide(ClusterSide):
    """Counts its looks at the metadata."""

    looks = 0

    def any_connection(self, purpose: str) -> Procedure:
        """As the side does."""
        self.looks += 1
        return super().any_connection(purpose)


def test_a_cluster_that_stays_dead_is_told_in_one_wording() -> None:
    """The wordings of a connection and of a look at the metadata took turns: each was a change, and a line of the log."""
    first, second = free_ports(2)
    with closing(Loop()) as loop:
        side = CountedSide(loop, ClusterSettings("A", ((HOST, first), (HOST, second)), {}))
        side.refresh()
        deadline, said = time.monotonic() + SECONDS_MAX, list[str]()
        while side.looks < LOOKS:
            assert time.monotonic() < deadline
            loop.turn(0.01)
            if side.trouble and [side.trouble] != said[-1:]:
                said.append(side.trouble)
    assert len(said) == 2 and said[0] in said[1], said
    assert [said[1].count(f"cluster A at {HOST}:{port}: ") for port in (first, second)] == [1, 1]
