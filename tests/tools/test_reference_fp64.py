"""Whose fault a mismatch is, by the float64 value of the reference: whole scripts, and the decision by itself."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from triage.model import StepOutcome
from triage.numerics.reference import growth, judge
from triage.tools import cpu_twin, reference_fp64, repeat

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="the script needs torch")


@needs_torch
@pytest.mark.tilelang
def test_a_variance_that_cancels_is_the_references_fault(observed) -> None:
    script = observed("""
        import torch
        x = torch.randn(64, 1024, device="cuda") + 3000.0
        mean = x.mean(-1)
        expected = (x * x).mean(-1) - mean * mean
        actual = (x - mean[:, None]).square().mean(-1)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-3)
    """)
    (about,) = script.failed
    result = script.step(reference_fp64.run, about)
    facts = script.facts[about]
    assert facts["reference.suspect"] is True and result.outcome is StepOutcome.FINDING, result
    assert facts["reference.kernel_error"] < 1e-4 < 0.1 < facts["reference.error"]
    assert "agrees with it" in result.detail
    (hazard,) = result.hazards
    assert hazard.at.line == script.line("- mean * mean") and "sub" in hazard.fields["grows"]


@needs_torch
@pytest.mark.tilelang
def test_a_right_reference_is_not_suspected(observed) -> None:
    script = observed("""
        import torch
        a, b = (torch.randn(64, 64, dtype=torch.float16) for _ in range(2))
        expected = a.float() @ b.float()
        actual = expected.clone()
        actual[40:, 8:] *= 1.1
        assert torch.allclose(actual.half(), expected.half(), rtol=1e-2, atol=1e-2)
    """)
    result = script.step(reference_fp64.run, script.failed[0])
    facts = script.facts[script.failed[0]]
    assert (facts["reference.suspect"], result.outcome) == (False, StepOutcome.CLEAN), result
    assert facts["reference.error"] < 1e-3 < facts["reference.kernel_error"]


KERNEL = """
import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def distances(m, n):
    @T.prim_func
    def main(A: T.Tensor((m, 8), "float32"), B: T.Tensor((n, 8), "float32"), D: T.Tensor((m, n), "float32")):
        with T.Kernel(m, threads=64) as row:
            for column in T.Parallel(n):
                D[row, column] = 0.0
                for k in T.serial(8):
                    D[row, column] += (A[row, k] - B[column, k]) * (A[row, k] - B[column, k])

    return main


a = torch.rand(32, 8, device="cuda") * 10 + 400000
b = torch.rand(64, 8, device="cuda") * 10 + 400000
expected = a.square().sum(1)[:, None] + b.square().sum(1) - 2 * a @ b.T
torch.testing.assert_close(distances(32, 64)(a, b), expected, rtol=1e-3, atol=1e-3)
"""


@needs_torch
@pytest.mark.tilelang
@pytest.mark.skipif(find_spec("tilelang") is None, reason="the script needs tilelang")
def test_a_comparison_that_only_the_twin_made(observed) -> None:
    script = observed(KERNEL)
    script.step(cpu_twin.run, "run")
    (about,) = script.failed
    assert about.startswith("comparison:twin-")
    result = script.step(reference_fp64.run, about)
    assert script.facts[about]["reference.suspect"] is True, result
    assert result.hazards[0].at.line == script.line("expected = ")
    # only with the inputs as they were rounded to float32, which the second run takes
    assert script.facts[about]["reference.kernel_error"] < 1e-5
    result = script.step(repeat.run, about)
    assert (script.facts[about]["comparison.wrong_set"], result.outcome) == ("same", StepOutcome.CLEAN), result


@needs_torch
@pytest.mark.tilelang
def test_a_reference_that_nobody_computed_with_pytorch_is_unknown(observed) -> None:
    script = observed("""
        import numpy, torch
        x = torch.randn(64)
        expected = torch.from_numpy(numpy.exp(x.numpy()))
        torch.testing.assert_close(x.exp() + 1, expected)
    """)
    result = script.step(reference_fp64.run, script.failed[0])
    assert "reference.suspect" not in script.facts[script.failed[0]] and result.outcome is StepOutcome.UNKNOWN
    assert result.not_checked and "PyTorch" in result.detail


def told(actual, expected, wrong=None, known=1.0, rms=1.0):
    names = ("rms", "max", "nonfinite", "outside")
    sides = {"actual": dict(zip(names, actual, strict=True)), "expected": dict(zip(names, expected, strict=True))}
    counts = (
        dict(zip(("count", "actual_right", "expected_right", "both", "none"), wrong, strict=True)) if wrong else None
    )
    return {"known": known, "rms": rms, **sides, "wrong": counts}


@pytest.mark.parametrize(
    ("measured", "kind"),
    [
        (told((1e-6, 1e-5, 0, 0), (0.1, 1.0, 0, 50), (50, 50, 0, 0, 0)), "suspect"),
        (told((1e-4, 1e-3, 0, 2), (0.1, 1.0, 0, 50), (52, 50, 2, 0, 0)), "suspect"),
        (told((1e-4, 1e-3, 0, 0), (0.0, 0.0, 8, 8), (8, 8, 0, 0, 0)), "suspect"),
        (told((0.1, 1.0, 0, 50), (1e-6, 1e-5, 0, 0), (50, 0, 50, 0, 0)), "right"),
        (told((0.1, 1.0, 0, 50), (1e-4, 1e-3, 0, 2), (52, 2, 50, 0, 0)), "right"),
        (told((1e-3, 1e-2, 0, 0), (1e-3, 1e-2, 0, 0), (5, 0, 0, 5, 0)), "right"),  # their errors add up
        (told((0.1, 1.0, 0, 50), (0.1, 1.0, 0, 50), (100, 50, 50, 0, 0)), "unknown"),
        (told((0.1, 1.0, 0, 20), (0.3, 1.0, 0, 60), (80, 60, 20, 0, 0)), "unknown"),  # the kernel is wrong, too
        (told((1e-6, 1e-5, 0, 0), (0.1, 1.0, 0, 1), (500, 1, 0, 499, 0)), "unknown"),  # that is not what failed
        (told((1e-6, 1e-5, 0, 0), (0.1, 1.0, 0, 50), (50, 50, 0, 0, 0), known=0.4), "unknown"),
        (told((1e-6, 1e-5, 0, None), (0.1, 1.0, 0, None), (50, 48, 0, 0, 2)), "suspect"),
        (told((0.1, 1.0, 0, None), (1e-6, 1e-5, 0, None), (50, 0, 48, 0, 2)), "right"),
        (told((0.1, 1.0, 0, None), (0.1, 1.0, 0, None), (50, 20, 20, 0, 10)), "unknown"),
        ({"known": 0.0, "why": "it has no values"}, "unknown"),
    ],
)
def test_the_decision(measured, kind) -> None:
    judgement = judge(measured)
    assert judgement.kind == kind, judgement
    assert judgement.says


def test_an_error_that_grows_on_several_lines_has_no_place() -> None:
    lines = [
        {"file": "k.py", "line": n, "operator": "mul", "factor": 9.0, "share": part} for n, part in ((3, 0.5), (4, 0.5))
    ]
    assert growth({"growth": lines}) is None and growth({}) is None
    found = growth({"growth": [{**lines[0], "share": 0.8}]})
    assert found is not None and (found.line, found.words) == (3, "grows 9-fold in `mul`")
