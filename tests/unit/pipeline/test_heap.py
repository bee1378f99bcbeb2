import subprocess
import sys

import pytest

# In a process of its own: how memory is kept is a setting of the process.
SCRIPT = """
import sys
from sparkmirror.pipeline.heap import BUSY_BYTES, LOOK_S, FreedMemory, keep_freed_memory

def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

keep_freed_memory()
freed = FreedMemory(0.0)
before = resident()
held = [b"x" * size for size in range(100_000, 101_000)]
pinned = b"x" * 100_000  # behind them, so that the heap's end stays where it is
del held
kept = resident() - before
assert not freed.is_due(LOOK_S - 1) and freed.is_due(LOOK_S)
freed.look(BUSY_BYTES if sys.argv[1] == "busy" else BUSY_BYTES - 1, LOOK_S)
assert not freed.is_due(LOOK_S + 1) and freed.is_due(2 * LOOK_S)
print(kept, resident() - before)
"""


@pytest.mark.parametrize(("load", "is_kept"), [("busy", True), ("calm", False)])
def test_a_slot_that_has_caught_up_gives_back_what_catching_up_took(load, is_kept):
    done = subprocess.run([sys.executable, "-c", SCRIPT, load], capture_output=True, text=True, check=True)
    kept, left = map(int, done.stdout.split())
    assert kept > 90_000_000
    assert (left > 90_000_000) is is_kept
    assert is_kept or left < 10_000_000
