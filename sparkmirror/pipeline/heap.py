"""What becomes of freed memory: a slot keeps it for the next fetch, the driver gives it back."""

from __future__ import annotations

import ctypes

__all__ = ["keep_freed_memory", "return_freed_memory"]

# glibc's mallopt. Without it some slots took 500 000 page faults and 1.4 s of system time per GB, with it 5 000; a slot
# holds no more than its bounds either way.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
SLOT_KEEPS_BYTES_MAX, SLOT_MAPS_FROM_BYTES = 256 << 20, 32 << 20
# The driver reads some MB when it recovers a partition, and then none for hours. Left alone, glibc takes the first such
# block as a sign of more to come, puts the next ones into its heap, and small things behind them keep them there.
DRIVER_KEEPS_BYTES_MAX, DRIVER_MAPS_FROM_BYTES = 1 << 20, 256 << 10


def keep_freed_memory() -> None:
    """For a process that copies."""
    _set(SLOT_MAPS_FROM_BYTES, SLOT_KEEPS_BYTES_MAX)


def return_freed_memory() -> None:
    """For a process that runs for months and seldom needs much."""
    _set(DRIVER_MAPS_FROM_BYTES, DRIVER_KEEPS_BYTES_MAX)


def _set(maps_from: int, keeps: int) -> None:
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, and need none
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, maps_from)
        mallopt(M_TRIM_THRESHOLD, keeps)
