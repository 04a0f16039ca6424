"""Which sites reach a rule of their own, and that none of the rules is a catch-all."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from triage.knowledge.coverage import ANSWERS, WIDE, Coverage, accepts, error_of, is_bound, measure, page
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.knowledge.match import record_of_error
from triage.knowledge.rule import RuleSet
from triage.knowledge.sites import Sites

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.fixture(scope="module")
def rules() -> RuleSet:
    return load_rules()


@pytest.fixture(scope="module")
def coverage(rules: RuleSet) -> Coverage:
    return measure(Sites.load(rules_root() / "reference" / "sites.jsonl"), rules)


def test_most_sites_about_the_program_have_a_rule_of_their_own(coverage: Coverage) -> None:
    authors = [site for site in coverage.sites if site.author]
    assert 1 - len(coverage.missing()) / len(authors) >= 0.6


def test_a_wide_rule_argues_for_itself(coverage: Coverage, rules: RuleSet) -> None:
    for code, count in coverage.widest():
        rule = rules.get(code)
        assert rule and (count <= WIDE or "width" in rule.why.lower()), f"{code} takes {count} sites"


def test_a_site_is_told_by_one_cause(coverage: Coverage) -> None:
    """Two rules that take one site are two causes for one fault, unless one explains the other."""
    of_site: dict[object, list[str]] = {}
    explained = {(one.rule.code, code) for one in coverage.accepted for code in one.rule.explains}
    for one in coverage.accepted:
        if one.rule.level == "fault":
            of_site.setdefault(one.site, []).append(one.rule.code)
    doubtful = {
        site: codes
        for site, codes in of_site.items()
        if len(codes) > 1 and not any((a, b) in explained for a in codes for b in codes)
    }
    assert len(doubtful) <= 3, doubtful


def test_what_a_rule_takes_is_mostly_of_its_stage(coverage: Coverage) -> None:
    """A family may reach into a neighbouring stage; one spread over all of them is no cause."""
    right = sum(one.site.stage == one.rule.stage for one in coverage.accepted)
    assert right / len(coverage.accepted) >= 0.85
    stages = Counter((one.rule.code, one.site.stage) for one in coverage.accepted)
    spread = Counter(code for code, _ in stages)
    assert max(spread.values()) <= 8, spread.most_common(3)


def test_a_rule_accepts_its_site_only_in_its_place(coverage: Coverage, rules: RuleSet) -> None:
    """The same words out of another file of TileLang are another site's."""
    rule = rules.get("TLG014")
    assert rule
    (site, *_) = coverage.of_rule("TLG014")
    error = error_of(site, 1)
    captures = accepts(rule, record_of_error(error, site.stage))
    assert captures and is_bound(rule, captures, error.message)
    elsewhere = error_of(type(site)(**{**vars(site), "file": "tilelang/language/loop.py"}), 1)
    assert accepts(rule, record_of_error(elsewhere, site.stage)) is None


def test_the_page_has_not_drifted(coverage: Coverage, rules: RuleSet) -> None:
    answers = json.loads(ANSWERS.read_text("utf-8"))
    assert (DOCS / "coverage.md").read_text("utf-8") == page(coverage, rules, answers), (
        "run `python -m triage.knowledge.coverage > docs/coverage.md`"
    )
