"""The clock of this package: `now` for deadlines and ages, `wall_s` only to compare with what another machine says."""

import time

now = time.monotonic
pause = time.sleep
wall_s = time.time
