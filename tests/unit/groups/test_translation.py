"""Positions of groups translated by the ledger's map, by MM2's syncs before it, and never past a copied record."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.groups import Basis, Copied, SyncHistory, Translation, translate
from sparkmirror.ledger import Position, Run
from sparkmirror.model import OffsetSync, TopicPartition
from sparkmirror.offsets import OffsetMap

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
        (99, Translation(50, Basis.FIRST, missing=1)),
        (0, Translation(50, Basis.FIRST, missing=100)),
    ],
)
def test_every_kind_of_position(position: int, wanted: Translation) -> None:
    assert translate(position, copied()) == wanted


def test_positions_before_the_ledger_go_where_mm2_would_put_them() -> None:
    syncs = SyncHistory(OffsetSync(PARTITION, 40, 10))
    syncs.take(OffsetSync(PARTITION, 80, 40))
    assert translate(80, copied(syncs)) == Translation(40, Basis.MM2_SYNCS)
    assert translate(99, copied(syncs)) == Translation(41, Basis.MM2_SYNCS)
    assert translate(40, copied(syncs)) == Translation(10, Basis.MM2_SYNCS)
    assert translate(39, copied(syncs)) == Translation(50, Basis.FIRST, missing=61)
    assert translate(100, copied(syncs)) == Translation(50, Basis.EXACT)


def test_a_partition_that_was_never_copied_has_no_position() -> None:
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
    assert found is not None and found.basis is Basis.EXACT
    assert [u for u, d in pairs if d >= found.downstream] == [u for u, _ in pairs if u >= position]
