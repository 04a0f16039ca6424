"""The CPU twin from outside: what a script's own comparisons come to, and which changed statement makes them agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.experiment.errors import read_events
from triage.experiment.modules import beside
from triage.experiment.repair_search import Repaired, Search
from triage.experiment.repairs import edits, host_edits
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import TwinRun, read

ADD = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def add(N, block):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]

    return main


torch.manual_seed(0)
a, b = torch.randn(200, device="cuda"), torch.randn(200, device="cuda")
c = add(200, 64)(a, b)
{check}
"""
CHECKS = {
    "assert_close": "torch.testing.assert_close(c, a + b)",
    "allclose": "assert torch.allclose(c, a + b)",
    "numpy": "import numpy\nnumpy.testing.assert_allclose(c.cpu().numpy(), (a + b).cpu().numpy(), rtol=1e-5)",
    "difference": "assert (c - (a + b)).abs().max() < 1e-4",
    "exit": "import sys\nif (c - (a + b)).abs().max().item() > 1e-4:\n    sys.exit(1)",
}
WRONG = ("+ B[bx * block + i]", "- B[bx * block + i]")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> ScriptRunner:
    folder = tmp_path_factory.mktemp("twin")
    script = folder / "kernel.py"
    script.write_text(ADD, encoding="utf-8")
    with ScriptRunner(folder / "runs", script, cwd=folder) as runner:
        yield runner


def ran(runner: ScriptRunner, source: str, **twin: int) -> tuple[Shown, TwinRun]:
    shown = runner.run(Candidate(source, twin=tuple(twin.items())))
    return shown, read(read_events(shown.directory), shown.status, runner.blob)


@pytest.mark.parametrize("check", CHECKS)
def test_a_right_kernel_passes_its_own_check_on_the_twin(runner: ScriptRunner, check: str) -> None:
    _, run = ran(runner, ADD.format(check=CHECKS[check]))
    assert run.computed == 1 and not run.made_up and not run.virtual
    assert run.passes
    assert run.verdict == ("matched" if check in ("assert_close", "allclose", "numpy") else "unknown")


@pytest.mark.parametrize("check", CHECKS)
def test_a_wrong_kernel_fails_its_own_check_on_the_twin(runner: ScriptRunner, check: str) -> None:
    _, run = ran(runner, ADD.format(check=CHECKS[check]).replace(*WRONG))
    assert run.computed == 1 and run.verdict == "mismatched" and not run.passes


@pytest.mark.parametrize("made", [".double()", ".clone().view(8, 25)", ".cpu()"])
def test_what_is_made_of_an_output_at_once_is_known_as_a_copy_of_it(runner: ScriptRunner, made: str) -> None:
    wrong = ADD.format(check=f"torch.testing.assert_close(c, (a + b){made})").replace(*WRONG)
    _, run = ran(runner, wrong.replace("c = add(200, 64)(a, b)", f"c = add(200, 64)(a, b){made}"))
    assert [output.argument for compared in run.comparisons for output in compared.written] == ["C"]


def test_a_script_that_got_no_for_an_answer_and_went_on_is_not_accused(runner: ScriptRunner) -> None:
    for check in (
        "print(not torch.allclose(c, a - b))",
        "assert not torch.allclose(c, a - b)",
        "try:\n    torch.testing.assert_close(c, a - b)\nexcept AssertionError:\n    print('as expected')",
    ):
        _, run = ran(runner, ADD.format(check=check))
        assert run.verdict == "unknown" and not all(c.matched for c in run.comparisons)


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        ("assert not (c - (a + b)).abs().max() > 1e-4", "mismatched"),
        ("import sys\nsys.exit(1 if (c - (a + b)).abs().max().item() > 1e-4 else 0)", "mismatched"),
        (
            "off = (c - (a + b)).abs()\nassert not off[off.isfinite()].max() > 1e-4",
            "unknown",
        ),  # which asks about others
        ("off = (a + b - c).nan_to_num(0.0).abs().max()\nassert not off > 1e-4", "unknown"),
    ],
)
def test_a_check_that_passes_since_an_error_is_nan_has_found_nothing_right(
    runner: ScriptRunner, check: str, verdict: str
) -> None:
    b = "B[bx * block + i]"
    spoilt = ADD.replace(f"+ {b}", f"+ {b} * T.sqrt({b} + 1.5) / T.sqrt({b} + 1.5)")
    _, run = ran(runner, spoilt.replace("{check}", check))
    assert (run.ended, run.verdict) == ("succeeded", verdict)
    _, right = ran(runner, ADD.replace("{check}", check))
    assert (right.ended, right.verdict) == ("succeeded", "unknown")


