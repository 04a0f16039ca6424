"""The chain where a device really computed: kernels that are compiled for the host, which is a device on every machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tilelang")
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "quality"))
from corpus import run_triage

from triage.experiment.switch_values import written_at

HEAD = """\
import sys
import tilelang
import tilelang.language as T
import torch

torch.manual_seed(0)
"""

ADD = (
    HEAD
    + """
@tilelang.jit(out_idx=[-1], target="c")
def add(n, block=256):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel({blocks}, threads=128) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] {sign} B[bx * block + i]

    return main


n = 1000
a, b = torch.randn(n), torch.randn(n)
c = add(n)(a, b)
"""
)

TOTAL = (
    HEAD
    + """
CONFIGS = {"tl.disable_safe_memory_legalize": True}


@tilelang.jit(out_idx=[-1], target="c", pass_configs=CONFIGS)
def total(n, block=256):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((T.ceildiv(n, block),), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=1) as b:
            acc = T.alloc_local((1,), "float32")
            acc[0] = 0.0
            for i in T.serial(block):
                acc[0] = acc[0] + X[b * block + i]
            Y[b] = acc[0]

    return main


whole = torch.rand(2048) + 1.0
x = whole[:1000]
torch.testing.assert_close(total(1000)(x).sum(), x.sum())
"""
)


@pytest.fixture
def ask(tmp_path: Path):
    def ask(text: str, budget: int = 120) -> dict[str, Any]:
        (tmp_path / "kernel.py").write_text(text, encoding="utf-8")
        report, _ = run_triage(tmp_path, "kernel.py", "--budget", str(budget))
        return report

    return ask


def line_of(text: str, part: str) -> int:
    return next(number for number, line in enumerate(text.splitlines(), 1) if part in line)


def tools(report: dict[str, Any]) -> list[str]:
    return [step["tool"] for step in report["walk"] if step["status"] != "skipped"]


def test_a_right_kernel_is_healthy_and_its_twin_agrees(ask) -> None:
    report = ask(ADD.format(blocks="T.ceildiv(n, block)", sign="+") + "torch.testing.assert_close(c, a + b)\n")
    assert report["verdict"]["state"] == "healthy"
    twin = next(step for step in report["walk"] if step["tool"] == "cpu-twin")
    assert twin["outcome"] == "clean" and "what is compared agrees" in twin["detail"]


@pytest.mark.slow
def test_a_mismatch_is_repeated_judged_and_localized(ask) -> None:
    text = ADD.format(blocks="T.ceildiv(n, block)", sign="+") + "torch.testing.assert_close(c, a + b)\n"
    text = text.replace("+ B[bx * block + i]", "+ B[bx * block + bx]")
    report = ask(text)
    walked = tools(report)
    chain = ["repeat", "tolerance-model", "reference-fp64", "mismatch-pattern", "cpu-twin", "repair-statements"]
    assert [tool for tool in walked if tool in chain][:5] == chain[:5] and chain[5] in walked
    assert report["verdict"]["owner"] == "kernel"
    assert report["verdict"]["location"]["line"] == line_of(text, "A[bx * block + i] +")


@pytest.mark.slow
def test_a_check_that_no_function_makes_is_looked_into(ask) -> None:
    text = ADD.format(blocks="T.ceildiv(n, block)", sign="-")
    text += "if any(abs(x - y) > 1e-3 for x, y in zip((c - a).tolist(), b.tolist())):\n    sys.exit(1)\n"
    report = ask(text)
    assert report["verdict"]["category"] == "correctness"
    assert report["verdict"]["location"]["line"] in (line_of(text, "A[bx * block + i] -"), line_of(text, "sys.exit"))
    assert "cpu-twin" in tools(report)


@pytest.mark.slow
def test_what_changes_from_run_to_run_is_intermittent(ask) -> None:
    text = ADD.format(blocks="T.ceildiv(n, block)", sign="+")
    text += "import time\nc[time.time_ns() % n] += 1.0\ntorch.testing.assert_close(c, a + b)\n"
    report = ask(text)
    repeat = next(step for step in report["walk"] if step["tool"] == "repeat")
    assert repeat["outcome"] == "finding" and "other wrong elements each time" in repeat["detail"]
    assert (report["verdict"]["category"], report["verdict"]["state"]) == ("intermittent", "classified")
    assert report["verdict"]["location"]["line"] == line_of(text, "assert_close")


@pytest.mark.slow
def test_a_setting_that_spoils_the_values_is_found_at_its_line(ask) -> None:
    report = ask(TOTAL)
    assert (report["verdict"]["rule"], report["verdict"]["owner"]) == ("TLC068", "kernel")
    assert report["verdict"]["location"]["line"] == line_of(TOTAL, "disable_safe_memory_legalize")
    assert "cpu-twin" in tools(report) and "bisect-switches" in tools(report)


SCALE = (
    HEAD
    + """
