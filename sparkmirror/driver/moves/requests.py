"""Requests to the owner of a flow: what somebody outside wants of it while it runs, and the answers.

Who asks appends an OwnerRequest to the ledger and reads the OwnerAnswer there. The owner carries requests out in the order
of the ledger, one at a time. A verb is a generator: each `next` is a step that does not wait, one in each turn of the
conductor, and its return value is the outcome. So a request that waits for a slot holds up nobody.

Exactly once: the answer and every ledger record of the change are one batch, appended under the flow's producer. It is in
the ledger as a whole or not at all, and the broker refuses it once another owner has fenced that producer there, which an
owner does before it reads the ledger. So an owner that finds no answer can carry the request out as if nobody had begun.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sparkmirror import failpoints
from sparkmirror.clusters import ClusterClient, is_retriable
from sparkmirror.config import FlowSettings
from sparkmirror.driver.flow_context import FlowContext, is_ended
from sparkmirror.driver.flow_ledger import Entry
from sparkmirror.driver.healing import Healing
from sparkmirror.driver.moves.position_writing import NextPosition
from sparkmirror.driver.moves.repositioning import Ending, Repositioning
from sparkmirror.driver.placing import Placing
from sparkmirror.driver.recorder import Recorder
from sparkmirror.errors import (
    BrokerRefused,
    ClusterError,
    ClusterUnreachable,
    ConnectionLost,
    InternalError,
    OwnershipError,
    RequestRefused,
    SparkmirrorError,
)
from sparkmirror.ledger import (
    TRANSFORM_QUERY,
    Attempt,
    Owner,
    OwnerAnswer,
    OwnerRequest,
    Release,
    Wish,
    WishKey,
    encode,
    removed,
)
from sparkmirror.model import TopicPartition
from sparkmirror.status.state_code import StateCode

DONE, REFUSED, EXPIRED = "done", "refused", "expired"
NOT_IN_TIME = "it was not carried out before it expired"
CLOSE_S = 30.0  # a slot drains in a moment unless its target does not answer
STOPPED_CLOSE_S = 2.0  # a partition that stopped closes at once, or somebody must find out where it ended
SEEN_S = 5.0  # opening takes less; who asks sees later states in `doctor` and `why`
KEPT_MAX, KEPT_MS = 1000, 90 * 86_400_000  # answered requests that stay in the ledger as the audit trail


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request comes to: in words, as fields, and what is written for it.

    `entries` go to the ledger beside the answer; `next_positions` are the partitions that go on elsewhere.
    """

    text: str
    detail: dict[str, Any] = field(default_factory=dict)
    entries: Sequence[Entry] = ()
    next_positions: Sequence[NextPosition] = ()
    state: str = DONE

    @classmethod
    def of_error(cls, error: SparkmirrorError) -> Outcome:
        """Nothing was changed, and why."""
        return cls(error.message, {"code": error.code, "hint": error.hint}, state=REFUSED)


Steps = Generator[None, None, Outcome]
Waits = Generator[None, None, None]


