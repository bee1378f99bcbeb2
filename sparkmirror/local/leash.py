"""Runs a command that the kernel kills when its parent dies: `leash.py PARENT_PID COMMAND...`.

It is a program of its own and not `preexec_fn`, because Python 3.12 warns of that in a process with threads, and
rightly: code between fork and exec can deadlock. The death signal survives exec, and the process id stays the same.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # linux/prctl.h

def follow_parent_into_death(parent: int) -> None:
    """Lets the kernel kill this process when its parent dies."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the line above: then no signal will ever come.
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    follow_parent_into_death(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
