"""A slot: one long Spark task, its partitions coming and going by ledger records.

A slot never fails because a partition does: it records the partition's state and continues. It ends when asked to, when
its owner is not the newest any more, or when it has not heard from its owner for a lease.
"""

from __future__ import annotations

import math
import os
import resource
import socket
import time
import uuid
from dataclasses import dataclass

from sparkmirror import failpoints
from sparkmirror.clusters import FetchedPartition, FetchLimits, is_right_missing, refusal
from sparkmirror.config import FlowSettings, SentSettings
from sparkmirror.errors import ClusterUnreachable, ConfigError, LoginRefused, ReplicationError
from sparkmirror.ledger import (
    Attempt,
    Closed,
    LedgerRecord,
    Open,
    Owner,
    Phase,
    Receipt,
    Release,
    RunSettings,
    SlotBeat,
    SlotStop,
    Started,
    State,
)
from sparkmirror.model import FlowName, TopicPartition
from sparkmirror.slot.heap import FreedMemory
from sparkmirror.slot.loop import Loop, Procedure, Sleep
from sparkmirror.slot.opening import Opening
from sparkmirror.slot.relay import PartitionRelay, Relay
from sparkmirror.slot.side import ClusterSide
from sparkmirror.slot.slot_ledger import SlotLedger
from sparkmirror.status.remedies import Remedies
from sparkmirror.status.state_code import StateCode

TICK_S = 1.0
SETTINGS_RETRY_S = 5.0
RECEIPT_CHECK_S = 0.05
TURN_S = 0.1
# Without a beat of its owner for this long a slot sends nothing more (O6). The fence makes takeovers safe earlier.
LEASE_S = 60.0
# A partition that has not moved for a reason shows it after this long, so that a passing election stays unseen.
TROUBLE_SHOWN_S = 5.0
UNANSWERED_SHOWN_S = 10.0  # on a slow line a request of some megabytes may take that long
# Transactions are short, mostly; one that holds up the copy this long is the reason for what a reader misses.
OPEN_TRANSACTION_SHOWN_S = 15.0


@dataclass(frozen=True, slots=True)
class SlotOrder:
    """What a Spark task is given: references, never secrets."""

    settings: SentSettings
    source: str
    target: str
    slot: int
    incarnation: int
    owner_name: str
    owner_generation: int
    owner_epoch: int
    transactional_id: str
    ledger_topic: str
    ledger_offset: int
    file_words: str = ""

    def flow_settings(self, sent: SentSettings | None = None) -> FlowSettings:
        """The settings of the flow, those of the order unless newer ones are given; raises `ConfigError`."""
        return (sent or self.settings).load().flow(FlowName(self.source, self.target))


