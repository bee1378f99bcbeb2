"""Record batches as kafka-dump-log sees them in the segment files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from sparkmirror.local.tools import dump_log

__all__ = ["JudgeBatch", "batches", "parse_batches"]


class JudgeBatch(NamedTuple):
    """One batch in a log; sequences and producer are -1 where there is none."""

    base_offset: int
    last_offset: int
    count: int
    base_sequence: int
    last_sequence: int
    producer_id: int
    producer_epoch: int
    leader_epoch: int
    is_transactional: bool
    is_control: bool
    position: int
    timestamp_type: str
    timestamp: int
    size: int
    magic: int
    codec: str
    crc: int
    is_valid: bool


_LINE = re.compile(
    r"^baseOffset: (-?\d+) lastOffset: (-?\d+) count: (-?\d+) baseSequence: (-?\d+) lastSequence: (-?\d+) "
    r"producerId: (-?\d+) producerEpoch: (-?\d+) partitionLeaderEpoch: (-?\d+) isTransactional: (\w+) "
    r"isControl: (\w+) deleteHorizonMs: \S+ position: (\d+) (\w+): (-?\d+) size: (\d+) magic: (\d+) "
    r"compresscodec: (\w+) crc: (\d+) isvalid: (\w+)",
    re.MULTILINE,
)


def batches(log_dir: Path, topic: str, partition: int) -> list[JudgeBatch]:
    """All batches of one partition in a broker's data folder, in the order of the log."""
    segments = sorted((log_dir / f"{topic}-{partition}").glob("*.log"))
    if not segments:
        raise AssertionError(f"no segment of {topic}-{partition} in {log_dir}")
    return parse_batches(dump_log(segments))


def parse_batches(text: str) -> list[JudgeBatch]:
    """The batches in kafka-dump-log's output; a batch line that cannot be read is an error, not skipped."""
    found = [_batch(match) for match in _LINE.finditer(text)]
    lines = sum(line.startswith("baseOffset:") for line in text.splitlines())
    if len(found) != lines:
        raise AssertionError(f"kafka-dump-log printed {lines} batches, {len(found)} could be read")
    return found


def _batch(match: re.Match[str]) -> JudgeBatch:
    words = match.groups()
    numbers = [int(word) for word in words[:8]]
    facts = [words[8] == "true", words[9] == "true"]
    rest = [int(words[10]), words[11], int(words[12]), int(words[13]), int(words[14])]
    return JudgeBatch(*numbers, *facts, *rest, words[15].lower(), int(words[16]), words[17] == "true")  # type: ignore[arg-type]  # the order of the fields is the order of the line
