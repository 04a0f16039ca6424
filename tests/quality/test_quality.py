"""How good the answers are, on labelled kernels: not that there is an answer, but that it is the right one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest
from corpus import Answer, Case, ask_all, load, share
from rewrite import REWRITES

pytestmark = pytest.mark.tilelang
pytest.importorskip("tilelang", reason="the labelled kernels need tilelang")

CASES = load()
#: one rewritten case in so many runs by default; the slow run takes all
SAMPLE = 12


def report(answers: list[Answer]) -> str:
    return "\n" + "\n".join(answer.row() for answer in answers)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    return ask_all(CASES, tmp_path_factory.mktemp("quality"))


def test_the_category_is_right(answers: list[Answer]) -> None:
    wrong = [a for a in answers if not a.right_category]
    assert share(answers, "right_category") >= 0.95, report(wrong)


def test_the_line_is_right(answers: list[Answer]) -> None:
    with_line = [a for a in answers if a.case.line]
    wrong = [a for a in with_line if not a.right_line]
    assert share(with_line, "right_line") >= 0.90, report(wrong)


def test_localized_is_true_when_it_is_said(answers: list[Answer]) -> None:
    said = [a for a in answers if a.state == "localized"]
    wrong = [a for a in said if not a.right_localized]
    assert share(said, "right_localized") >= 0.95, report(wrong)


def test_a_healthy_kernel_is_never_accused(answers: list[Answer]) -> None:
    healthy = [a for a in answers if a.case.category is None]
    assert len(healthy) >= 10
    assert [a.row() for a in healthy if a.state != "healthy" or a.status != 0] == []


def test_the_exit_status_follows_from_the_state(answers: list[Answer]) -> None:
    expected = {"healthy": 0, "localized": 1, "classified": 1, "unknown": 3}
    assert [a.row() for a in answers if a.status != expected[a.state]] == []


def rewritten() -> list[Case]:
    cases = []
    for case in CASES:
        text = case.script.files["kernel.py"]
        for name, rewrite in REWRITES.items():
            script = rewrite(text)
            if script is not None:
                cases.append(replace(case, name=f"{case.name}~{name}", script=script))
    return cases


def sampled(cases: list[Case]) -> list[Case]:
    """A stable sample: by a hash of the name, so that a new case does not change which others are taken."""
    return [c for c in cases if hashlib.sha256(c.name.encode()).digest()[0] % SAMPLE == 0]


def check_rewritten(cases: list[Case], known: dict[str, Answer], folder: Path) -> None:
    """The same rule at the moved line, for the share that the thresholds ask; nothing healthy accused."""
    again = ask_all(cases, folder)
    same = [a for a in again if a.rule == known[a.case.name.split("~")[0]].rule]
    other = [a for a in again if a not in same]
    assert len(same) >= 0.95 * len(again), report(other)
    kept = [a for a in same if known[a.case.name.split("~")[0]].right_line]
    moved = [a for a in kept if a.right_line]
    assert len(moved) >= 0.90 * len(kept), report([a for a in kept if a not in moved])
    assert [a.row() for a in again if a.case.category is None and a.accused] == []


def test_rewritten_cases_keep_rule_and_line(answers: list[Answer], tmp_path: Path) -> None:
    check_rewritten(sampled(rewritten()), {a.case.name: a for a in answers}, tmp_path)


@pytest.mark.slow
def test_all_rewritten_cases_keep_rule_and_line(answers: list[Answer], tmp_path: Path) -> None:
    check_rewritten(rewritten(), {a.case.name: a for a in answers}, tmp_path)
