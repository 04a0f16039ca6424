"""How good the answers are on public reports: their pasted text where it holds the decisive line, else all that was said."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import reports

from triage.explaining import Knowledge, explain_text, load_knowledge
from triage.knowledge.files import rules_root

ALL = reports.load()
#: those that rules and words were mended with
CASES = [case for case in ALL if case["used"] != "asked"]


@pytest.fixture(scope="module")
def knowledge() -> Knowledge:
    return load_knowledge(rules_root())


def verdicts(cases: list[dict[str, Any]], knowledge: Knowledge, part: str) -> Counter[str]:
    counts: Counter[str] = Counter()
    for case in cases:
        verdict = reports.verdict(explain_text(case[part], knowledge), case)
        counts[f"wrong: {case['id']}" if verdict == "wrong" else verdict] += 1
    return counts


def shares(counts: Counter[str]) -> tuple[float, float]:
    """The share that is answered, and the share of these that is right."""
    answered = counts.total() - counts["unanswered"]
    return answered / counts.total(), counts["right"] / answered


def test_pasted_errors_are_answered_in_the_right_category(knowledge: Knowledge) -> None:
    counts = verdicts([case for case in CASES if case["complete"]], knowledge, "text")
    answered, right = shares(counts)
    assert answered >= 0.85 and right >= 0.90, counts


def test_reports_that_nothing_was_mended_for_are_answered_too(knowledge: Knowledge) -> None:
    """The figures beside the corpus, for what came last: short excerpts of which some hold no error."""
    counts = verdicts([case for case in ALL if case["used"] == "asked" and case["complete"]], knowledge, "text")
    answered, right = shares(counts)
    assert answered >= 0.70 and right >= 0.80, counts


def test_what_reporters_say_hints_at_the_right_category(knowledge: Knowledge) -> None:
    """Words alone are possible at most, and less often right."""
    counts = verdicts([case for case in CASES if not case["text"]], knowledge, "prose")
    answered, right = shares(counts)
    assert answered >= 0.70 and right >= 0.80, counts


def test_words_alone_never_name_a_rule(knowledge: Knowledge) -> None:
    for case in ALL:
        if not case["text"]:
            said = explain_text(case["prose"], knowledge)
            assert said.basis in ("words", "nothing") or (said.finding and said.confidence != "confirmed"), case["id"]
