"""Random faults by seed: they discover what named points and rows do not stage. `make seeds` runs many of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from faults.chaos import run_seed

SEEDS = [int(word) for word in os.environ.get("SPARKMIRROR_SEEDS", "1").split()]


@pytest.mark.fault("F48")
@pytest.mark.nightly  # a minute and a half on two idle cores, five on busy ones
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", SEEDS)
def test_F48_random_faults_lose_nothing_double_nothing_and_move_no_group_back(seed: int, tmp_path: Path, row) -> None:
    verdict = run_seed(seed, tmp_path)
    row.seen, row.recovered = verdict.line(), verdict.recovered
    assert verdict.violations == [], verdict.line()
    assert verdict.records > 1000, verdict.line()
