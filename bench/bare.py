"""The limit: a copy with bare sockets and as many processes as cores. No Spark, no ledger, no checks, no recovery.

`python -m bench.bare PLAN`, where PLAN is a JSON file: source, target, topic, remote, ends, processes. Batches are sent
as they are, one per partition and request; only the header fields that a broker refuses or would misread are set.
"""

from __future__ import annotations

import json
import multiprocessing
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c

from bench.pipe import Pipe, address_of
from sparkmirror.clusters import (
    FETCH_API,
    FETCH_BY_NAME,
    PRODUCE_API,
    PRODUCE_BY_NAME,
    FetchFrom,
    FetchLimits,
    encode_fetch,
    encode_produce,
    parse_fetch,
    parse_produce,
)

__all__ = ["Plan", "copy_all", "write_plan"]

IN_FLIGHT_MAX = 20
LIMITS = FetchLimits(wait_ms=500, bytes_min=1, bytes_max=16 << 20, partition_bytes_max=2 << 20, isolation=0)
OFFSET_AND_LENGTH = struct.Struct(">qi")
LAST_DELTA = struct.Struct(">i")
PRODUCER = struct.Struct(">qhi")
CRC = struct.Struct(">I")
CRC_AT, CRC_FROM, LAST_DELTA_AT, PRODUCER_AT, HEADER_BYTES = 17, 21, 23, 43, 61


@dataclass(frozen=True, slots=True)
class Plan:
    """What to copy from where to where."""

    source: str
    target: str
    topic: str
    remote: str
    ends: Mapping[int, int]
    processes: int


def write_plan(plan: Plan, path: Path) -> None:
    """Writes the file that `main` reads."""
    fields = {"source": plan.source, "target": plan.target, "topic": plan.topic, "remote": plan.remote}
    text = json.dumps({**fields, "ends": list(plan.ends.items()), "processes": plan.processes})
    path.write_text(text, encoding="utf-8")


def copy_all(plan: Plan) -> None:
    """Copies every partition to its end, the largest first to the process with the least to do."""
    shares: list[dict[int, int]] = [{} for _ in range(plan.processes)]
    for index, end in sorted(plan.ends.items(), key=lambda item: -item[1]):
        min(shares, key=lambda share: sum(share.values()))[index] = end
    workers = [multiprocessing.Process(target=copy_share, args=(plan, share), daemon=True) for share in shares if share]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    failed = [worker.exitcode for worker in workers if worker.exitcode]
    if failed:
        sys.exit(f"{len(failed)} of {len(workers)} processes failed")


def copy_share(plan: Plan, ends: Mapping[int, int]) -> None:
    """Copies some partitions; the next fetch is under way while the last one is produced."""
    fetching, producing = Pipe(address_of(plan.source)), Pipe(address_of(plan.target))
    positions = {index: 0 for index, end in ends.items() if end}
    _fetch(fetching, plan, positions)
    while fetching.in_flight:
        requests = _take_batches(*fetching.receive(), positions)
        positions = {index: offset for index, offset in positions.items() if offset < ends[index]}
        if positions:
            _fetch(fetching, plan, positions)
        for items in requests:
            producing.send(PRODUCE_API, PRODUCE_BY_NAME, encode_produce({plan.remote: items}))
            _take_answers(producing, IN_FLIGHT_MAX)
    _take_answers(producing, 0)


def _fetch(pipe: Pipe, plan: Plan, positions: Mapping[int, int]) -> None:
    wanted = [FetchFrom(index, offset) for index, offset in positions.items()]
    pipe.send(FETCH_API, FETCH_BY_NAME, [encode_fetch({plan.topic: wanted}, LIMITS)])


def _take_batches(frame: bytearray, at: int, positions: dict[int, int]) -> list[list[tuple[int, memoryview]]]:
    """The batches of a fetch answer as requests with at most one batch per partition; moves the positions."""
    requests: list[list[tuple[int, memoryview]]] = []
    for part in parse_fetch(frame, at, by_id=False).partitions:
        if part.error:
            sys.exit(f"fetch of partition {part.partition}: error {part.error}")
        for depth, (next_offset, batch) in enumerate(_batches(frame, part.start, part.end)):
            if depth == len(requests):
                requests.append([])
            requests[depth].append((part.partition, batch))
            positions[part.partition] = next_offset
    return requests


def _batches(frame: bytearray, at: int, end: int) -> Iterator[tuple[int, memoryview]]:
    """Each whole batch with the offset after it, made ready to be produced: base offset 0 and no producer."""
    view = memoryview(frame)
    while at + HEADER_BYTES <= end:
        offset, length = OFFSET_AND_LENGTH.unpack_from(frame, at)
        stop = at + OFFSET_AND_LENGTH.size + length
        if stop > end:
            return
        (last_delta,) = LAST_DELTA.unpack_from(frame, at + LAST_DELTA_AT)
        OFFSET_AND_LENGTH.pack_into(frame, at, 0, length)
        PRODUCER.pack_into(frame, at + PRODUCER_AT, -1, -1, -1)
        CRC.pack_into(frame, at + CRC_AT, crc32c(view[at + CRC_FROM : stop]))
        yield offset + last_delta + 1, view[at:stop]
        at = stop


def _take_answers(pipe: Pipe, in_flight_max: int) -> None:
    while pipe.in_flight > in_flight_max:
        for verdict in parse_produce(*pipe.receive(), by_id=False):
            if verdict.error:
                sys.exit(f"produce to partition {verdict.partition}: error {verdict.error} {verdict.message}")


if __name__ == "__main__":
    read = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    copy_all(Plan(**{**read, "ends": dict(read["ends"])}))
