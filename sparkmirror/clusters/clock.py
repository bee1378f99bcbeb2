"""The clock of this package: `now` for deadlines and ages, `wall_s` only to compare with what another machine says."""

from time import monotonic as now
from time import sleep as pause
from time import time as wall_s

__all__ = ["now", "pause", "wall_s"]
