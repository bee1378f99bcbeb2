"""An earlier sample of a flow, small enough for a file: shows what moved since then."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkmirror.errors import ConfigError
from sparkmirror.model import TopicPartition

SAMPLES_SCHEMA = 1
SAMPLES_KEPT_MAX = 4  # per flow: enough to say how long something has held
FILE_BYTES_MAX = 256 << 20

Offsets = Mapping[TopicPartition, int]
GroupOffsets = Mapping[tuple[str, TopicPartition], int]


class BaselineUnreadable(ConfigError):
    """The file of earlier samples cannot be used."""

    code, exit_status = "BASELINE_UNREADABLE", 1


@dataclass(frozen=True, slots=True)
class Sample:
    """Ids, ends, positions and commits of a flow at one time."""

    time_ms: int
    source_ids: Mapping[str, str] = field(default_factory=dict)
    target_ids: Mapping[str, str] = field(default_factory=dict)
    source_ends: Offsets = field(default_factory=dict)
    target_ends: Offsets = field(default_factory=dict)
    next_upstream: Offsets = field(default_factory=dict)
    syncs: Offsets = field(default_factory=dict)  # newest downstream offset
    commits: GroupOffsets = field(default_factory=dict)
    target_commits: GroupOffsets = field(default_factory=dict)
    checkpoints: GroupOffsets = field(default_factory=dict)  # newest downstream offset


_OFFSETS = ("source_ends", "target_ends", "next_upstream", "syncs")
_GROUPS = ("commits", "target_commits", "checkpoints")


def load_samples(path: str) -> dict[str, tuple[Sample, ...]]:
    """Earlier samples by flow; nothing if there is no such file yet. Raises `BaselineUnreadable`."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BaselineUnreadable(f"baseline {path} cannot be read: {error}") from error
    try:
        found = json.loads(content)
        if found["schema"] != SAMPLES_SCHEMA:
            raise ValueError(f"schema {found['schema']}, expected {SAMPLES_SCHEMA}")
        return {flow: tuple(_sample(one) for one in earlier) for flow, earlier in found["flows"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BaselineUnreadable(
            f"baseline {path} is none of ours: {type(error).__name__}: {error}", hint="give another file, or remove it"
        ) from error


def save_samples(path: str, samples: Mapping[str, tuple[Sample, ...]]) -> None:
    """Writes the samples, the first and the newest few of each flow; the file is replaced as a whole."""
    flows = {flow: [_entry(one) for one in _thinned(taken)] for flow, taken in samples.items()}
    text = json.dumps({"schema": SAMPLES_SCHEMA, "flows": flows}, separators=(",", ":"))
    folder = os.path.dirname(os.path.abspath(path))
    try:
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False, encoding="utf-8") as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise BaselineUnreadable(f"baseline {path} cannot be written: {error}") from error


def _thinned(taken: tuple[Sample, ...]) -> tuple[Sample, ...]:
    return taken if len(taken) <= SAMPLES_KEPT_MAX else taken[-SAMPLES_KEPT_MAX:]


def _entry(sample: Sample) -> dict[str, Any]:
    found: dict[str, Any] = {"time_ms": sample.time_ms}
    found |= {"source_ids": dict(sample.source_ids), "target_ids": dict(sample.target_ids)}
    for name in _OFFSETS:
        found[name] = [[p.topic, p.partition, offset] for p, offset in getattr(sample, name).items()]
    for name in _GROUPS:
        found[name] = [[g, p.topic, p.partition, offset] for (g, p), offset in getattr(sample, name).items()]
    return found


def _sample(entry: Mapping[str, Any]) -> Sample:
    values: dict[str, Any] = {"time_ms": int(entry["time_ms"])}
    for name in ("source_ids", "target_ids"):
        values[name] = {str(topic): str(identity) for topic, identity in entry[name].items()}
    for name in _OFFSETS:
        values[name] = {TopicPartition(str(t), int(p)): int(offset) for t, p, offset in entry[name]}
    for name in _GROUPS:
        values[name] = {(str(g), TopicPartition(str(t), int(p))): int(offset) for g, t, p, offset in entry[name]}
    return Sample(**values)
