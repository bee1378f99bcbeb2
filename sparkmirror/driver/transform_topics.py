"""The transform query of one flow, on the driver: which partitions pass transforms, and the query that copies them."""

from __future__ import annotations

import queue
import time
import uuid
from collections.abc import Callable, Iterable, Sequence

from sparkmirror.clusters import ClusterView, TopicView, refusal
from sparkmirror.config import TransformSettings
from sparkmirror.driver.dead_letters import send_dead_letter
from sparkmirror.driver.flow_context import FlowContext
from sparkmirror.driver.placing import Placing
from sparkmirror.driver.recorder import Recorder
from sparkmirror.driver.transform_recovery import query_id, raise_query_epoch, recover_transforms
from sparkmirror.errors import ConfigError, SourceTopicRecreated, TransformFailed
from sparkmirror.ledger import TRANSFORM_QUERY, LedgerRecord, Open, State, covered_from
from sparkmirror.model import TopicPartition
from sparkmirror.session.spark_slots import SparkSlots
from sparkmirror.status.state_code import StateCode
from sparkmirror.transforms.orders import PoisonRecord, QueryEntry, QueryOrder, Suspect, make_folder, remove_left_folders
from sparkmirror.transforms.query import QueryRun

# A query that fails at once is begun again more and more slowly.
RESTART_FIRST_S, RESTART_MAX_S = 0.5, 30.0
SETTLED_S = 30.0
DRAIN_S = 20.0
# More offsets than one batch of the query holds, of one partition.
SEARCHED_MAX = 500_000
# An election takes less, and nobody needs to hear of it.
AWAY_SHOWN_S = 5.0
UNKNOWN_TOPIC = 3


