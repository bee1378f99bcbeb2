"""The driver of one flow: owns it, opens partitions on slots, recovers what was lost, records what was proven.

Everything it knows is in the ledger; it can be killed at any time. It never talks to a slot but through the ledger.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TypeVar

from sparkmirror.clusters import is_retriable, is_right_missing
from sparkmirror.config import FlowSettings
from sparkmirror.driver.copy_lag import CopyLag
from sparkmirror.driver.flow_context import FlowContext, FlowPlace
from sparkmirror.driver.flow_ledger import ensure_compacted_topic, require_compacted
from sparkmirror.driver.healing import LOOK_S, Healing
from sparkmirror.driver.holding import Holding
from sparkmirror.driver.mm2_watch import Mm2Watch
from sparkmirror.driver.moves.pausing import Pausing, learn_wishes
from sparkmirror.driver.moves.removed_positions import RemovedPositions
from sparkmirror.driver.moves.repositioning import Ending
from sparkmirror.driver.moves.requests import OWN_VERBS, Requests, Verb
from sparkmirror.driver.moves.wishing import WISH_VERBS
from sparkmirror.driver.owning import OwningInterrupted, own, require_not_failed_over, wait_out_lease
from sparkmirror.driver.placing import Discover, Placing
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.recovering import recover
from sparkmirror.driver.renewal import NewSettings, Renewal
from sparkmirror.driver.slot_watch import SlotWatch
from sparkmirror.driver.source_ends import SourceWatch
from sparkmirror.driver.transform_topics import TransformTopics
from sparkmirror.driver.trimming import condense_map, trim_map
from sparkmirror.errors import (
    BrokerRefused,
    BrokerTooOld,
    ClusterError,
    ClusterUnreachable,
    ConnectionLost,
    FlowFailedOver,
    FlowOwnedByAnother,
    InternalError,
    ReplicationLoop,
    SourceOffsetLost,
    SparkmirrorError,
    TargetHasStranger,
)
from sparkmirror.ledger import (
    TRANSFORM_QUERY,
    Attempt,
    Closed,
    LedgerRecord,
    Open,
    Owner,
    Receipt,
    SlotBeat,
    Started,
    State,
    lost_attempts,
)
from sparkmirror.model import TopicPartition
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.status.failed_over import FAILED_OVER
from sparkmirror.status.flow_status import FlowStatus
from sparkmirror.status.state_code import RECOVERED, StateCode

T = TypeVar("T")

POLL_MS = 100
POSITIONS_S = 5.0
SYNCS_S = 1.0
ENDS_S = 2.0
RECORD_ENDS_S = 5.0
MOVES_S = 5.0
JOINED_S = 1.0  # from the first beat of a slot: what others open just now can move then
FOREIGN_RECORDS_S = 5.0
TRIM_S = 60.0
CONDENSE_S = 15.0
SILENT_RETRY_S = 2.0
SILENT_S = 2.0  # brokers answer in milliseconds; what is shown is in doubt long before a request times out
OPEN_S = 5.0
DRAIN_S = 10.0
WAIT_S = 0.5
# A poll of the ledger that takes longer waited for the target: what the slots wrote meanwhile could not be read.
READ_S_MAX = 2.0
NEW_ID = "the flow's producer id is new: an old owner's late writes are not fenced"


class Conductor:
    """One flow, from start to stop, on its own thread."""

    def __init__(
        self,
        flow: FlowSettings,
        place: FlowPlace,
        spark: SparkSlots,
        discover: Discover,
        verbs: Mapping[str, Verb],
    ) -> None:
        self.status = FlowStatus(flow.name, file_words=place.file_words)
        self.failure: SparkmirrorError | None = None
        self._flow, self._place, self._spark, self._discover = flow, place, spark, discover
        self._verbs = {**OWN_VERBS, **WISH_VERBS, **verbs}
        self._new_settings: NewSettings | None = None
        self._stop = threading.Event()
        self._is_asked_to_stop = False
        self._forget()

    def _forget(self) -> None:
        """Knows nothing of the flow yet, or any more."""
        self._context = FlowContext.of(self._flow, self._place, self.status)
        self._slots = SlotWatch(self._context, self._spark)
        self._placing = Placing(self._context, self._slots, self._discover)
        self._lag = CopyLag(self._context, self._placing.stored_position)
        self._source = SourceWatch(self._context, self._lag.show)
        self._transforms = TransformTopics(self._context, self._spark, self._placing)
        self._lost: set[TopicPartition] = set()
        self._healing = Healing(self._context, self._placing, self._transforms, lambda lost: self._lost.update(lost))
        self._requests = Requests(self._context, self._placing, self._healing, self._verbs)
        self._ending = Ending(self._take, self._outlast, raises_epoch=True)
        self._mm2 = Mm2Watch(self._context)
        self._pausing = Pausing(self._context, self._placing)
        self._holding = Holding(self._context, self._placing, self._transforms)
        self._renewal = Renewal(self._context, self._placing, self._healing, self._transforms)
        self._counted: dict[Attempt, tuple[int, int]] = {}
        self._due: dict[str, float] = {}
        self._outlasted: set[Attempt] = set()
        self._silent: set[str] = set()  # what cannot be done now because nobody answers

    # --- life --------------------------------------------------------------------------------------------------

    def stop(self) -> None:
        """Asks for a drain and an end."""
        self._is_asked_to_stop = True
        self._stop.set()

    def renew(self, new: NewSettings) -> None:
        """Goes on with new settings: connections from now on have them, the rest follows in a moment. For any thread."""
        self._flow, self._place, self._new_settings, self.status.settings = new.flow, new.place, new, new.result
        self._context.source.renew(new.flow.source)
        self._context.target.renew(new.flow.target)

    @property
    def cluster_ids(self) -> dict[str, str]:
        """The ids of both clusters by their aliases, "" where the cluster was not seen yet. For any thread."""
        return {client.alias: client.cluster_id for client in (self._context.source, self._context.target)}

    @property
    def silence(self) -> str:
        """Which cluster was asked and does not answer, and since when; empty while both do. Any thread may ask."""
        for client in (self._context.source, self._context.target):
            if client.silent_s > SILENT_S:
                since = datetime.fromtimestamp(time.time() - client.silent_s, UTC)
                return f"cluster {client.alias} has not answered since {since:%H:%M:%S}Z"
        return ""

    def run(self) -> None:
        """The whole life of the flow. Errors end it with a reason, never silently."""
        try:
            while not self._run_as_owner():
                self._stand_down()
        except OwningInterrupted:
            self.status.state = "stopped"
        except SparkmirrorError as error:
            self.failure = error
        except Exception as error:  # noqa: BLE001  border of the flow's thread: it must not end in silence
            self.failure = InternalError(f"{self.status.name}: {type(error).__name__}: {error}")
        finally:
            if self.failure is not None:
                self.status.state = FAILED_OVER if isinstance(self.failure, FlowFailedOver) else "failed"
                self.status.reason = str(self.failure)
            self._close()

    def _run_as_owner(self) -> bool:
        """From start to end; False if another process took the flow over and this one is there to wait for its turn."""
        try:
            self._start()
            while not self._is_done():
                self._turn()
            self._finish()
            if self._mm2.error is not None:
                raise self._mm2.error
            require_not_failed_over(self._context)
        except ReplicationLoop:
            self._finish()  # given back, so that the other flows of the loop see that this one has ended
            raise
        except FlowOwnedByAnother as error:
            if not self._place.standby:
                raise
            self.status.notes.append(error.message)
            return False
        return True

    def _stand_down(self) -> None:
        """What this process knew as owner is not true any more. Its slots see by themselves that they are fenced."""
        self._slots.cancel()
        self._close()
        self.status.state, self.status.reason = "standby", ""
        self.status.partitions, self.status.remotes, self.status.stopped_topics = {}, {}, {}
        self.status.source_seen_ms = -1
        self._stop.clear()
        if self._is_asked_to_stop:
            self._stop.set()
        self._forget()

    def _close(self) -> None:
        self._transforms.abandon()
        for client in (self._context.source, self._context.target):
            client.close()

    def _start(self) -> None:
        self._patiently(self._see_clusters, self.status.state)  # a cluster that is down keeps only its flows waiting (L48)
        self._patiently(lambda: self._or_stand_by(lambda: self._mm2.refuse(self._stop)), self.status.state)
        self._patiently(self._make_topics, "starting")
        self._patiently(lambda: self._or_stand_by(self._own), "taking ownership")
        self._report_foreign_records()
        self._patiently(self._begin_to_record, "taking ownership")
        self._patiently(self._placing.look, "taking ownership")
        self._patiently(self._recover_first, "recovering")
        self._patiently(self._placing.open_new, "recovering")
        self._pausing.tend()
        self.status.state = "running"

    def _see_clusters(self) -> None:
        """The target first: what was paused is known before anything is done, also while the source is away."""
        context, ledger = self._context, self._context.place.ledger_topic
        found = context.target.view([ledger]).topics.get(ledger)
        if found is not None and not found.error:
            context.ledger.read_new()
        learn_wishes(context)
        self.status.target_cluster_id = context.target.cluster_id
        context.source.view(())

    def _make_topics(self) -> None:
        flow, place, target = self._context.flow, self._context.place, self._context.target
        factor = flow.offset_storage_replication_factor
        ensure_compacted_topic(target, place.ledger_topic, 1, factor)
        ensure_compacted_topic(target, place.offsets_topic, flow.offset_storage_partitions, factor)
        require_compacted(target, place.ledger_topic, place.offsets_topic)

    def _begin_to_record(self) -> None:
        self._recorder = Recorder.of(self._context)
        self._placing.removed = RemovedPositions(self._context, self._recorder)
        self._requests.begin(self._recorder)
        self._pausing.begin()
        if self._context.ledger.view.settings is not None:  # of a former owner, or of before
            self._renewal.tell(self.status.settings)

    def _recover_first(self) -> None:
        """Ends what the last owner left open."""
        lost = lost_attempts(self._context.ledger.view)
        as_records = [order for order in lost if order.slot == TRANSFORM_QUERY]
        self._transforms.recover_first(self._recorder, self._take, as_records)
        rest = [order for order in lost if order.slot != TRANSFORM_QUERY]
        self._lost |= recover(self._context, self._recorder, rest, self._take, self._outlast, raise_epoch=False)

    def _outlast(self, orders: list[Open]) -> None:
        """Our fence does not reach slots that write under another producer id (it expired, F51): their lease must end."""
        old = {order.attempt for order in orders if order.producer_id != self._context.owned.owner.producer_id}
        if old - self._outlasted:
            self.status.notes.append(NEW_ID)
            wait_out_lease(self._context, self._stop)
            self._outlasted |= old
            self._slots.excuse()  # nobody read their beats meanwhile

    def _patiently(self, action: Callable[[], None], state: str) -> None:
        """Until it succeeds: a cluster is down, creates thousands of partitions, elects leaders or loads its coordinator."""
        self.status.state = state
        while True:
            try:
                if self._context.ownership is not None:
                    self._context.beat()
                action()
            except (BrokerRefused, ClusterUnreachable, ConnectionLost) as error:
                if isinstance(error, BrokerRefused) and not is_retriable(error.error_code):
                    raise
                self.status.state, self.status.reason = "waiting", error.message
                if self._stop.wait(WAIT_S):
                    raise OwningInterrupted from error
            else:
                self.status.reason = ""
                return

    def _own(self) -> None:
        self._mm2.refuse(self._stop)  # it may have been started while we stood by
        self._context.ledger.read_all()
        require_not_failed_over(self._context)  # also with --take-over
        self._context.ownership = own(self._context, self._stop)
        self.status.owner, self.status.owned_since_ms = self._context.owned.owner.name, int(time.time() * 1000)

    def _or_stand_by(self, action: Callable[[], None]) -> None:
        """Now, or as soon as nobody else runs the flow, if this process is there to wait for that."""
        while True:
            try:
                action()
                return
            except FlowOwnedByAnother as error:
                if not self._context.place.standby:
                    raise
                self.status.state, self.status.reason = "standby", error.message
                learn_wishes(self._context)
                if self._stop.wait(WAIT_S):
                    raise OwningInterrupted from error

    # --- one turn ----------------------------------------------------------------------------------------------

    def _turn(self) -> None:
        try:
            # First: what follows may wait for a cluster that is gone, and an owner silent for 15 s is taken for dead.
            self._noting("beat", lambda: self._excusing(self._context.beat))
            self._noting("slots", self._look_after_slots)
            self._noting("MirrorMaker 2", self._look_for_mm2)
            if not self._holding.is_on:
                self._noting("requests", lambda: self._requests.tend(self._recorder, self._ending))
                self._noting("pauses", self._pausing.tend)
            # From here on the source may be asked: if it is gone, requests are carried out nevertheless.
            self._noting("recovery", self._recover)
            self._noting("transform query", lambda: self._transforms.tend(self._recorder, self._take))
            self._run_due()
            if self.status.state == "waiting" and not self._silent:
                self.status.state, self.status.reason = "running", ""
        except BrokerTooOld:
            raise  # waiting does not mend it
        except ClusterError as error:
            self.status.state, self.status.reason = "waiting", error.message
            time.sleep(WAIT_S)

    def _noting(self, name: str, action: Callable[[], None]) -> None:
        """Does it; if its cluster is silent, the flow waits until the same thing is answered."""
        try:
            action()
        except (ClusterUnreachable, ConnectionLost):
            self._silent.add(name)
            self._due[name] = time.monotonic() + SILENT_RETRY_S
            raise
        self._silent.discard(name)

    def _look_after_slots(self) -> None:
        for record in self._poll():
            self._take(record)
        self._slots.check(self._slot_lost, restart=True)

    def _recover(self) -> None:
        if not self._holding.is_on:
            self._recover_lost()
            self._pass_gaps()
            self._placing.open_waiting()
            if self._slots.has_joined:
                self._slots.has_joined = False
                self._due["moves"] = time.monotonic() + JOINED_S

    def _look_for_mm2(self) -> None:
        self._mm2.look()
        if self._mm2.holds and not self._holding.is_on:
            self._holding.hold()
        elif self._holding.is_on and not self._mm2.holds:
            self._holding.let_go()

    def _poll(self) -> list[LedgerRecord]:
        asked = time.monotonic()
        records = self._excusing(lambda: self._context.ledger.poll(POLL_MS))
        if time.monotonic() - asked > READ_S_MAX:
            self._slots.excuse()
        return records

    def _excusing(self, action: Callable[[], T]) -> T:
        """Where we cannot use the ledger, slots cannot either: that they fall silent then is not their fault."""
        try:
            return action()
        except ClusterError:
            self._slots.excuse()
            raise

    def _run_due(self) -> None:
        context = self._context
        self._every("offset syncs", SYNCS_S, self._recorder.write_syncs)
        self._every("positions", POSITIONS_S, self._recorder.flush)
        self._every("ends", self._source.look_s, self._source.look)
        self._every("source ends", RECORD_ENDS_S, self._source.record)
        self._every("map", TRIM_S, lambda: trim_map(context))
        self._every("blocks", CONDENSE_S, lambda: condense_map(context))
        self._every("answered requests", TRIM_S, self._requests.trim)
        self._every("foreign records", FOREIGN_RECORDS_S, self._report_foreign_records)
        if self._holding.is_on:
            self._every("held positions", WAIT_S, self._recorder.flush)  # what is stored, nobody copies again
        else:
            self._place_due()

    def _place_due(self) -> None:
        """What opens partitions, or may."""
        context = self._context
        self._every("settings", 0.0, self._renew)
        self._every("transformed topics", ENDS_S, lambda: self._transforms.look(self._recorder, self._take))
        self._every("stopped partitions", LOOK_S, self._healing.look)
        self._every("moves", MOVES_S, self._placing.balancing.look)
        interval = context.flow.refresh_topics_interval_seconds
        if context.place.once:
            self._every("open", OPEN_S, self._placing.open_new)
        elif context.flow.refresh_topics_enabled and interval > 0:
            self._every("topics", float(interval), self._placing.refresh)

    def _every(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        now = time.monotonic()
        if now >= self._due.setdefault(name, now + seconds):
            self._due[name] = now + seconds
            try:
                self._noting(name, action)
            except BrokerRefused as error:
                if not is_right_missing(error.error_code):
                    raise
                # Copying continues without it; the missing right is reported until it is granted.
                self.status.chores[name] = error.message
            else:
                if self.status.chores.get(name):
                    self.status.chores[name] = ""

    def _report_foreign_records(self) -> None:
        self.status.notes += self._context.ledger.foreign.report()

    def _renew(self) -> None:
        new = self._new_settings
        if new is not None:
            self._renewal.take(new, self._recorder)
            self._new_settings = None if self._new_settings is new else self._new_settings
            self._due.pop("topics", None)
        self._renewal.tend()

    def _slot_lost(self, slot: int, incarnation: int, reason: str) -> None:
        context = self._context
        if reason.startswith(("failed", "refused", "unfit")):
            context.status.notes.append(f"slot {slot}: {reason}")
        for partition, order in context.placed.items():
            is_there = (order.slot, order.incarnation) == (slot, incarnation)
            if is_there and partition not in context.stopped and not context.ledger.view.of(partition).is_closed:
                self._lost.add(partition)
                context.show(partition, "recovering", StateCode.SLOT_LOST, f"slot {slot} {reason}")

    def _slot_ended(self, slot: int, incarnation: int, reason: str) -> None:
        """A slot ended while the flow stops: its last records may have landed since the ledger was polled."""
        for record in self._context.ledger.read_new():
            self._take(record)
        self._slot_lost(slot, incarnation, reason)

    def _recover_lost(self) -> None:
        if self._lost and not self._stop.is_set():
            context = self._context
            lost, self._lost = self._lost, set()
            try:
                orders = [o for o in lost_attempts(context.ledger.view, lost) if o.slot != TRANSFORM_QUERY]
                self._lost |= recover(context, self._recorder, orders, self._take, self._outlast, raise_epoch=True)
            except OwningInterrupted:
                return  # whoever comes next recovers them
            except ClusterError:
                self._lost |= lost
                raise
            self._placing.open(lost & set(context.ready))

    def _pass_gaps(self) -> None:
        """Goes on where the source deleted records and `on.source.gap` says to skip them; once their attempt is closed."""
        for partition in sorted(self._context.gapped):
            if partition.topic in self._context.topics and self._context.ledger.view.of(partition).is_closed:
                move = self._placing.pass_gap(partition)
                self._context.gapped.discard(partition)
                if move is not None:
                    self._recorder.move(partition, move.new.upstream)

    # --- what the ledger says ----------------------------------------------------------------------------------

    def _take(self, record: LedgerRecord) -> None:
        match record:
            case SlotBeat():
                self._slots.take(record)
            case Owner():
                self._take_owner(record)
            case Started() if self._is_current(record):
                self.status.partitions[record.partition].taken_at = time.monotonic()
            case Receipt() if self._is_current(record):
                self._take_receipt(record)
            case State() if self._is_current(record):
                self._take_state(record)
            case Closed() if self._is_current(record):
                self._take_closed(record)
            case _:
                pass

    def _take_owner(self, record: Owner) -> None:
        ours = self._context.owned.owner
        if record.name != ours.name and (record.generation, record.producer_epoch) > (
            ours.generation,
            ours.producer_epoch,
        ):
            raise FlowOwnedByAnother(f"this flow was taken over by {record.name}; this process writes nothing more")

    def _is_current(self, record: Started | Receipt | State | Closed) -> bool:
        order = self._context.placed.get(record.partition)
        return order is not None and order.attempt == record.attempt

    def _take_receipt(self, receipt: Receipt) -> None:
        self._recorder.take(receipt)
        status = self.status.partitions[receipt.partition]
        status.next_upstream = max(status.next_upstream, receipt.position.upstream)
        status.source_end = max(status.source_end, receipt.source_end)
        if receipt.position.upstream > self._context.placed[receipt.partition].position.upstream:
            self._healing.copied(receipt.partition)
        # A slot counts from its open on; a task of the transform query knows only its own.
        is_transformed = self._context.placed[receipt.partition].slot == TRANSFORM_QUERY
        before = (0, 0) if is_transformed else self._counted.get(receipt.attempt, (0, 0))
        status.records += receipt.records - before[0]
        status.record_bytes += receipt.record_bytes - before[1]
        self._counted[receipt.attempt] = (receipt.records, receipt.record_bytes)
        if receipt.newest_timestamp >= 0:
            status.newest_timestamp, status.proven_ms = receipt.newest_timestamp, int(time.time() * 1000)
            status.read_ms = receipt.read_ms

    def _take_state(self, state: State) -> None:
        context, partition = self._context, state.partition
        is_over = state.state in ("lost", "stopped")
        is_gap = is_over and state.code == SourceOffsetLost.code and context.accepts_gap(partition.topic)
        if is_gap or (state.state == "lost" and state.code in RECOVERED):
            # A gap is passed once the attempt has its end: closed comes with a stop, a loss needs the fence first.
            (context.gapped if state.state == "stopped" else self._lost).add(partition)
            context.show(partition, "recovering", state.code, state.text)
        elif is_over:
            context.stopped.add(partition)
            context.show(partition, "stopped", state.code, state.text)
            if state.code == TargetHasStranger.code:
                self._mm2.suspect(partition)
        elif partition not in context.stopped:
            context.show(partition, state.state, state.code, state.text)

    def _take_closed(self, closed: Closed) -> None:
        self.status.partitions[closed.partition].next_upstream = closed.position.upstream
        if closed.partition in self._context.stopped:
            return
        if closed.partition in self._context.gapped or self._transforms.has_waiting(closed.partition):
            return
        if not self._stop.is_set() and self._holding.has_closed(closed.partition):
            return
        if self._stop.is_set() or not self._placing.balancing.take_closed(closed.partition):
            self._context.show(closed.partition, "closed")

    # --- the end -----------------------------------------------------------------------------------------------

    def _is_done(self) -> bool:
        if self._stop.is_set() or self._mm2.error is not None or self._context.ledger.view.failover is not None:
            return True
        if not self._context.place.once or self._requests.is_busy:
            return False
        return all(s.state in ("closed", "stopped", "paused") for s in self.status.partitions.values())

    def _finish(self) -> None:
        """Drains, records everything that was proven, and gives the flow back."""
        context = self._context
        self.status.state = "stopping"
        self._stop.set()
        self._slots.ask_to_stop()
        self._transforms.finish(self._recorder, self._take)
        deadline = time.monotonic() + DRAIN_S
        while self._slots.alive and time.monotonic() < deadline:
            for record in context.ledger.poll(POLL_MS):
                self._take(record)
            self._slots.check(self._slot_ended, restart=False)
        self._slots.cancel()
        context.ledger.read_all()
        for partition, order in context.placed.items():
            receipt = context.ledger.view.of(partition).receipts.get(order.attempt)
            if receipt is not None:
                self._recorder.take(receipt)
        try:
            self._recorder.flush()
        except (ClusterUnreachable, ConnectionLost) as error:  # of the target, the next line raises it
            self.status.notes.append(f"offset syncs are not written: {error.message}")
        context.sign(released=True)
        self.status.is_given_back = self._mm2.error is None
        self.status.state = "stopped"
