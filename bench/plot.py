"""The results as one SVG picture: a panel of bars per scenario, each with a scale of its own.

It has no background, and its greys keep their contrast on white as well as on black, because a page that shows the
picture does not tell it which of the two it has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from bench.acceptance import TUNED, ratio
from bench.contenders import CONTENDERS
from bench.findings import Results, ScenarioResult
from bench.latency import RECORDS_PER_S, STRAIGHT
from bench.report import LATENCY_TITLES, shown_number

__all__ = ["svg"]

COLOURS = {
    "mm2-default": "#b5835a",
    "mm2-tuned": "#e08a1e",
    "mm2-masked": "#f0b45e",
    "sparkmirror": "#2f81f7",
    "former": "#79c0ff",
    "records": "#56d364",
    "masked": "#238636",
    "bare": "#8b949e",
    STRAIGHT: "#8b949e",
}
TEXT = "#7d8590"
PANEL_WIDTH, COLUMNS, GAP = 470, 2, 20
TITLE_HEIGHT, BAR_HEIGHT, BAR_STEP, PANEL_END = 28, 16, 22, 20
NAME_WIDTH, VALUE_WIDTH = 175, 125


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: whose it is, its name, how long it is, and what stands at its end."""

    key: str
    name: str
    value: float
    label: str


@dataclass(frozen=True, slots=True)
class Panel:
    """Bars on one scale."""

    title: str
    bars: Sequence[Bar]


def svg(results: Results) -> str:
    """The picture."""
    panels = [_rates(found) for found in results.scenarios]
    panels += [panel for panel in (_cpu(results), _latency(results)) if panel is not None]
    height = TITLE_HEIGHT + max((len(panel.bars) for panel in panels), default=0) * BAR_STEP + PANEL_END
    rows = -(-len(panels) // COLUMNS)
    width, whole = PANEL_WIDTH * COLUMNS + GAP, rows * height
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{whole}" viewBox="0 0 {width} {whole}" '
        'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">',
        "<title>sparkmirror beside MirrorMaker 2 and bare sockets</title>",
    ]
    for number, panel in enumerate(panels):
        x, y = number % COLUMNS * (PANEL_WIDTH + GAP), number // COLUMNS * height
        out += [f'<g transform="translate({x} {y})">', *_drawn(panel), "</g>"]
    return "\n".join([*out, "</svg>\n"])


def _rates(found: ScenarioResult) -> Panel:
    bars = []
    for key in (key for key in CONTENDERS if key in found.rounds):
        rate, over = found.median(key).records_per_s, ratio(found, "records_per_s", key, TUNED)
        times = f" · {over:.1f}×" if over is not None and key != TUNED else ""
        bars.append(Bar(key, CONTENDERS[key].title, rate or 0.0, shown_number(rate) + times))
    return Panel(f"{found.scenario.title}: records/s", bars)


def _cpu(results: Results) -> Panel | None:
    if not results.scenarios:
        return None
    found = results.scenarios[0]
    medians = {key: found.median(key).copying_cpu_s_per_gb for key in CONTENDERS if key in found.rounds}
    bars = [Bar(key, CONTENDERS[key].title, value or 0.0, shown_number(value)) for key, value in medians.items()]
    return Panel(f"{found.scenario.title}: CPU seconds per GB (less is better)", bars)


def _latency(results: Results) -> Panel | None:
    bars = []
    for key in (key for key in LATENCY_TITLES if key in results.latency.rounds):
        median = results.latency.median(key)
        label = f"{shown_number(median.p50_ms)} / {shown_number(median.p99_ms)}"
        bars.append(Bar(key, LATENCY_TITLES[key], median.p99_ms or 0.0, label))
    return Panel(f"latency at {RECORDS_PER_S} records/s: p50 / p99 in ms (less is better)", bars) if bars else None


def _drawn(panel: Panel) -> list[str]:
    longest = max((bar.value for bar in panel.bars), default=0.0) or 1.0
    room = PANEL_WIDTH - NAME_WIDTH - VALUE_WIDTH
    out = [f'<text x="0" y="16" fill="{TEXT}" font-weight="600">{escape(panel.title)}</text>']
    for number, bar in enumerate(panel.bars):
        y, width = TITLE_HEIGHT + number * BAR_STEP, max(bar.value / longest * room, 1.0)
        weight = ' font-weight="600"' if bar.key == "sparkmirror" else ""
        middle = y + BAR_HEIGHT - 4
        style = f'y="{middle}" fill="{TEXT}"{weight}'
        size = f'width="{width:.1f}" height="{BAR_HEIGHT}" rx="2"'
        out += [
            f'<text x="{NAME_WIDTH - 8}" text-anchor="end" {style}>{escape(bar.name)}</text>',
            f'<rect x="{NAME_WIDTH}" y="{y}" {size} fill="{COLOURS[bar.key]}"/>',
            f'<text x="{NAME_WIDTH + width + 6:.1f}" {style}>{escape(bar.label)}</text>',
        ]
    return out
