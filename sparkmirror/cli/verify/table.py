"""The report of a verification as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from sparkmirror.cli.styled_lines import Line
from sparkmirror.cli.text import amount, printable
from sparkmirror.comparison import ComparedRange, Difference
from sparkmirror.verification import VerifiedFlow, VerifiedPartition, VerifyReport
from sparkmirror.verification.task import RangeOutcome

SCHEMA = 1  # of the JSON; raised when a field is removed or changes its meaning, not when a field is added
HEADINGS = ("topic", "partitions", "equal", "verified before", "differences", "lag", "explained")
SHOWN_MAX = 50  # differences in the table; the JSON has all that were kept

VERDICTS = {
    0: ("the same", "green"),
    2: ("not everything was read", "red"),
    3: ("the same, as far as it was compared", "yellow"),
    4: ("records differ", "red"),
    130: ("interrupted", "yellow"),
}


def by_topic(flow: VerifiedFlow) -> dict[str, list[VerifiedPartition]]:
    """The partitions of a flow by topic."""
    found: dict[str, list[VerifiedPartition]] = {}
    for partition in flow.partitions:
        found.setdefault(partition.plan.source.topic, []).append(partition)
    return found


def row_of(topic: str, partitions: Sequence[VerifiedPartition]) -> tuple[str, ...]:
    """One topic as the cells of a table."""
    explained: Counter[str] = Counter()
    for partition in partitions:
        explained.update({str(why): count for why, count in partition.explained.items()})
    return (
        topic,
        str(len(partitions)),
        amount(sum(p.records for p in partitions)),
        amount(sum(p.verified_before for p in partitions)),
        amount(sum(p.differences for p in partitions)),
        amount(sum(p.lag for p in partitions)),
        ", ".join(f"{amount(count)} {why}" for why, count in sorted(explained.items())) or "-",
    )


def sentence_of(flow: VerifiedFlow, partition: VerifiedPartition, found: Difference) -> str:
    """One difference in words."""
    plan, detail = partition.plan, f": {found.detail}" if found.detail else ""
    source, target = (f"at {o}" if o is not None else "no record" for o in (found.upstream, found.downstream))
    return f"{flow.name.source}: {plan.source} {source}, {flow.name.target}: {plan.target} {target}: {found.kind}{detail}"


def notes_of(flow: VerifiedFlow) -> Iterator[tuple[str, str]]:
    """What was not compared or not read: what and why."""
    for out in flow.left_out:
        yield out.topic, out.reason
    for partition in flow.partitions:
        for reason in partition.uncompared:
            yield str(partition.plan.source), reason
        if partition.plan.sampled_out:
            yield str(partition.plan.source), f"{partition.plan.sampled_out} ranges are not in the sample"
        for trouble in partition.troubles:
            yield str(partition.plan.source), trouble


def report_lines(report: VerifyReport) -> Iterator[Line]:
    """The report for people."""
    for flow in report.flows:
        yield [(f"flow {printable(str(flow.name))}", "bold")]
        if flow.partitions:
            yield from _table([HEADINGS, *(row_of(topic, found) for topic, found in by_topic(flow).items())])
        shown = [(partition, found) for partition in flow.partitions for found in partition.first]
        for partition, found in shown[:SHOWN_MAX]:
            yield [(f"  {printable(sentence_of(flow, partition, found))}", "red")]
        if flow.differences > len(shown[:SHOWN_MAX]):
            yield [(f"  {amount(flow.differences - len(shown[:SHOWN_MAX]))} more differences", "red")]
        for what, why in notes_of(flow):
            yield [(f"  {printable(what)}: {printable(why)}", "yellow")]
        if flow.trouble:
            yield [(f"  not compared: {printable(flow.trouble)}", "red")]
    words, style = VERDICTS[report.status]
    records = sum(flow.records for flow in report.flows)
    seconds = (report.ended_ms - report.began_ms) / 1000
    yield [(words, style), (f"  {amount(records)} records equal on both sides, in {seconds:.1f} s", "dim")]


def _table(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    widths = [max(len(printable(row[at])) for row in rows) for at in range(len(HEADINGS) - 1)]
    for number, row in enumerate(rows):
        cells = [printable(cell) for cell in row]
        padded = [cells[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(cells[1:-1], widths[1:], strict=True)]
        yield [("  " + "  ".join([*padded, cells[-1]]), "dim" if number == 0 else "")]


def as_json(report: VerifyReport) -> dict[str, Any]:
    """The report as JSON values."""
    return {
        "schema": SCHEMA,
        "path": report.path,
        "began_ms": report.began_ms,
        "ended_ms": report.ended_ms,
        "interrupted": report.is_interrupted,
        "status": report.status,
        "flows": [_flow_value(flow) for flow in report.flows],
    }


def _flow_value(flow: VerifiedFlow) -> dict[str, Any]:
    return {
        "flow": str(flow.name),
        "records_equal": flow.records,
        "differences": flow.differences,
        "trouble": flow.trouble or None,
        "left_out": [
            {"topic": out.topic, "reason": out.reason, "expected": out.is_expected, "lost": out.is_lost}
            for out in flow.left_out
        ],
        "partitions": [_partition_value(partition) for partition in flow.partitions],
    }


def _partition_value(partition: VerifiedPartition) -> dict[str, Any]:
    plan = partition.plan
    return {
        "source": {"topic": plan.source.topic, "partition": plan.source.partition},
        "target": {"topic": plan.target.topic, "partition": plan.target.partition},
        "records_equal": partition.records,
        "verified_before": partition.verified_before,
        "lag": partition.lag,
        "explained": {str(why): count for why, count in sorted(partition.explained.items())},
        "differences": {str(kind): count for kind, count in sorted(partition.kinds.items())},
        "first": [_difference_value(found) for found in partition.first],
        "not_compared": partition.uncompared,
        "ranges_not_sampled": plan.sampled_out,
        "troubles": partition.troubles,
        "ranges": [_range_value(one, outcome) for one, outcome in partition.outcomes],
    }


def _difference_value(found: Difference) -> dict[str, Any]:
    return {
        "kind": str(found.kind),
        "upstream_offset": found.upstream,
        "downstream_offset": found.downstream,
        "fields": list(found.fields),
        "detail": found.detail,
    }


def _range_value(one: ComparedRange, outcome: RangeOutcome) -> dict[str, Any]:
    findings = outcome.findings
    return {
        "upstream": [one.start, one.end],
        "downstream": [one.target_start, one.target_end],
        "basis": "ledger" if one.runs is not None else "contents",
        "records_equal": findings.records,
        "timestamps_not_compared": findings.timestamps_left_out,
        "differences": findings.differences,
        "digest": findings.digest or None,
        "trouble": outcome.trouble or None,
        "seconds": round(outcome.seconds, 3),
    }
