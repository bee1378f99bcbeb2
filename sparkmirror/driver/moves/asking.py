"""Asking the owner of a flow for something, from another process: the request, the wait, the answer.

With no live owner nobody is asked: whoever wants something takes the flow and does it, as it was before there were requests.
"""

from __future__ import annotations

import getpass
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from sparkmirror.clusters import ClusterClient, append_records
from sparkmirror.driver.flow_ledger import FlowLedger
from sparkmirror.driver.moves.repositioning import Repositioning
from sparkmirror.driver.moves.requests import DONE, EXPIRED, NOT_IN_TIME, Outcome, answer_of
from sparkmirror.errors import (
    ClusterError,
    FlowOwnedByAnother,
    OwnershipError,
    RequestRefused,
    RequestUnanswered,
    SparkmirrorError,
)
from sparkmirror.ledger import Owner, OwnerAnswer, OwnerRequest, encode
from sparkmirror.process import Process
from sparkmirror.state import OwnerStatus, owner_status

T = TypeVar("T")

WAIT_S = 60.0  # a request expires so long after it was asked, unless its asker says otherwise
POLL_MS = 200
SILENT_S = 15.0  # three missed beats, as for whoever wants to own the flow
# A supervisor starts a new owner within seconds, and a standby notices within WATCH_S; nobody else takes the flow before.
NEXT_OWNER_S = 20.0
TURNS = 3


@dataclass(frozen=True, slots=True)
class Asking:
    """How a request is asked: under which id, until when, how it was typed, and by whom, if not by this process's user."""

    id: str = ""
    wait_s: float = WAIT_S
    command: str = ""
    who: str = ""

    def request(
        self, verb: str, who: str, *, topic: str | None, partition: int | None, arguments: Mapping[str, Any]
    ) -> OwnerRequest:
        """The record; a request without an id gets a new one."""
        now_ms = int(time.time() * 1000)
        return OwnerRequest(
            id=self.id or str(uuid.uuid4()),
            verb=verb,
            who=self.who or who,
            time_ms=now_ms,
            expires_ms=now_ms + int(self.wait_s * 1000),
            topic=topic or "",
            partition=-1 if partition is None else partition,
            arguments=dict(arguments),
            command=self.command,
        )


def who_asks(client: ClusterClient) -> str:
    """User and host, and as whom the cluster knows them."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in many containers
        user = "unknown"
    return f"{user}@{socket.gethostname()} ({client.who})"


class Asker:
    """One flow's ledger, as somebody outside reads and asks it."""

    def __init__(self, client: ClusterClient, ledger_topic: str) -> None:
        self.ledger = FlowLedger(client, ledger_topic)
        self._client = client

    def owner(self) -> OwnerStatus:
        """Who owns the flow, and whether that process is alive; reads the ledger."""
        self.ledger.read_all()
        return owner_status(self._client, self.ledger.topic, self.ledger.table)

    def ask(self, request: OwnerRequest) -> OwnerAnswer | None:
        """The owner's answer, None if nobody owns the flow; raises RequestUnanswered.

        A request whose id is in the ledger already is not asked again: its answer is the first one. That an owner is alive
        is not looked for first, which takes a beat: it answers, or it is silent.
        """
        view = self.ledger.read_all()
        asked = view.requests.get(request.id)
        if asked is not None and not is_same(asked, request):
            raise _asked_otherwise(asked)
        if request.id in view.answers:
            return view.answers[request.id]
        owner = view.owner
        if owner is None or _has_ended(owner):
            return None
        if asked is None:
            append_records(self._client, self.ledger.partition, [encode(request)], request.time_ms)
        return self._await(asked or request, owner.name, (request.expires_ms - request.time_ms) / 1000)

    def _await(self, request: OwnerRequest, name: str, wait_s: float) -> OwnerAnswer | None:
        asked_at = heard_at = time.monotonic()
        first = before = self.ledger.view.owner
        gone_at: float | None = None
        while time.monotonic() - asked_at < wait_s:
            try:
                self.ledger.poll(POLL_MS)
            except ClusterError:  # an election or a restart; a cluster that stays away shows as no answer
                time.sleep(POLL_MS / 1000)
                continue
            view, now = self.ledger.view, time.monotonic()
            if request.id in view.answers:
                return view.answers[request.id]
            owner = view.owner
            if owner != before:
                before, heard_at, gone_at = owner, now, None
            is_silent = now - heard_at > SILENT_S
            gone_at = (gone_at or now) if owner is None or is_silent or _has_ended(owner) else None
            if gone_at is not None and (now - gone_at > NEXT_OWNER_S or (is_silent and owner == first)):
                return None
            name = owner.name if owner is not None else name
        until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(request.expires_ms / 1000))
        raise RequestUnanswered(
            f"no answer within {wait_s:g} s to request {request.id}: owner {name} may be older than this version, or busy; "
            f"the request expires at {until} and is not carried out after that",
            hint=f"to see what became of it: the same command with --request-id {request.id}",
        )


