"""Named points at which a fault test ends or holds this process. Nothing happens unless SPARKMIRROR_FAULTS arms them.

`relay.acked_no_receipt=kill@3:/some/file` kills the process (SIGKILL) when it comes to the point for the third time;
`=hold@3:/some/file` waits there until the file is gone. Either writes the file first, and does nothing where it exists:
a process that is started in place of the killed one passes. Several are separated by commas.
"""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

from sparkmirror.errors import ConfigError

# In the order in which an attempt reaches them; faults.md names them K1 to K9. `slots.silent` is the
# driver's, about to give up a slot; `request.…` are the owner's, around its answer to a request; `failover.…`
# are the command's, behind a group and behind each step; the last three belong to the transform query: two in
# a task, one in the driver, before it reads which records landed.
POINTS = (
    "attempt.opened",
    "relay.before_produce",
    "relay.sent_no_ack",
    "relay.acked_no_receipt",
    "relay.receipt_no_ack",
    "relay.before_closed",
    "record.midway",
    "record.forgotten",
    "record.written",
    "record.done",
    "groups.checkpoint_no_commit",
    "slots.silent",
    "request.taken",
    "request.before_answer",
    "request.answered",
    "failover.group_placed",
    "failover.step",
    "failback.step",
    "failback.resumed",
    "transform.intent_acked",
    "transform.batch_acked",
    "transform.log_settled",
)
HOLD_S_MAX = 120.0
_ORDER = re.compile(r"([a-z._]+)=(kill|hold)@(\d+):(.+)\Z")


class _Armed:
    """One point and what happens there."""

    def __init__(self, action: str, passes: int, file: str) -> None:
        self._action, self._left, self._file = action, passes, Path(file)

    def reached(self) -> None:
        """Counts the pass; acts on the last one."""
        self._left -= 1
        if self._left != 0:
            return
        try:
            with self._file.open("x", encoding="utf-8") as marker:
                marker.write(str(os.getpid()))
        except FileExistsError:
            return
        if self._action == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        deadline = time.monotonic() + HOLD_S_MAX
        while self._file.exists() and time.monotonic() < deadline:
            time.sleep(0.01)


def arm(text: str) -> dict[str, _Armed]:
    """The points that this text arms; a point that does not exist is an error, not a test that proves nothing."""
    armed = {}
    for order in filter(None, (part.strip() for part in text.split(","))):
        match = _ORDER.match(order)
        if match is None or match[1] not in POINTS:
            raise ConfigError(f"SPARKMIRROR_FAULTS: expected point=kill@N:FILE or point=hold@N:FILE, found {order!r}")
        armed[match[1]] = _Armed(match[2], int(match[3]), match[4])
    return armed


# Read once: on the hot path an unarmed point costs one look at an empty dict.
ARMED = arm(os.environ.get("SPARKMIRROR_FAULTS", ""))


def point(name: str) -> None:
    """This place was reached."""
    armed = ARMED.get(name)
    if armed is not None:
        armed.reached()
