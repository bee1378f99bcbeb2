"""From the words that views use to what the page looks like: six tones, each with a sign of its own. Pure.

| tone    | means                                           |
|---------|-------------------------------------------------|
| good    | it copies, or it is ready                       |
| idle    | somebody wants it to rest, or it is done        |
| busy    | it is about to copy                             |
| warn    | it copies in part, or it waits; never green     |
| bad     | it does not copy until somebody acts            |
| unknown | nobody knows; not the same as well              |
"""

from __future__ import annotations

_TONES = {
    "running": "good", "copying": "good", "ready": "good", "yes": "good", "exact": "good",
    "standby": "idle", "closed": "idle", "paused": "idle", "released": "idle", "failed over": "idle", "info": "idle",
    "starting": "busy", "taking ownership": "busy", "opening": "busy", "recovering": "busy", "stopping": "busy",
    "waiting": "warn", "degraded": "warn", "at risk": "warn", "warning": "warn", "partly": "warn",
    "stopped": "bad", "failed": "bad", "no": "bad", "error": "bad",
}  # fmt: skip
_SIGNS = {"good": "✓", "idle": "–", "busy": "◔", "warn": "▲", "bad": "✕", "unknown": "?"}


def tone_of(word: str) -> str:
    """The tone of a state; a word that is not listed is shown as unknown, not as well."""
    return _TONES.get(word, "unknown")


def sign_of(tone: str) -> str:
    """What tells the tones apart without colours."""
    return _SIGNS[tone]
