from __future__ import annotations

from pathlib import Path

from rule_samples import ROOT, RULE, rules_of

from triage.knowledge.catalogue import catalogue, rows, show_list
from triage.knowledge.load import load_rules
from triage.knowledge.rule import RuleSet


def test_the_page_of_rules_has_not_drifted() -> None:
    page = (ROOT.parent / "docs" / "rules.md").read_text("utf-8")
    assert page == catalogue(load_rules(ROOT)), "run: python -m triage.knowledge.catalogue > docs/rules.md"


def test_a_rule_is_a_row_and_a_line(tmp_path: Path) -> None:
    rules = rules_of(tmp_path, 'level = "advice"\n' + RULE.replace("too wide", "too | wide"))
    (row,) = rows(rules)
    assert row["code"] == "TLG901" and row["level"] == "advice" and row["on"] == "error"
    assert show_list(rules) == "TLG901  dsl  The tile is too | wide (advice)\n1 rules\n"
    assert "The tile is too \\| wide" in catalogue(rules) and "*width* wide" in catalogue(rules)
    assert show_list(RuleSet()) == "no rules\n"
