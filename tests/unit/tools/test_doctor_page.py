"""docs/doctor.md says what the rules say."""

from __future__ import annotations

from pathlib import Path

from sparkmirror.tools.doctor.checks import RULES
from sparkmirror.tools.doctor.reference import explain, render

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def test_the_page_is_made_of_the_rules() -> None:
    told = "python -m sparkmirror.tools.doctor > docs/doctor.md writes it anew"
    assert PAGE.read_text(encoding="utf-8") == render(), told


def test_every_id_is_on_the_page_and_can_be_explained() -> None:
    page = render()
    for rule in RULES.values():
        assert f"### {rule.id}: {rule.title}" in page
        assert explain(rule)[0] == f"{rule.id}  {rule.title}"
