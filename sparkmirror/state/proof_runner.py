"""Runs many proofs side by side, so that what they ask of the logs goes into few requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from sparkmirror.model import TopicPartition
from sparkmirror.offsets.proof.proving import Asking
from sparkmirror.offsets.proof.values import RecordAsk, RecordRange, Side
from sparkmirror.state.record_reader import RecordReader

T = TypeVar("T")
Places = tuple[TopicPartition, TopicPartition]  # on the source and on the target


def run_all(
    askings: Sequence[tuple[Places, Asking[T]]], readers: Mapping[Side, RecordReader]
) -> list[T]:
    """What each of them comes to, in their order."""
    results: dict[int, T] = {}
    waiting: dict[int, RecordAsk] = {}
    for number, (_, asking) in enumerate(askings):
        _step(number, asking, None, waiting, results)
    while waiting:
        now, waiting = waiting, {}
        for side, reader in readers.items():
            asks = {
                number: (askings[number][0][0 if side == "source" else 1], ask)
                for number, ask in now.items()
                if ask.side == side
            }
            for number, found_range in reader.answer(asks):
                _step(number, askings[number][1], found_range, waiting, results)
    return [results[number] for number in range(len(askings))]


def _step(
    number: int, asking: Asking[T], found_range: RecordRange | None, waiting: dict[int, RecordAsk], results: dict[int, T]
) -> None:
    try:
        waiting[number] = next(asking) if found_range is None else asking.send(found_range)
    except StopIteration as end:
        results[number] = end.value
