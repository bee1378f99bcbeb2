"""The simulator bites: each rule, broken alone, is seen by some schedule; so is what `driver/` and `slot/` must do."""

from __future__ import annotations

import pytest

from simulation.rules import Rules
from simulation.stage import P, Stage
from simulation.world import Faults, run_seed
from sparkmirror.ledger import Closed, Position

EXPIRY = Faults(expire_id=True)
# If the simulator changes, the seed does not fit any more: then so many others are tried.
SEEDS_MORE = 400

BROKEN = {
    "fence": (0, None),
    "read_before_resume": (353, None),
    "first_alone": (44, None),
    "open_first": (0, None),
    "quiet_close": (14, None),
    "proven_receipts": (66, None),
    "check_owner": (81, None),
    "conditional_raise driver_sees_newer_owner": (26, None),
    "slots_named_by_owner": (204, None),
    "every_lost_is_fenced": (53, None),
    "nothing_read_is_missed": (272, None),
    "weak_waits_for_lease": (155, EXPIRY),
}


@pytest.mark.parametrize("names", BROKEN)
def test_a_broken_rule_is_seen(names: str) -> None:
    seed, faults = BROKEN[names]
    rules = Rules(**dict.fromkeys(names.split(), False))
    assert any(_is_seen(s, rules, faults) for s in (seed, *range(SEEDS_MORE)))


def _is_seen(seed: int, rules: Rules, faults: Faults | None) -> bool:
    try:
        run_seed(seed, rules=rules, faults=faults)
    except AssertionError:
        return True
    return False


def _late_closed(rules: Rules) -> Stage:
    """O10: a zombie's closed of an old attempt is the last one in the log, and the newest attempt ended quietly."""
    stage = Stage("O10 weak", records=30, rules=rules)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    old = stage.world.book.view().of(P).newest
    stage.kill_all()
    second = stage.world.drive(force=True)
    stage.until(lambda: len(stage.copied()) > 25)
    second.stopping = True
    stage.until(lambda: second.ended)
    stage.world.book.append([Closed(P, old.attempt, Position(2, 2, 2))], "zombie")
    stage.finish()
    return stage


def _unsettled(rules: Rules) -> Stage:
    """D1 and D6 in one: the window lies on the leader unreplicated, the answers are lost, and the state is forgotten."""
    stage = Stage("D6 weak", records=40, rules=rules)
    stage.target.old_data = stage.target.stalled = True
    slot = stage.copying()
    stage.until(lambda: stage.target.log_end > 0 and not slot.relays[P].lane.flying)
    slot.relays[P].lane.cut()
    stage.target.forget()
    stage.world.run(2.0)
    stage.target.catch_up()
    stage.finish()
    assert not stage.told("DAMAGE")
    return stage


def _told_twice(rules: Rules) -> Stage:
    """C2: the driver's append of an open is repeated, and the second copy comes when the attempt is closed."""
    stage = Stage("C2 weak", records=10, rules=rules)
    stage.copying()
    order = stage.world.book.view().of(P).newest
    stage.world.run(3.0)
    stage.slot._release(P)
    stage.until(lambda: stage.world.book.view().of(P).is_closed)
    stage.world.run(1.0)
    stage.world.book.append([order], "D1")
    stage.source.append(10)
    stage.world.run(3.0)
    stage.kill_all()
    stage.finish()
    return stage


STAGED = {
    "newest_closed_only": _late_closed,
    "settle": _unsettled,
    "slots_know_newest_open": _told_twice,
}


@pytest.mark.parametrize("names", STAGED)
def test_a_broken_rule_is_seen_on_its_stage(names: str) -> None:
    STAGED[names](Rules())
    with pytest.raises(AssertionError):
        STAGED[names](Rules(**dict.fromkeys(names.split(), False)))
