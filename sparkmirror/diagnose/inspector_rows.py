"""The inspector's 21 columns of a group's position. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from sparkmirror.diagnose.group_position import RowFacts
from sparkmirror.diagnose.inspector_verdicts import (
    NO_SOURCE,
    NO_TARGET,
    VERDICTS,
    Verdict,
    verdict_of,
    verdict_of_text,
)

COLUMNS = (
    "CLUSTER PAIR", "TOPIC", "PARTITION", "GROUP", "SOURCE TOPIC EARLIEST OFFSET", "SOURCE TOPIC LATEST OFFSET",
    "SOURCE GROUP STATE", "SOURCE GROUP OFFSET", "SOURCE GROUP LAG", "TARGET TOPIC EARLIEST OFFSET",
    "TARGET TOPIC LATEST OFFSET", "TARGET GROUP STATE", "TARGET GROUP OFFSET", "TARGET GROUP LAG",
    "TARGET GROUP LAG TO SOURCE", "SOURCE HAS DATA", "SOURCE GROUP VALID", "TARGET HAS DATA", "IS OK",
    "BLOCKING COMPONENT", "MESSAGE",
)  # fmt: skip
HEADER = ",".join(COLUMNS)
MISSING = "-"
UNKNOWN_STATE = "Unknown"
# Fields between the group and the message; none of them can hold a comma.
_INNER, _HEAD = 16, 3


def judge(facts: RowFacts) -> Verdict:
    """The verdict of a row; none of the seven where a cluster could not be read."""
    if facts.source_ends is None or facts.source_offset is None:
        return NO_SOURCE
    if facts.is_known is None:
        return NO_TARGET
    return verdict_of(
        has_group=facts.is_known,
        has_offset=facts.target_offset is not None,
        is_empty=facts.source_ends.is_empty,
        is_valid=facts.source_ends.holds(facts.source_offset),
    )


def columns(facts: RowFacts, verdict: Verdict) -> list[str]:
    """The 21 values as the inspector prints them."""
    source, target, at, offset = facts.source_ends, facts.target_ends, facts.target_offset, facts.source_offset
    return [
        facts.flow,
        facts.source.topic,
        str(facts.source.partition),
        facts.group,
        _text(None if source is None else source.first),
        _text(None if source is None else source.end),
        facts.source_state or UNKNOWN_STATE,
        _text(offset),
        # not clamped: negative where the topic was created again
        _text(source.end - offset if source is not None and offset is not None else None),
        _text(None if target is None else target.first),
        _text(None if target is None else target.end),
        facts.target_state or UNKNOWN_STATE,
        _text(at),
        MISSING if at is None or target is None else str(max(0, target.end - at)),
        _text(lag_to_source(facts)),
        _truth(not source.is_empty) if source is not None else MISSING,
        _truth(source.holds(offset)) if source is not None and offset is not None else MISSING,
        MISSING if facts.is_known is None else _truth(target is not None and not target.is_empty),
        _truth(verdict.is_ok) if verdict.is_known else MISSING,
        verdict.blocking or MISSING,
        verdict.text,
    ]


def strict_columns(facts: RowFacts, verdict: Verdict) -> list[str]:
    """The values as the original prints them: it never reads the state of the group on the target."""
    values = columns(facts, verdict)
    values[COLUMNS.index("TARGET GROUP STATE")] = UNKNOWN_STATE
    return values


def lag_to_source(facts: RowFacts) -> int | None:
    """Column 15: how far the target's position is behind the source's end, by the offset difference of the newest sync."""
    if facts.target_offset is None or facts.sync is None or facts.source_ends is None:
        return None
    difference = facts.sync.upstream_offset - facts.sync.downstream_offset
    return facts.source_ends.end - (facts.target_offset + difference)


def sort_key(facts: RowFacts) -> tuple[str, str, int, str, str]:
    """Group, topic, partition; letter case counts only between names that are equal without it."""
    return facts.group.lower(), facts.source.topic.lower(), facts.source.partition, facts.group, facts.source.topic


def csv_line(values: Sequence[str]) -> str:
    """A row as the original writes it: commas between, nothing quoted, not even a text or a group with a comma in it."""
    return ",".join(values)


def quoted_line(values: Sequence[str]) -> str:
    """A row as RFC 4180 has it, without the line end."""
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(values)
    return out.getvalue()


def parse_csv_line(line: str) -> list[str] | None:
    """The 21 values of an unquoted row; None if it does not end in one of the seven texts.

    Texts hold commas and groups may: the text is cut off first, then the inner fields from the right, then the head.
    """
    for text in _texts():
        if line.endswith("," + text):
            inner = line[: -len(text) - 1].rsplit(",", _INNER)
            head = inner[0].split(",", _HEAD)
            return [*head, *inner[1:], text] if len(inner) == _INNER + 1 and len(head) == _HEAD + 1 else None
    return None


def _texts() -> list[str]:
    plain = [verdict.text for verdict in (*VERDICTS.values(), NO_SOURCE, NO_TARGET)]
    documented = [text.replace("because source", "because the source") for text in plain]
    assert all(verdict_of_text(text) for text in documented)
    return plain + [text for text in documented if text not in plain]


def _text(value: int | None) -> str:
    return MISSING if value is None else str(value)


def _truth(value: bool) -> str:
    return "true" if value else "false"