@tilelang.jit(target="c")
def scale(n, block=256):
    @T.prim_func
    def main(Y: T.Tensor((n,), "float32"), X: T.Tensor((n,), "float32"), s: T.float32):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                Y[bx * block + i] = X[bx * block + i] * s

    return main


x = torch.randn(512)
want = x * 2.5
scale(512)(x, x, 2.5)
torch.testing.assert_close(x, want)
"""
)

IN_PLACE = (
    HEAD
    + """
@tilelang.jit(target="c")
def smooth(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(n - 1):
                X[i + 1] = X[i] + X[i + 1]

    return main


x = torch.rand(257)
want = x.clone()
want[1:] += x[:-1]
smooth(257)(x)
torch.testing.assert_close(x, want)
"""
)


def test_a_tensor_that_is_input_and_output_is_both_on_the_twin(ask) -> None:
    report = ask(SCALE)
    assert report["verdict"]["state"] == "healthy"
    twin = next(step for step in report["walk"] if step["tool"] == "cpu-twin")
    assert twin["outcome"] == "clean" and "what is compared agrees" in twin["detail"]


@pytest.mark.slow
def test_where_the_order_of_iterations_decides_the_compiler_is_not_accused(ask) -> None:
    report = ask(IN_PLACE, budget=60)
    assert (report["verdict"]["rule"], report["verdict"]["owner"]) == ("TLC077", "kernel")
    assert report["verdict"]["state"] == "classified"
    assert report["verdict"]["location"]["line"] == line_of(IN_PLACE, "X[i + 1] =")


@pytest.mark.slow
@pytest.mark.parametrize("wrong_in", [1, 2])
def test_what_comes_in_one_run_only_accuses_nobody(
    ask, tmp_path_factory: pytest.TempPathFactory, wrong_in: int
) -> None:
    """The first run is the observed one; where nothing fails in it, the second is that on the twin."""
    runs = str(tmp_path_factory.mktemp("count") / "runs.txt")
    text = ADD.format(blocks="T.ceildiv(n, block)", sign="+")
    text += f"open({runs!r}, 'a').write('.')\nc[0] += len(open({runs!r}).read()) == {wrong_in}\n"
    report = ask(text + "torch.testing.assert_close(c, a + b)\n")
    assert report["verdict"]["owner"] == "unknown"
    assert not {"TLC066", "TLC069"} & {one.get("rule") for one in (*report["other_findings"], *report["notes"])}


def test_an_assertion_about_a_shape_is_no_wrong_result(ask) -> None:
    text = ADD.format(blocks="T.ceildiv(n, block)", sign="+") + "assert c.shape == (n // 2,), c.shape\n"
    report = ask(text, budget=15)
    assert report["verdict"]["owner"] == "unknown" and report["verdict"]["category"] != "correctness"
    assert report["verdict"]["location"]["line"] == line_of(text, "assert c.shape")
    assert "repair-statements" not in tools(report)


@pytest.mark.slow
def test_a_no_that_a_script_passes_over_is_told(ask) -> None:
    report = ask(ADD.format(blocks="T.ceildiv(n, block)", sign="+") + "print(torch.allclose(c, a - b))\n")
    assert report["verdict"]["state"] == "healthy"
    assert "went on: torch.allclose" in report["verdict"]["summary"]


@pytest.mark.slow
def test_no_compiler_is_accused_while_a_setting_of_the_script_may_be_at_fault(ask) -> None:
    report = ask(TOTAL, budget=33)  # too little for the switches
    assert (report["verdict"]["state"], report["verdict"]["owner"]) != ("localized", "compiler")


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ('\nf(pass_configs={"tl.disable_x": True})\n', 2),
        ("\n\nf(pass_configs={P.TL_DISABLE_X: True})\n", 3),
        ('a = "tl.disable_x"\nb = "tl.disable_x"\n', None),
        ("a = 1\n", None),
    ],
)
def test_where_a_setting_is_written(source: str, line: int | None) -> None:
    assert written_at(source, "tl.disable_x") == line
