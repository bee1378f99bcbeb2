"""Positions of groups translated by the ledger's map, by MM2's syncs before it, and never past a copied record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.ledger import Position, Run
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import Basis, Copied, OffsetMap, SyncHistory, Translation, translate

PARTITION = TopicPartition("t", 0)
# Offsets 100-109 and 115-119 were copied (110-114 a gap: markers, aborted, compacted), up to 122 there is nothing more.
MAP = OffsetMap([Run(100, 50, 10), Run(115, 60, 5)])
END = Position(122, 65, 15)


def copied(syncs: SyncHistory | None = None) -> Copied:
    """The map above."""
    return Copied(END, MAP, syncs)


@pytest.mark.parametrize(
    ("position", "wanted"),
    [
        (100, Translation(50, Basis.EXACT)),
        (109, Translation(59, Basis.EXACT)),
        (110, Translation(60, Basis.EXACT)),
        (114, Translation(60, Basis.EXACT)),
        (119, Translation(64, Basis.EXACT)),
        (120, Translation(65, Basis.EXACT)),
        (122, Translation(65, Basis.EXACT)),
        (123, Translation(65, Basis.BEYOND)),
        (1 << 40, Translation(65, Basis.BEYOND)),
        (99, None),  # the target holds 50 records from before our time; which of them is the next one, nobody knows
    ],
)
def test_every_kind_of_position(position: int, wanted: Translation | None) -> None:
    assert translate(position, copied()) == wanted


def test_positions_before_the_ledger_go_where_mm2_would_put_them() -> None:
    """MirrorCheckpointTaskTest testCheckpoint: the rule of MM2's syncs."""
    syncs = SyncHistory(OffsetSync(PARTITION, 40, 10))
    syncs.take(OffsetSync(PARTITION, 80, 40))
    assert translate(80, copied(syncs)) == Translation(40, Basis.MM2_SYNCS)
    assert translate(99, copied(syncs)) == Translation(41, Basis.MM2_SYNCS)
    assert translate(40, copied(syncs)) == Translation(10, Basis.MM2_SYNCS)
    assert translate(39, copied(syncs)) is None
    assert translate(100, copied(syncs)) == Translation(50, Basis.EXACT)


def test_a_position_before_the_first_copied_record_goes_to_it_and_says_what_is_missing() -> None:
    first = Copied(Position(110, 10, 0), OffsetMap([Run(100, 0, 10)]), None)
    assert translate(99, first) == Translation(0, Basis.FIRST, missing=1)
    assert translate(0, first) == Translation(0, Basis.FIRST, missing=100)
    nothing_copied = Copied(Position(100, 0, 0), OffsetMap([]), None)
    assert translate(40, nothing_copied) == Translation(0, Basis.FIRST, missing=60)


def test_what_mm2_copied_between_two_of_our_runs_is_not_skipped() -> None:
    """We copied 0-9, MM2 10-29 while we were away, we go on at 30."""
    runs, end = [Run(0, 0, 10), Run(30, 30, 5)], Position(35, 35, 0)
    syncs = SyncHistory(OffsetSync(PARTITION, 9, 9))
    for offset in (19, 25):
        syncs.take(OffsetSync(PARTITION, offset, offset))
    assert translate(10, Copied(end, OffsetMap(runs), None)) == Translation(10, Basis.MM2_SYNCS)
    assert translate(20, Copied(end, OffsetMap(runs), None)) == Translation(10, Basis.MM2_SYNCS)
    assert translate(24, Copied(end, OffsetMap(runs), syncs)) == Translation(20, Basis.MM2_SYNCS)
    assert translate(25, Copied(end, OffsetMap(runs), syncs)) == Translation(25, Basis.MM2_SYNCS)
    assert translate(30, Copied(end, OffsetMap(runs), syncs)) == Translation(30, Basis.EXACT)


def test_what_mm2_copied_after_our_last_run_is_not_skipped() -> None:
    end = Position(30, 30, 0)  # a new open behind what MM2 copied, nothing written under it yet
    assert translate(20, Copied(end, OffsetMap([Run(0, 0, 10)]), None)) == Translation(10, Basis.MM2_SYNCS)


def test_a_partition_that_was_never_copied_has_no_position() -> None:
    """MirrorCheckpointTaskTest testNoCheckpointForTopicWithoutOffsetSyncs."""
    assert translate(7, Copied(None, OffsetMap([]), None)) is None
    syncs = SyncHistory(OffsetSync(PARTITION, 5, 3))
    assert translate(7, Copied(None, OffsetMap([]), syncs)) == Translation(4, Basis.MM2_SYNCS)
    assert translate(4, Copied(None, OffsetMap([]), syncs)) is None


def test_an_empty_partition_has_its_end() -> None:
    """L8: a group at the end of an empty partition is translated too."""
    assert translate(30, Copied(Position(30, 4, 0), OffsetMap([]), None)) == Translation(4, Basis.EXACT)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 5), st.integers(0, 3)), min_size=1, max_size=8), st.data())
def test_no_translation_skips_a_copied_record_or_reads_one_again(
    shape: list[tuple[int, int, int]], data: st.DataObject
) -> None:
    pairs, upstream, downstream, runs = [], 0, 0, []
    for gap, length, marker in shape:
        upstream, downstream = upstream + gap, downstream + marker
        runs.append(Run(upstream, downstream, length))
        pairs += [(upstream + step, downstream + step) for step in range(length)]
        upstream, downstream = upstream + length, downstream + length
    end = Position(upstream + data.draw(st.integers(0, 2)), downstream, 0)
    position = data.draw(st.integers(runs[0].upstream, end.upstream))
    found = translate(position, Copied(end, OffsetMap(runs), None))
    assert found is not None
    assert [u for u, d in pairs if d >= found.downstream] == [u for u, _ in pairs if u >= position]
