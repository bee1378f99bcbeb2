"""The report of a verification as one HTML page: no script, nothing loaded, every word escaped."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from html import escape

from sparkmirror.cli.text import amount, printable
from sparkmirror.cli.verify.table import HEADINGS, VERDICTS, by_topic, notes_of, row_of
from sparkmirror.verification import VerifiedFlow, VerifyReport

STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 75em; padding: 0 1em; color: #222; }
table { border-collapse: collapse; width: 100%; margin: 1em 0; }
th, td { text-align: left; padding: .3em .7em; border-bottom: 1px solid #ddd; vertical-align: top; overflow-wrap: anywhere; }
.verdict { padding: .6em 1em; border-radius: .3em; font-weight: 600; }
.green { background: #e3f4e4; } .yellow { background: #fbf1d0; } .red { background: #fbe0de; }
"""
POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def as_html(report: VerifyReport) -> str:
    """The whole page."""
    words, style = VERDICTS[report.status]
    began, ended = (_time(ms) for ms in (report.began_ms, report.ended_ms))
    body = "".join(part for flow in report.flows for part in _flow(flow))
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">'
        f"<title>sparkmirror verify: {escape(words)}</title><style>{STYLE}</style></head><body>\n"
        f"<h1>Verification of {_text(report.path)}</h1>\n"
        f'<p class="verdict {style}">{escape(words)}</p>\n<p>Read from {began} to {ended}.</p>\n{body}</body></html>\n'
    )


def _flow(flow: VerifiedFlow) -> Iterator[str]:
    yield f"<h2>Flow {_text(str(flow.name))}</h2>\n"
    if flow.trouble:
        yield f'<p class="verdict red">Not compared: {_text(flow.trouble)}</p>\n'
    if flow.partitions:
        yield _table(HEADINGS, [row_of(topic, found) for topic, found in by_topic(flow).items()])
    if flow.differences:
        yield f"<h3>Differences: {amount(flow.differences)}</h3>\n"
        rows = [
            (
                str(partition.plan.source), _offset(found.upstream), str(partition.plan.target),
                _offset(found.downstream), str(found.kind), found.detail,
            )
            for partition in flow.partitions
            for found in partition.first
        ]  # fmt: skip
        yield _table(("source", "offset", "target", "offset", "difference", "detail"), rows)
    notes = list(notes_of(flow))
    if notes:
        yield "<h3>Not compared</h3>\n"
        yield _table(("what", "why"), notes)
    ranges = [(one, outcome) for partition in flow.partitions for one, outcome in partition.outcomes]
    if ranges:
        yield "<h3>Ranges</h3>\n"
        rows = [
            (
                str(one), str(one.target), f"{one.target_start} to {one.target_end}", amount(o.findings.records),
                amount(o.findings.differences), o.findings.digest,
            )
            for one, o in ranges
        ]  # fmt: skip
        yield _table(("source", "target", "offsets", "equal", "differences", "digest of the source"), rows)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{_text(cell)}</th>" for cell in headings)
    body = "".join("<tr>" + "".join(f"<td>{_text(cell)}</td>" for cell in row) + "</tr>\n" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table>\n"


def _offset(offset: int | None) -> str:
    return "–" if offset is None else str(offset)


def _text(text: str) -> str:
    return escape(printable(text))


def _time(time_ms: int) -> str:
    return escape(datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z"))
