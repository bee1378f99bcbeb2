"""A proxy before one broker that reads Kafka's frames, so that a fault can say which request it hits, and where.

It reads the length, API key and correlation id of every frame, in both directions. A `Fault` names an API and a place
(the request before it is forwarded, the answer before its first byte, the answer at byte n) and what happens there: the
connection is cut (FIN or RST), the frame is held until released, delayed, slowed down, or one bit of it is flipped. A whole
link, or all of them, can be clogged: nothing passes then, and nothing tells the two ends. Which byte and which bit, unless
said, come from the seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any

__all__ = ["Api", "Armed", "Do", "Fault", "Link", "Proxy", "is_data"]

QUEUE_FRAMES_MAX = 1000
CHUNK_BYTES = 4096
FRAME_BYTES_MAX = 256 << 20
EVER = 1 << 62
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Api(IntEnum):
    """The requests that faults name; any other API key is a plain number."""

    PRODUCE = 0
    FETCH = 1
    METADATA = 3


class Do(Enum):
    """What happens to the frame. HOLD waits for `Armed.release`; DELAY and RATE take `amount` (seconds, bytes a second)."""

    FIN = "fin"
    RST = "rst"
    HOLD = "hold"
    DELAY = "delay"
    RATE = "rate"
    FLIP = "flip"


def is_data(frame: bytes) -> bool:
    """Whether a Produce or Fetch is of copied topics, not of the internal ones, which go by name."""
    return b".internal" not in frame


@dataclass(frozen=True)
class Fault:
    """`at` is a byte of the answer (0: it is forwarded and answered, and nobody hears of it), None: by the seed.

    With `before` the request is hit before the broker sees it, and `at` is a byte of the request.
    """

    api: int | None
    do: Do
    at: int | None = 0
    before: bool = False
    amount: float = 0.0
    skip: int = 0  # so many that match pass unharmed
    times: int = 1
    of: Callable[[bytes], bool] = lambda request: True


class Armed:
    """A fault that waits for its frame, or has struck."""

    def __init__(self, fault: Fault, loop: asyncio.AbstractEventLoop) -> None:
        self.fault, self.hits, self.released = fault, 0, asyncio.Event()
        self.links: list[Link] = []  # those that were hit
        self._seen, self._loop = 0, loop

    def release(self) -> None:
        """Lets everything go that is held, and strikes no more."""
        self.disarm()
        self._loop.call_soon_threadsafe(self.released.set)

    def disarm(self) -> None:
        """Strikes no more; what is held stays held."""
        self._seen = EVER

    def await_hits(self, hits: int = 1, seconds: float = 60.0) -> None:
        """Waits until so many frames were hit."""
        deadline = time.monotonic() + seconds
        while self.hits < hits:
            assert time.monotonic() < deadline, f"{self.fault} hit {self.hits} of {hits} within {seconds:g} s"
            time.sleep(0.01)

    def takes(self, request: bytes, link: Link, *, before: bool) -> bool:
        """Whether it strikes here; counts."""
        fault = self.fault
        if fault.before != before or fault.api not in (None, api_of(request)) or not fault.of(request):
            return False
        self._seen += 1
        is_hit = fault.skip < self._seen <= min(fault.skip + fault.times, EVER)
        self.links += [link] * is_hit
        self.hits += is_hit
        return is_hit


def api_of(request: bytes) -> int:
    """The API key; the correlation id stands in bytes 8 to 11, and in bytes 4 to 7 of an answer."""
    return int.from_bytes(request[4:6], "big")


class Proxy:
    """Listens on a port of its own for one broker, on a thread of its own."""

    def __init__(self, broker_port: int, *, seed: object = 0) -> None:
        self.rng = random.Random(str(seed))
        self.latency_s = 0.0  # added to every frame, each way; frames in flight wait side by side
        self.bytes_per_s = 0.0  # of all links together, each way; 0: unlimited
        self.links: list[Link] = []
        self.armed: list[Armed] = []
        self.is_clogged = False
        self.free_at = {False: 0.0, True: 0.0}  # when the line is free again, to the broker and to clients
        self._broker_port = broker_port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def arm(self, fault: Fault) -> Armed:
        """The fault strikes from now on."""
        self.armed.append(Armed(fault, self._loop))
        return self.armed[-1]

    def clog(self, *links: Link) -> None:
        """Nothing passes these links any more; without links none at all, also new ones, which are accepted."""
        self.is_clogged = self.is_clogged or not links
        for link in links or list(self.links):
            self._loop.call_soon_threadsafe(link.passing.clear)

    def unclog(self, *links: Link) -> None:
        """Everything passes again, also what was on its way."""
        self.is_clogged = self.is_clogged and bool(links)
        for link in links or list(self.links):
            self._loop.call_soon_threadsafe(link.passing.set)

    def cut(self, *links: Link) -> None:
        """These links end with RST; without links all of them."""
        for link in links or list(self.links):
            self._loop.call_soon_threadsafe(link.abort)

    def close(self) -> None:
        """Ends every link and the thread."""
        if self._thread.is_alive():
            self.cut()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _serve(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._accept, sock=self._listening))
        self._loop.run_forever()
        server.close()
        self._loop.run_until_complete(_cancel_others())
        self._loop.close()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            broker = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            writer.transport.abort()
            return
        link = Link(self, (reader, writer), broker)
        self.links.append(link)
        try:
            await link.serve()
        finally:
            self.links.remove(link)
            link.abort()


class Link:
    """One connection of a client, and the one to the broker behind it."""

    def __init__(self, proxy: Proxy, client: Stream, broker: Stream) -> None:
        self.passing = asyncio.Event()
        if not proxy.is_clogged:
            self.passing.set()
        self.owed: deque[bytes] = deque()  # requests that were forwarded and whose answers the client does not have
        self._proxy, self._client, self._broker = proxy, client, broker
        self._is_cut = False

    async def serve(self) -> None:
        """Until both ends are gone. What a dead client had sent is still forwarded."""
        answers = asyncio.ensure_future(self._pump(self._broker[0], self._answer))
        answers.add_done_callback(lambda _: self._is_cut or self._client[1].close())
        await self._pump(self._client[0], self._forward)
        while self.owed and not answers.done():
            await asyncio.sleep(0.01)
        self._broker[1].transport.abort()
        await answers

    def abort(self) -> None:
        """Both ends at once, with RST."""
        self._is_cut = True
        for _, writer in (self._client, self._broker):
            _reset(writer)

    async def _pump(self, reader: asyncio.StreamReader, deliver: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        """Reads frames and delivers them in order, each when it is due."""
        queue: asyncio.Queue[tuple[float, bytes] | None] = asyncio.Queue(QUEUE_FRAMES_MAX)

        async def read() -> None:
            with contextlib.suppress(OSError, EOFError):
                while True:
                    frame = await _frame(reader)
                    await queue.put((time.monotonic() + self._proxy.latency_s, frame))
            await queue.put(None)

        reading = asyncio.ensure_future(read())
        # A cut link is read on, so that bytes left unread do not turn a FIN into a RST.
        while (item := await queue.get()) is not None:
            await asyncio.sleep(max(item[0] - time.monotonic(), 0.0))
            await self.passing.wait()
            if not self._is_cut:
                with contextlib.suppress(OSError):  # one end is gone; the other one is served on
                    await deliver(item[1])
        await reading

    async def _forward(self, frame: bytes) -> None:
        self.owed.append(frame)
        rest = await self._strike(frame, frame, to_client=False)
        await self._write(rest, to_client=False)

    async def _answer(self, frame: bytes) -> None:
        request = self.owed[0]
        assert frame[4:8] == request[8:12], "answers come in the order of their requests"
        try:
            rest = await self._strike(request, frame, to_client=True)
            await self._write(rest, to_client=True)
        finally:
            if self.owed:
                self.owed.popleft()

    async def _strike(self, request: bytes, frame: bytes, *, to_client: bool) -> bytes:
        """Does to the frame what is armed for it; returns what is left to be written."""
        armed = next((one for one in list(self._proxy.armed) if one.takes(request, self, before=not to_client)), None)
        if armed is None:
            return frame
        fault, rng = armed.fault, self._proxy.rng
        at = rng.randrange(1, len(frame)) if fault.at is None else min(fault.at, len(frame))
        if fault.do is Do.FLIP:
            at = min(max(at, 4), len(frame) - 1)  # a false length would be no flipped byte but another stream
            return frame[:at] + bytes([frame[at] ^ 1 << rng.randrange(8)]) + frame[at + 1 :]
        await self._write(frame[:at], to_client=to_client)
        match fault.do:
            case Do.HOLD:
                await armed.released.wait()
                await self.passing.wait()
            case Do.DELAY:
                await asyncio.sleep(fault.amount)
            case Do.RATE:
                for start in range(at, len(frame), CHUNK_BYTES):
                    chunk = frame[start : start + CHUNK_BYTES]
                    await asyncio.sleep(len(chunk) / fault.amount)
                    await self._write(chunk, to_client=to_client)
                return b""
            case _:
                self._cut(fault.do)
                return b""
        return frame[at:]

    def _cut(self, how: Do) -> None:
        self._is_cut = True
        self.owed.clear()
        if how is Do.FIN:
            self._client[1].write_eof()
        else:
            _reset(self._client[1])

    async def _write(self, data: bytes, *, to_client: bool) -> None:
        writer = (self._client if to_client else self._broker)[1]
        rate, free_at = self._proxy.bytes_per_s, self._proxy.free_at
        step = CHUNK_BYTES if rate else max(len(data), 1)
        for chunk in (data[start : start + step] for start in range(0, len(data), step)):
            if rate:
                free_at[to_client] = max(free_at[to_client], time.monotonic()) + len(chunk) / rate
                await asyncio.sleep(free_at[to_client] - time.monotonic())
            writer.write(chunk)
            await writer.drain()


def _reset(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        linger = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def _cancel_others() -> None:
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _frame(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readexactly(4)
    if (size := int.from_bytes(head, "big")) > FRAME_BYTES_MAX:
        raise EOFError(f"a frame of {size} bytes")
    return head + await reader.readexactly(size)
