"""A blocking connection that may have many requests under way, answered in order: for bare copies, loads and probes."""

from __future__ import annotations

import select
from collections.abc import Iterable, Sequence

from sparkmirror.clusters import Address, Buffer, connect
from sparkmirror.clusters.compact import read_uvarint, skip_tags, uvarint
from sparkmirror.clusters.connection import request_head

__all__ = ["Pipe", "address_of", "list_offsets_body", "read_offsets"]

TIMEOUT_S = 60.0
SEND_BUFFERS_MAX = 512  # sendmsg takes 1024


def address_of(bootstrap: str) -> Address:
    """The one broker of a cluster of one."""
    host, _, port = bootstrap.rpartition(":")
    return Address(host, int(port))


class Pipe:
    """Sends without waiting; `receive` waits for the oldest answer that is owed."""

    def __init__(self, address: Address) -> None:
        self.sock = connect(address, alias="bench", security={}, timeout_s=TIMEOUT_S).sock
        self.sock.settimeout(TIMEOUT_S)
        self.in_flight = 0
        self._correlation = 0
        self._size = bytearray(4)

    def send(self, api: int, version: int, parts: Sequence[Buffer]) -> None:
        """Sends a request in flexible encoding, its parts unjoined."""
        self._correlation += 1
        out: list[Buffer] = [request_head(api, version, self._correlation, sum(map(len, parts))), *parts]
        self.in_flight += 1
        while out:
            sent = self.sock.sendmsg(out[:SEND_BUFFERS_MAX])
            done = 0
            while done < len(out) and sent >= len(out[done]):
                sent -= len(out[done])
                done += 1
            del out[:done]
            if sent:
                out[0] = memoryview(out[0])[sent:]

    def receive(self) -> tuple[bytearray, int]:
        """The oldest answer, and where its body begins."""
        self._fill(self._size)
        frame = bytearray(int.from_bytes(self._size, "big"))
        self._fill(frame)
        self.in_flight -= 1
        return frame, skip_tags(frame, 4)

    def ask(self, api: int, version: int, parts: Sequence[Buffer]) -> tuple[bytearray, int]:
        """One request and its answer."""
        self.send(api, version, parts)
        return self.receive()

    def has_answer(self, seconds: float) -> bool:
        """Whether bytes of an answer are there, waiting so long for them."""
        return bool(select.select([self.sock], [], [], max(seconds, 0.0))[0])

    def close(self) -> None:
        """Drops the connection."""
        self.sock.close()

    def _fill(self, buffer: bytearray) -> None:
        view, filled = memoryview(buffer), 0
        while filled < len(buffer):
            got = self.sock.recv_into(view[filled:])
            if not got:
                raise EOFError("the broker closed the connection")
            filled += got


def list_offsets_body(topic: str, partitions: Iterable[int]) -> bytes:
    """ListOffsets version 6, latest offsets: replica · isolation · topics[name · partitions[index · epoch · time]]."""
    wanted, name = list(partitions), topic.encode()
    out = [(-1).to_bytes(4, "big", signed=True), b"\0\x02", uvarint(len(name) + 1), name, uvarint(len(wanted) + 1)]
    none = (-1).to_bytes(4, "big", signed=True)
    latest = (-1).to_bytes(8, "big", signed=True)
    out += [index.to_bytes(4, "big") + none + latest + b"\0" for index in wanted]
    return b"".join(out) + b"\0\0"


def read_offsets(frame: bytearray, at: int) -> dict[int, int]:
    """Offset by partition from the answer; a partition with an error is left out."""
    topics, at = read_uvarint(frame, at + 4)
    found: dict[int, int] = {}
    for _ in range(topics - 1):
        length, at = read_uvarint(frame, at)
        partitions, at = read_uvarint(frame, at + length - 1)
        for _ in range(partitions - 1):
            index = int.from_bytes(frame[at : at + 4], "big")
            error = int.from_bytes(frame[at + 4 : at + 6], "big")
            if not error:
                found[index] = int.from_bytes(frame[at + 14 : at + 22], "big", signed=True)
            at = skip_tags(frame, at + 26)
        at = skip_tags(frame, at)
    return found
