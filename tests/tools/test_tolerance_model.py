"""Tolerance in the chain: whole scripts on the CPU twin, some with a tolerance that is too tight, some with a wrong kernel."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from triage.model import StepOutcome
from triage.tools import cpu_twin, tolerance_model

WRONG = Path(__file__).resolve().parent.parent / "quality" / "wrong"
pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the scripts need tilelang"),
]


def script_of(observed, name: str, *changes: tuple[str, str]):
    """A script of the corpus as its author wrote it, without the marks of its fault, observed and run on the twin."""
    text = re.sub(r" *# BUG.*", "", (WRONG / f"{name}.py").read_text(encoding="utf-8"))
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    script = observed(text)
    return script, script.step(cpu_twin.run, "run")


def judged(script):
    (about,) = script.failed
    return script.step(tolerance_model.run, about), script.facts[about]


@pytest.mark.parametrize(
    ("name", "compares", "rtol", "atol"),
    [
        ("covariance", "torch.equal", 1e-4, 1e-3),  # a sum whose length and types the record shows
        pytest.param(
            "row-sum", "assert_close", 1e-3, 1e-3, marks=pytest.mark.slow
        ),  # results near zero, judged by the size of the terms
        pytest.param(
            "swiglu-fp8", "assert_close", 0.25, 1e-2, marks=pytest.mark.slow
        ),  # an 8-bit result that is compared exactly
    ],
)
def test_a_tolerance_that_is_too_tight(observed, name, compares, rtol, atol) -> None:
    script, _ = script_of(observed, name)
    result, facts = judged(script)
    assert facts["mismatch.within_model"] is True and result.outcome is StepOutcome.FINDING, result
    (hazard,) = result.hazards
    assert hazard.kind == "tolerance-too-tight" and hazard.at.line == script.line(compares)
    assert facts["tolerance.rtol"] <= rtol and 0 < facts["tolerance.atol"] <= atol


@pytest.mark.slow
def test_the_tolerance_that_is_told_is_enough(observed) -> None:
    script, _ = script_of(observed, "gemm-half-output")
    _, facts = judged(script)
    told = f"rtol={facts['tolerance.rtol']}, atol={facts['tolerance.atol']}"
    _, twin = script_of(observed, "gemm-half-output", ("rtol=1e-6, atol=1e-6", told))
    assert twin.outcome is StepOutcome.CLEAN, twin


def test_an_accumulator_that_is_too_narrow(observed) -> None:
    script, _ = script_of(observed, "gemm-wide-output")
    result, facts = judged(script)
    assert facts["mismatch.within_model"] is False
    (hazard,) = result.hazards
    assert hazard.kind == "narrow-accumulator-measured" and hazard.at.line == script.line("acc = T.alloc_fragment")
    assert hazard.fields["accumulator"] == "float16" and hazard.fields["terms"] == 512


@pytest.mark.parametrize("name", ["linear-nt", pytest.param("softmax-online", marks=pytest.mark.slow)])
def test_a_wrong_kernel_is_not_within_the_model(observed, name) -> None:
    script, _ = script_of(observed, name)
    for about in script.failed:
        result = script.step(tolerance_model.run, about)
        assert script.facts[about].get("mismatch.within_model") is not True and not result.hazards, result


@pytest.mark.slow
def test_one_fault_beside_a_tight_tolerance_keeps_the_blame_from_the_tolerance(observed) -> None:
    check = "torch.testing.assert_close(c.float(), a.float() @ b.float(), rtol=1e-6, atol=1e-6)"
    both = "print(torch.allclose(c.float(), a.float() @ b.float(), rtol=1e-6, atol=1e-6))\n    assert torch.allclose(c, 2 * c)"
    script, _ = script_of(observed, "gemm-half-output", (check, both))
    assert len(script.failed) == 2
    results = [script.step(tolerance_model.run, about) for about in script.failed]
    within = [script.facts[about].get("mismatch.within_model") for about in script.failed]
    assert within[0] is True and within[1] is not True
    assert not any(result.hazards for result in results)


@pytest.mark.slow
def test_a_comparison_that_agrees_lets_a_tail_through(observed) -> None:
    script, twin = script_of(observed, "residual-add")
    hazard = next(h for h in twin.hazards if h.kind == "comparison-hides-mismatch")
    assert hazard.at.line == script.line("torch_assert_close(add") and "the last 26 rows" in hazard.fields["where"]


@pytest.mark.slow
def test_outliers_without_a_place_are_not_called_a_fault(observed) -> None:
    kernel = ("rows // block_rows", "T.ceildiv(rows, block_rows)")
    spoiled = ("h + r, rtol", "(h + r) * (1 + (torch.rand(rows, cols, device='cuda') > 0.99)), rtol")
    _, twin = script_of(observed, "residual-add", kernel, spoiled)
    assert twin.outcome is StepOutcome.CLEAN, twin
    assert [hazard.kind for hazard in twin.hazards] == ["comparison-blind"]  # what the ratio could hide, and did not


def test_a_comparison_that_could_not_have_seen_a_fault_is_told_as_advice(observed) -> None:
    loose = ("rtol=1e-6, atol=1e-6", "rtol=1e-3, atol=500.0")
    _, twin = script_of(observed, "gemm-half-output", loose)
    (hazard,) = twin.hazards
    assert (hazard.kind, hazard.fields["spot"]) == ("comparison-blind", "atol-covers-all")
    assert twin.outcome is StepOutcome.CLEAN
