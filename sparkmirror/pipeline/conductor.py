"""The driver of one flow: owns it, opens partitions on slots, recovers what was lost, records what was proven.

Everything it knows is in the ledger; it can be killed at any time. It never talks to a slot but through the ledger.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from sparkmirror.clusters import (
    LATEST,
    ClusterClient,
    fence,
    list_offsets,
    raise_producer_epoch,
)
from sparkmirror.config import FlowSettings
from sparkmirror.errors import ClusterError, ReplicationError, SparkmirrorError
from sparkmirror.ledger import (
    AskAppend,
    AskIsGone,
    AskLedger,
    AskProducer,
    Attempt,
    Closed,
    LedgerRecord,
    Open,
    Ownership,
    Ready,
    Receipt,
    Release,
    SlotBeat,
    SlotStop,
    State,
    close_lost_attempt,
    lost_attempts,
    take_ownership,
)
from sparkmirror.model import TopicPartition
from sparkmirror.pipeline.assignment import assign, worthwhile_move
from sparkmirror.pipeline.flow_ledger import FlowLedger, ensure_compacted_topic
from sparkmirror.pipeline.process import Process
from sparkmirror.pipeline.recorder import Recorder
from sparkmirror.pipeline.slot import SlotOrder
from sparkmirror.pipeline.spark import SparkSlots
from sparkmirror.pipeline.starting import StartingPoints
from sparkmirror.pipeline.status import Discovery, FlowStatus, MirroredTopic, PartitionStatus
from sparkmirror.pipeline.takeover import BlockingFinder

__all__ = ["Conductor", "FlowPlace"]

POLL_MS = 100
OWNER_BEAT_S = 5.0
POSITIONS_S = 5.0
ENDS_S = 2.0
MOVES_S = 5.0
# Three missed beats of a slot, and slack for a busy machine: then it is treated as dead (the fence makes that safe).
SLOT_SILENCE_S = 10.0
# Spark needs some seconds to start; on a cluster with busy cores a slot may wait longer, which is shown.
SLOT_START_S = 120.0
DRAIN_S = 10.0
RECOVERY_THREADS = 8
RECORD_BYTES_GUESS = 500


@dataclass(frozen=True, slots=True)
class FlowPlace:
    """Where a flow's state lies, and how this run treats it."""

    config_path: str
    config_digest: str
    ledger_topic: str
    offsets_topic: str
    syncs_topic: str
    slots: int
    once: bool
    take_over: bool

    def transactional_id(self, flow: FlowSettings) -> str:
        """The name whose producer epoch says who owns the flow."""
        return f"sparkmirror-{flow.name}"


@dataclass(slots=True)
class _SlotState:
    order: SlotOrder
    beat_at: float
    beat: int = -1
    is_alive: bool = True


