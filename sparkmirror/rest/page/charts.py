"""Lines over time as SVG that needs no style of its own: the page's sheet colours it, both themes alike. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from sparkmirror.rest.page.samples import SAMPLE_MS, FlowSample
from sparkmirror.status.words import amount, duration, megabytes

WIDTH, HEIGHT = 320, 72
POINTS_MAX = 160  # more do not show at this width
SPANS_MS = (300_000, 900_000, 1_800_000, 3_600_000)
BROKEN_MS = 4 * SAMPLE_MS  # without a sample for so long, the line has a gap


@dataclass(frozen=True, slots=True)
class LineChart:
    """One figure. `line` and `area` are SVG paths; the words say the same to who does not see it."""

    title: str
    now: str
    highest: str
    line: str
    area: str
    span: str
    label: str


def _seconds(value: float) -> str:
    return f"{value * 1000:,.0f} ms" if value < 1 else f"{value:.1f} s" if value < 10 else duration(value)


def _rate(value: float) -> str:
    return f"{value:,.1f}/s" if 0 < value < 10 else f"{amount(value)}/s"


FIGURES: tuple[tuple[str, Callable[[FlowSample], float | None], Callable[[float], str]], ...] = (
    ("Records copied", lambda sample: sample.records_per_s, _rate),
    ("Bytes copied", lambda sample: sample.bytes_per_s, lambda value: f"{megabytes(value)}/s"),
    ("Lag in records", lambda sample: sample.lag, amount),
    ("Oldest not copied", lambda sample: sample.lag_s, _seconds),
    ("Replication latency", lambda sample: sample.latency_s, _seconds),
)


def charts(samples: Sequence[FlowSample], now_ms: int) -> list[LineChart]:
    """Every figure over the same time, which grows from minutes to the hour as samples come."""
    past_ms = now_ms - samples[0].at_ms if samples else 0
    span_ms = next((span for span in SPANS_MS if past_ms <= span), SPANS_MS[-1])
    return [_chart(title, value_of, words, samples, now_ms, span_ms) for title, value_of, words in FIGURES]


def _chart(
    title: str, value_of: Callable[[FlowSample], float | None], words: Callable[[float], str],
    samples: Sequence[FlowSample], now_ms: int, span_ms: int,
) -> LineChart:  # fmt: skip
    points = [(sample.at_ms, value_of(sample)) for sample in samples if sample.at_ms >= now_ms - span_ms]
    known = [value for _, value in points if value is not None]
    top = max(known, default=0.0)
    newest = points[-1][1] if points else None
    now = "?" if newest is None else words(newest)
    span = duration(span_ms / 1000).removesuffix(" 0 s").removesuffix(" 0 min")
    label = f"{title}: now {now}, highest {words(top) if known else '?'} in the last {span}"
    pieces = _pieces(_thinned(points), now_ms, span_ms, top)
    return LineChart(
        title, now, words(top) if known else "?", " ".join(_line(piece) for piece in pieces),
        " ".join(_area(piece) for piece in pieces), span, label,
    )  # fmt: skip


def _thinned(points: Sequence[tuple[int, float | None]]) -> list[tuple[int, float | None]]:
    """The highest of every few, so that a short peak is still seen; what is not known stays a gap."""
    step = math.ceil(len(points) / POINTS_MAX) or 1
    found: list[tuple[int, float | None]] = []
    for at in range(0, len(points), step):
        part = points[at : at + step]
        values = [value for _, value in part if value is not None]
        found.append((part[-1][0], max(values) if values else None))
    return found


def _pieces(
    points: Sequence[tuple[int, float | None]], now_ms: int, span_ms: int, top: float
) -> list[list[tuple[float, float]]]:
    """Where the line is drawn; it is broken where nothing was known."""
    pieces: list[list[tuple[float, float]]] = [[]]
    before_ms, broken_ms = 0, max(BROKEN_MS, 2 * (points[-1][0] - points[0][0]) // max(len(points) - 1, 1)) if points else 0
    for at_ms, value in points:
        if pieces[-1] and (value is None or at_ms - before_ms > broken_ms):
            pieces.append([])
        if value is not None:
            x = WIDTH * (1 - (now_ms - at_ms) / span_ms)
            pieces[-1].append((round(max(x, 0.0), 1), round(HEIGHT - 2 - (HEIGHT - 6) * (value / top if top else 0.0), 1)))
        before_ms = at_ms
    return [piece for piece in pieces if piece]


def _line(piece: Sequence[tuple[float, float]]) -> str:
    if len(piece) == 1:
        x, y = piece[0]
        return f"M{x - 1:g} {y:g}H{x:g}"
    return "M" + "L".join(f"{x:g} {y:g}" for x, y in piece)


def _area(piece: Sequence[tuple[float, float]]) -> str:
    return f"M{piece[0][0]:g} {HEIGHT}L" + "L".join(f"{x:g} {y:g}" for x, y in piece) + f"L{piece[-1][0]:g} {HEIGHT}Z"
