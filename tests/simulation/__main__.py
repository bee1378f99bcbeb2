"""`python -m simulation --seed 17` replays one schedule; `--seeds 0 5000` looks for broken ones."""

from __future__ import annotations

import argparse
import time

from simulation.rules import Rules
from simulation.world import run_seed


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", type=int, nargs=2, metavar=("FROM", "TO"), default=(0, 1000))
    parser.add_argument("--without", action="append", default=[], help="a rule to break, by its name in rules.py")
    parser.add_argument("--by-hand", action="store_true", help="somebody passes over records meanwhile")
    parser.add_argument("--first", action="store_true", help="stop at the first broken seed")
    options = parser.parse_args()
    rules = Rules(**dict.fromkeys(options.without, False))
    if options.seed is not None:
        return _replay(options.seed, rules, by_hand=options.by_hand)
    began, broken = time.monotonic(), 0
    for seed in range(*options.seeds):
        try:
            run_seed(seed, rules=rules, by_hand=options.by_hand)
        except AssertionError as error:
            broken += 1
            print(f"seed {seed}: {type(error).__name__}: {error}", flush=True)
            if options.first:
                break
    count = options.seeds[1] - options.seeds[0]
    print(f"{count} schedules, {broken} broken, {count / (time.monotonic() - began):.0f} per second")
    return bool(broken)


def _replay(seed: int, rules: Rules, *, by_hand: bool) -> int:
    try:
        world = run_seed(seed, rules=rules, trace=True, by_hand=by_hand)
    except AssertionError as error:
        print("\n".join(error.world.clock.trace))  # type: ignore[attr-defined]
        print(f"seed {seed}: {type(error).__name__}: {error}")
        return 1
    print("\n".join(world.clock.trace or ()))
    print(f"seed {seed}: sound, {world.faults}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
