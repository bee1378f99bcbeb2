"""The rows of protocol.md that broke simpler designs, each staged by hand, and the schedules that broke this one."""

from __future__ import annotations

import pytest

from simulation.rules import Rules
from simulation.stage import P, Stage
from sparkmirror.ledger import Closed, Position, Receipt, Run


def test_D1_records_on_the_leader_that_are_not_replicated_are_waited_for() -> None:
    stage = Stage("D1")
    stage.target.stalled = True
    stage.copying()
    stage.until(lambda: stage.target.log_end > 0)
    stage.kill_all()
    written = stage.copied()
    stage.world.drive(force=True)
    stage.world.run(8.0)
    assert stage.target.high_watermark == 0 and stage.copied() == written
    stage.target.catch_up()
    stage.finish()


def test_D2_bytes_that_arrive_after_their_sender_died_are_kept_out_by_the_fence() -> None:
    stage = Stage("D2", records=60)
    slot = stage.copying()
    stage.until(lambda: len(slot.relays[P].copy.window) > 3 and slot.relays[P].lane.flying)
    lane = slot.relays[P].lane
    lane.cut()
    lane._fate, lane._late_s = "late", 4.0
    stage.kill_all()
    stage.world.drive(force=True)
    stage.world.run(3.0)
    assert stage.copied(), "the successor did not wait for the late bytes"
    stage.finish()
    assert stage.told("refuses 47")


@pytest.mark.parametrize("before", [0, 7])
def test_D4_a_crash_before_the_first_receipt_copies_nothing_twice(before: int) -> None:
    stage = Stage(f"D4 {before}", records=30)
    if before:
        stage.target.preload(before)
        stage.world.starts[P] = Position(5, before, 0)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 3)
    stage.kill_all()
    assert not any(isinstance(r, Receipt) for r in stage.world.book.read(0)[0])
    stage.finish()


@pytest.mark.parametrize("forget", [False, True])
def test_D5_D6_a_window_whose_answers_were_lost_is_not_sent_again(forget: bool) -> None:
    stage = Stage("D5", records=60)
    stage.target.old_data = True
    stage.target.follower_s = 0.3
    slot = stage.copying()
    stage.until(lambda: len(slot.relays[P].copy.window) > 6 and not slot.relays[P].lane.flying)
    assert len([s for s in stage.target.log if not s.control]) > 6
    slot.relays[P].lane.cut()
    if forget:
        stage.target.forget()
    stage.finish()
    assert stage.world.judge.sent_batches == len([s for s in stage.target.log if not s.control])


def test_D7_L4_an_error_with_a_base_offset_is_never_sent_again() -> None:
    stage = Stage("D7", records=60)
    stage.target.follower_s = 0.3
    slot = stage.copying()
    stage.until(lambda: len(slot.relays[P].copy.window) > 3 and not slot.relays[P].lane.flying)
    stage.target.time_out()
    stage.finish()
    assert stage.world.judge.sent_batches == len([s for s in stage.target.log if not s.control])


def test_D8_tasks_that_outlive_their_driver_are_fenced_not_waited_for() -> None:
    stage = Stage("D8", records=30)
    slot = stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    stage.world.drivers[0].kill()
    slot.pause(6.0)
    stage.source.append(30)
    stage.world.drive(force=True)
    stage.world.run(5.0)
    assert len(stage.copied()) > 30
    stage.finish()


def test_L1_nothing_follows_a_first_batch_that_was_refused() -> None:
    stage = Stage("L1")
    stage.target.refusals = 1.0
    stage.copying()
    stage.world.run(3.0)
    assert stage.target.log == [] and stage.world.judge.sent_batches > 1
    stage.target.refusals = 0.0
    stage.finish()


def test_L3_a_cascade_of_45_is_resumed_at_the_first_batch_that_was_refused() -> None:
    stage = Stage("L3", records=60)
    slot = stage.copying()
    stage.until(lambda: slot.relays[P].copy.armed)
    stage.target.refusals = 1.0
    stage.until(lambda: stage.told("refuses"))
    stage.target.refusals = 0.0
    stage.finish()
    assert stage.told("refuses 45")


def test_L5_what_was_appended_but_lost_with_its_leader_is_no_part_of_a_receipt() -> None:
    stage = Stage("L5", records=40)
    stage.target.stalled = True
    stage.copying()
    stage.until(lambda: stage.target.log_end > 0)
    stage.target.time_out()
    stage.world.run(3.0)
    assert not any(isinstance(r, Receipt) for r in stage.world.book.read(0)[0])
    stage.target.lose_leader(keep=0)
    stage.target.new_leader()
    stage.target.catch_up()
    stage.finish()


def test_L9_source_compaction_between_two_attempts_loses_and_repeats_nothing() -> None:
    stage = Stage("L9", records=40, compacts=True)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 12)
    stage.kill_all()
    stage.world.run(1.0)
    for _ in range(20):
        stage.source.compact()
    stage.finish()


