"""Topics too large to hold: every record as Java reads it, kept as a digest beside the send that it says it is."""

from __future__ import annotations

import hashlib
import zlib
from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

from judge.records import JudgeRecord
from sparkmirror.local.reading import stream_records, topic_ends

__all__ = ["Digests", "digest", "gather", "java_digests", "named_send"]

DAMAGED_MAX = 10


class Digests(NamedTuple):
    """One topic: by partition the records, whose values stand for all of their bytes, and their sends; what is broken."""

    records: dict[int, list[JudgeRecord]]
    sends: dict[int, array[int]]
    damaged: list[str]


Identify = Callable[[int, JudgeRecord], int]  # raises ValueError


def java_digests(bootstrap: str, topic: str, isolation: str, identify: Identify) -> Digests:
    """A whole topic as Java's console consumer reads it now."""
    partitions = topic_ends(bootstrap, topic)
    return gather(partitions, stream_records(bootstrap, topic, isolation), identify)


def gather(partitions: Iterable[int], records: Iterable[tuple[int, JudgeRecord]], identify: Identify) -> Digests:
    found = Digests({at: [] for at in partitions}, {at: array("q") for at in partitions}, [])
    for partition, record in records:
        try:
            found.sends[partition].append(identify(partition, record))
        except ValueError as error:
            if len(found.damaged) < DAMAGED_MAX:
                found.damaged.append(f"partition {partition}, offset {record.offset}: {error}")
        found.records[partition].append(digest(record))
    return found


def digest(record: JudgeRecord) -> JudgeRecord:
    """The same record with 16 bytes in the place of value and headers."""
    whole = hashlib.blake2b(record.value or b"", digest_size=16)
    whole.update(repr((record.value is None, record.headers)).encode())
    return record._replace(value=whole.digest(), headers=())


def named_send(run: str, send_id: Callable[[int, int], int]) -> Identify:
    """Reads `run/lane/partition/number/checksum` at the head of a value, or in the header `id`, and checks it."""
    start = f"{run}/".encode()

    def identify(partition: int, record: JudgeRecord) -> int:
        value = record.value or b""
        if value.startswith(start):
            text, _, body = value.partition(b"|")
        else:
            text, body = dict(record.headers).get("id") or b"", value
        words = text.split(b"/")
        if len(words) != 5 or words[0] != start[:-1]:
            raise ValueError(f"does not say who it is: {text[:80]!r}")
        lane, place, number, checksum = int(words[1]), int(words[2]), int(words[3]), int(words[4], 16)
        if place != partition:
            raise ValueError(f"was sent to partition {place}")
        if zlib.crc32(body, zlib.crc32(record.key or b"")) != checksum:
            raise ValueError("has a false checksum")
        return send_id(lane, number)

    return identify