class Conductor:
    """One flow, from start to stop, on its own thread."""

    def __init__(
        self,
        flow: FlowSettings,
        place: FlowPlace,
        spark: SparkSlots,
        discover: Callable[[ClusterClient, ClusterClient], Discovery],
    ) -> None:
        self.status = FlowStatus(flow.name)
        self.failure: SparkmirrorError | None = None
        self._flow, self._place, self._spark, self._discover = flow, place, spark, discover
        self._source = ClusterClient(flow.source)
        self._target = ClusterClient(flow.target)
        self._process = Process.this()
        self._stop = threading.Event()
        self._ended: queue.SimpleQueue[tuple[SlotOrder, str]] = queue.SimpleQueue()
        self._slots: dict[int, _SlotState] = {}
        self._topics: dict[str, MirroredTopic] = {}
        self._placed: dict[TopicPartition, Open] = {}
        self._moving: dict[TopicPartition, int] = {}
        self._lost: set[TopicPartition] = set()
        self._stopped: set[TopicPartition] = set()
        self._until: dict[TopicPartition, int] | None = None
        self._number = 0
        self._beat = 0
        self._counted: dict[Attempt, tuple[int, int]] = {}
        self._due: dict[str, float] = {}
        self._finder = BlockingFinder(self._source, self._target, time.sleep)
        self._read_committed = flow.consumer.get("isolation.level") == "read_committed"

    # --- life --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for a drain and an end."""
        self._stop.set()

    def run(self) -> None:
        """The whole life of the flow. Errors end it with a reason, never silently."""
        try:
            self._start()
            while not self._is_done():
                self._turn()
            self._finish()
        except SparkmirrorError as error:
            self.failure = error
            self.status.state, self.status.reason = "failed", str(error)
        finally:
            for client in (self._source, self._target):
                client.close()

    def _start(self) -> None:
        flow, place = self._flow, self._place
        self._source.view(())
        self._target.view(())
        factor = flow.offset_storage_replication_factor
        ensure_compacted_topic(self._target, place.ledger_topic, 1, factor)
        ensure_compacted_topic(self._target, place.offsets_topic, flow.offset_storage_partitions, factor)
        self._ledger = FlowLedger(self._target, place.ledger_topic)
        self.status.state = "taking ownership"
        self._ownership = self._own()
        self._recorder = self._make_recorder()
        self.status.state = "recovering"
        self._ready: dict[TopicPartition, Ready] = {}
        self._recover(lost_attempts(self._ledger.view), is_start=True)
        self._starting = StartingPoints(
            flow, self._source, self._target, place.offsets_topic, self._syncs_client(), place.syncs_topic, self._finder
        )
        self._refresh_topics()
        self.status.state = "running"

    def _syncs_client(self) -> ClusterClient:
        return self._source if self._flow.offset_syncs_topic_location == "source" else self._target

    def _make_recorder(self) -> Recorder:
        flow, place = self._flow, self._place
        syncs = self._syncs_client() if flow.emit_offset_syncs_enabled else None
        if syncs is not None:
            ensure_compacted_topic(syncs, place.syncs_topic, 1, flow.offset_syncs_topic_replication_factor)
        return Recorder(
            source_alias=flow.name.source,
            target=self._target,
            offsets_topic=place.offsets_topic,
            offsets_partitions=self._target.view([place.offsets_topic]).topics[place.offsets_topic].partitions,
            syncs=syncs,
            syncs_topic=place.syncs_topic,
            lag_max=flow.offset_lag_max,
        )

    # --- ownership ---------------------------------------------------------------------------------------------

    def _own(self) -> Ownership:
        asking = take_ownership(self._process.name, force=self._place.take_over)
        answer: Any = None
        while True:
            try:
                ask = asking.send(answer)
            except StopIteration as end:
                ownership: Ownership = end.value[0]
                if ownership.is_weak:
                    self.status.notes.append("the flow's producer id is new: an old owner's late writes are not fenced")
                return ownership
            match ask:
                case AskLedger():
                    answer = self._ledger.read_all()
                case AskIsGone(owner, watch_s):
                    self.status.reason = f"is {owner.name} alive?"
                    answer = self._process.is_dead(owner.name) or not self._sees_beat(owner.beat, watch_s)
                    self.status.reason = ""
                case AskProducer(held):
                    answer = self._raise_epoch(held)
                case AskAppend(records):
                    self._ledger.append(records)
                    answer = None

    def _raise_epoch(self, held: tuple[int, int] | None) -> tuple[int, int]:
        return raise_producer_epoch(self._target, self._place.transactional_id(self._flow), held)

    def _sees_beat(self, beat: int, watch_s: float) -> bool:
        """Whether the owner's beat changes while we watch; by our own clock only."""
        deadline = time.monotonic() + watch_s
        while time.monotonic() < deadline and not self._stop.is_set():
            self._ledger.poll(500)
            owner = self._ledger.view.owner
            if owner is not None and (owner.beat != beat or owner.released):
                return not owner.released
        return False

    def _sign(self, **changes: Any) -> None:
        owner = replace(self._ownership.owner, **changes)
        self._ownership = replace(self._ownership, owner=owner)
        self._ledger.append([owner])

    # --- slots -------------------------------------------------------------------------------------------------

    def _launch(self, slot: int, incarnation: int) -> None:
        owner, place = self._ownership.owner, self._place
        order = SlotOrder(
            config_path=place.config_path,
            config_digest=place.config_digest,
            source=self._flow.name.source,
            target=self._flow.name.target,
            slot=slot,
            incarnation=incarnation,
            owner_name=owner.name,
            owner_generation=owner.generation,
            owner_epoch=owner.producer_epoch,
            transactional_id=place.transactional_id(self._flow),
            ledger_topic=place.ledger_topic,
            ledger_offset=self._ledger.offset,
        )
        self._slots[slot] = _SlotState(order, time.monotonic() + SLOT_START_S)
        self._spark.launch(order, lambda o, reason: self._ended.put((o, reason)))

    def _check_slots(self) -> None:
        now = time.monotonic()
        while not self._ended.empty():
            order, reason = self._ended.get()
            state = self._slots.get(order.slot)
            if state is not None and state.order == order:
                self._slot_died(state, reason)
                if not self._stop.is_set():
                    self._launch(order.slot, order.incarnation + 1)
        for state in self._slots.values():
            if state.is_alive and now - state.beat_at > SLOT_SILENCE_S:
                self._slot_died(state, f"no sign of life for {SLOT_SILENCE_S:g} s")
                self._spark.cancel(state.order)

    def _slot_died(self, state: _SlotState, reason: str) -> None:
        state.is_alive = False
        if reason.startswith("failed"):
            self.status.notes.append(f"slot {state.order.slot}: {reason}")
        where = (state.order.slot, state.order.incarnation)
        for partition, order in self._placed.items():
            if (order.slot, order.incarnation) == where and not self._ledger.view.of(partition).is_closed:
                self._lost.add(partition)
                self._show(partition, "recovering", "SLOT_LOST", f"slot {order.slot} {reason}")

    def _live_slots(self) -> list[int]:
        return [slot for slot, state in self._slots.items() if state.is_alive]

    # --- one turn ----------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        try:
            for record in self._ledger.poll(POLL_MS):
                self._take(record)
            self._check_slots()
            if self._lost and not self._stop.is_set():
                lost, self._lost = self._lost, set()
                self._recover(lost_attempts(self._ledger.view, lost), is_start=False)
                self._open(lost & set(self._ready))
            self._run_due()
            if self.status.state == "waiting":
                self.status.state, self.status.reason = "running", ""
        except ClusterError as error:
            self.status.state, self.status.reason = "waiting", error.message
            time.sleep(0.5)

    def _run_due(self) -> None:
        interval = self._flow.refresh_topics_interval_seconds
        self._every("beat", OWNER_BEAT_S, self._beat_owner)
        self._every("syncs", 1.0, self._recorder.write_syncs)
        self._every("positions", POSITIONS_S, self._recorder.flush)
        self._every("ends", ENDS_S, self._look_at_ends)
        self._every("moves", MOVES_S, self._move)
        if self._flow.refresh_topics_enabled and interval > 0 and not self._place.once:
            self._every("topics", float(interval), self._refresh_topics)

    def _every(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        now = time.monotonic()
        if now >= self._due.setdefault(name, now + seconds):
            self._due[name] = now + seconds
            action()

    def _beat_owner(self) -> None:
        self._beat += 1
        self._sign(beat=self._beat)

    def _take(self, record: LedgerRecord) -> None:
        match record:
            case SlotBeat():
                state = self._slots.get(record.slot)
                if state is not None and state.order.incarnation == record.incarnation and state.beat != record.beat:
                    state.beat, state.beat_at = record.beat, time.monotonic()
            case Receipt() if self._is_current(record):
                self._take_receipt(record)
            case State() if self._is_current(record):
                self._take_state(record)
            case Closed() if self._is_current(record):
                self._take_closed(record)
            case _:
                pass

    def _is_current(self, record: Receipt | State | Closed) -> bool:
        order = self._placed.get(record.partition)
        return order is not None and order.attempt == record.attempt

    def _take_receipt(self, receipt: Receipt) -> None:
        self._recorder.take(receipt)
        status = self.status.partitions[receipt.partition]
        status.next_upstream = max(status.next_upstream, receipt.position.upstream)
        status.source_end = max(status.source_end, receipt.source_end)
        before = self._counted.get(receipt.attempt, (0, 0))
        status.records += receipt.records - before[0]
        status.record_bytes += receipt.record_bytes - before[1]
        self._counted[receipt.attempt] = (receipt.records, receipt.record_bytes)

    def _take_state(self, state: State) -> None:
        if state.state == "lost":
            if state.code in ("FENCED", "IN_DOUBT", "TARGET_TRUNCATED"):
                self._lost.add(state.partition)
                self._show(state.partition, "recovering", state.code, state.reason)
            else:
                self._stopped.add(state.partition)
                self._show(state.partition, "stopped", state.code, state.reason)
        else:
            if state.state == "stopped":
                self._stopped.add(state.partition)
            self._show(state.partition, state.state, state.code, state.reason)

    def _take_closed(self, closed: Closed) -> None:
        status = self.status.partitions[closed.partition]
        status.next_upstream = closed.position.upstream
        if closed.partition in self._stopped:
            return
        if closed.partition in self._moving and not self._stop.is_set():
            self._open([closed.partition])
        else:
            self._show(closed.partition, "closed", "", "")

    def _show(self, partition: TopicPartition, state: str, code: str, reason: str) -> None:
        status = self.status.partitions.setdefault(partition, PartitionStatus(partition))
        status.state, status.code, status.reason = state, code, reason

    # --- topics and opening ------------------------------------------------------------------------------------

    def _refresh_topics(self) -> None:
        discovery = self._discover(self._source, self._target)
        topics = discovery.topics
        self._topics = {topic.topic: topic for topic in topics}
        self.status.stopped_topics = discovery.stopped
        new = [
            TopicPartition(topic.topic, index)
            for topic in topics
            for index in range(topic.partitions)
            if TopicPartition(topic.topic, index) not in self._placed
            and TopicPartition(topic.topic, index) not in self._stopped
        ]
        if self._place.once and self._until is None:
            self._until = {
                p: offset
                for p, (offset, _) in list_offsets(
                    self._source, new, timestamp=LATEST, read_committed=self._read_committed
                ).items()
            }
        self._open(new)

    def _open(self, partitions: Iterable[TopicPartition]) -> None:
        """Writes opens, the largest partition first to the slot with the least to do."""
        wanted = [p for p in partitions if p.topic in self._topics]
        if not wanted:
            return
        points = self._starting_points(wanted)
        ends = {
            p: offset
            for p, (offset, _) in list_offsets(
                self._source, list(points), timestamp=LATEST, read_committed=self._read_committed
            ).items()
        }
        behind = {p: self._bytes(p, ends.get(p, 0) - ready.position.upstream) for p, ready in points.items()}
        if not self._slots:
            for slot in range(self._place.slots):
                self._launch(slot, 0)
        chosen = assign(behind, self._loads())
        orders = []
        for partition, ready in points.items():
            status = self.status.partitions.setdefault(partition, PartitionStatus(partition))
            status.next_upstream, status.source_end = ready.position.upstream, ends.get(partition, -1)
            slot = self._moving.pop(partition, chosen.get(partition, 0))
            order = self._order(partition, ready, slot)
            if order.until is not None and ready.position.upstream >= order.until:
                status.state = "closed"  # nothing to copy up to the end that was seen at the start
                continue
            status.slot, status.state = slot, "opening"
            orders.append(order)
        self._ledger.append(orders)
        for order in orders:
            self._ledger.view.apply(order)
            self._placed[order.partition] = order
            self._ready.pop(order.partition, None)

    def _starting_points(self, wanted: list[TopicPartition]) -> dict[TopicPartition, Ready]:
        points = {p: self._ready[p] for p in wanted if p in self._ready}
        rest = {p: self._ledger.view.of(p) for p in wanted if p not in points}
        known: dict[TopicPartition, Ready] = {}
        for partition, history in rest.items():
            newest, position = history.newest, history.position()
            if newest is None or position is None:
                continue
            is_same = (newest.producer_id, newest.producer_epoch) == self._ownership.producer
            # Same owner and epoch: the sequence goes on. A new epoch begins at 0, and its first batch goes alone.
            known[partition] = Ready(
                position if is_same else position._replace(sequence=0), newest.attempt, False, 0
            )
        first = [p for p in rest if p not in self._placed]
        found, notes = self._starting.find(first, known, self._topics)
        self.status.notes += notes
        points.update(known)
        points.update(found)
        return points

    def _order(self, partition: TopicPartition, ready: Ready, slot: int) -> Open:
        topic = self._topics[partition.topic]
        producer_id, epoch = self._ownership.producer
        self._number += 1
        return Open(
            partition=partition,
            attempt=Attempt(self._ownership.owner.generation, epoch, self._number),
            previous=ready.previous,
            slot=slot,
            incarnation=self._slots[slot].order.incarnation,
            target_topic=topic.remote,
            producer_id=producer_id,
            producer_epoch=epoch,
            position=ready.position,
            source_topic_id=topic.source_topic_id,
            target_topic_id=topic.target_topic_id,
            read_committed=self._read_committed,
            shared=False,
            fenced=ready.fenced,
            source_compacts=topic.source_compacts,
            source_leader_epoch=self._ledger.view.of(partition).source_leader_epoch(),
            until=self._until.get(partition) if self._until is not None else None,
        )

    # --- loads and moves ---------------------------------------------------------------------------------------

    def _bytes(self, partition: TopicPartition, lag: int) -> int:
        status = self.status.partitions.get(partition)
        each = status.record_bytes / status.records if status is not None and status.records else RECORD_BYTES_GUESS
        return int(max(lag, 0) * each)

    def _loads(self) -> dict[int, int]:
        loads = dict.fromkeys(self._live_slots() or self._slots, 0)
        for partition, order in self._placed.items():
            status = self.status.partitions[partition]
            if order.slot in loads and status.state not in ("closed", "stopped"):
                loads[order.slot] += self._bytes(partition, status.lag) + 1
        return loads

    def _look_at_ends(self) -> None:
        active = [p for p, s in self.status.partitions.items() if s.state not in ("stopped", "closed")]
        found = list_offsets(self._source, active, timestamp=LATEST, read_committed=self._read_committed)
        for partition, (offset, _) in found.items():
            self.status.partitions[partition].source_end = offset

    def _move(self) -> None:
        active = {
            p: order.slot for p, order in self._placed.items() if self.status.partitions[p].state == "copying"
        }
        behind = {p: self._bytes(p, self.status.partitions[p].lag) for p in active}
        move = worthwhile_move(behind, active, self._live_slots())
        if move is not None and not self._moving:
            partition, slot = move
            self._moving[partition] = slot
            self._ledger.append([Release(partition, self._placed[partition].attempt)])

    # --- recovery ----------------------------------------------------------------------------------------------

    def _recover(self, orders: list[Open], *, is_start: bool) -> None:
        """Fence, settle, read, then say where each lost attempt ended."""
        if not orders:
            return
        if not is_start:
            held = self._ownership.producer
            producer_id, epoch = self._raise_epoch(held)
            self._sign(producer_id=producer_id, producer_epoch=epoch)
        targets = [TopicPartition(o.target_topic, o.partition.partition) for o in orders]
        present = self._target.view({t.topic for t in targets})
        known = [t for t in targets if present.leader(t) is not None]
        fence(self._target, self._place.transactional_id(self._flow), self._ownership.producer, known)
        self._ledger.read_all()  # what the dead wrote to the ledger in their last moment counts
        with ThreadPoolExecutor(RECOVERY_THREADS, thread_name_prefix="recover") as pool:
            outcomes = list(pool.map(self._recover_one, orders))
        records: list[LedgerRecord] = []
        for order, (found, ready) in zip(orders, outcomes, strict=True):
            records += found
            if isinstance(ready, Ready):
                self._ready[order.partition] = ready
            else:
                self._stopped.add(order.partition)
                self._show(order.partition, "stopped", ready.code, str(ready))
                records.append(State(order.partition, order.attempt, "stopped", ready.code, str(ready)))
        self._ledger.append(records)
        for record in records:
            self._ledger.view.apply(record)
            if isinstance(record, Receipt):
                self._recorder.take(record)

    def _recover_one(self, order: Open) -> tuple[list[LedgerRecord], Ready | ReplicationError]:
        history = self._ledger.view.of(order.partition)
        if history.is_closed:  # it closed itself in its last moment
            position = history.position() or order.position
            return [], Ready(position._replace(sequence=0), order.attempt, False, 0)
        topic = self._topics.get(order.partition.topic)
        asking = close_lost_attempt(
            history,
            producer_ids=frozenset(self._ownership.owner.producer_ids),
            target_compacts=topic.target_compacts if topic is not None else True,
            compare_timestamps=not topic.target_log_append_time if topic is not None else False,
        )
        result: tuple[list[LedgerRecord], Ready | ReplicationError] = self._finder.run(
            asking,
            order.partition,
            TopicPartition(order.target_topic, order.partition.partition),
            read_committed=order.read_committed,
        )
        return result

    # --- the end -----------------------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        if self._stop.is_set():
            return True
        if not self._place.once:
            return False
        return all(s.state in ("closed", "stopped") for s in self.status.partitions.values())

    def _finish(self) -> None:
        """Drains, records everything that was proven, and gives the flow back."""
        self.status.state = "stopping"
        self._stop.set()
        self._ledger.append([SlotStop(s.order.slot, s.order.incarnation) for s in self._slots.values()])
        deadline = time.monotonic() + DRAIN_S
        while any(s.is_alive for s in self._slots.values()) and time.monotonic() < deadline:
            for record in self._ledger.poll(POLL_MS):
                self._take(record)
            self._check_slots()
        for state in self._slots.values():
            if state.is_alive:
                self._spark.cancel(state.order)
        self._ledger.read_all()
        for partition in self._placed:
            receipt = self._ledger.view.of(partition).receipts.get(self._placed[partition].attempt)
            if receipt is not None:
                self._recorder.take(receipt)
        self._recorder.flush()
        self._sign(released=True)
        self._ledger.close()
        self.status.state = "stopped"