def test_O1_an_old_owner_cannot_raise_the_epoch_again() -> None:
    stage = Stage("O1")
    stage.copying()
    first = stage.world.drivers[0]
    first.pause(5.0)
    second = stage.world.drive(force=True)
    stage.until(lambda: second.ownership is not None)
    stage.world.run(20.0)
    assert first.ended and not second.ended
    assert stage.world.coordinator.describe() == second.ownership.producer
    stage.finish()


def test_O2_of_two_drivers_that_start_at_once_one_writes() -> None:
    stage = Stage("O2")
    stage.world.drive(force=True)
    stage.world.drive(force=True)
    stage.world.run(20.0)
    assert [bool(d.ended) for d in stage.world.drivers].count(False) == 1
    stage.finish()


def test_O10_a_zombies_late_closed_says_nothing_once_a_newer_attempt_is_open() -> None:
    stage = Stage("O10", records=30)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    old = stage.world.book.view().of(P).newest
    stage.kill_all()
    stage.world.drive(force=True)
    stage.until(lambda: stage.world.book.view().of(P).newest != old and len(stage.copied()) > 20)
    stage.world.run(3.0)
    stage.world.book.append([Closed(P, old.attempt, Position(2, 2, 2))], "zombie")
    stage.kill_all()
    stage.finish()


def test_O11_M1_a_late_short_receipt_and_the_cleaner_take_nothing_from_the_map() -> None:
    stage = Stage("O11", records=30)
    stage.copying()
    stage.until(lambda: any(isinstance(r, Receipt) for r in stage.world.book.read(0)[0]))
    short = next(r for r in stage.world.book.read(0)[0] if isinstance(r, Receipt))
    first = short.runs[0]
    late = Receipt(P, short.attempt, Position(first.upstream + 1, 1, 1), -1, 1, 0, (Run(first.upstream, 0, 1),))
    stage.world.run(2.0)
    stage.kill_all()
    stage.world.drive(force=True)
    stage.until(lambda: stage.world.book.view().of(P).newest.attempt > short.attempt)
    stage.world.book.append([late], "zombie")
    stage.world.book.entries = _compacted(stage.world.book.entries)
    stage.finish()


def _compacted(entries: list) -> list:
    last = {entry.key: at for at, entry in enumerate(entries)}
    for at, entry in enumerate(entries):
        if last[entry.key] != at:
            entry.record = None
    return entries


def test_C1_closed_waits_until_nothing_of_the_attempt_can_land_any_more() -> None:
    """Found by seed 1351: settled without the batch, released, closed, and then the batch landed before a new owner's."""
    stage = Stage("C1", records=60)
    slot = stage.copying()
    stage.until(lambda: slot.relays[P].copy.armed and slot.relays[P].lane.flying)
    lane = slot.relays[P].lane
    lane.cut()
    lane._fate, lane._late_s = "late", 6.0
    stage.world.drivers[0].stopping = True
    stage.until(lambda: stage.world.book.view().of(P).is_closed)
    position = stage.world.book.view().of(P).position()
    assert all(position.upstream > request.upstreams[-1] for request in lane.flying)
    stage.world.drive(force=True)
    stage.finish()


def test_C2_an_open_that_is_told_twice_does_not_revive_an_attempt_that_ended() -> None:
    """Found by seed 2543: the driver's append is retried after a lost ack, and the second copy comes after closed."""
    stage = Stage("C2", records=10)
    stage.copying()
    order = stage.world.book.view().of(P).newest
    stage.world.drivers[0]._moving[P] = 0
    stage.world.run(3.0)
    stage.slot._release(P)
    stage.until(lambda: stage.world.book.view().of(P).newest.attempt > order.attempt)
    stage.world.book.append([order], "D1")
    stage.world.run(2.0)
    assert stage.slot.relays[P].copy.order.attempt > order.attempt
    stage.finish()


def test_M6_sequences_wrap_at_two_to_the_31() -> None:
    stage = Stage("M6", records=40)
    stage.world.starts[P] = Position(0, 0, (1 << 31) - 5)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 12)
    stage.kill_all()
    stage.finish()
    assert len({s.producer.producer_epoch for s in stage.target.log}) > 1


def test_M5_runs_end_where_aborted_records_and_markers_were_left_out() -> None:
    stage = Stage("M5", records=60, transactional=True)
    stage.source.end_transactions()
    stage.copying()
    stage.world.run(4.0)
    history = stage.world.book.view().of(P)
    runs = list(history.runs())
    assert len(runs) > 2 and sum(run.length for run in runs) == history.receipts[history.newest.attempt].records
    stage.finish()


def test_M7_recovery_reads_at_the_isolation_of_the_open_not_of_the_new_owner() -> None:
    stage = Stage("M7", records=60, transactional=True)
    stage.source.end_transactions()
    stage.world.read_committed = False
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 20)
    stage.kill_all()
    copied = stage.copied()
    stage.world.read_committed = True
    stage.world.judge.world.targets[P].on_append = lambda *_: None
    driver = stage.world.drive(force=True)
    stage.world.run(5.0)
    assert driver.stopped == {} and stage.copied()[: len(copied)] == copied
    assert stage.copied() == sorted(set(stage.copied()))


