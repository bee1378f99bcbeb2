"""`pause`, `stop` and `resume`: what becomes of such a request, and the owner's verbs.

After `pause` or `stop` of a scope nothing in it is copied, after `resume` all of it is. Hence `resume` also ends what was
paused within the scope, and is refused while something wider than the scope is paused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import msgspec

from sparkmirror.driver.moves.requests import Outcome, OwnerWork, Steps, Verb
from sparkmirror.errors import RequestRefused
from sparkmirror.ledger import (
    PAUSED,
    SOURCE,
    STOPPED,
    OwnerRequest,
    Wish,
    WishKey,
    encode,
    wider_wish,
    wish_removed,
    wishes_within,
)
from sparkmirror.status.wishes import in_order, resume_command, wish_fields, wish_subject, wish_words

RESUME = "resume"
STATES = {"pause": PAUSED, "stop": STOPPED}
CLOSE_S = 10.0  # a slot closes within a second unless its target does not answer
NAMED_MAX = 3


class _WishArguments(msgspec.Struct, forbid_unknown_fields=True):
    connector: Literal["source", "checkpoint", "heartbeat"] = SOURCE  # type: ignore[assignment]  # one of them


def scope_of(request: OwnerRequest) -> WishKey:
    """What the request is about; raises RequestRefused if it makes no sense."""
    try:
        connector = msgspec.convert(request.arguments, _WishArguments).connector
    except msgspec.ValidationError as error:
        raise RequestRefused(
            f"{request.verb}: expected connector source, checkpoint or heartbeat, found {request.arguments}: {error}"
        ) from error
    if connector != SOURCE and request.topic:
        raise RequestRefused(
            f"{request.verb}: the {connector} connector has no topics of its own", hint="leave out the topic"
        )
    if request.partition >= 0 and not request.topic:
        raise RequestRefused(f"{request.verb}: a partition needs its topic")
    return WishKey(connector, request.topic, request.partition)


def wish_outcome(wishes: Mapping[WishKey, Wish], request: OwnerRequest, file_words: str) -> Outcome:
    """What is to be written; raises RequestRefused if something wider keeps the scope from being resumed."""
    scope = scope_of(request)
    if request.verb == RESUME:
        return _resumed(wishes, scope, file_words)
    known, state = wishes.get(scope), STATES[request.verb]
    if known is not None and known.state == state:
        return Outcome(f"{wish_words(known)} already", _detail(wishes.values(), (), file_words))
    wish = Wish(scope.connector, state, request.who, int(time.time() * 1000), request.id, scope.topic, scope.partition)
    others = [other for other in wishes.values() if other.key != scope]
    return Outcome(f"{wish_subject(wish)} is {state}", _detail([*others, wish], (wish,), file_words), [encode(wish)])


def _resumed(wishes: Mapping[WishKey, Wish], scope: WishKey, file_words: str) -> Outcome:
    wider = wider_wish(wishes, scope)
    if wider is not None:
        raise RequestRefused(
            f"{wish_words(wider)}, and only as a whole it can be resumed",
            hint=f"to resume it: {resume_command(wider, file_words)}",
        )
    ended = in_order(wishes_within(wishes, scope))
    if not ended:
        return Outcome("nothing was paused or stopped", _detail(wishes.values(), (), file_words))
    rest = [wish for wish in wishes.values() if wish not in ended]
    named = ", ".join(wish_subject(wish) for wish in ended[:NAMED_MAX])
    more = f" and {len(ended) - NAMED_MAX} more" if len(ended) > NAMED_MAX else ""
    return Outcome(f"resumed: {named}{more}", _detail(rest, ended, file_words), [wish_removed(wish) for wish in ended])


def _detail(wishes: Iterable[Wish], changed: Iterable[Wish], file_words: str) -> dict[str, Any]:
    """All wishes of the flow from now on, and those that the request made or ended."""
    return {
        "wishes": [wish_fields(wish, file_words) for wish in in_order(wishes)],
        "changed": [wish_fields(wish, file_words) for wish in changed],
    }


def _wish(work: OwnerWork, request: OwnerRequest) -> Steps:
    """Copying has stopped before the answer says so; what cannot be closed now is closed as soon as it can be."""
    scope = scope_of(request)
    is_known = scope in work.wishes or bool(wishes_within(work.wishes, scope))
    if request.topic and not is_known:
        work.look()
        if request.topic not in work.stopped_topics:
            work.scope(request)
    outcome = wish_outcome(work.wishes, request, work.file_words)
    if request.verb != RESUME and scope.connector == SOURCE:
        outcome = yield from _closed(work, request, outcome)
    if outcome.entries:
        work.positions.writer.renew()
    return outcome


def _closed(work: OwnerWork, request: OwnerRequest, outcome: Outcome) -> Steps:
    partitions = [] if request.topic in work.stopped_topics else work.scope(request)
    open_still = yield from work.close(partitions, CLOSE_S)
    text = f"{outcome.text}: {len(partitions)} partitions"
    if open_still:
        state, reason = work.condition(open_still[0])
        text += f"; {len(open_still)} are not closed yet, such as {open_still[0]}: {state} {reason}".rstrip()
    return Outcome(text, outcome.detail | {"open_partitions": len(open_still)}, outcome.entries)


WISH_VERBS: Mapping[str, Verb] = {RESUME: _wish} | dict.fromkeys(STATES, _wish)
