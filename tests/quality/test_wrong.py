"""Wrong kernels, right ones, tolerances and references: whom `triage run` accuses, and of which line, all without a GPU."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import wrong_corpus
from wrong_corpus import Answer, ask

CASES = {case.name: case for case in wrong_corpus.load()}
#: one of each culprit, and a fault of the program that repair finds; the whole takes half an hour
SAMPLE = ("right-transpose.py", "gelu-tanh.py", "pairwise-distance.py", "row-max.py")


def test_marks_and_answers_agree() -> None:
    for case in CASES.values():
        lines = (wrong_corpus.SCRIPTS / case.name).read_text("utf-8").splitlines()
        marked = {number for number, line in enumerate(lines, 1) if re.search(r"# BUG\b", line)}
        assert marked == set(case.lines), case.name
        assert bool(case.lines) == (case.culprit != "none"), case.name


def test_the_corpus_is_as_broad_as_it_says() -> None:
    wrong = [case for case in CASES.values() if case.culprit != "none"]
    assert len(wrong) >= 40 and len(CASES) - len(wrong) >= 15
    assert len({case.family for case in wrong}) >= 10
    assert len({case.fault for case in wrong}) >= 12


def check(answer: Answer) -> None:
    """Right in whom it accuses, and never sure of a wrong line."""
    assert answer.right_culprit, answer
    if answer.state == "localized":
        assert answer.right_line, answer


@pytest.mark.parametrize("name", SAMPLE)
def test_the_culprit_is_told(tmp_path: Path, name: str) -> None:
    check(ask(CASES[name], tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(CASES) - set(SAMPLE)))
def test_the_culprit_is_told_of_all(tmp_path: Path, name: str) -> None:
    check(ask(CASES[name], tmp_path))


@pytest.mark.slow
def test_most_wrong_statements_are_found(tmp_path: Path) -> None:
    answers = [ask(case, tmp_path) for case in CASES.values() if case.culprit == "program"]
    near = [answer for answer in answers if answer.right_line or answer.among_labels]
    assert len(near) >= 0.8 * len(answers), [answer.case.name for answer in answers if answer not in near]