def _has_ended(owner: Owner) -> bool:
    """Whether it is certain that this process owns nothing any more."""
    return owner.released or Process.this().is_dead(owner.name)


def ask_or_do(
    asker: Asker | None, request: OwnerRequest, read: Callable[[OwnerAnswer], T], do: Callable[[OwnerRequest], T]
) -> T:
    """What the owner's answer says; without an owner (or a ledger: no asker) what `do` returns, which takes the flow.

    Whoever has become the owner while `do` looked for one is asked in its turn.
    """
    for left in reversed(range(TURNS)):
        answer = asker.ask(request) if asker is not None else None
        if answer is not None:
            return read(require_done(answer))
        try:
            return do(request)
        except FlowOwnedByAnother:
            if asker is None or not left:
                raise
    raise AssertionError("the last turn returns or raises")


def carry_out_as_owner(positions: Repositioning, request: OwnerRequest, decide: Callable[[], Outcome]) -> OwnerAnswer:
    """The same as a running owner does with a request, by whoever asks: after it has taken the flow.

    Raises what `decide` does, RequestRefused if the request was answered otherwise meanwhile.
    """
    view = positions.ledger.view
    if request.id in view.answers:
        return require_done(view.answers[request.id])
    asked = view.requests.get(request.id)
    if asked is not None and not is_same(asked, request):
        raise _asked_otherwise(asked)
    if asked is not None and int(time.time() * 1000) > asked.expires_ms:
        positions.writer.renew()
        return require_done(_conclude(positions, asked, Outcome(NOT_IN_TIME, state=EXPIRED)))
    try:
        outcome = decide()
    except SparkmirrorError as error:
        if asked is not None and not isinstance(error, (ClusterError, OwnershipError)):
            positions.writer.renew()  # what was refused here must not be carried out by the next owner
            _conclude(positions, asked, Outcome.of_error(error))
        raise
    if not outcome.entries:
        positions.writer.renew()
    return _conclude(positions, request, outcome)


def _conclude(positions: Repositioning, request: OwnerRequest, outcome: Outcome) -> OwnerAnswer:
    """Writes the answer, and the request if it was never asked: both are the audit trail."""
    answer = answer_of(request, outcome, positions.owner)
    asked = [] if request.id in positions.ledger.view.requests else [encode(request)]
    entries = [*asked, encode(answer), *outcome.entries]
    positions.ledger.require_whole(entries)
    positions.writer.write(outcome.next_positions, entries)
    return answer


def _asked_otherwise(asked: OwnerRequest) -> RequestRefused:
    return RequestRefused(
        f"request {asked.id} was asked for something else: {asked.command or asked.verb}",
        hint="leave out --request-id, or repeat the command as it was",
    )


def is_same(asked: OwnerRequest, request: OwnerRequest) -> bool:
    """Whether both ask for the same."""
    return all(getattr(asked, name) == getattr(request, name) for name in ("verb", "topic", "partition", "arguments"))


def require_done(answer: OwnerAnswer) -> OwnerAnswer:
    """The answer, if the request was carried out; raises RequestRefused."""
    if answer.state != DONE:
        hint = str(answer.detail.get("hint", ""))
        raise RequestRefused(f"request {answer.id}: {answer.text} ({answer.state} by {answer.owner})", hint=hint)
    return answer