class OwnerWork:
    """A running flow, as a verb sees it."""

    def __init__(
        self, context: FlowContext, placing: Placing, healing: Healing, positions: Repositioning
    ) -> None:
        self.positions = positions
        self.paused: list[TopicPartition] = []
        self._context, self._placing, self._healing = context, placing, healing

    @property
    def flow(self) -> FlowSettings:
        """Its settings."""
        return self._context.flow

    @property
    def clients(self) -> tuple[ClusterClient, ClusterClient]:
        """Source and target."""
        return self._context.source, self._context.target

    @property
    def stopped_topics(self) -> Mapping[str, str]:
        """Topics that are not copied, with the reason."""
        return self._context.status.stopped_topics

    def look(self) -> None:
        """Looks at both clusters' topics once more."""
        self._placing.look()

    def scope(self, request: OwnerRequest) -> list[TopicPartition]:
        """The partitions that are meant; raises RequestRefused if the flow does not copy them."""
        topics = self._context.topics
        if request.topic and request.topic not in topics:
            reason = self.stopped_topics.get(request.topic, "this flow does not copy it")
            raise RequestRefused(f"topic {request.topic}: {reason}")
        wanted = [request.topic] if request.topic else list(topics)
        found = [TopicPartition(name, index) for name in wanted for index in range(topics[name].partitions)]
        chosen = [p for p in found if request.partition in (-1, p.partition)]
        if not chosen and request.topic:
            count = topics[request.topic].partitions
            raise RequestRefused(f"topic {request.topic} has partitions 0 to {count - 1}, found {request.partition}")
        return chosen

    def in_slot(self, partitions: Sequence[TopicPartition], slot: int | None) -> list[TopicPartition]:
        """Those that a slot copies, or did; all of them if no slot is named."""
        shown = self._context.status.partitions
        return [p for p in partitions if slot is None or (p in shown and shown[p].slot == slot)]

    def is_transformed(self, partition: TopicPartition) -> bool:
        """Whether the transform query copies it, which cannot let go of a single partition."""
        return self._context.transforms.are_for(partition.topic)

    def is_stopped(self, partition: TopicPartition) -> bool:
        """Whether it is not copied until somebody acts."""
        return partition in self._context.stopped

    def condition(self, partition: TopicPartition) -> tuple[str, str]:
        """Its state and the reason, as they are shown."""
        status = self._context.status.partitions.get(partition)
        return (status.state, status.reason) if status is not None else ("unknown", "")

    def retry(self, partitions: Sequence[TopicPartition]) -> None:
        """Takes stopped partitions up again, and what waits for its time."""
        for partition in partitions:
            self._context.forbidden.pop(partition, None)  # a right that was missing is looked for at once
        self._healing.retry(partitions)

    def pause(self, partitions: Sequence[TopicPartition], accepted: Sequence[str] = ()) -> Waits:
        """Until nobody writes these partitions; they stay closed until the request is done. Raises RequestRefused."""
        context = self._context
        running = (p for p in partitions if not self._is_paused(p))
        transformed = next(filter(self.is_transformed, running), None)
        if transformed is not None:
            raise RequestRefused(
                f"{transformed}: topic {transformed.topic} has transforms; its query cannot move a partition while it runs",
                hint=f"pause it first: sparkmirror pause {self.file_words} --topic {transformed.topic}",
            )
        self.paused += partitions
        context.held.update(partitions)
        releases = []
        for partition in partitions:
            context.trials.pop(partition, None)  # what becomes of it is shown from here on
        for partition in filter(self._is_open, partitions):
            order = context.ledger.view.of(partition).newest
            if order is not None and order.slot != TRANSFORM_QUERY and partition not in context.stopped:
                releases.append(Release(partition, order.attempt))
        context.ledger.append(releases)
        began = time.monotonic()
        while unclosed := [partition for partition in partitions if self._is_open(partition)]:
            waited_s = time.monotonic() - began
            if waited_s > STOPPED_CLOSE_S and all(partition in context.stopped for partition in unclosed):
                break  # these end without a slot
            if waited_s > CLOSE_S:
                state, reason = self.condition(unclosed[0])
                raise RequestRefused(f"{unclosed[0]} did not close within {CLOSE_S:g} s: {state} {reason}".rstrip())
            yield
        for partition in partitions:
            if partition not in context.stopped:
                context.show(partition, "waiting", StateCode.REQUEST, "closed while a request about it is carried out")
        self.positions.end_attempts(partitions, accepted)

    @property
    def wishes(self) -> Mapping[WishKey, Wish]:
        """What is paused or stopped now."""
        return self._context.ledger.view.wishes

    @property
    def file_words(self) -> str:
        """How a command line names the flow's file."""
        return self._context.place.file_words

    def close(self, partitions: Sequence[TopicPartition], seconds: float) -> Generator[None, None, list[TopicPartition]]:
        """Asks that these be closed, for as long as the request is carried out; returns those that are not in time."""
        context = self._context
        self.paused += partitions
        context.held.update(partitions)
        orders = [order for p in partitions if (order := context.placed.get(p)) is not None and not is_ended(context, p)]
        context.ledger.append([Release(o.partition, o.attempt) for o in orders if o.slot != TRANSFORM_QUERY])
        began = time.monotonic()
        while (open_still := [p for p in partitions if not self._is_quiet(p)]) and time.monotonic() - began < seconds:
            yield
        return open_still

    def _is_paused(self, partition: TopicPartition) -> bool:
        """Whether its attempt is over and none follows until somebody resumes it."""
        return self._context.ledger.view.wish_on(partition) is not None and is_ended(self._context, partition)

    def _is_quiet(self, partition: TopicPartition) -> bool:
        return is_ended(self._context, partition) or partition in self._context.stopped

    def _is_open(self, partition: TopicPartition) -> bool:
        history = self._context.ledger.view.of(partition)
        return history.newest is not None and not history.is_closed


Verb = Callable[[OwnerWork, OwnerRequest], Steps]


