"""Thousands of random schedules, each to its end: everything is copied once and in order, or a reason is told."""

from __future__ import annotations

import pytest

from simulation.world import run_seed

# 2 500 schedules take some 35 s of one core. More: `cd tests && python -m simulation --seeds 0 100000`.
BLOCK = 100
BLOCKS = 25
BLOCKS_BY_HAND = 5


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_schedule_breaks_a_promise(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            run_seed(seed)
        except AssertionError as error:
            trace = _trace(seed)
            pytest.fail(f"{trace}\nseed {seed}: {error}\nreplay: cd tests && python -m simulation --seed {seed}")


@pytest.mark.parametrize("block", range(BLOCKS_BY_HAND))
def test_no_schedule_in_which_records_are_passed_over_by_hand_breaks_a_promise(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        try:
            run_seed(seed, by_hand=True)
        except AssertionError as error:
            trace = _trace(seed, by_hand=True)
            replay = f"replay: cd tests && python -m simulation --by-hand --seed {seed}"
            pytest.fail(f"{trace}\nseed {seed}: {error}\n{replay}")


def _trace(seed: int, *, by_hand: bool = False) -> str:
    try:
        run_seed(seed, trace=True, by_hand=by_hand)
    except AssertionError as error:
        return "\n".join(error.world.clock.trace[-150:])  # type: ignore[attr-defined]
    return "not repeatable"


def test_the_same_seed_gives_the_same_schedule() -> None:
    traces = [run_seed(7, trace=True).clock.trace for _ in range(2)]
    assert traces[0] == traces[1]
    assert len(traces[0] or ()) > 50