# --- schedules that broke this design, as they were found ---------------------------------------------------------


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_fence_marker_is_not_taken_for_the_proven_record_that_an_unclean_election_lost(lost: int) -> None:
    """Found by seed 31: the target loses as many records as the fence writes markers, and looks whole."""
    stage = Stage(f"truncated {lost}", records=30)
    stage.world.size_max = 90  # one record in each batch
    stage.copying()
    stage.world.run(4.0)
    stage.kill_all()
    stage.target.lose_leader(keep=stage.target.log_end - lost)
    stage.target.new_leader()
    stage.target.catch_up()
    stage.finish()


@pytest.mark.parametrize("compacts", [False, True])
def test_the_targets_own_cleaner_in_the_unproven_tail_loses_and_repeats_nothing(compacts: bool) -> None:
    """Found by seeds 7, 23 and 158: holes inside batches; and where the source compacts too, a hole of three records may
    stand for one."""
    stage = Stage(f"cleaner {compacts}", records=60, compacts=compacts)
    stage.world.target_compacts[P] = True
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 40)
    stage.kill_all()
    stage.world.run(1.0)
    stage.target.compact(stage.target.log[-1].base)
    for _ in range(10):
        stage.source.compact()
    stage.finish()


def test_a_record_that_was_never_written_is_not_taken_for_one_that_the_cleaner_took() -> None:
    """L2 on a compacted target: state forgotten, the first batch refused, the second accepted; the hole is told."""
    stage = Stage("hole", records=12)
    stage.world.target_compacts[P] = True
    stage.target.old_data = True
    slot = stage.copying()
    stage.world.run(3.0)
    stage.target.forget()
    stage.target.refusals = 1.0
    stage.source.append(20)
    stage.until(lambda: stage.told("refuses"))
    stage.target.refusals = 0.0
    stage.until(lambda: stage.told("DAMAGE"), 5.0)
    slot.kill()
    stage.finish()
    assert stage.world.is_told(P) == "ORDER_BROKEN"


def test_a_fence_that_died_with_its_leader_is_waited_for_again() -> None:
    """Found by seed 102: the leader shows the marker, dies before a follower has it, and the settled log has no fence."""
    stage = Stage("fence", records=40)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    stage.kill_all()
    stage.world.run(1.0)
    stage.target.stalled = True
    driver = stage.world.drive(force=True)
    stage.until(lambda: stage.target.log[-1].control)
    stage.world.run(0.1)
    end = stage.target.high_watermark
    stage.target.lose_leader(keep=end)
    stage.target.new_leader()
    stage.target.catch_up()
    stage.until(lambda: stage.world.book.view().of(P).is_closed or driver.ended)
    assert any(s.control for s in stage.target.log), "closed without a fence in the log"
    stage.finish()


def test_a_new_producer_id_is_weak_as_long_as_an_attempt_under_the_old_one_has_no_end() -> None:
    """Found by seed 254: the first owner under the new id died while it waited; the second thought the id was known."""
    stage = Stage("weak", records=40)
    stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    stage.kill_all()
    stage.world.coordinator.expire()
    second = stage.world.drive(force=True)
    stage.until(lambda: second.ownership is not None)
    second.kill()
    third = stage.world.drive(force=True)
    stage.until(lambda: third.ownership is not None)
    assert second.ownership.is_weak and third.ownership.is_weak
    stage.finish()


def test_a_slot_that_was_left_behind_does_not_take_its_successors_records_for_its_own() -> None:
    """Found by seed 12605: it slept between started and find-out, and read what the next owner had written."""
    stage = Stage("left behind", records=20)
    asked: list[bool] = []
    describe = stage.world.coordinator.describe
    stage.world.coordinator.describe = lambda: (asked.append(True), describe())[1]
    stage.world.drive()
    stage.until(lambda: asked)
    slot = stage.slot
    slot.pause(6.0)
    stage.world.drive(force=True)
    stage.world.run(5.5)
    assert stage.copied()
    slot._read = lambda: None  # the ledger reaches it last of all
    stage.finish()
    assert not any(isinstance(r, Receipt) and r.attempt.producer_epoch == 0 for r in stage.world.book.read(0)[0])


@pytest.mark.parametrize("name", ["awake", "asleep", "again"])
def test_a_driver_that_slept_after_its_fence_does_not_close_its_successors_attempt(name: str) -> None:
    """Found by seed 173: it looks at the ledger when it wakes, and the newest attempt there is not the one it fenced."""
    rules = Rules(recovers_what_it_fenced=False, driver_sees_newer_owner=False)
    stage = Stage(f"zombie driver {name}", records=40, rules=rules)
    slot = stage.copying()
    stage.until(lambda: len(stage.copied()) > 5)
    slot.kill()
    stage.until(lambda: stage.target.log[-1].control)
    stage.world.drivers[0].pause(8.0)
    stage.world.drive(force=True)
    stage.world.run(7.0)
    stage.source.append(20)
    stage.world.run(60.0)
    assert not any(e.writer == "D1" and isinstance(e.record, Closed) for e in stage.world.book.entries)
    assert stage.copied() == stage.source.wanted(True)
