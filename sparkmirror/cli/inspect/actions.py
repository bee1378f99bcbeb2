"""What to do about a row, as a command that can be copied: names are quoted for the shell."""

from __future__ import annotations

import re
import shlex

from sparkmirror.examination import InspectedRow

_NAME = re.compile(r"\{(file|flow|group|topic|remote)\}")


def action_of(row: InspectedRow, path: str) -> str:
    """The cause's remedy with this row's names in it; empty if there is nothing to do."""
    if row.finding is None or row.finding.cause.action == "none":
        return ""
    facts = row.facts
    names = {
        "file": path,
        "flow": facts.flow,
        "group": facts.group,
        "topic": facts.source.topic,
        "remote": facts.target.topic,
    }
    return _NAME.sub(lambda found: shlex.quote(names[found[1]]), row.finding.cause.action)
