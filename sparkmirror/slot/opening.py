"""How a slot opens a partition, and how it finds its way again after doubt. Control path: written as procedures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparkmirror.clusters import (
    FetchedPartition,
    describe_flow_request,
    find_coordinator_request,
    flow_producer,
    is_retriable,
    is_right_missing,
    leader_epoch_request,
    name_of,
    refusal,
)
from sparkmirror.errors import (
    BrokerRefused,
    ClusterError,
    ClusterUnreachable,
    ConnectionLost,
    ReplicationError,
    SourceTopicRecreated,
    SourceTruncated,
    TargetRefusedRecords,
    TargetRefusedTimestamp,
    TargetTopicRecreated,
)
from sparkmirror.ledger import Baseline, Doubt, Expect, Found, Open, PartitionCopy, Started, find_out
from sparkmirror.model import TopicPartition
from sparkmirror.slot.finding import FindingOut, read_ends
from sparkmirror.slot.loop import Ask, Procedure, Sleep
from sparkmirror.slot.relay import FETCH_RETRY_S, PartitionRelay
from sparkmirror.slot.target_topics import TargetTopics
from sparkmirror.status.state_code import StateCode
from sparkmirror.wire import error_codes as codes
from sparkmirror.wire.error_codes import INVALID_TIMESTAMP

if TYPE_CHECKING:
    from sparkmirror.slot.slot import Slot

RETRY_S = 0.1
# An operator grants the missing ACLs: how often to check for that.
RIGHTS_RETRY_S = 2.0
UNKNOWN_TOPIC = (codes.UNKNOWN_TOPIC_OR_PARTITION, codes.UNKNOWN_TOPIC_ID, codes.INCONSISTENT_TOPIC_ID)
NOT_ENOUGH = (codes.NOT_ENOUGH_REPLICAS, codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND)


class Opening:
    """The control path of one slot."""

    def __init__(self, slot: Slot) -> None:
        self._slot = slot
        self._topics = TargetTopics(slot.target)
        self._released: set[TopicPartition] = set()
        self._settling: dict[PartitionRelay, FindingOut] = {}
        self._checking: set[PartitionRelay] = set()

    def release(self, partition: TopicPartition) -> None:
        """A partition that is still being opened is to be closed at once."""
        self._released.add(partition)

    # --- opening -----------------------------------------------------------------------------------------------

    def start(self, orders: list[Open]) -> None:
        """Opens partitions that the driver gave to this slot."""
        for order in orders:
            self._released.discard(order.partition)
        self._slot.source.watch(order.partition.topic for order in orders)
        self._slot.target.watch(order.target_topic for order in orders)
        self._slot.loop.spawn(self._start(orders))

    def _start(self, orders: list[Open]) -> Procedure:
        slot = self._slot
        started = [Started(o.partition, o.attempt, slot.process) for o in orders]
        acked = yield from slot.ledger.append(
            started, lambda: any(slot.is_mine(o.attempt, o.partition) for o in orders)
        )
        if not acked:
            return
        yield from self._check_owner()
        yield from self._topics.load(sorted({o.target_topic for o in orders}))
        for order in orders:
            slot.loop.spawn(self._open(order))

    def _check_owner(self) -> Procedure:
        """Waits until the coordinator shows the epoch of our owner (O2): a newer one means that we are not it."""
        slot = self._slot
        if not slot.order.transactional_id:
            return
        while True:
            try:
                shown = yield from self._flow_epoch()
                if shown is not None and shown <= slot.epoch:
                    return
            except ClusterError:
                slot.target.refresh()
            yield Sleep(RETRY_S)  # a raise of our own owner reaches us through the ledger

    def _flow_epoch(self) -> Procedure:
        slot = self._slot
        name = slot.order.transactional_id
        answer = yield from slot.target.ask_any(
            lambda c: find_coordinator_request(c, name)
        )
        if answer.error_code:
            return None
        pipelined = yield from slot.target.node_connection(answer.node_id, "control")
        answer = yield Ask(pipelined, describe_flow_request(name))
        error, _, epoch = flow_producer(answer)
        if error == codes.TRANSACTIONAL_ID_NOT_FOUND:
            return slot.epoch  # expired: nobody took it since, and a new owner waits for our lease (F51)
        return epoch if error == 0 else None

    def _open(self, order: Open) -> Procedure:
        slot = self._slot
        try:
            yield from self._check_topics(order)
            last_epoch = yield from self._check_source(order)
            found = yield from self._find(order, PartitionCopy(order, slot.loop.now), self._finding(order))
            if not isinstance(found, Found):
                yield from self._lost_before_start(order, found.log_end)
                return
        except ReplicationError as error:
            if slot.is_mine(order.attempt, order.partition):
                slot.refused(order, slot.remedies.with_hint(error, order.partition, order.position.upstream))
            return
        except BrokerRefused as error:
            if slot.is_mine(order.attempt, order.partition):
                slot.refused(order, TargetRefusedRecords(f"{order.partition}: {error.message}", hint=error.hint))
            return
        if not slot.is_mine(order.attempt, order.partition):
            return
        copy = PartitionCopy(order, slot.loop.now)
        copy.resume(found.position, found.runs, slot.loop.now, found.source_leader_epoch)
        copy.closing = order.partition in self._released
        target = TopicPartition(order.target_topic, order.partition.partition)
        slot.opened(
            PartitionRelay(
                copy=copy,
                target=target,
                source_id=bytes.fromhex(order.source_topic_id),
                target_id=bytes.fromhex(order.target_topic_id),
                limits=self._topics.known(order.target_topic).limits,
                last_epoch=max(last_epoch, found.source_leader_epoch),
            )
        )

    def _lost_before_start(self, order: Open, log_end: int) -> Procedure:
        slot = self._slot
        copy = PartitionCopy(order, slot.loop.now)
        relay = PartitionRelay(
            copy, TopicPartition(order.target_topic, order.partition.partition), b"", b"", lambda: None  # type: ignore[arg-type, return-value]
        )
        text = f"the target ends at {log_end}, expected {order.position.downstream}"
        slot.forfeit(relay, StateCode.TARGET_TRUNCATED, text)
        yield Sleep(0)

    def _check_topics(self, order: Open) -> Procedure:
        """Both topics are the incarnations that the driver meant."""
        slot = self._slot
        for side, topic, wanted, error in (
            (slot.source, order.partition.topic, order.source_topic_id, SourceTopicRecreated),
            (slot.target, order.target_topic, order.target_topic_id, TargetTopicRecreated),
        ):
            while side.topic_id(topic) is None:
                side.refresh()
                yield Sleep(RETRY_S)
                if not slot.is_mine(order.attempt, order.partition):
                    return
            found = side.topic_id(topic)
            if found is not None and found.hex() != wanted:
                raise error(
                    f"{order.partition}: topic {topic} on {side.alias} has id {found.hex()}, expected {wanted}: "
                    f"it was deleted and created again since"
                )

    def _check_source(self, order: Open) -> Procedure:
        """The source holds what comes next and has not lost what was copied; returns the leader epoch it holds that in."""
        partition, wanted = order.partition, order.position.upstream
        ends = yield from self._ends(partition)
        if ends.log_start > wanted:
            raise self._slot.remedies.lost(partition, wanted, ends.log_start)
        if ends.log_end < wanted:
            raise self._slot.remedies.truncated(partition, wanted, ends.log_end)
        last_epoch = yield from self._check_epoch(partition, wanted, order.source_leader_epoch)
        return last_epoch

    def _check_epoch(self, partition: TopicPartition, wanted: int, leader_epoch: int) -> Procedure:
        """Raises if the records of this leader epoch end below `wanted`: others follow there than those that were copied."""
        if leader_epoch < 0:
            return -1
        part = yield from self._epoch_end(partition, leader_epoch)
        if part.error_code == 0 and 0 <= part.end_offset < wanted:
            raise SourceTruncated(
                f"{partition}: copied up to {wanted} in leader epoch {leader_epoch}, "
                f"which the source now ends at {part.end_offset}",
                hint=f"to resume where its records changed: {self._slot.remedies.reset(partition, part.end_offset)}",
            )
        return part.leader_epoch if part.error_code == 0 else -1

    def _epoch_end(self, partition: TopicPartition, leader_epoch: int) -> Procedure:
        source = self._slot.source
        while True:
            try:
                pipelined = yield from source.pipelined(partition, "control")
                answer = yield Ask(pipelined, leader_epoch_request(pipelined.connection, partition, leader_epoch))
                part = answer.topics[0].partitions[0]
                if not is_retriable(part.error_code):
                    return part
            except (ConnectionLost, ClusterUnreachable):
                pass  # asked again, of whoever leads now
            source.refresh()
            yield Sleep(RETRY_S)

    def _ends(self, partition: TopicPartition) -> Procedure:
        while True:
            try:
                ends = yield from read_ends(self._slot.source, partition)
                return ends
            except ClusterError as error:
                if isinstance(error, BrokerRefused) and not is_retriable(error.error_code):
                    raise
                self._slot.source.refresh()
            yield Sleep(RETRY_S)

    # --- finding out -------------------------------------------------------------------------------------------

    def _finding(self, order: Open) -> FindingOut:
        slot = self._slot
        target = TopicPartition(order.target_topic, order.partition.partition)
        return FindingOut(slot.source, slot.target, order.partition, target, read_committed=order.read_committed)

    def _find(self, order: Open, copy: PartitionCopy, finding: FindingOut) -> Procedure:
        target = TopicPartition(order.target_topic, order.partition.partition)
        settings = self._topics.known(order.target_topic)
        found = yield from finding.run(
            find_out(
                Baseline(
                    partition=order.partition,
                    target=target,
                    position=copy.proven,
                    producer_ids=frozenset((order.producer_id,)),
                    sequenced_by=(order.producer_id, order.producer_epoch),
                    shared=order.shared,
                    source_compacts=order.source_compacts,
                    target_compacts=settings.is_compacted,
                    compare_timestamps=not settings.is_log_append_time,
                )
            )
        )
        return found

    def settle(self, relay: PartitionRelay) -> None:
        """Reads the settled log of a partition in doubt, once."""
        if relay not in self._settling and self._slot.loop.now >= relay.send_after:
            self._settling[relay] = self._finding(relay.copy.order)
            self._slot.loop.spawn(self._settle(relay))

    def doubt_of(self, relay: PartitionRelay) -> tuple[str, str]:
        """Code and reason of a partition that waits for the target to answer what became of the sent records."""
        target, doubt, finding = self._slot.target, relay.copy.doubt, self._settling.get(relay)
        if doubt is None:
            return StateCode.TARGET, f"cluster {target.alias} does not answer what was sent to {relay.target}"
        text = doubt.message if doubt.error <= 0 else f"{name_of(doubt.error)}: {doubt.message}"
        reason = f"cluster {target.alias}: append to {relay.target}: {text.rstrip(': ')}"
        ends = finding.ends if finding is not None else None
        if ends is not None and ends.high_watermark < ends.log_end:
            return StateCode.NOT_ENOUGH_REPLICAS, (
                f"{reason}; {ends.log_end - ends.high_watermark} records at its end are not replicated: "
                "copying resumes when enough replicas are in sync"
            )
        return StateCode.NOT_ENOUGH_REPLICAS if doubt.error in NOT_ENOUGH else StateCode.TARGET, reason

    def _settle(self, relay: PartitionRelay) -> Procedure:
        slot, copy, doubt = self._slot, relay.copy, relay.copy.doubt
        assert doubt is not None
        relay.drop_queue()
        relay.pipelined = None
        try:
            if doubt.expect is Expect.FENCED:
                slot.forfeit(relay, StateCode.FENCED, f"{name_of(doubt.error)}: {doubt.message}")
                return
            if copy.order.source_compacts:
                # Records may vanish from the source between two readings, and with them the fixed numbering (4b):
                # the late twin of a batch could then be taken for another one. A new attempt under a fence cannot.
                slot.forfeit(relay, StateCode.IN_DOUBT, doubt.message)
                return
            if doubt.expect is Expect.SPLIT:
                yield from self._topics.load([relay.target.topic])
            found = yield from self._find(copy.order, copy, self._settling[relay])
        except ReplicationError as error:
            self._stop(relay, error)
            return
        except BrokerRefused as error:
            if is_right_missing(error.error_code) and copy.order.until is None:
                self._await_right(relay, error.message)  # the doubt stays; the log is read again later
            else:
                self._stop(relay, TargetRefusedRecords(f"{relay.source}: {error.message}", hint=error.hint))
            return
        finally:
            self._settling.pop(relay, None)
        if not slot.is_mine(copy.order.attempt, relay.source):
            return
        if not isinstance(found, Found):
            slot.forfeit(relay, StateCode.TARGET_TRUNCATED, f"the target ends at {found.log_end}")
            return
        relay.drop_queue()
        relay.forbidden = ""
        copy.resume(found.position, found.runs, slot.loop.now, found.source_leader_epoch)
        if doubt.expect is Expect.REFUSED:
            self._take_refusal(relay, doubt)

    def _take_refusal(self, relay: PartitionRelay, doubt: Doubt) -> None:
        """The target refuses these records, which stops the partition; or it refuses us, which may pass."""
        text = refusal(doubt.error, self._slot.target.who, f"Write on topic {relay.target.topic}")
        if is_right_missing(doubt.error) and relay.copy.order.until is None:
            self._await_right(relay, f"cluster {self._slot.target.alias}: append to {relay.target}: {text}")
        else:
            kind = TargetRefusedTimestamp if doubt.error == INVALID_TIMESTAMP else TargetRefusedRecords
            relay.stop_reason = kind(
                f"{relay.source} at upstream offset {relay.copy.next.upstream}: target {relay.target} refuses: "
                f"{text}: {doubt.message}"
            )

    def _await_right(self, relay: PartitionRelay, reason: str) -> None:
        """Nothing is sent for a while, and nothing fetched that could not be sent."""
        relay.forbidden = reason
        relay.send_after = relay.fetch_after = self._slot.loop.now + RIGHTS_RETRY_S

    def _stop(self, relay: PartitionRelay, error: ReplicationError) -> None:
        """The log is not what it should be: nothing is closed, the driver keeps the partition stopped."""
        text = self._slot.remedies.with_hint(error, relay.source, relay.copy.proven.upstream)
        self._slot.forfeit(relay, text.code, str(text))

    # --- fetch errors ------------------------------------------------------------------------------------------

    def fetch_failed(self, relay: PartitionRelay, part: FetchedPartition) -> None:
        """The source answered a fetch of one partition with an error."""
        slot = self._slot
        relay.fetch_after = slot.loop.now + FETCH_RETRY_S
        if not relay.trouble:
            relay.trouble_since = slot.loop.now
        text = refusal(part.error, slot.source.who, f"Read on topic {relay.source.topic}") if part.error else "it diverged"
        relay.trouble = f"source {slot.source.alias}: fetch of {relay.source}: {text}"
        if part.diverging or part.error == codes.OFFSET_OUT_OF_RANGE or part.error in UNKNOWN_TOPIC:
            if relay not in self._checking:
                self._checking.add(relay)
                slot.loop.spawn(self._check_again(relay))
        else:
            slot.source.refresh()

    def _check_again(self, relay: PartitionRelay) -> Procedure:
        """Out of range, diverged, or the topic is gone: look which, and whether the topic is another one now."""
        slot, partition = self._slot, relay.source
        try:
            slot.source.refresh()
            yield Sleep(FETCH_RETRY_S)
            found = slot.source.topic_id(partition.topic)
            if found is None:
                relay.trouble = f"source topic {partition.topic} is gone"
                relay.fetch_after = slot.loop.now + 1.0
                return
            if found != relay.source_id:
                raise SourceTopicRecreated(
                    f"{partition}: the source topic was deleted and created again (id {found.hex()}, "
                    f"expected {relay.source_id.hex()}); copied up to upstream offset {relay.copy.proven.upstream}"
                )
            ends = yield from self._ends(partition)
            wanted = relay.copy.read_from
            if ends.log_start > wanted:
                raise slot.remedies.lost(partition, wanted, ends.log_start)
            if ends.log_end < wanted:
                raise slot.remedies.truncated(partition, wanted, ends.log_end)
            relay.last_epoch = yield from self._check_epoch(partition, wanted, relay.last_epoch)
        except ReplicationError as error:
            relay.stop_reason = slot.remedies.with_hint(error, partition, relay.copy.proven.upstream)
        except BrokerRefused as error:
            relay.trouble = error.message
        finally:
            self._checking.discard(relay)
