"""What somebody paused or stopped until it is resumed, in words and as fields. Pure; every view shows it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from datetime import UTC, datetime

from sparkmirror.ledger import PAUSED, SOURCE, STOPPED, Wish, flow_wish
from sparkmirror.status.flow_status import FlowStatus
from sparkmirror.status.state_code import StateCode

CODES = {PAUSED: StateCode.PAUSED, STOPPED: StateCode.STOPPED_ON_REQUEST}


def wish_words(wish: Wish) -> str:
    """Who wants what, since when: "topic orders is paused since … by ann@host (User:ann)"."""
    return f"{wish_subject(wish)} is {wish.state} since {wish_time(wish)} by {wish.who}"


def wish_subject(wish: Wish) -> str:
    """What it is about."""
    if wish.connector != SOURCE:
        return f"the {wish.connector} connector"
    if not wish.topic:
        return "the flow"
    return f"topic {wish.topic}" if wish.partition < 0 else f"partition {wish.topic}-{wish.partition}"


def wish_time(wish: Wish) -> str:
    """When it was asked for, in UTC."""
    return datetime.fromtimestamp(wish.time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def resume_command(wish: Wish, file_words: str) -> str:
    """The command that ends it."""
    words = ["sparkmirror resume", file_words or "FILE"]
    if wish.topic:
        words.append(f"--topic {shlex.quote(wish.topic)}")
    if wish.partition >= 0:
        words.append(f"--partition {wish.partition}")
    if wish.connector != SOURCE:
        words.append(f"--connector {wish.connector}")
    return " ".join(words)


def wish_reason(wish: Wish, file_words: str) -> str:
    """The words with the command that ends it."""
    return f"{wish_words(wish)} (to resume: {resume_command(wish, file_words)})"


def flow_reason(flow: FlowStatus) -> str:
    """Why the flow is in the state that is shown; of a paused flow who paused it."""
    wish = flow_wish(flow.wishes, SOURCE)
    if flow.reason or wish is None or flow.state != "running":
        return flow.reason
    return wish_reason(wish, flow.file_words)


def wish_reasons(flow: FlowStatus, *connectors: str) -> list[str]:
    """Those of these connectors, or all of them, the widest first."""
    wishes = (wish for wish in in_order(flow.wishes) if not connectors or wish.connector in connectors)
    return [wish_reason(wish, flow.file_words) for wish in wishes]


def in_order(wishes: Iterable[Wish]) -> list[Wish]:
    """The source connector's first, the widest first."""
    return sorted(wishes, key=lambda wish: (wish.connector != SOURCE, wish.connector, wish.topic, wish.partition))


def wish_fields(wish: Wish, file_words: str) -> dict[str, object]:
    """As JSON documents have it: also in words, and with the command that ends it."""
    return {
        "connector": wish.connector,
        "topic": wish.topic or None,
        "partition": None if wish.partition < 0 else wish.partition,
        "state": wish.state,
        "who": wish.who,
        "time": wish_time(wish),
        "request_id": wish.request_id,
        "text": wish_words(wish),
        "resume": resume_command(wish, file_words),
    }


def paused_partitions(flow: FlowStatus) -> int:
    """How many partitions are not copied because somebody asked for it."""
    return sum(p.state == "paused" for p in flow.partitions.values())
