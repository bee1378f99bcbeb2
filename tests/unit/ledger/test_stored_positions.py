"""When a position that is missing in the offsets topic was removed by somebody, and crashes in between."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkmirror.ledger import (
    OffsetsTopic,
    StoredPositions,
    anchor_record,
    decode,
    encode,
    find_removed,
    name_records,
    named_partitions,
)
from sparkmirror.model import TopicPartition

ONE, OTHER = "1" * 32, "2" * 32
P = [TopicPartition("orders", index) for index in range(4)]


def remembered(*names: TopicPartition, topic_id: str = ONE, ends: tuple[int, ...] = (5,)) -> dict:
    stored = {("", 0): anchor_record(topic_id, ends)}
    return stored | {(r.topic, r.chunk): r for r in name_records(stored, names, topic_id)}


def topic(*stored: TopicPartition, tombstones=(), topic_id: str = ONE, starts=(0,), ends=(5,)) -> OffsetsTopic:
    return OffsetsTopic(topic_id, starts, ends, frozenset(stored), frozenset(tombstones))


def removed(stored: dict, found: OffsetsTopic, copied=P) -> set[TopicPartition]:
    return set(find_removed(stored, found, copied).removed)


def test_a_position_that_was_never_there_is_not_removed() -> None:
    assert removed({}, topic()) == set()
    assert removed(remembered(P[0]), topic(P[0])) == set()
    assert removed(remembered(P[0]), topic(P[0], tombstones=[P[1]])) == set(), "our own tombstone"
    assert removed({}, topic(tombstones=P)) == set(), "the same, before the ledger remembered anything"


def test_a_named_position_that_is_a_tombstone_or_gone_is_removed() -> None:
    stored = remembered(P[0], P[1])
    assert removed(stored, topic(P[0], tombstones=[P[1]])) == {P[1]}
    assert removed(stored, topic(P[0])) == {P[1]}, "the tombstone was compacted away"


def test_a_tombstone_of_a_partition_that_only_mirrormaker_copied_is_a_removal() -> None:
    """The ledger does not know the partition, so sparkmirror has not written the tombstone."""
    assert removed({}, topic(P[0], tombstones=[P[1]]), copied=[]) == {P[1]}
    assert removed(remembered(P[0]), topic(P[0], tombstones=[P[1]]), copied=[P[0]]) == {P[1]}


def test_a_named_partition_that_was_never_copied_here_is_removed_too() -> None:
    assert removed(remembered(P[0]), topic(), copied=[]) == {P[0]}
    assert removed(remembered(P[0]), topic(topic_id=OTHER), copied=[P[1]]) == {P[0], P[1]}


def test_another_offsets_topic_resets_every_copied_partition_without_a_position() -> None:
    found = find_removed(remembered(P[0]), topic(P[2], topic_id=OTHER), P[:3])
    assert (set(found.removed), found.is_whole) == ({P[0], P[1]}, True), "orders-2 has a new one"


def test_another_offsets_topic_resets_nothing_while_no_position_is_remembered() -> None:
    assert removed(remembered(), topic(topic_id=OTHER)) == set()


@pytest.mark.parametrize(("was", "now"), [("0" * 32, ONE), (ONE, "0" * 32), ("0" * 32, "0" * 32), ("", ONE)])
def test_a_cluster_without_topic_ids_is_judged_by_its_keys(was: str, now: str) -> None:
    """An upgrade gives ids to topics that had none: nobody deleted them."""
    stored = remembered(P[0], P[1], topic_id=was)
    assert removed(stored, topic(P[0], P[1], topic_id=now)) == set()
    assert removed(stored, topic(topic_id=now)) == {P[0], P[1]}


@pytest.mark.parametrize("found", [topic(P[0], starts=(3,)), topic(P[0], ends=(4,))])
def test_a_position_that_retention_or_a_lost_disk_took_is_lost_and_not_removed(found: OffsetsTopic) -> None:
    verdict = find_removed(remembered(P[0], P[1]), found, P)
    assert (set(verdict.removed), set(verdict.lost)) == (set(), {P[1]})


def test_a_tombstone_counts_also_in_a_topic_that_lost_records() -> None:
    verdict = find_removed(remembered(P[0], P[1]), topic(tombstones=[P[0]], starts=(3,)), P)
    assert (set(verdict.removed), set(verdict.lost)) == ({P[0]}, {P[1]})


def test_names_under_another_id_than_the_anchors_do_not_count() -> None:
    stored = remembered(P[0]) | {("", 0): anchor_record(OTHER)}
    assert named_partitions(stored) == frozenset()
    assert removed(stored, topic(topic_id=OTHER)) == set()


def test_only_records_that_change_are_written_and_names_are_split_into_chunks() -> None:
    many = [TopicPartition("orders", index) for index in (0, 99, 100, 250)]
    stored = remembered(*many)
    assert [(r.chunk, r.partitions) for r in stored.values() if r.topic] == [(0, (0, 99)), (1, (100,)), (2, (250,))]
    assert name_records(stored, many, ONE) == []
    assert name_records(stored, many[1:], ONE) == [StoredPositions("orders", 0, ONE, (99,))]
    assert name_records(stored, many[:3], ONE) == [StoredPositions("orders", 2, ONE, ())]


@pytest.mark.parametrize("record", [anchor_record(ONE, (3, 0)), anchor_record(ONE), StoredPositions("t", 1, ONE, (100,))])
def test_records_survive_the_ledger(record: StoredPositions) -> None:
    key, value = encode(record)
    assert decode(key, value) == record
    assert (b"ends" in value) == bool(record.ends)


# --- crashes -----------------------------------------------------------------------------------------------------


class Killed(Exception):
    """The process died before its next write."""


@dataclass
class World:
    """An offsets topic and a ledger, and an owner that writes both in the order of `driver/moves/position_memory.py`."""

    id: int = 1
    keys: dict[TopicPartition, bool] = field(default_factory=dict)  # True: a position, False: a tombstone
    stored: dict = field(default_factory=dict)
    budget: int = 0  # writes until the process dies
    asked: set[TopicPartition] = field(default_factory=set)  # what somebody removed and no run has restarted yet
    names: set[TopicPartition] = field(default_factory=set)
    current: int = 0
    is_unseen: bool = False  # the topic was deleted while the flow ran, and the ledger does not know

    def write(self, action) -> None:
        if self.budget == 0:
            raise Killed
        self.budget -= 1
        action()

    def record(self, *records: StoredPositions) -> None:
        for record in records:
            self.write(lambda record=record: self.stored.update({(record.topic, record.chunk): record}))

    def ledger_id(self) -> str:
        return f"{self.current:032}"

    def topic(self) -> OffsetsTopic:
        there = frozenset(p for p, is_stored in self.keys.items() if is_stored)
        return OffsetsTopic(f"{self.id:032}", (0,), (0,), there, frozenset(self.keys) - there)

    def put(self, partition: TopicPartition, is_stored: bool) -> None:
        self.write(lambda: self.keys.update({partition: is_stored}))

    # What the owner does.

    def start(self) -> set[TopicPartition]:
        topic = self.topic()
        found = find_removed(self.stored, topic, P)
        self.names, self.current = {*topic.stored, *found.removed}, self.id
        self.record(*name_records(self.stored, self.names, self.ledger_id()))
        self.record(anchor_record(self.ledger_id(), (0,)))
        return set(found.removed)

    def rename(self, names: set[TopicPartition]) -> None:
        self.record(*name_records(self.stored, names, self.ledger_id()))
        self.names = names

    def flush(self, partition: TopicPartition) -> None:
        self.look()
        self.put(partition, True)
        self.rename(self.names | {partition})

    def take_back(self, partition: TopicPartition) -> None:
        self.look()
        self.rename(self.names - {partition})
        self.put(partition, False)

    def look(self) -> None:
        if self.id == self.current:
            return
        held, self.current = set(self.asked), self.id
        self.record(anchor_record(self.ledger_id(), (0,)))
        self.is_unseen = False
        self.rename(held)
        for partition in P:
            if partition not in held:
                self.put(partition, True)
        self.rename(held | set(P))


ACTIONS = st.sampled_from(["flush", "take_back", "deleted while it runs", "restart"])
STEPS = st.lists(st.tuples(ACTIONS, st.sampled_from(P)), max_size=8)
RUNS = st.lists(st.tuples(STEPS, st.integers(0, 30), st.sampled_from(["nothing", "tombstone", "compacted", "delete"]),
                          st.sampled_from(P)), min_size=1, max_size=6)  # fmt: skip


@settings(max_examples=400, deadline=None)
@given(RUNS)
def test_whatever_dies_when_only_what_somebody_removed_is_removed(runs) -> None:
    """Runs that die after so many writes; between them somebody removes a position, or the topic, or nothing."""
    world = World()
    for steps, budget, between, place in runs:
        world.budget = budget
        with contextlib.suppress(Killed):
            found = world.start()
            assert found <= world.asked, "a reset that nobody asked for"
            for action, partition in steps:
                if action == "restart" and partition in found:  # the move is in the ledger: see removed_positions.py
                    world.rename(world.names - {partition})  # dead before it: it is found again, at its new position
                    world.asked.discard(partition)
                    found.discard(partition)
                elif action == "deleted while it runs":
                    world.id, world.keys, world.is_unseen = world.id + 1, {}, True
                    world.look()
                elif partition not in found:
                    getattr(world, "flush" if action == "restart" else action)(partition)
        if world.is_unseen:
            return  # deleted while it ran, and dead before it looked: nobody can tell this from a deletion afterwards
        somebody_removes(world, between, place)


def somebody_removes(world: World, between: str, place: TopicPartition) -> None:
    named = named_partitions(world.stored)
    if between == "delete":
        world.id, world.keys = world.id + 1, {}
        world.asked = set(P)
    elif between != "nothing" and world.keys.get(place) and place in named:
        world.asked.add(place)
        if between == "tombstone":
            world.keys[place] = False
        else:
            del world.keys[place]


def test_a_removal_is_found_again_until_its_partition_has_restarted() -> None:
    for budget in range(6):
        world = World(budget=99)
        world.start()
        world.flush(P[0])
        world.keys, world.id, world.budget = {}, 2, budget
        with contextlib.suppress(Killed):
            world.start()
        world.budget = 99
        assert P[0] in world.start(), f"killed after {budget} writes"
