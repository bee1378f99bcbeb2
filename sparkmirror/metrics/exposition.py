"""Figures as the text that Prometheus reads."""

from __future__ import annotations

import math
from collections.abc import Iterable

from sparkmirror.metrics.names import BOARD, DOMAIN, OWN, Labels, Metric

_COUNTERS = frozenset({"record-count", "byte-count"})


def series_name(metric: Metric) -> str:
    """What the usual JMX exporter, with lower-case names, makes of MirrorMaker 2's bean; ours begin with sparkmirror_."""
    if metric.type == BOARD:
        return metric.attribute
    stem = metric.type if metric.type == "sparkmirror" else f"{DOMAIN}_{metric.type}"
    return f"{stem}_{metric.attribute}".replace(".", "_").replace("-", "_").lower()


def exposition(metrics: Iterable[Metric], labels: Labels = ()) -> str:
    """Text format 0.0.4: each series' lines together, below its type, all with these labels too."""
    series: dict[str, list[Metric]] = {}
    for metric in metrics:
        series.setdefault(series_name(metric), []).append(metric)
    lines: list[str] = []
    for name, found in sorted(series.items()):
        attribute = found[0].attribute
        if attribute in OWN:
            lines.append(f"# HELP {name} {OWN[attribute]}")
        lines.append(f"# TYPE {name} {'counter' if _is_counter(attribute) else 'gauge'}")
        lines += [f"{name}{_labels((*metric.tags, *labels))} {_number(metric.value)}" for metric in found]
    return "\n".join([*lines, ""])


def _is_counter(attribute: str) -> bool:
    return attribute in _COUNTERS or attribute.endswith(("_byte", "_byte_total"))


def _labels(labels: Labels) -> str:
    pairs = ",".join(f'{name}="{_escaped(value)}"' for name, value in labels)
    return f"{{{pairs}}}" if pairs else ""


def _escaped(value: str) -> str:
    """A group id may hold anything; a line end in it would be a line of its own."""
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(value)
