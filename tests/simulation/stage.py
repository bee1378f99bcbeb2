"""One partition, one driver, one slot, and the hand of a test."""

from __future__ import annotations

from collections.abc import Callable

from simulation.rules import Rules
from simulation.slots import SlotActor
from simulation.source import SourcePartition
from simulation.target import TargetPartition
from simulation.world import World
from sparkmirror.model import TopicPartition

__all__ = ["P", "Stage"]

P = TopicPartition("t", 0)


class Stage:
    """A world of one partition."""

    def __init__(
        self,
        name: str,
        *,
        records: int = 20,
        compacts: bool = False,
        transactional: bool = False,
        rules: Rules | None = None,
    ) -> None:
        self.world = World(name, rules=rules, partitions=0, trace=True)
        self.world.add_partition(P, compacts=compacts, transactional=transactional)
        self.world.judge.watch(P)
        self.world.coordinator.partitions = list(self.world.targets.values())
        self.world.slots = 1
        self.world.size_max, self.world.merge_below, self.world.window_bytes = 150, 0, 5000
        self.source.append(records)

    @property
    def source(self) -> SourcePartition:
        return self.world.sources[P]

    @property
    def target(self) -> TargetPartition:
        return self.world.targets[P]

    @property
    def slot(self) -> SlotActor:
        return next(s for s in reversed(self.world.slot_actors) if s.alive and not s.ended)

    def until(self, is_so: Callable[[], object], seconds: float = 30.0) -> None:
        """Lets time pass until it is so."""
        deadline = self.world.clock.now + seconds
        while not is_so():
            assert self.world.clock.now < deadline, "\n".join(self.world.clock.trace or ())
            self.world.run(0.002)

    def copying(self) -> SlotActor:
        """A slot that has sent its first batch and waits for nothing else."""
        self.world.drive()
        self.until(lambda: any(P in s.relays for s in self.world.slot_actors))
        return self.slot

    def kill_all(self) -> None:
        """kill −9 of driver and slots; what is on its way stays on its way."""
        for process in (*self.world.drivers, *self.world.slot_actors):
            process.kill()

    def told(self, text: str) -> bool:
        """Whether the trace says so."""
        return any(text in line for line in self.world.clock.trace or ())

    def copied(self) -> list[int]:
        return [u for _, u in self.target.copies()]

    def finish(self) -> None:
        self.world.heal()