def answer_of(request: OwnerRequest, outcome: Outcome, owner: Owner) -> OwnerAnswer:
    """The ledger's record of what became of a request."""
    return OwnerAnswer(
        id=request.id,
        state=outcome.state,
        owner=owner.name,
        generation=owner.generation,
        producer_epoch=owner.producer_epoch,
        time_ms=int(time.time() * 1000),
        text=outcome.text,
        detail=outcome.detail,
    )


class Requests:
    """The requests to one owner, carried out one after another."""

    def __init__(
        self, context: FlowContext, placing: Placing, healing: Healing, verbs: Mapping[str, Verb]
    ) -> None:
        self._context, self._placing, self._healing, self._verbs = context, placing, healing, verbs
        self._steps: Waits | None = None
        self._work: OwnerWork | None = None
        self._inherited: set[str] = set()
        self._reopening: dict[TopicPartition, Attempt | None] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a request is being carried out, or partitions still have to be opened after one."""
        return self._steps is not None or bool(self._reopening)

    def begin(self, recorder: Recorder) -> None:
        """What a former owner may have left half done: its answer is in the ledger, MirrorMaker 2's position is not."""
        view = self._context.ledger.view
        self._inherited = {request.id for request in view.unanswered()}
        for partition, history in view.partitions.items():
            if history.newest is not None and history.newest.is_move:
                recorder.move(partition, history.newest.position.upstream)

    def tend(self, recorder: Recorder, ending: Ending) -> None:
        """One turn: the next step of the request that is being carried out, or the first of the next one."""
        self._reopen_paused()
        if self._steps is None:
            request = next(iter(self._context.ledger.view.unanswered()), None)
            if request is None:
                return
            positions = Repositioning(self._context, recorder, ending)
            self._work = OwnerWork(self._context, self._placing, self._healing, positions)
            self._steps = self._carry_out(request, self._work, recorder)
        try:
            next(self._steps)
        except StopIteration:
            self._end()
        except ClusterError:
            self._end()  # nothing was written: it begins anew when the cluster answers
            raise

    def trim(self) -> None:
        """Removes what is older than the audit trail reaches back."""
        view, now_ms = self._context.ledger.view, int(time.time() * 1000)
        answered = list(view.answers.values())
        surplus = len(answered) - KEPT_MAX
        answered.sort(key=lambda answer: answer.time_ms)
        past = [a for at, a in enumerate(answered) if at < surplus or a.time_ms < now_ms - KEPT_MS]
        keys = [
            key
            for answer in past
            for key in (
                removed("request", answer.id), removed("answer", answer.id, answer.generation, answer.producer_epoch)
            )
        ]  # fmt: skip
        self._context.ledger.remove(keys)

    # --- one request -----------------------------------------------------------------------------------------------

    def _carry_out(self, request: OwnerRequest, work: OwnerWork, recorder: Recorder) -> Waits:
        if failpoints.ARMED:
            failpoints.point("request.taken")
        outcome = yield from self._decide(request, work)
        if not outcome.entries:
            work.positions.writer.renew()
        try:
            entries = self._entries(request, outcome)
        except RequestRefused as error:
            outcome = Outcome.of_error(error)
            entries = self._entries(request, outcome)
        is_restated = outcome.state != DONE and self._restate(request, work, recorder)
        if outcome.next_positions or is_restated:  # positions and syncs may be on a cluster that is gone
            work.positions.writer.write_back(outcome.next_positions)
        while True:
            try:
                work.positions.writer.append(entries)
                break
            except (ClusterUnreachable, ConnectionLost, BrokerRefused) as error:
                if isinstance(error, BrokerRefused) and not is_retriable(error.error_code):
                    raise
                text = f"the answer to request {request.id} is not in the ledger yet: {error.message}"
                self._context.status.notes.append(text)
            yield  # it may have landed: the same batch again, until it is there or another owner has begun
        for next_position in outcome.next_positions:
            self._let_go(next_position.partition)
        self._context.status.notes.append(f"{request.who} asked for {request.command or request.verb}: {outcome.text}")
        work.positions.writer.write_forward(outcome.next_positions)

    def _decide(self, request: OwnerRequest, work: OwnerWork) -> Steps:
        if int(time.time() * 1000) > request.expires_ms:
            return Outcome(NOT_IN_TIME, state=EXPIRED)
        verb, owner = self._verbs.get(request.verb), self._context.owned.owner.name
        if verb is None:
            known = ", ".join(sorted(self._verbs))
            return Outcome(f"owner {owner} does not know {request.verb}, only {known}", state=REFUSED)
        try:
            return (yield from verb(work, request))
        except OwnershipError:
            raise
        except SparkmirrorError as error:
            is_passing = isinstance(error, ClusterError)
            if is_passing and not (isinstance(error, BrokerRefused) and not is_retriable(error.error_code)):
                raise
            return Outcome.of_error(error)
        except Exception as error:  # noqa: BLE001  border: what somebody wrote into the ledger must not end the flow
            return Outcome.of_error(InternalError(f"{request.verb}: {type(error).__name__}: {error}"))

    def _entries(self, request: OwnerRequest, outcome: Outcome) -> list[Entry]:
        """The answer and what stands beside it; raises RequestRefused if it does not fit in one batch."""
        entries = [encode(answer_of(request, outcome, self._context.owned.owner)), *outcome.entries]
        self._context.ledger.require_whole(entries)
        return entries

    def _restate(self, request: OwnerRequest, work: OwnerWork, recorder: Recorder) -> bool:
        """Nothing is changed, but an attempt at it may have put MirrorMaker 2's positions back before it was broken off.

        Returns whether there are positions to write.
        """
        concerned = set(work.paused)
        if request.id in self._inherited:
            every = self._context.ledger.view.partitions
            concerned |= {p for p in every if request.topic in ("", p.topic) and request.partition in (-1, p.partition)}
        found = {partition: self._context.ledger.view.of(partition).position() for partition in concerned}
        moved = [(partition, at.upstream) for partition, at in found.items() if at is not None and at.upstream]
        for partition, upstream in moved:
            recorder.move(partition, upstream)
        return bool(moved)

    # --- afterwards ------------------------------------------------------------------------------------------------

    def _let_go(self, partition: TopicPartition) -> None:
        """What was known of where the partition stands belongs to before it was moved."""
        context = self._context
        context.stopped.discard(partition)
        context.gapped.discard(partition)
        context.forbidden.pop(partition, None)
        context.ready.pop(partition, None)

    def _end(self) -> None:
        work, self._work, self._steps = self._work, None, None
        assert work is not None
        for partition in work.paused:
            self._context.held.discard(partition)
            newest = self._context.ledger.view.of(partition).newest
            self._reopening[partition] = newest.attempt if newest is not None else None
        self._reopen_paused()

    def _reopen_paused(self) -> None:
        """Opens what was paused, as soon as its last attempt is closed and a slot lives."""
        context = self._context
        due = []
        for partition, attempt in list(self._reopening.items()):
            history = context.ledger.view.of(partition)
            newest = history.newest
            is_opened = newest is not None and newest.attempt != attempt and not history.is_closed
            is_over = partition in context.stopped or context.ledger.view.wish_on(partition) is not None
            if is_opened or is_over or partition.topic not in context.topics:
                del self._reopening[partition]
            elif newest is None or history.is_closed:
                due.append(partition)
        for partition in due:
            context.placed.pop(partition, None)
        self._placing.open(due)
        for partition in due:
            status = context.status.partitions.get(partition)
            if partition in context.placed or (status is not None and status.state == "closed"):
                del self._reopening[partition]


