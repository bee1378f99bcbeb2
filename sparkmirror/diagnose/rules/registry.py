"""All rules in one table, and the function that applies them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from sparkmirror.diagnose.findings import Finding, Rule
from sparkmirror.diagnose.flow_positions import JudgedPosition, judged_positions
from sparkmirror.diagnose.rules import (
    contents,
    drift,
    environment,
    failover,
    groups,
    internal,
    limits,
    liveness,
    pace,
    positions,
    selection,
    tasks,
    translation,
)
from sparkmirror.state.facts import Facts, OpenQuestion, Subject

_FAMILIES = (
    selection, tasks, positions, pace, translation, groups, failover, contents, limits, drift, internal, liveness,
    environment,
)  # fmt: skip


def _order(name: str) -> tuple[str, int]:
    return {"D": "0", "C": "1"}.get(name[0], "2"), int(name[1:])


RULES: dict[str, Rule] = {
    rule.id: rule for rule in sorted((r for family in _FAMILIES for r in family.RULES), key=lambda r: _order(r.id))
}


def rule_ids(text: str) -> list[str]:
    """The named ids, with those under which they are also reported; raises `ValueError` for an unknown one."""
    found: list[str] = []
    for word in re.split(r"[,\s]+", text.strip()):
        match = re.fullmatch(r"([CDV])0*(\d+)", word.upper())
        rule = next((r for r in RULES.values() if match and _same(r.id, match)), None)
        if rule is None:
            raise ValueError(word)
        found += [rule.id, *(other for other in rule.same_as.split(", ") if other)]
    return found


def _same(name: str, match: re.Match[str]) -> bool:
    return name[0] == match[1] and int(name[1:]) == int(match[2])


def judge(facts: Facts, wanted: Collection[str] | None = None) -> Iterator[Finding | OpenQuestion]:
    """Every finding and every incomplete check of the wanted ids (None: all)."""
    positions: list[JudgedPosition] | None = None
    for rule in RULES.values():
        if (rule.check is None and rule.report is None) or (wanted is not None and not _reports(rule) & set(wanted)):
            continue
        absent = [part for part in rule.parts if part in facts.missing]
        if absent:
            for part in absent:
                missing = facts.missing[part]
                yield OpenQuestion(rule.id, facts.name, Subject(), f"{part}: {missing.reason}", missing.needs)
            continue
        found = list(rule.check(facts)) if rule.check is not None else []
        if rule.report is not None:
            positions = list(judged_positions(facts)) if positions is None else positions
            found += rule.report(facts, positions)
        yield from (one for one in found if wanted is None or one.id in wanted)


def _reports(rule: Rule) -> set[str]:
    """The ids under which a rule reports: D12's reports C14 too."""
    return {rule.id, "C14"} if rule.id == "D12" else {rule.id}