def test_other_seeds_give_other_inputs(runner: ScriptRunner) -> None:
    source = ADD.format(check="print(round(float(a.sum()), 6))")
    outputs = {
        (ran(runner, source, **twin)[0].directory / "stdout").read_text() for twin in ({}, {"seed": 1}, {"seed": 2})
    }
    assert len(outputs) == 3


def test_memory_that_no_statement_wrote_is_no_agreement(runner: ScriptRunner) -> None:
    half = ADD.format(check=CHECKS["exit"]).replace("T.Kernel(T.ceildiv(N, block)", "T.Kernel(2")
    _, run = ran(runner, half)
    assert run.nan == 1


@pytest.mark.parametrize(
    ("wrong", "line"),
    [
        (WRONG, 13),
        (("C[bx * block + i] =", "C[bx * block + i + 1] ="), 13),
        (("T.ceildiv(N, block)", "N // block"), 11),
    ],
)
def test_the_statement_whose_change_restores_the_agreement_is_found(
    runner: ScriptRunner, wrong: tuple[str, str], line: int
) -> None:
    source = ADD.format(check=CHECKS["assert_close"]).replace(*wrong)
    shown, start = ran(runner, source)
    assert start.verdict == "mismatched"
    search = Search(runner, Candidate(source, twin=()), start, shown.seconds)
    found = search.run(source, edits(source, range(11, 14)), lambda: 1.0)
    assert line in {edit.line for edit in found.edits}


def test_a_reference_that_no_kernel_computes_is_not_repaired(runner: ScriptRunner) -> None:
    source = ADD.format(check="torch.testing.assert_close(c, torch.sin(a) * b.abs().sqrt())")
    shown, start = ran(runner, source)
    search = Search(runner, Candidate(source, twin=()), start, shown.seconds)
    found = search.run(source, edits(source, range(11, 14)), lambda: 1.0)
    assert not found.edits and found.tried == found.count


@pytest.mark.parametrize(
    ("kernel", "check", "culprit"),
    [
        ("A[bx * block + i] + B[bx * block + bx]", "torch.testing.assert_close(c, a + b)", 13),
        ("A[bx * block + i] - B[bx * block + i]", "torch.testing.assert_close(c, b - a)", None),
        ("T.max(A[bx * block + i], B[bx * block + i])", "torch.testing.assert_close(c, torch.minimum(a, b))", None),
        ("A[bx * block + i] - B[bx * block + i]", "assert (c - (b - a)).abs().max().item() < 1e-3", None),
        ("A[bx * block + i] - B[bx * block + i]", "if not torch.allclose(c, b - a):\n    raise SystemExit(1)", None),
    ],
)
def test_where_the_reference_or_the_call_may_be_wrong_instead_no_statement_is_accused(
    runner: ScriptRunner, kernel: str, check: str, culprit: int | None
) -> None:
    source = ADD.format(check=check).replace("A[bx * block + i] + B[bx * block + i]", kernel)
    shown, start = ran(runner, source)
    search = Search(runner, Candidate(source, twin=()), start, shown.seconds)
    found = search.run(source, edits(source, range(11, 14)), lambda: 1.0)
    assert found.alone
    found = search.outside(source, found, host_edits(source), lambda: 1.0)
    assert (found.alone.line if found.alone else None) == culprit