def restart(work: OwnerWork, request: OwnerRequest) -> Steps:
    """The verb that takes stopped partitions up again at once, with `running` also those that copy.

    Answers when it is seen what becomes of the stopped ones.
    """
    chore = str(request.arguments.get("connector", ""))
    if chore:
        return Outcome(f"the {chore} connector is tried again at its next interval, as after every error")
    try:
        work.look()
    except (ClusterUnreachable, ConnectionLost) as error:
        raise RequestRefused(error.message, hint="partitions that wait for this cluster resume when it answers") from error
    partitions = work.in_slot(work.scope(request), request.arguments.get("slot"))
    tried = [p for p in partitions if work.condition(p)[0] in ("stopped", "waiting")]
    work.retry(tried)
    if request.arguments.get("running"):
        copying = [p for p in partitions if work.condition(p)[0] == "copying" and not work.is_transformed(p)]
        yield from work.pause(copying)
    began = time.monotonic()
    while any(work.condition(p)[0] in ("opening", "recovering") for p in tried) and time.monotonic() - began < SEEN_S:
        yield
    found = [(p, *work.condition(p)) for p in tried]
    rows = [{"topic": p.topic, "partition": p.partition, "state": state, "reason": reason} for p, state, reason in found]
    count, stopped = len(tried), sum(state == "stopped" for _, state, _ in found)
    text = f"{count} of {len(partitions)} partitions were stopped or waiting; {stopped} of them are stopped again"
    return Outcome(text, {"partitions": rows})


OWN_VERBS: Mapping[str, Verb] = {"restart": restart}