class Slot:
    """The event loop of one task."""

    def __init__(self, order: SlotOrder, flow: FlowSettings) -> None:
        self.order = order
        self.process = f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"
        self.loop = Loop()
        self.source = ClusterSide(self.loop, flow.source)
        self.target = ClusterSide(self.loop, flow.target)
        self.ledger = SlotLedger(self.target, order.ledger_topic, order.ledger_offset)
        self.relay = Relay(self.loop, self.source, self.target, fetch_limits(flow), self._fetch_failed)
        self.remedies = Remedies(order.file_words)
        self.opening = Opening(self)
        self.epoch = order.owner_epoch  # the owner's newest epoch in the ledger
        self._attempts: dict[TopicPartition, Attempt] = {}
        self._newest: dict[TopicPartition, Attempt] = {}
        self._shown: dict[TopicPartition, tuple[str, str, str]] = {}
        self._closing: set[PartitionRelay] = set()
        self._is_stopping = False
        self._ended = ""
        self._beat = 0
        self._lease_clocks = self._clocks()
        self._freed = FreedMemory(self.loop.now)
        self._settings, self._settings_due = order.settings, math.inf  # when they are to be read again

    # --- run ---------------------------------------------------------------------------------------------------

    def run(self) -> str:
        """Copies until the end; returns why it ended."""
        self.loop.spawn(self.ledger.follow(self._take))
        self.loop.spawn(self._tick())
        try:
            while not self._ended:
                self.loop.turn(TURN_S)
                self._check_lease()  # before anything more is sent (O6)
                if self._ended:
                    break
                self.relay.send()
                self.relay.fetch()
                self._attend()
                if self._is_stopping and not self.relay.relays and not self._attempts:
                    self._ended = "stopped"
        finally:
            self.loop.close()
        return self._ended

    def is_mine(self, attempt: Attempt, partition: TopicPartition) -> bool:
        """Whether this attempt still is the partition's newest, and this slot may write."""
        return not self._ended and self._attempts.get(partition) == attempt

    def _leave_all(self, reason: str) -> None:
        for relay in list(self.relay.relays.values()):
            relay.copy.end(Phase.LEFT)
        self._ended = reason

    def _clocks(self) -> tuple[float, float]:
        # Monotonic time stops while a machine is suspended; boot time and wall time do not (O8).
        return time.clock_gettime(time.CLOCK_BOOTTIME), time.time()

    def _check_lease(self) -> None:
        boot, wall = self._clocks()
        if max(boot - self._lease_clocks[0], wall - self._lease_clocks[1]) > LEASE_S:
            self._leave_all("lease over")

    # --- what the ledger says ----------------------------------------------------------------------------------

    def _take(self, records: list[LedgerRecord]) -> None:
        opens: list[Open] = []
        for record in records:
            match record:
                case Owner():
                    self._take_owner(record)
                case Open():
                    self._take_open(record, opens)
                case Started() if self._attempts.get(record.partition) == record.attempt:
                    if record.process != self.process:
                        self._leave(record.partition)
                case Release() if self._attempts.get(record.partition) == record.attempt:
                    self._start(opens)  # what begins to open forgets that it was asked to close: both may be read at once
                    self._release(record.partition)
                case SlotBeat() if (record.slot, record.incarnation) == (self.order.slot, self.order.incarnation):
                    if record.process != self.process:
                        self._leave_all(f"refused: {record.process} runs this slot")
                case SlotStop() if (record.slot, record.incarnation) == (self.order.slot, self.order.incarnation):
                    self._is_stopping = True
                    self._start(opens)
                    for partition in list(self._attempts):
                        self._release(partition)
                case RunSettings() if record.owner == self.order.owner_name:
                    self._settings = SentSettings(self.order.settings.path, record.texts, record.secrets)
                    self._settings_due = self.loop.now
                case _:
                    pass
        self._start(opens)

    def _start(self, opens: list[Open]) -> None:
        """Begins to open them, each once."""
        if opens:
            self.opening.start(list(opens))
            opens.clear()

    def _take_owner(self, record: Owner) -> None:
        mine = (self.order.owner_generation, self.epoch)
        if record.name == self.order.owner_name:
            self.epoch = max(self.epoch, record.producer_epoch)
            self._lease_clocks = self._clocks()
        elif (record.generation, record.producer_epoch) > mine:
            self._leave_all(f"flow owned by {record.name}")

    def _take_open(self, record: Open, opens: list[Open]) -> None:
        newest = self._newest.get(record.partition)
        if newest is not None and record.attempt <= newest:
            return  # a retried append must not revive an attempt that has ended (C2)
        self._newest[record.partition] = record.attempt
        if record.partition in self._attempts:
            self._leave(record.partition)
        if (record.slot, record.incarnation) == (self.order.slot, self.order.incarnation):
            self._attempts[record.partition] = record.attempt
            opens.append(record)

    def _leave(self, partition: TopicPartition) -> None:
        relay = self.relay.relays.get(partition)
        if relay is not None:
            relay.copy.end(Phase.LEFT)
            self.relay.remove(relay)
        self._attempts.pop(partition, None)
        self._shown.pop(partition, None)

    def _release(self, partition: TopicPartition) -> None:
        relay = self.relay.relays.get(partition)
        if relay is not None:
            relay.copy.closing = True
            relay.drop_queue()
            relay.copy.read_from = relay.copy.next.upstream
        else:
            self.opening.release(partition)

    def _look_at_settings(self) -> None:
        """Takes settings that the owner has taken, and the secrets of the file once more while a login is refused."""
        now = self.loop.now
        if self._settings_due == math.inf and (self.source.is_login_refused or self.target.is_login_refused):
            self._settings_due = now + SETTINGS_RETRY_S
        if now < self._settings_due:
            return
        self._settings_due = math.inf
        try:
            flow = self.order.flow_settings(self._settings)
        except ConfigError:
            self._settings_due = now + SETTINGS_RETRY_S  # this machine's file may be an older one: what was taken goes on
            return
        self.relay.renew(fetch_limits(flow))
        self.source.renew(flow.source)
        self.target.renew(flow.target)

    # --- partitions --------------------------------------------------------------------------------------------

    def opened(self, relay: PartitionRelay) -> None:
        """A partition is ready to be copied."""
        self.relay.add(relay)
        if self._is_stopping:
            relay.copy.closing = True

    def refused(self, order: Open, error: ReplicationError) -> None:
        """A partition could not be opened: records why; it ends where it was opened."""
        self.loop.spawn(self._refuse(order, error))

    def _refuse(self, order: Open, error: ReplicationError) -> Procedure:
        partition, attempt = order.partition, order.attempt
        state = State.stopped(partition, attempt, error)
        closed = Closed(partition, attempt, order.position)
        yield from self.ledger.append([state, closed], lambda: self.is_mine(attempt, partition))
        if self.is_mine(attempt, partition):
            self._leave(partition)

    def forfeit(self, relay: PartitionRelay, code: str, reason: str) -> None:
        """The attempt cannot continue: the driver must fence and recover it."""
        self.loop.spawn(self._forfeit(relay.copy.order, code, reason))
        relay.copy.end(Phase.STOPPED)
        self.relay.remove(relay)

    def _forfeit(self, order: Open, code: str, reason: str) -> Procedure:
        partition, attempt = order.partition, order.attempt
        state = State(partition, attempt, "lost", code, reason)
        yield from self.ledger.append([state], lambda: self.is_mine(attempt, partition))
        if self.is_mine(attempt, partition):
            self._leave(partition)

    def _fetch_failed(self, relay: PartitionRelay, part: FetchedPartition) -> None:
        self.opening.fetch_failed(relay, part)

    def _attend(self) -> None:
        """Looks after every partition that is not simply copying."""
        for relay in list(self.relay.relays.values()):
            copy = relay.copy
            if copy.phase is Phase.SETTLING:
                self.opening.settle(relay)
            elif relay.stop_reason is not None and copy.may_land_late and not copy.window and not relay.queue:
                # It cannot close while old bytes may still land, and copies nothing more: a fence must end it.
                self.forfeit(relay, relay.stop_reason.code, str(relay.stop_reason))
            elif copy.is_quiet and relay not in self._closing and not relay.queue:
                is_over = relay.is_at_end() or relay.stop_reason is not None or copy.closing
                if is_over and not relay.is_fetching:
                    self._closing.add(relay)
                    self.loop.spawn(self._close(relay))

    def _close(self, relay: PartitionRelay) -> Procedure:
        copy = relay.copy
        partition, attempt = relay.source, copy.order.attempt
        position = copy.close_position
        assert position is not None
        copy.closing = True  # nothing is sent after closed
        records: list[LedgerRecord] = []
        receipt = copy.receipt()
        if receipt is not None:
            records.append(receipt)
        if relay.stop_reason is not None:
            records.append(_stopped_state(relay, relay.stop_reason))
        records.append(Closed(partition, attempt, position))
        if failpoints.ARMED:
            failpoints.point("relay.before_closed")
        acked = yield from self.ledger.append(records, lambda: self.is_mine(attempt, partition))
        self._closing.discard(relay)
        if acked:
            copy.end(Phase.CLOSED)
            self._leave_closed(relay)

    def _leave_closed(self, relay: PartitionRelay) -> None:
        self.relay.remove(relay)
        if self._attempts.get(relay.source) == relay.copy.order.attempt:
            self._attempts.pop(relay.source)
            self._shown.pop(relay.source, None)

    # --- once a second -----------------------------------------------------------------------------------------

    def _tick(self) -> Procedure:
        while True:
            self._check_lease()
            self._look_at_settings()
            self._beat += 1
            usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
            records: list[LedgerRecord] = [
                SlotBeat(self.order.slot, self.order.incarnation, self._beat, self.process, usage)
            ]
            receipts = self._receipts()
            records += receipts
            states = self._states()
            records += states
            acked = yield from self.ledger.append(records, lambda: not self._ended)
            if failpoints.ARMED and receipts:
                failpoints.point("relay.receipt_no_ack")
            if acked:
                self._acked(receipts, states)
            if self._freed.is_due(self.loop.now):
                self._freed.look(sum(relay.copy.record_bytes for relay in self.relay.relays.values()), self.loop.now)
            yield from self._rest(self.loop.now + TICK_S)

    def _rest(self, until: float) -> Procedure:
        """Until the next tick is due, or a partition has copied so much since its receipt that it would soon pause."""
        yield Sleep(RECEIPT_CHECK_S)
        while self.loop.now < until and not any(relay.copy.wants_receipt for relay in self.relay.relays.values()):
            yield Sleep(RECEIPT_CHECK_S)

    def _receipts(self) -> list[Receipt]:
        found = []
        for relay in self.relay.relays.values():
            if relay not in self._closing:
                receipt = relay.copy.receipt()
                if receipt is not None:
                    found.append(receipt)
        return found

    def _acked(self, receipts: list[Receipt], states: list[State]) -> None:
        for receipt in receipts:
            relay = self.relay.relays.get(receipt.partition)
            if relay is not None and relay.copy.order.attempt == receipt.attempt:
                relay.copy.receipt_acked(receipt, self.loop.now)
        for state in states:
            self._shown[state.partition] = (state.state, state.code, state.reason)

    def _states(self) -> list[State]:
        found = []
        for relay in self.relay.relays.values():
            shown = self._condition(relay)
            if self._shown.get(relay.source) != shown and relay not in self._closing:
                found.append(State(relay.source, relay.copy.order.attempt, *shown))
        return found

    def _condition(self, relay: PartitionRelay) -> tuple[str, str, str]:
        now = self.loop.now
        if relay.trouble and not self.source.trouble and now - relay.trouble_since > TROUBLE_SHOWN_S:
            return "waiting", StateCode.SOURCE, relay.trouble
        if forbidden := _forbidden(self.source, relay.source.topic, "Read") or relay.forbidden:
            return "waiting", StateCode.RIGHTS, forbidden
        if forbidden := _forbidden(self.target, relay.target.topic, "Read and Write"):
            return "waiting", StateCode.RIGHTS, forbidden
        for side in (self.source, self.target):
            if side.trouble:
                return "waiting", LoginRefused.code if side.is_login_refused else ClusterUnreachable.code, side.trouble
        if 0 <= relay.held_at <= relay.copy.read_from and now - relay.held_since > OPEN_TRANSACTION_SHOWN_S:
            return "waiting", StateCode.OPEN_TRANSACTION, _held(relay.held_at)
        if relay.stands_since(now) > (TROUBLE_SHOWN_S if relay.copy.doubt else UNANSWERED_SHOWN_S):
            return "waiting", *self.opening.doubt_of(relay)
        if relay.copy.is_unreceipted(now):
            return "waiting", StateCode.LEDGER, "the ledger does not take receipts; copying pauses"
        return "copying", "", ""