def test_a_reference_in_a_module_acquits_the_kernel_as_one_in_the_script_does(tmp_path: Path) -> None:
    """A fault that a function in the script would explain may not be localized in the kernel for standing in another file."""
    script, module = tmp_path / "kernel.py", tmp_path / "oracle.py"
    module.write_text("def expected(a, b):\n    return b - a\n", encoding="utf-8")
    source = "from oracle import expected\n" + ADD.format(check="torch.testing.assert_close(c, expected(a, b))")
    source = source.replace(*WRONG)
    script.write_text(source, encoding="utf-8")
    modules = beside(source, script)
    assert list(modules) == [str(module)]
    with ScriptRunner(tmp_path / "runs", script, cwd=tmp_path) as runner:
        shown, start = ran(runner, source)
        search = Search(runner, Candidate(source, twin=()), start, shown.seconds, modules)
        found = search.run(source, edits(source, range(12, 15)), lambda: 1.0)
        assert found.alone is not None
        outside = host_edits(modules[str(module)], str(module))
        found = search.outside(source, found, outside, lambda: 1.0)
    assert found.alone is None and found.outside is not None
    assert found.outside.file == str(module) and "line 2 of oracle.py" in found.reservation


def test_modules_beside_a_script_are_those_that_are_imported(tmp_path: Path) -> None:
    for name, text in {
        "one.py": "import torch\nfrom parts.two import f\n", "parts/__init__.py": "from . import three\n", "parts/two.py": "", "parts/three.py": "",
        "unused.py": "", "torn.py": "def f(:\n",
    }.items():  # fmt: skip
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    found = beside("import one, json, kernel\nfrom torn import f\n", tmp_path / "kernel.py")
    names = {Path(path).relative_to(tmp_path).as_posix() for path in found}
    assert names == {"one.py", "torn.py", "parts/__init__.py", "parts/two.py", "parts/three.py"}
    assert beside("def f(:", tmp_path / "kernel.py") == {}
    assert beside(f"from {'.' * 99} import one", tmp_path / "kernel.py") == {}


def test_an_edit_that_may_agree_by_chance_accuses_no_statement(runner: ScriptRunner, tmp_path: Path) -> None:
    runs = tmp_path / "runs.txt"
    chance = f"log = open({str(runs)!r}, 'a')\nlog.write('.')\nlog.close()\nc[0] += len(open({str(runs)!r}).read()) < 5"
    source = ADD.format(check=f"{chance}\ntorch.testing.assert_close(c, a + b)")
    shown, start = ran(runner, source)
    assert start.verdict == "mismatched"
    search = Search(runner, Candidate(source, twin=()), start, shown.seconds)
    (edit, *_) = edits(source, range(11, 14))
    found = search.confirmed(source, Repaired((edit,), 1, 1, settled=True))
    assert found.alone is None and "chance" in found.reservation


def test_a_launch_that_cannot_be_computed_says_why(runner: ScriptRunner) -> None:
    source = ADD.format(check="big = torch.empty(1 << 27, device='cuda')\nd = add(1 << 27, 64)(big, big)")
    _, run = ran(runner, source)
    assert run.computed == 1 and sum(run.made_up.values()) == 1 and run.verdict == "unknown"


def compared(function: str, steps: float) -> dict[str, object]:
    """A comparison that failed in three of 64 elements, by so many spacings of float16."""
    differences = {
        "expected": "float16",
        "kept": "float16",
        "count": 64,
        "unequal": 9,
        "rms_error": 1e-4,
        "rms_expected": 1.0,
    }
    differences |= {"rms_steps": 0.3 * steps, "max_steps": steps, "max_error": 1e-3 * steps, "lean_by_chance": 1e-3}
    pattern = {"shape": [64], "dtype": "float16", "wrong": 3, "total": 64, "differences": differences}
    told = {"shape": [64], "dtype": "float16", "tolerance": {}, "pattern": pattern, "written": []}
    return {"type": "compare", "id": "m1", "function": function, "matched": False, "summary": told, "kernel": "k1"}


@pytest.mark.parametrize(
    ("function", "steps", "verdict", "allowed"),
    [
        ("--reference refs:f", 1.0, "matched", True),
        (
            "--reference refs:f",
            9.0,
            "mismatched",
            False,
        ),  # though the script ends well: who gave a reference expects it
        ("torch.allclose", 1.0, "unknown", False),
    ],
)
def test_rounding_is_no_difference_where_nobody_gave_a_tolerance(
    function: str, steps: float, verdict: str, allowed: bool
) -> None:
    launch = {"type": "twin", "launch": "l1", "kernel": "k1", "computed": True}
    run = read([launch, compared(function, steps)], "succeeded", lambda sha: b"")
    assert run.verdict == verdict and bool(run.comparisons[0].allowed) is allowed
