"""Writing the file that `undo` reads: whole and on the disk before the first change, and never over another file."""

from __future__ import annotations

import errno
import os
from datetime import UTC, datetime

from sparkmirror.config import FlowSettings
from sparkmirror.errors import MoveRefused
from sparkmirror.positions.snapshots import Snapshot

FILE_BYTES_MAX = 256 << 20  # a million keys and checkpoints; a larger one is a wrong path


def now_text() -> str:
    """The time as files carry it."""
    return time_text(round(datetime.now(UTC).timestamp() * 1000))


def time_text(time_ms: int) -> str:
    """A time as files carry it."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def require_new(path: str) -> None:
    """Raises MoveRefused if the file exists: it could not be written after the change."""
    if os.path.exists(path):
        raise MoveRefused(f"{path} cannot be written: {os.strerror(errno.EEXIST)}", hint="give --undo-file, a new file")


def undo_path(flow: FlowSettings, wanted: str | None) -> str:
    """The default path: beside the configuration, or in the current folder if that one is not writable."""
    if wanted is not None:
        return wanted
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    name = "".join(sign if sign.isalnum() or sign in "-_" else "_" for sign in str(flow.name).replace("->", "-to-"))
    folder = flow.folder if flow.folder and os.access(flow.folder, os.W_OK) else ""
    return os.path.join(folder, f"sparkmirror-undo-{name}-{moment}.json")


def save(path: str, snapshot: Snapshot) -> None:
    """Writes the file; raises MoveRefused if it exists or cannot be written, and then nothing must be changed."""
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(snapshot.to_json())
            file.flush()
            os.fsync(file.fileno())
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MoveRefused(f"{path} cannot be written: {reason}", hint="give --undo-file, a new file") from error


def read_text(path: str) -> str:
    """A file's text; raises MoveRefused if it cannot be read."""
    try:
        with open(path, "rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise MoveRefused(f"{path} is larger than {FILE_BYTES_MAX} bytes")
        return content.decode()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise MoveRefused(f"{path} cannot be read: {reason}", hint="give a readable file") from error
