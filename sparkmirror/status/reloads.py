"""What became of the configuration file since the flows were started."""

from __future__ import annotations

from dataclasses import dataclass

from sparkmirror.config import KeyChange

SHOWN_MAX = 5
KEPT = "the flow goes on as it was"


@dataclass(frozen=True, slots=True)
class ReloadResult:
    """The last look at the file: what was taken at `applied_ms`, and what of the file as it is now is not taken.

    `changed_ms` is when the file was first seen to say something else than the flows run with; −1 while it does not.
    """

    applied_ms: int = -1
    changed_ms: int = -1
    error: str = ""
    taken: tuple[KeyChange, ...] = ()
    refused: tuple[KeyChange, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether the flows run with what the file says."""
        return not self.error and not self.refused

    @property
    def trouble(self) -> str:
        """Why they do not, in one sentence; empty if they do."""
        if self.error:
            return f"{self.error}; {KEPT}"
        if not self.refused:
            return ""
        more = len(self.refused) - SHOWN_MAX
        named = "; ".join(map(str, self.refused[:SHOWN_MAX])) + (f"; and {more} more" if more > 0 else "")
        return f"not taken while the flow runs: {named}"

    @property
    def news(self) -> str:
        """What was taken, in one sentence; empty before the first change."""
        more = len(self.taken) - SHOWN_MAX
        named = "; ".join(str(change) for change in self.taken[:SHOWN_MAX])
        return f"took {named}" + (f"; and {more} more" if more > 0 else "") if named else ""


NO_RELOAD = ReloadResult()
