import os
import tempfile
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkmirror.errors import InternalError
from sparkmirror.pipeline.lane import shelf as shelf_module
from sparkmirror.pipeline.lane.orders import LaneOrder, remove_left_folders, slips_folder
from sparkmirror.pipeline.lane.shelf import Shelf, lay_down
from sparkmirror.wire import Columns

PARTS = ("timestamps", "keys", "values", "headers")


def order_of(name: str) -> LaneOrder:
    return LaneOrder("file", "digest", "A", "B", "ledger", "folder", name, "lane", 1, 1)


@pytest.fixture
def order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LaneOrder:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = order_of("shelf")
    slips_folder(found).mkdir(parents=True)
    return found


def columns_of(offsets: list[int]) -> Columns:
    """Each record tells its offset in every part; with nulls and headers of all kinds."""
    return Columns(
        offsets,
        [1000 + offset for offset in offsets],
        [None if offset % 3 == 0 else b"k%d" % offset for offset in offsets],
        [None if offset % 7 == 0 else b"v%d" % offset * (offset % 50) for offset in offsets],
        [() if offset % 2 else [(b"h\xff", None), (b"o", b"%d" % offset)] for offset in offsets],
    )


gaps = st.lists(st.integers(1, 4), min_size=1, max_size=80)


@given(gaps, st.integers(1, 20), st.integers(1, 20), st.sampled_from([1, 1000, 16 << 20]), st.randoms())
def test_every_row_finds_its_record_whatever_was_left_out_and_however_rows_are_grouped(steps, laid, asked, limit, random):
    offsets = [sum(steps[: at + 1]) for at in range(len(steps))]
    wanted = [offset for offset in offsets if random.random() < 0.7]
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", folder)
        patch.setattr(shelf_module, "BYTES_MAX", limit)
        order = order_of("shelf")
        slips_folder(order).mkdir(parents=True)
        for number, start in enumerate(range(0, len(offsets), laid)):
            lay_down(order, 5, number, columns_of(offsets[start : start + laid]))
        shelf = Shelf(order, 5)
        start = 0
        while start < len(wanted):
            found = shelf.pick_up(wanted[start : start + asked])
            some = wanted[start : start + len(found)]
            expected = columns_of(some)
            start += len(found)
            assert found.offsets == some
            assert [[*map(list, entries)] for entries in found.headers] == [[*map(list, e)] for e in expected.headers]
            assert all(getattr(found, part) == getattr(expected, part) for part in PARTS[:3])
        shelf.clear()
        assert list(slips_folder(order).iterdir()) == []


@pytest.mark.parametrize("asked", [[1], [3], [2, 5], [2, 3, 6], [9]])
def test_a_row_at_an_offset_that_was_not_read_is_refused(order: LaneOrder, asked: list[int]) -> None:
    lay_down(order, 1, 0, columns_of([2, 4, 6]))
    shelf = Shelf(order, 1)
    with pytest.raises(InternalError, match="not read"):
        shelf.pick_up(asked)


def test_what_a_lost_query_laid_down_on_a_machine_without_its_driver_is_removed_after_an_hour(order: LaneOrder) -> None:
    lay_down(order, 1, 0, columns_of([1, 2]))
    remove_left_folders()
    assert slips_folder(order).exists()
    long_ago = time.time() - 3700
    os.utime(slips_folder(order), (long_ago, long_ago))
    remove_left_folders()
    assert not slips_folder(order).parent.exists()