def _forbidden(side: ClusterSide, topic: str, operations: str) -> str:
    """Which ACL is missing if the newest metadata has no topic for that reason; else empty."""
    found = side.view.topics.get(topic) if side.view is not None else None
    if found is None or not is_right_missing(found.error):
        return ""
    return f"cluster {side.alias}: topic {topic}: {refusal(found.error, side.who, f'{operations} on topic {topic}')}"


def _held(upstream: int) -> str:
    return (
        f"a transaction that is open at the source holds back the records from upstream offset {upstream} on "
        "(to find its producer: kafka-transactions.sh find-hanging)"
    )


def _stopped_state(relay: PartitionRelay, error: ReplicationError) -> State:
    return State.stopped(relay.source, relay.copy.order.attempt, error)


def fetch_limits(flow: FlowSettings) -> FetchLimits:
    """The data consumer's settings as far as they bound a fetch. Ours are larger than Kafka's where nothing is set."""

    def number(key: str, ours: int) -> int:
        return int(flow.consumer[key]) if key in flow.consumer_written else ours

    return FetchLimits(
        wait_ms=number("fetch.max.wait.ms", 500),
        bytes_min=number("fetch.min.bytes", 1),
        bytes_max=number("fetch.max.bytes", 16 << 20),
        partition_bytes_max=number("max.partition.fetch.bytes", 2 << 20),
        isolation=int(flow.reads_committed),
    )


