import subprocess
import sys

import pytest

# In a process of its own: how memory is kept is a setting of the process.
SCRIPT = """
import sys
from sparkmirror.slot.heap import BUSY_BYTES, LOOK_S, FreedMemory, keep_freed_memory

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


THREADS = """
import random
from concurrent.futures import ThreadPoolExecutor
from sparkmirror.slot.heap import FreedMemory, return_freed_memory

def resident():
    with open("/proc/self/statm") as told:
        return int(told.read().split()[1]) * 4096

def read(number):
    some = random.Random(number)
    for _ in range(20):
        records = [bytes(some.randrange(600, 12_000)) for _ in range(250)]
        copies = [record[:-1] for record in records]
    return b"x" * 700

return_freed_memory()
freed, kept, before = FreedMemory(0.0), [], resident()
for _ in range(8):
    with ThreadPoolExecutor(8) as pool:
        kept += pool.map(read, range(12))
    freed.look(0, 0.0)
print(resident() - before)
"""


def test_what_threads_of_a_driver_read_and_freed_is_given_back():
    done = subprocess.run([sys.executable, "-c", THREADS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2_500_000
