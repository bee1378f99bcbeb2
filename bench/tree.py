"""The processes of one contender: their CPU time and memory, and their end."""

from __future__ import annotations

import contextlib

import psutil

__all__ = ["ProcessTree"]


class ProcessTree:
    """A process and all that it started, also what has lost its parent meanwhile."""

    def __init__(self, pid: int) -> None:
        self._root = psutil.Process(pid)
        self._known: dict[int, psutil.Process] = {pid: self._root}
        self.rss_peak = 0
        self.pss_peak = 0

    def find(self) -> None:
        """Looks for new members."""
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in self._root.children(recursive=True):
                self._known.setdefault(process.pid, process)

    def cpu_seconds(self) -> float:
        """User and system time of all members; that of one that has ended is in its parent's account of children."""
        total = 0.0
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def weigh(self, *, with_pss: bool) -> None:
        """Adds up the memory of all members and keeps the peaks; PSS shares common pages out among their users."""
        rss = pss = 0
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                rss += process.memory_info().rss
                if with_pss:
                    pss += process.memory_full_info().pss
        self.rss_peak, self.pss_peak = max(self.rss_peak, rss), max(self.pss_peak, pss)

    def kill(self) -> None:
        """Ends all members at once; psutil signals no process id that was given away again."""
        self.find()
        for process in self._known.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
