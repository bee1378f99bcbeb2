"""What becomes of freed memory: a slot keeps it for the next fetch while it has much to do, the driver gives it back."""

from __future__ import annotations

import ctypes

# glibc's mallopt. Without it some slots took 500 000 page faults and 1.4 s of system time per GB, with it 5 000; a slot
# holds no more than its bounds either way.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
SLOT_KEEPS_BYTES_MAX, SLOT_MAPS_FROM_BYTES = 256 << 20, 32 << 20
# A slot that copied less than this since its last look has caught up, and what catching up took goes back to the system:
# a thousandth of a second a minute, and nothing where copying never rests.
LOOK_S, BUSY_BYTES = 60.0, 1 << 30
# The driver reads some MB when it recovers a partition, and then none for hours. Left alone, glibc takes the first such
# block as a sign of more to come, puts the next ones into its heap, and small things behind them keep them there. What its
# threads free between things that stay is given back once a minute: traced through eleven minutes of faults, a driver used
# 0.4 MB more at the end, nearly all of it the offset map, and had used and freed 27 MB in between. And all threads have one
# heap, as they have one lock anyway: with heaps of their own, eight that had read some MB left 5 to 6 behind, with one 0.5.
DRIVER_KEEPS_BYTES_MAX, DRIVER_MAPS_FROM_BYTES = 1 << 20, 256 << 10


def keep_freed_memory() -> None:
    """For a process that copies."""
    _set(SLOT_MAPS_FROM_BYTES, SLOT_KEEPS_BYTES_MAX)


def return_freed_memory() -> None:
    """For a process that runs for months and seldom needs much; before it has threads."""
    _set(DRIVER_MAPS_FROM_BYTES, DRIVER_KEEPS_BYTES_MAX, heaps=1)


class FreedMemory:
    """What a process keeps of it over time."""

    def __init__(self, now: float) -> None:
        self._copied = 0
        self._due = now + LOOK_S
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)

    def is_due(self, now: float) -> bool:
        """Whether it is time for another look."""
        return now >= self._due

    def look(self, copied_bytes: int, now: float) -> None:
        """Gives back what is free, unless so much is copied that it is needed again at once."""
        is_busy = copied_bytes - self._copied >= BUSY_BYTES
        self._copied, self._due = copied_bytes, now + LOOK_S
        if self._trim is not None and not is_busy:
            self._trim(0)


def _set(maps_from: int, keeps: int, heaps: int = 0) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, and need none
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, maps_from)
        mallopt(M_TRIM_THRESHOLD, keeps)
        if heaps:
            mallopt(M_ARENA_MAX, heaps)
