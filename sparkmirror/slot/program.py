"""Which program this is, so that a driver and its tasks can tell whether they are the same."""

from __future__ import annotations

import functools
import hashlib
import platform
import socket
import sys
from pathlib import Path

import sparkmirror

PACKAGE = Path(sparkmirror.__file__).parent


@functools.cache
def program() -> str:
    """Version and content of this package."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        found.update(path.relative_to(PACKAGE).as_posix().encode() + b"\0" + path.read_bytes())
    return f"sparkmirror {sparkmirror.__version__} ({found.hexdigest()[:12]})"


def here() -> str:
    """Where this is, for an error that somebody reads on another machine."""
    return f"{socket.gethostname()}: Python {platform.python_version()} at {sys.executable}, sparkmirror at {PACKAGE}"
