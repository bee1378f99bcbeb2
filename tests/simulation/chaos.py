"""Turns a seed into a schedule: what the flow is like, and which faults come when."""

from __future__ import annotations

from collections.abc import Callable

from simulation.events import Process
from simulation.world import CHAOS_S, Faults, World
from sparkmirror.ledger import Position
from sparkmirror.model import TopicPartition

__all__ = ["unleash"]


def unleash(world: World, faults: Faults | None = None) -> None:
    """Sets the world up, starts a driver, and lets things go wrong for a while."""
    rng = world.clock.rng
    unclean = rng.random() < 0.2
    world.faults = faults or Faults(
        unclean=unclean,
        forget=rng.random() < 0.25,
        expire_id=rng.random() < 0.05,
        # Not both: what was compacted away because of a record that is then lost cannot be known from the log.
        target_compacts=not unclean and rng.random() < 0.3,
        wrap=rng.random() < 0.1,
    )
    world.read_committed = rng.random() < 0.6
    world.slots = rng.randint(1, 2)
    world.attempts_max = rng.choice((1, 2, 8))
    world.moves = rng.choice((0.0, 0.0, 0.05))
    world.size_max = rng.choice((150, 250, 500))
    world.merge_below = rng.choice((0, 150, 400))
    world.window_bytes = rng.choice((300, 1200, 3000))
    world.coordinator.double_markers = rng.choice((0.0, 0.2))
    for index in range(rng.randint(1, 2)):
        _add_partition(world, index)
    world.coordinator.partitions = list(world.targets.values())
    weather = world.clock.weather
    weather.latency_s = rng.choice((0.005, 0.03, 0.1))
    weather.slow = rng.choice((0.0, 0.02, 0.1))
    weather.loss = rng.choice((0.0, 0.02, 0.08))
    world.drive()
    at = 0.0
    while at < CHAOS_S:
        step = rng.expovariate(1.2)
        world.run(step)
        at += step
        rng.choice((*_EVENTS, *[_move_by_hand] * 3) if world.by_hand else _EVENTS)(world)


def _add_partition(world: World, index: int) -> None:
    rng, partition = world.clock.rng, TopicPartition("t", index)
    world.add_partition(partition, compacts=rng.random() < 0.35, transactional=rng.random() < 0.4)
    world.judge.watch(partition)
    source, target = world.sources[partition], world.targets[partition]
    source.append(rng.randint(0, 25))
    target.follower_s = rng.choice((0.005, 0.05, 0.5))
    target.refusals = rng.choice((0.0, 0.0, 0.03, 0.1))
    target.old_data = world.faults.forget
    world.target_compacts[partition] = world.faults.target_compacts
    if world.faults.wrap:
        world.starts[partition] = Position(0, 0, (1 << 31) - rng.randint(1, 9))


# --- what can go wrong -------------------------------------------------------------------------------------------


def _processes(world: World) -> list[Process]:
    alive = [p for p in (*world.drivers, *world.slot_actors) if p.alive and not p.ended]
    return list(alive)


def _append(world: World) -> None:
    partition = world.clock.rng.choice(list(world.sources))
    world.sources[partition].append(world.clock.rng.randint(1, 8))


def _compact_source(world: World) -> None:
    for source in world.sources.values():
        source.compact()


def _compact_target(world: World) -> None:
    for partition, target in world.targets.items():
        if world.target_compacts[partition] and target.log:
            target.compact(world.clock.rng.randint(0, min(target.high_watermark, target.log[-1].base)))


def _compact_ledger(world: World) -> None:
    world.book.compact()


def _pause(world: World) -> None:
    found = _processes(world)
    if found:
        world.clock.rng.choice(found).pause(world.clock.rng.choice((0.3, 2.0, 12.0, 30.0)))


def _kill_slot(world: World) -> None:
    found = [s for s in world.slot_actors if s.alive and not s.ended]
    if found:
        slot = world.clock.rng.choice(found)
        for relay in slot.relays.values():
            if relay.lane is not None and world.clock.rng.random() < 0.7:
                relay.lane.cut()
        slot.kill()


def _kill_driver(world: World) -> None:
    rng = world.clock.rng
    found = [d for d in world.drivers if d.alive and not d.ended]
    if found:
        driver = rng.choice(found)
        driver.kill()
        for state in driver.slots.values():
            if rng.random() < 0.6:
                world.clock.later(rng.uniform(0, 1.0), state.actor.kill)
        if rng.random() < 0.8:
            world.clock.later(rng.uniform(0, 3.0), lambda: world.drive(force=rng.random() < 0.5))


def _second_driver(world: World) -> None:
    if len(world.drivers) < 5:
        world.drive(force=world.clock.rng.random() < 0.7)


def _stop_driver(world: World) -> None:
    owner = world.owner()
    if owner is not None and world.clock.rng.random() < 0.5:
        owner.stopping = True
        world.clock.later(world.clock.rng.uniform(0, 6.0), lambda: world.drive(force=world.clock.rng.random() < 0.5))


def _move_by_hand(world: World) -> None:
    rng = world.clock.rng
    if len(world.drivers) < 8:
        world.move(force=rng.random() < 0.7)
        world.clock.later(rng.uniform(0.5, 8.0), lambda: world.drive(force=rng.random() < 0.7))


def _break_lane(world: World) -> None:
    found = [lane for lane in world.lanes if not lane.broken]
    if found:
        world.clock.rng.choice(found).cut()


def _stall(world: World) -> None:
    target = world.clock.rng.choice(list(world.targets.values()))
    target.stalled = True
    world.clock.later(world.clock.rng.uniform(0.2, 6.0), target.catch_up)


def _time_out(world: World) -> None:
    world.clock.rng.choice(list(world.targets.values())).time_out()


def _election(world: World) -> None:
    rng = world.clock.rng
    target = rng.choice(list(world.targets.values()))
    if not target.has_leader:
        return
    keep = None
    if world.faults.unclean and rng.random() < 0.4:
        keep = rng.choice([s.base for s in target.log] or [0])
    target.lose_leader(keep=keep)
    if world.faults.forget:
        _forget(world)
    world.clock.later(rng.uniform(0.05, 2.0), lambda: None if target.has_leader else target.new_leader())


def _forget(world: World) -> None:
    if world.faults.forget:
        for partition, target in world.targets.items():
            if world.may_forget(partition):
                target.forget()


def _expire_id(world: World) -> None:
    if world.faults.expire_id:
        world.coordinator.expire()


_EVENTS: tuple[Callable[[World], None], ...] = (
    _append, _append, _append, _append, _append,
    _compact_source, _compact_source, _compact_target, _compact_ledger,
    _pause, _pause, _kill_slot, _kill_slot, _kill_driver, _second_driver, _stop_driver,
    _break_lane, _break_lane, _break_lane, _stall, _time_out, _election, _forget, _expire_id,
)  # fmt: skip
