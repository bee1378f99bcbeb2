"""One schedule: what exists, what goes wrong and when, and how it ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from simulation.book import Book
from simulation.drivers import Driver, Mover
from simulation.events import Clock, Violation
from simulation.judge import Judge
from simulation.rules import Rules
from simulation.slots import SlotActor
from simulation.source import SourcePartition
from simulation.target import Coordinator, Lane, TargetPartition
from sparkmirror.ledger import Closed, Position
from sparkmirror.model import TopicPartition

__all__ = ["Faults", "World", "run_seed"]

CHAOS_S = 20.0
HEAL_S = 240.0


@dataclass(frozen=True, slots=True)
class Faults:
    """What may go wrong in one schedule."""

    unclean: bool = False  # replicated records are lost in an election
    forget: bool = False  # producer state expires (R2)
    expire_id: bool = False  # the flow's producer id changes (R11)
    target_compacts: bool = False
    wrap: bool = False  # sequences begin just below 2³¹


class World:
    """Everything in one schedule."""

    def __init__(self, seed: int | str, *, rules: Rules | None = None, partitions: int = 2, trace: bool = False) -> None:
        self.clock = Clock(seed)
        self.clock.trace = [] if trace else None
        self.rules = rules or Rules()
        self.slots = 2
        self.moves = 0.0
        self.by_hand = False  # whether somebody passes over records while things go wrong
        self.attempts_max = 8
        self.size_max = 400
        self.merge_below = 200
        self.window_bytes = 2000
        self.read_committed = True
        self.faults = Faults()
        self.sources: dict[TopicPartition, SourcePartition] = {}
        self.targets: dict[TopicPartition, TargetPartition] = {}
        self.target_compacts: dict[TopicPartition, bool] = {}
        self.starts: dict[TopicPartition, Position] = {}
        for index in range(partitions):
            self.add_partition(TopicPartition("t", index))
        self.coordinator = Coordinator(self.clock, self.targets.values())
        self.book = Book(self.clock)
        self.drivers: list[Driver] = []
        self.slot_actors: list[SlotActor] = []
        self.lanes: list[Lane] = []
        self.judge = Judge(self)

    def add_partition(self, partition: TopicPartition, *, compacts: bool = False, transactional: bool = False) -> None:
        """A partition on both sides."""
        self.sources[partition] = SourcePartition(self.clock.rng, compacts=compacts, transactional=transactional)
        self.targets[partition] = TargetPartition(self.clock, f"target-{partition.partition}")
        target = self.targets[partition]
        target.on_crash = lambda: [lane.cut() for lane in self.lanes if lane.partition is target and not lane.broken]
        self.target_compacts[partition] = False

    # --- what actors ask -----------------------------------------------------------------------------------------

    def first_position(self, partition: TopicPartition, log_end: int) -> Position:
        """Where a partition that the ledger does not know begins."""
        at = self.starts.get(partition, Position(0, 0, 0))
        return Position(at.upstream, log_end, at.sequence)

    def sees_dead(self, name: str) -> bool:
        """Whether the named driver ran where one can see that it is gone."""
        return any(d.name == name and (not d.alive or bool(d.ended)) for d in self.drivers)

    def last_closed(self, partition: TopicPartition) -> Position | None:
        """What the last closed in the log says, whoever wrote it: the broken rule of O10."""
        records = self.book.read(0)[0]
        return next(
            (r.position for r in reversed(records) if isinstance(r, Closed) and r.partition == partition), None
        )

    # --- what a test does ----------------------------------------------------------------------------------------

    def drive(self, *, force: bool = False) -> Driver:
        """Starts a driver."""
        driver = Driver(self, f"D{len(self.drivers) + 1}", force=force)
        self.drivers.append(driver)
        return driver

    def move(self, *, force: bool = False) -> Mover:
        """Somebody passes over some records by hand."""
        mover = Mover(self, f"D{len(self.drivers) + 1}", force=force)
        self.drivers.append(mover)
        return mover

    def run(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> bool:
        """Lets time pass."""
        return self.clock.run(self.clock.now + seconds, is_done)

    def owner(self) -> Driver | None:
        """The driver that the coordinator knows, if it lives."""
        for driver in reversed(self.drivers):
            held = driver.ownership.producer if driver.ownership is not None else None
            if driver.alive and not driver.ended and held == self.coordinator.describe():
                return driver
        return None

    def is_drained(self) -> bool:
        """Whether the newest attempts have proven, in the ledger, everything there is."""
        view = self.book.view()
        return all(
            self.is_told(partition)
            or ((position := view.of(partition).position()) is not None
                and position.upstream >= source.limit(self.read_committed))
            for partition, source in self.sources.items()
        )

    def is_told(self, partition: TopicPartition) -> str:
        """The reason with which the partition is stopped, empty if it is not."""
        owner = self.owner()
        return owner.stopped.get(partition, "") if owner is not None else ""

    def heal(self) -> None:
        """All faults end; one live owner is made sure of; everything is copied; the judge looks."""
        self.calm()
        self.run(5.0)
        if self.owner() is None:
            self.drive(force=True)
        deadline = self.clock.now + HEAL_S
        while self.clock.now < deadline and not self.run(20.0, self.is_drained):
            if self.owner() is None and not any(d.alive and not d.ended for d in self.drivers):
                self.drive(force=True)
        self.judge.final()

    def calm(self) -> None:
        """No fault is under way any more."""
        clock = self.clock
        clock.note("--- calm ---")
        clock.weather.latency_s, clock.weather.slow, clock.weather.loss = 0.01, 0.0, 0.0
        self.moves = self.coordinator.double_markers = 0.0
        for process in (*self.drivers, *self.slot_actors):
            clock.later(clock.rng.uniform(0, 3), lambda process=process: process.wake(early=True))
        for target in self.targets.values():
            target.refusals = 0.0
            if not target.has_leader:
                target.new_leader()
            target.catch_up()
        for source in self.sources.values():
            source.append(3)  # a target that lost its end is noticed at the next batch, not before
            source.end_transactions()

    def may_forget(self, partition: TopicPartition) -> bool:
        """Whether R2 may strike here: not while bytes are under way that only the broker's memory keeps out.

        A zombie that wakes, or bytes that arrive, after the state was dropped are held off by the lease alone (O6).
        """
        target = self.targets[partition]
        for lane in self.lanes:
            if lane.partition is target:
                for request in lane.flying:
                    state = target.producers.get(request.producer.producer_id)
                    if state is not None and (
                        request.producer.producer_epoch != state.epoch
                        or request.producer.base_sequence != state.next_sequence
                    ):
                        return False
        newest = self.book.view().of(partition).newest
        holders = [a for a in self.slot_actors if a.alive and not a.ended and partition in a.relays]
        return all(newest is not None and a.relays[partition].copy.order.attempt == newest.attempt for a in holders)


def run_seed(
    seed: int, *, rules: Rules | None = None, trace: bool = False, faults: Faults | None = None, by_hand: bool = False
) -> World:
    """One random schedule to its end. Raises Violation, with the world in it, when a promise is broken."""
    from simulation.chaos import unleash

    world = World(seed, rules=rules, partitions=0, trace=trace)
    world.by_hand = by_hand
    try:
        unleash(world, faults)
        world.heal()
    except (Violation, AssertionError) as error:
        error.world = world  # type: ignore[attr-defined]
        raise
    return world
