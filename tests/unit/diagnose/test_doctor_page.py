"""docs/doctor.md says what the rules say."""

from __future__ import annotations

from pathlib import Path

from sparkmirror.diagnose.reference import explain, render
from sparkmirror.diagnose.rules import RULES

PAGE = Path(__file__).parents[3] / "docs" / "doctor.md"


def test_the_page_is_made_of_the_rules() -> None:
    told = "python -m sparkmirror.diagnose > docs/doctor.md updates it"
    assert PAGE.read_text(encoding="utf-8") == render(), told


def test_every_id_is_on_the_page_and_can_be_explained() -> None:
    page = render()
    for rule in RULES.values():
        assert f"### {rule.id}: {rule.title}" in page
        assert explain(rule)[0] == f"{rule.id}  {rule.title}"
