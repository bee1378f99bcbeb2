"""Machine-readable rows: the original's CSV, the same with more columns, and JSON. Rows are written as they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TextIO

from sparkmirror.cli.inspect.actions import action_of
from sparkmirror.cli.text import printable
from sparkmirror.diagnose.findings import Severity
from sparkmirror.diagnose.inspector_rows import COLUMNS, HEADER, columns, csv_line, quoted_line, strict_columns
from sparkmirror.examination import FlowTally, InspectedFlow, InspectedRow
from sparkmirror.offsets.proof import Proof
from sparkmirror.state import Notes

SCHEMA = 1  # of the JSON; raised when a field is removed or changes its meaning, not when a field is added

EXTRA_COLUMNS = (
    "TARGET TOPIC", "CHECKPOINT UPSTREAM OFFSET", "CHECKPOINT DOWNSTREAM OFFSET", "CHECKPOINT TIME MS",
    "NEXT UPSTREAM OFFSET TO COPY", "PROOF", "PROOF RECORDS", "PROOF CERTAINTY", "PROOF BASIS", "PROOF REASON", "SEVERITY",
    "CAUSE", "CHECK", "DETAIL", "WHAT TO DO", "READ AT MS",
)  # fmt: skip


def is_listed(row: InspectedRow, *, includes_ok: bool, knows_more: bool) -> bool:
    """Whether to print a row: every row that is not OK; with extra columns also a row that the original wrongly calls OK."""
    worse = knows_more and row.finding is not None and row.finding.severity >= Severity.WARNING
    return includes_ok or not row.verdict.is_ok or worse


class CsvForm:
    """Exactly the original: header, 21 columns, nothing quoted."""

    def __init__(self, out: TextIO, *, is_strict: bool) -> None:
        self._out, self._is_strict = out, is_strict

    def begin(self, path: str) -> None:
        """The header."""
        self._out.write(HEADER + "\n")

    def row(self, row: InspectedRow) -> None:
        """One line."""
        values = (strict_columns if self._is_strict else columns)(row.facts, row.verdict)
        self._out.write(csv_line([printable(value) for value in values]) + "\n")

    def end(self, reports: list[tuple[InspectedFlow, Notes]], status: int) -> None:
        """Nothing follows."""


class ExtendedCsvForm:
    """The 21 columns and the extra ones, quoted as in RFC 4180."""

    def __init__(self, out: TextIO, path: str) -> None:
        self._out, self._path = out, path
        self._has_header = False

    def begin(self, path: str) -> None:
        """The header, once."""
        if not self._has_header:
            self._out.write(quoted_line([*COLUMNS, *EXTRA_COLUMNS]) + "\n")
            self._has_header = True

    def row(self, row: InspectedRow) -> None:
        """One line."""
        values = [*columns(row.facts, row.verdict), *_extra_values(row, self._path)]
        self._out.write(quoted_line([printable(value) for value in values]) + "\n")

    def end(self, reports: list[tuple[InspectedFlow, Notes]], status: int) -> None:
        """Nothing follows."""


class JsonForm:
    """One document; rows are written as they arrive, then flows and notes."""

    def __init__(self, out: TextIO, path: str) -> None:
        self._out, self._path = out, path
        self._is_first = True

    def begin(self, path: str) -> None:
        """Everything before the rows."""
        self._out.write(f'{{"schema": {SCHEMA}, "path": {json.dumps(path)}, "rows": [')
        self._is_first = True

    def row(self, row: InspectedRow) -> None:
        """One value, on a line of its own."""
        self._out.write(("\n" if self._is_first else ",\n") + json.dumps(row_value(row, self._path)))
        self._is_first = False

    def end(self, reports: list[tuple[InspectedFlow, Notes]], status: int) -> None:
        """Everything after the rows."""
        flows = [_flow_value(report, notes) for report, notes in reports]
        complete = all(report.is_complete for report, _ in reports)
        rest = json.dumps({"flows": flows, "complete": complete, "status": status})
        self._out.write(f"\n], {rest[1:]}\n")


def _extra_values(row: InspectedRow, path: str) -> Iterator[str]:
    facts, proof, found, checkpoint = row.facts, row.proof, row.finding, row.facts.checkpoint
    yield facts.target.topic
    yield _text(None if checkpoint is None else checkpoint.upstream_offset)
    yield _text(None if checkpoint is None else checkpoint.downstream_offset)
    yield _text(facts.checkpoint_time_ms)
    yield _text(None if row.copy is None else row.copy.next_upstream_offset)
    yield "-" if proof is None else proof.result
    yield _text(None if proof is None else proof.records)
    yield "-" if proof is None else "proven" if proof.is_certain else "likely"
    yield "-" if proof is None else proof.basis
    yield "" if proof is None else proof.reason
    yield "-" if found is None else found.severity.name.lower()
    yield "-" if found is None else found.cause.id
    yield "-" if found is None else found.cause.check or "-"
    yield "" if found is None else found.detail
    yield "" if found is None else action_of(row, path)
    yield str(facts.read_at_ms)


def row_value(row: InspectedRow, path: str) -> dict[str, Any]:
    """A row as JSON values."""
    facts, found = row.facts, row.finding
    return {
        "flow": facts.flow,
        "group": facts.group,
        "source": {
            **_place_value(facts.source),
            "earliest": None if facts.source_ends is None else facts.source_ends.first,
            "latest": None if facts.source_ends is None else facts.source_ends.end,
            "group_state": facts.source_state or None,
            "offset": facts.source_offset,
        },
        "target": {
            **_place_value(facts.target),
            "earliest": None if facts.target_ends is None else facts.target_ends.first,
            "latest": None if facts.target_ends is None else facts.target_ends.end,
            "group_state": facts.target_state or None,
            "offset": facts.target_offset,
        },
        "sync": None
        if facts.sync is None
        else {"upstream": facts.sync.upstream_offset, "downstream": facts.sync.downstream_offset},
        "checkpoint": None
        if facts.checkpoint is None
        else {
            "upstream": facts.checkpoint.upstream_offset,
            "downstream": facts.checkpoint.downstream_offset,
            "time_ms": facts.checkpoint_time_ms,
        },
        "copied_to": None if row.copy is None else asdict(row.copy),
        "verdict": {
            "number": row.verdict.number or None,
            "ok": row.verdict.is_ok if row.verdict.is_known else None,
            "blocking": row.verdict.blocking or None,
            "message": row.verdict.text,
        },
        "proof": _proof_value(row.proof),
        "finding": None
        if found is None
        else {
            "cause": found.cause.id,
            "check": found.cause.check or None,
            "severity": found.severity.name.lower(),
            "certainty": found.certainty.value,
            "title": found.cause.title,
            "means": found.cause.means,
            "detail": found.detail,
            "also": [one.cause.check for one in found.also],
            "action": action_of(row, path),
        },
        "read_at_ms": facts.read_at_ms,
    }


def _place_value(place: Any) -> dict[str, Any]:
    return {"topic": place.topic, "partition": place.partition}


def _proof_value(proof: Proof | None) -> dict[str, Any] | None:
    if proof is None:
        return None
    return {
        "result": proof.result,
        "records": proof.records,
        "records_min": proof.records if proof.records_min is None else proof.records_min,
        "counted": proof.is_counted,
        "certain": proof.is_certain,
        "basis": proof.basis,
        "reason": proof.reason,
        "upstream": proof.upstream,
        "downstream": proof.downstream,
    }


def _flow_value(report: InspectedFlow, notes: Notes) -> dict[str, Any]:
    tally = report.tally
    return {
        "flow": report.flow,
        "skipped": report.skipped or None,
        "complete": report.is_complete,
        "standing": None if report.health is None else asdict(report.health),
        "positions": tally.positions,
        "results": dict(tally.results),
        "verdicts": {str(number): count for number, count in sorted(tally.verdicts.items())},
        "failover": _failover_value(tally),
        "causes": [
            {
                "cause": cause.cause.id,
                "check": cause.cause.check or None,
                "severity": cause.severity.name.lower(),
                "title": cause.cause.title,
                "rows": cause.rows,
                "groups": cause.groups,
                "records": cause.records,
            }
            for cause in tally.causes
        ],
        "notes": [note.fields() for note in notes],
        "notes_left_out": notes.left_out,
    }


def _failover_value(tally: FlowTally) -> dict[str, Any]:
    return {
        "records_again": tally.again,
        "records_skipped": tally.skipped,
        "positions_unknown": tally.unknown,
        "groups": [asdict(cost) for cost in tally.costs],
    }


def _text(value: int | None) -> str:
    return "-" if value is None else str(value)
