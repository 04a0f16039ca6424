"""The same script again with the same random numbers: what is counted, and when nothing is."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from triage.experiment.reruns import Which, said, which
from triage.model import StepOutcome, StepStatus
from triage.numerics.repeats import least_rate, repeated
from triage.tools import repeat

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the script needs torch")


@needs_torch
@pytest.mark.tilelang
def test_arithmetic_fails_each_time_in_the_same_elements_without_a_seed_of_its_own(observed) -> None:
    script = observed("""
        import random
        import numpy, torch
        x = torch.randn(32, 32) + torch.from_numpy(numpy.random.rand(32, 32)).float() * random.random()
        x += torch.from_numpy(numpy.random.default_rng().random((32, 32))).float()
        torch.testing.assert_close(torch.where(x > 0.5, x + 1, x), x)
    """)
    (about,) = script.failed
    result = script.step(repeat.run, about)
    facts = script.facts[about]
    assert (facts["comparison.failure_rate"], facts["comparison.wrong_set"]) == (1.0, "same"), result
    assert facts["comparison.repeats"] == repeat.TIMES and result.outcome is StepOutcome.CLEAN
    assert "95 %" in result.detail and "same" in result.detail


@needs_torch
@pytest.mark.tilelang
def test_chance_in_the_script_shows_in_other_elements(observed) -> None:
    script = observed("""
        import os
        import torch
        wrong = torch.tensor(list(os.urandom(256))) > 127
        torch.testing.assert_close(torch.zeros(256).masked_fill(wrong, 1.0), torch.zeros(256))
    """)
    result = script.step(repeat.run, script.failed[0])
    facts = script.facts[script.failed[0]]
    assert (facts["comparison.failure_rate"], facts["comparison.wrong_set"]) == (1.0, "changes"), result
    assert result.outcome is StepOutcome.FINDING and "other wrong elements" in result.detail


@needs_torch
def test_on_a_device_every_run_is_a_process_of_its_own(observed) -> None:
    script = observed("""
        import pathlib
        import torch
        count = pathlib.Path(__file__).with_name("count.txt")
        runs = len(count.read_text()) if count.exists() else 0
        count.write_text("x" * (runs + 1))
        right = torch.rand(64)
        torch.testing.assert_close(right + (runs % 2 == 0) * (right > 0.5), right)
    """)
    (about,) = script.failed
    result = script.step(repeat.run, about, capabilities=("execute", "cuda"))
    facts = script.facts[about]
    # the runs after the first, which was observed, fail every second time
    assert (facts["comparison.repeats"], facts["comparison.failure_rate"]) == (5, 2 / 5), result
    assert facts["comparison.wrong_set"] == "same" and result.outcome is StepOutcome.FINDING
    assert "2 of 5" in result.detail and "45%" in result.detail


@needs_torch
@pytest.mark.tilelang
def test_made_up_values_are_not_repeated(observed) -> None:
    script = observed("""
        import torch
        x = torch.empty(1 << 20, device="cuda")
        torch.testing.assert_close(x, x + 1)
    """)
    about = next(a for a, facts in script.facts.items() if facts.get("comparison.verdict") == "virtual")
    result = script.step(repeat.run, about)
    assert result.status is StepStatus.SKIPPED and not result.facts and "made-up" in result.detail


def test_what_runs_say_together() -> None:
    assert repeated(["a"] * 5).wrong_set == "same" and repeated(["a"] * 5).rate == 1.0
    assert repeated(["a", "b", "a"]).wrong_set == "changes"
    assert (repeated([None, "a", "a", None]).rate, repeated([None, "a"]).wrong_set) == (0.5, None)
    assert repeated(["", "", "a"]).wrong_set is None and repeated(["", "b", "a"]).wrong_set == "changes"
    with pytest.raises(ValueError, match="no run"):
        repeated([])


@pytest.mark.parametrize("runs", [1, 5, 59])
def test_the_least_rate_is_what_shows_with_95_percent(runs) -> None:
    assert 1 - (1 - least_rate(runs)) ** runs == pytest.approx(0.95)


AT = {"file": "/home/user/kernels/k.py", "line": 7}


def compare(id, matched, function="torch.allclose", at=AT, **summary):
    return {"type": "compare", "id": id, "function": function, "at": at, "matched": matched, "summary": summary}


def test_a_comparison_is_found_again_by_function_line_and_order() -> None:
    elsewhere = {**AT, "line": 9}
    first = [
        compare("m1", True), compare("m2", False, pattern={"digest": "a", "wrong": 1}),
        compare("m3", False, pattern={"digest": "b", "wrong": 2}), compare("m4", False, at=elsewhere),
    ]  # fmt: skip
    wanted = which(first, "m3")
    assert wanted == Which("torch.allclose", AT["file"], 7, 1)
    assert said(first, wanted, "failed", bytes).digest == "b"
    assert said(first[:2], wanted, "failed", bytes).verdict == "matched"
    assert said(first[3:], wanted, "failed", bytes).verdict == "absent"
    assert said([compare("c1", None, "torch.equal")], wanted, "succeeded", bytes).verdict == "virtual"
    assert which(first, "m9") is None


def test_arithmetic_of_the_script_is_told_only_where_it_fails() -> None:
    wanted = Which("assert", AT["file"], 7)
    assert said([], wanted, "succeeded", bytes).verdict == "matched"
    assert said([], wanted, "failed", bytes).verdict == "absent"
    assert said([], Which("torch.allclose", AT["file"], 7), "succeeded", bytes).verdict == "absent"
