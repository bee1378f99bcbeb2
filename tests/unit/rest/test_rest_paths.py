"""What waits for a cluster does so in threads, and not too many of them."""

from __future__ import annotations

import asyncio
import threading

import pytest

from sparkmirror.rest.messages import HttpAnswer, empty_answer
from sparkmirror.rest.paths import WORKING_MAX, Workers


def test_only_so_many_wait_and_the_next_one_is_told() -> None:
    release, begun = threading.Event(), threading.Semaphore(0)

    def wait() -> HttpAnswer:
        begun.release()
        assert release.wait(60)
        return empty_answer(204)

    async def ask() -> tuple[list[int], int, int]:
        workers = Workers()
        waiting = [asyncio.create_task(workers.do(wait)) for _ in range(WORKING_MAX)]
        for _ in range(WORKING_MAX):
            assert await asyncio.to_thread(begun.acquire, timeout=60)
        refused = await workers.do(lambda: empty_answer(204))
        release.set()
        done = [(await one).status for one in waiting]
        await asyncio.sleep(0)
        return done, refused.status, (await workers.do(lambda: empty_answer(202))).status

    assert asyncio.run(ask()) == ([204] * WORKING_MAX, 503, 202)


def test_what_fails_in_a_thread_is_raised_where_it_is_awaited() -> None:
    async def ask() -> None:
        await Workers().do(lambda: (_ for _ in ()).throw(ValueError("words")))  # type: ignore[arg-type]

    with pytest.raises(ValueError, match="words"):
        asyncio.run(ask())
