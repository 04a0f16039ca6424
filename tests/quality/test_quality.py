"""How good the answers are, on labelled kernels: not that there is an answer, but that it is the right one."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from corpus import Answer, Case, ask_all, load, share
from mutate import KINDS, mutate
from rewrite import REWRITES

pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the labelled kernels need tilelang"),
]

CASES = load()
#: one faulty case in so many runs by default, one healthy, rewritten or mutated case in so many; the slow run takes all
SAMPLE, SAMPLE_HEALTHY, SAMPLE_REWRITTEN, SAMPLE_MUTATED = 45, 4, 60, 60
#: where the mistakes are made; another seed makes them in other places
SEED = 2


def sampled(cases: list[Case], one_in: int) -> list[Case]:
    """A stable sample: by a hash of the name, so that a new case does not change which others are taken."""
    return [c for c in cases if int.from_bytes(hashlib.sha256(c.name.encode()).digest()[:4]) % one_in == 0]


def report(answers: list[Answer]) -> str:
    return "\n" + "\n".join(answer.row() for answer in answers)


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.slow)])
def answers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    faulty, healthy = [c for c in CASES if c.category], [c for c in CASES if not c.category]
    some = sampled(faulty, SAMPLE) + sampled(healthy, SAMPLE_HEALTHY)
    chosen = CASES if request.param == "all" else some
    return ask_all(chosen, tmp_path_factory.mktemp("quality"))


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
    assert len(healthy) >= 5
    assert [a.row() for a in healthy if a.state != "healthy" or a.status != 0] == []


def test_the_exit_status_follows_from_the_state(answers: list[Answer]) -> None:
    expected = {"healthy": 0, "localized": 1, "classified": 1, "unknown": 3}
    assert [a.row() for a in answers if a.status != expected[a.state]] == []


def rewritten(answers: list[Answer]) -> list[Case]:
    """Every rewriting of the cases that were answered."""
    cases = []
    for case in (answer.case for answer in answers):
        for name, rewrite in REWRITES.items():
            script = rewrite(case.script.files["kernel.py"])
            if script is not None:
                cases.append(replace(case, name=f"{case.name}~{name}", script=script))
    return cases


def test_rewritten_cases_keep_rule_and_line(
    answers: list[Answer], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The same rule at the moved line, for the share that the thresholds ask; nothing healthy accused."""
    everything = request.node.callspec.params["answers"] == "all"
    cases = rewritten(answers)
    again = ask_all(cases if everything else sampled(cases, SAMPLE_REWRITTEN), tmp_path)
    known = {a.case.name: a for a in answers}
    before = {a.case.name: known[a.case.name.partition("~")[0]] for a in again}
    same = [a for a in again if a.rule == before[a.case.name].rule]
    assert len(same) >= 0.95 * len(again), report([a for a in again if a not in same])
    kept = [a for a in same if before[a.case.name].right_line]
    lost = [a for a in kept if not a.right_line]
    assert len(lost) <= 0.10 * len(kept), report(lost)
    assert [a.row() for a in again if a.case.category is None and a.accused] == []


@pytest.fixture(scope="module", params=["sample", pytest.param("all", marks=pytest.mark.slow)])
def mutated(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Answer]:
    """Healthy scripts with one mistake each."""
    cases = [
        Case(f"{case.name}~{kind}", script)
        for case in CASES
        if case.category is None and case.name.startswith("ok-")
        for kind in KINDS
        if (script := mutate(case.script.files["kernel.py"], kind, SEED)) is not None
    ]
    assert len(cases) >= 100
    chosen = cases if request.param == "all" else sampled(cases, SAMPLE_MUTATED)
    return ask_all(chosen, tmp_path_factory.mktemp("mutated"))


def test_a_mistake_made_in_a_healthy_script_is_found(mutated: list[Answer]) -> None:
    wrong = [a for a in mutated if not a.right_line]
    assert share(mutated, "right_category") >= 0.95, report(mutated)
    assert share(mutated, "right_line") >= 0.90, report(wrong)
    said = [a for a in mutated if a.state == "localized"]
    assert share(said, "right_localized") >= 0.95, report(wrong)