class TransformTopics:
    """Starts a query when there are partitions for it, and restarts it when it failed."""

    def __init__(self, context: FlowContext, spark: SparkSlots, placing: Placing) -> None:
        self._context, self._spark, self._placing = context, spark, placing
        self._given: dict[TopicPartition, Open] = {}  # to the last query
        self._query: QueryRun | None = None
        self._listed: dict[TopicPartition, QueryEntry] = {}
        self._away: dict[TopicPartition, float] = {}  # since when nobody leads it on the source
        self._waiting: dict[TopicPartition, Open] = {}  # of earlier queries: to be ended, or opened again, later
        self._ended: queue.SimpleQueue[tuple[QueryRun, str]] = queue.SimpleQueue()
        self._failures, self._started_at, self._due = 0, 0.0, 0.0
        self._is_suspicious = False
        self._culprits: dict[TopicPartition, PoisonRecord] = {}
        self.is_held = False  # no query is to run now

    def recover_first(self, recorder: Recorder, take: Callable[[LedgerRecord], None], lost: list[Open]) -> None:
        """Ends what the last owner's query left open."""
        if lost:
            raise_query_epoch(self._context)
            left = recover_transforms(self._context, recorder, lost, take)
            self._waiting |= {order.partition: order for order in lost if order.partition in left}

    def has_waiting(self, partition: TopicPartition) -> bool:
        """Whether the partition's attempt is over and it is not done: it goes on when its topic can be read again."""
        return partition in self._waiting

    def resume(self, orders: Sequence[Open]) -> None:
        """Takes stopped partitions up again, in a new query: tasks of the present one keep what they know of the target."""
        self._waiting |= {order.partition: order for order in orders if order.partition not in self._given}
        if orders and self._query is not None:
            self._end_query()

    def renew(self) -> None:
        """The flow has new settings: those who cannot learn of them end, and a new query begins with them."""
        if self._query is not None:
            self._end_query()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Partitions that are not copied any more; their attempts are closed."""
        for partition in partitions:
            for known in (self._waiting, self._away, self._culprits):
                known.pop(partition, None)

    def hold(self) -> None:
        """Ends the query, and starts none until `is_held` is false again."""
        self.is_held = True
        self.abandon()

    def tend(self, recorder: Recorder, take: Callable[[LedgerRecord], None]) -> None:
        """One turn: starts, extends or restarts the query."""
        while not self._ended.empty():
            query, reason = self._ended.get()
            if query is self._query:
                self._query = None
                self._take_end(query, reason)
        if self.is_held:
            return
        if self._query is None:
            self._begin(recorder, take)
        else:
            self._extend()

    def _take_end(self, query: QueryRun, reason: str) -> None:
        context, now = self._context, time.monotonic()
        if isinstance(query.refusal, ConfigError):
            raise query.refusal  # a transform that cannot run: nothing helps but another file
        self._failures = 0 if now - self._started_at > SETTLED_S else self._failures + 1
        self._due = now + min(RESTART_FIRST_S * 2**self._failures, RESTART_MAX_S)
        self._is_suspicious = query.has_failed_in_spark
        for culprit in query.culprits:
            self._culprits[culprit.partition] = culprit
        if query.culprits:
            self._due = 0.0
            return
        if not reason:
            return  # a requested end: everything is copied, or it restarts with other partitions
        context.status.notes.append(f"transform query: {reason}; recovering its partitions, then restarting the query")
        for partition in self._mine():
            context.show(partition, "recovering", StateCode.QUERY_LOST, f"the query ended: {reason}")

    def _begin(self, recorder: Recorder, take: Callable[[LedgerRecord], None]) -> None:
        context = self._context
        if time.monotonic() < self._due or not (self._mine() or self._given):
            return
        context.beat()  # what follows may wait for a cluster, again and again
        producer = raise_query_epoch(context)
        if self._given:  # an attempt belongs to one query
            recover_transforms(context, recorder, self._held(), take)
            self._pass_culprits(recorder)
            self._waiting |= self._given
            self._look_at_source()
            self._open_waiting()
            self._listed, self._given = {}, {}  # only now: whatever failed before is done again
        mine = self._mine()
        if not mine:
            return
        groups: list[tuple[TransformSettings, ...]] = []
        for partition in mine:
            transforms = context.transforms.of(partition.topic)
            if transforms not in groups:
                groups.append(transforms)
        remove_left_folders()
        name = uuid.uuid4().hex[:12]
        place = context.place
        order = QueryOrder(
            settings=place.settings,
            source=context.flow.name.source,
            target=context.flow.name.target,
            ledger_topic=place.ledger_topic,
            folder=make_folder(name),
            name=name,
            query_id=query_id(context),
            producer_id=producer[0],
            producer_epoch=producer[1],
            names_are_final=bool(context.flow.connect_transforms),
            file_words=place.file_words,
        )
        self._query = QueryRun(
            self._spark, context.flow, order, groups, self._suspects(mine), lambda q, reason: self._ended.put((q, reason))
        )
        self._listed = {partition: self._entry(mine[partition]) for partition in mine}
        self._given = dict(mine)
        self._started_at = time.monotonic()
        self._query.start(list(self._listed.values()))

    def _extend(self) -> None:
        """Partitions that are new join the query; those that stopped leave it."""
        query, mine = self._query, self._mine()
        assert query is not None
        is_done = all(self._is_complete(order) for order in mine.values())
        if is_done or self._is_at_culprit() or any(self._is_held(p) for p in self._given):
            self._end_query()
            return
        if query.is_started:
            for partition in mine:
                if self._context.status.partitions[partition].state in ("opening", "recovering", "waiting"):
                    self._context.show(partition, "copying")
        if mine.keys() == self._listed.keys():
            return
        if any(self._context.transforms.of(partition.topic) not in query.groups for partition in mine):
            self._end_query()  # another branch is needed
            return
        known = self._listed
        self._listed = {p: known.get(p) or self._entry(order) for p, order in mine.items()}
        self._given |= mine
        query.list(list(self._listed.values()))

    def _until(self, order: Open) -> int | None:
        """Where the partition ends: with `--once`, or before a record that its transforms cannot handle."""
        culprit = self._culprits.get(order.partition)
        bounds = [bound for bound in (order.until, culprit.offset if culprit is not None else None) if bound is not None]
        return min(bounds) if bounds else None

    def _is_complete(self, order: Open) -> bool:
        """Whether it is to be copied up to some offset only, and was."""
        until = self._until(order)
        return until is not None and self._context.status.partitions[order.partition].next_upstream >= until

    def _suspects(self, mine: dict[TopicPartition, Open]) -> list[Suspect]:
        """Where to look for what made the last query fail, if Spark said so and not one of our tasks."""
        context = self._context
        if not self._is_suspicious:
            return []
        found = []
        for partition, order in mine.items():
            start, end = order.position.upstream, context.status.partitions[partition].source_end
            if partition not in self._culprits:
                transforms, count = context.transforms.of(partition.topic), context.topics[partition.topic].partitions
                found.append(Suspect(partition, count, start, min(end, start + SEARCHED_MAX), transforms))
        return found

    def _held(self) -> list[Open]:
        """What the last query was given and nobody has said the end of, stopped or not."""
        view = self._context.ledger.view
        return [order for order in self._given.values() if not view.of(order.partition).is_closed]

    # --- records that cannot be handled --------------------------------------------------------------------------

    def _is_at_culprit(self) -> bool:
        """Whether everything before such a record was copied; its partition then has to leave the query."""
        partitions = self._context.status.partitions
        return any(partitions[p].next_upstream >= culprit.offset for p, culprit in self._culprits.items())

    def _pass_culprits(self, recorder: Recorder) -> None:
        """Stops the partitions whose next record cannot be handled, or goes on behind it if the file says so."""
        context = self._context
        for partition, culprit in list(self._culprits.items()):
            ready = context.ready.get(partition)
            if ready is None or ready.previous is None or ready.position.upstream < culprit.offset:
                continue
            del self._culprits[partition]
            text = f"{partition}: the record at upstream offset {culprit.offset} cannot be transformed: {culprit.reason}"
            if context.flow.errors_tolerance != "all":
                command = f"{context.remedies.skip(partition)} --to {culprit.offset + 1}"
                error = TransformFailed(text, hint=f"fix the transform, or skip the record: {command}")
                context.stop_partition(partition, error)
                context.ledger.append([State.stopped(partition, ready.previous, error)])
                continue
            if context.flow.errors_deadletterqueue_topic_name:
                send_dead_letter(context, culprit)
            move = self._placing.pass_over(partition, culprit.offset, culprit.reason)
            if move is not None:
                recorder.move(partition, move.new.upstream)
            context.status.notes.append(f"{text}; it is skipped (errors.tolerance)")

    def _end_query(self) -> None:
        assert self._query is not None
        self._query.list(list(self._listed.values()), is_ending=True)
        self._query.stop()

    def _open_orders(self) -> dict[TopicPartition, Open]:
        """What is open as records, whether it can be read now or not."""
        context = self._context
        return {
            partition: order
            for partition, order in context.placed.items()
            if order.slot == TRANSFORM_QUERY
            and partition not in context.stopped
            and context.status.partitions[partition].state != "closed"
            and not context.ledger.view.of(partition).is_closed
        }

    def _mine(self) -> dict[TopicPartition, Open]:
        """What is open and to be copied as records now."""
        context = self._context
        left_out = self._away.keys() | self._waiting.keys() | context.gapped
        return {
            partition: order
            for partition, order in self._open_orders().items()
            if partition not in left_out
            and not self._is_held(partition)
            and (partition in self._listed or partition.topic in context.topics)
        }

    def _is_held(self, partition: TopicPartition) -> bool:
        """Whether it must not be copied now, though nothing is wrong with it."""
        return partition in self._context.held or self._context.ledger.view.wish_on(partition) is not None

    def _entry(self, order: Open) -> QueryEntry:
        context, partition = self._context, order.partition
        query = self._query
        assert query is not None
        topic = context.topics[partition.topic]
        return QueryEntry(
            topic=partition.topic,
            partition=partition.partition,
            attempt=order.attempt,
            start=order.position.upstream,
            until=self._until(order),
            remote=order.target_topic,
            partitions=topic.partitions,
            source_topic_id=order.source_topic_id,
            done=covered_from(context.ledger.view.of(partition), order.position.upstream),
            group=query.groups.index(context.transforms.of(partition.topic)),
        )

    # --- topics that cannot be read now --------------------------------------------------------------------------

    def look(self, recorder: Recorder, take: Callable[[LedgerRecord], None]) -> None:
        """Leaves out what cannot be read, and takes back what can be read again."""
        self._look_at_source()
        self._take_back(recorder, take)

    def _look_at_source(self) -> None:
        """Which partitions nobody leads; stops those whose topic is another one now."""
        context, now = self._context, time.monotonic()
        orders = self._open_orders() | self._waiting
        if not orders:
            return
        view = context.source.view({partition.topic for partition in orders})
        away = {}
        for partition, order in orders.items():
            topic = view.topics.get(partition.topic)
            if topic is not None and not topic.error and topic.topic_id.hex() != order.source_topic_id:
                self._stop_recreated(order, topic)
            elif view.leader(partition) is None:
                away[partition] = self._away.get(partition, now)
                if now - away[partition] >= AWAY_SHOWN_S:
                    context.show(partition, "waiting", StateCode.SOURCE, self._unled(view, partition))
        self._away = away

    def _unled(self, view: ClusterView, partition: TopicPartition) -> str:
        source, topic = self._context.source, view.topics.get(partition.topic)
        if topic is None or topic.error == UNKNOWN_TOPIC:
            return f"source topic {partition.topic} is gone"
        needs = f"Describe on topic {partition.topic}"
        reason = refusal(topic.error, source.who, needs) if topic.error else "it has no leader"
        return f"source {source.alias}: {partition}: {reason}"

    def _stop_recreated(self, order: Open, topic: TopicView) -> None:
        context, partition = self._context, order.partition
        if partition in context.stopped:
            return
        at = (context.ledger.view.of(partition).position() or order.position).upstream
        error = context.remedies.with_hint(
            SourceTopicRecreated(
                f"{partition}: the source topic was deleted and created again (id {topic.topic_id.hex()}, "
                f"expected {order.source_topic_id}); copied up to upstream offset {at}"
            ),
            partition,
            at,
        )
        context.stop_partition(partition, error)
        context.ledger.append([State(partition, order.attempt, "stopped", error.code, str(error))])

    def _take_back(self, recorder: Recorder, take: Callable[[LedgerRecord], None]) -> None:
        """The epoch was raised after their query had ended, so that none of its tasks writes any more."""
        view = self._context.ledger.view
        back = [order for partition, order in self._waiting.items() if partition not in self._away]
        held = [order for order in back if not view.of(order.partition).is_closed]
        if held:
            recover_transforms(self._context, recorder, held, take)
        if back:
            self._open_waiting()

    def _open_waiting(self) -> None:
        """Opens what can be read and has an end; the rest waits on."""
        context = self._context
        kept = context.stopped | context.gapped | self._away.keys()
        self._placing.open(p for p in self._waiting if p in context.ready and p not in kept)
        self._waiting = {p: order for p, order in self._waiting.items() if self._is_waiting(order)}

    def _is_waiting(self, order: Open) -> bool:
        context, partition = self._context, order.partition
        placed, status = context.placed.get(partition), context.status.partitions.get(partition)
        is_opened = placed is not None and placed.attempt != order.attempt
        is_over = partition in context.stopped or (status is not None and status.state == "closed")
        return not is_opened and not is_over

    # --- the end -------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """Asks the query to end, and does not wait: the flow is another owner's, or has failed."""
        if self._query is not None:
            self._end_query()

    def finish(self, recorder: Recorder, take: Callable[[LedgerRecord], None]) -> None:
        """Drains the query and closes what it held; what did not drain is found out as after a crash."""
        context = self._context
        if self._query is not None:
            self._end_query()
            deadline = time.monotonic() + DRAIN_S
            while self._query.is_alive and time.monotonic() < deadline:
                context.beat()
                for record in context.ledger.poll(100):
                    take(record)
        orders = (*self._open_orders().values(), *self._held(), *self._waiting.values())
        unclosed = [order for order in orders if not context.ledger.view.of(order.partition).is_closed]
        open_still = {order.partition: order for order in unclosed}
        if open_still:
            raise_query_epoch(context)
            left = recover_transforms(context, recorder, list(open_still.values()), take)
            for partition in open_still.keys() - left:
                if partition in context.ready and partition not in context.stopped:
                    context.show(partition, "closed")
