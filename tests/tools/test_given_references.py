"""`triage run --reference`: scripts that launch kernels and compare nothing."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
import tilelang
import tilelang.language as T
import torch


def row_sum(M, N, block=32):
    @T.prim_func
    def total(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=32) as row:
            x = T.alloc_fragment((1, block), "float32")
            s = T.alloc_fragment((1,), "float32")
            acc = T.alloc_fragment((1,), "float32")
            T.clear(acc)
            for k in T.serial(T.ceildiv(N, block)):
                T.copy(X[row, k * block], x)
                T.reduce_sum(x, s, dim=1)
                acc[0] = acc[0] + s[0]
            Y[row] = acc[0]

    return tilelang.compile(total, out_idx=[1])


def scale(N):
    @T.prim_func
    def scaled(X: T.Tensor((N,), "float32"), s: T.float32, Seen: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                Seen[i] = X[i]
                X[i] = X[i] * s

    return tilelang.compile(scaled)


torch.manual_seed(0)
sums = row_sum(8, 96)
for _ in range(10):
    sums(torch.randn(8, 96, device="cuda"))
x, seen = torch.randn(64, device="cuda"), torch.empty(64, device="cuda")
scale(64)(x, 2.5, seen)
"""
REFERENCES = """
import torch


def total(x):
    torch.randn(3)
    return x.double().sum(1)


def scaled(x, s):
    x *= s                                  # on a copy of its own
    return x, None


def turned(x):
    return x


def nothing(x):
    x.sum(1)


def pair(x):
    return x, x


def words(x):
    return "sum"


def fails(x):
    return x.missing


def three(a, b, c, d):
    return a
"""


def triage(folder: Path, source: str, *words: str, references: str = REFERENCES) -> tuple[int, dict[str, Any], str]:
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    (folder / "refs.py").write_text(references, encoding="utf-8")
    command = [sys.executable, "-m", "triage", "run", "--json", "report.json", *words, "kernel.py"]
    ended = subprocess.run(command, cwd=folder, check=False, timeout=300, capture_output=True, text=True)
    report = folder / "report.json"
    return ended.returncode, json.loads(report.read_text("utf-8")) if report.exists() else {}, ended.stderr


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def given(*references: str) -> list[str]:
    return [word for one in references for word in ("--reference", one)]


def test_right_kernels_agree_and_the_report_says_with_what(tmp_path: Path) -> None:
    status, report, _ = triage(tmp_path, KERNELS, *given("refs:total@total", "refs.py:scaled@scale"))
    verdict = report["verdict"]
    assert status == 0 and verdict["state"] == "healthy"
    assert "agree with the given reference on the CPU twin" in verdict["title"]
    checked = " ".join(verdict["checked"])
    assert "8 launches of row_sum.total agree with --reference refs:total@total" in checked  # of ten
    assert "1 launch of scale.scaled agrees with --reference refs.py:scaled@scale" in checked
    assert not any("--reference" in line["what"] for line in verdict["not_checked"])


@pytest.mark.slow
def test_a_kernel_that_does_not_fit_is_said_to_be_unchecked(tmp_path: Path) -> None:
    status, report, _ = triage(tmp_path, KERNELS, *given("refs:total"))
    (line,) = [line for line in report["verdict"]["not_checked"] if "--reference" in line["what"]]
    assert status == 0 and line["what"] == "scale.scaled against --reference refs:total"
    assert line["why"] == "scale.scaled has 2 inputs (X, s), and total takes (x)"


@pytest.mark.slow
def test_a_wrong_kernel_is_led_back_to_its_statement(tmp_path: Path) -> None:
    alone = KERNELS.partition("def scale")[0] + 'row_sum(8, 96)(torch.randn(8, 96, device="cuda"))\n'
    wrong = alone.replace("T.ceildiv(N, block)):", "T.ceildiv(N, block) - 1):")
    assert wrong != alone
    status, report, _ = triage(tmp_path, wrong, *given("refs:total"))
    verdict = report["verdict"]
    line = 1 + next(number for number, text in enumerate(wrong.splitlines()) if "- 1):" in text)
    assert status == 1 and verdict["category"] == "correctness"
    assert line in {verdict["location"]["line"], *(label["line"] for label in verdict["labels"])}


def test_what_is_wrong_with_references_is_told_and_loses_nothing(tmp_path: Path) -> None:
    names = ("turned", "nothing", "pair", "words", "fails", "three")
    asked = given(*(f"refs:{name}@total" for name in names), "refs:total@nope", "refs:total@total")
    status, report, _ = triage(tmp_path, KERNELS, *asked)
    told = [f for f in (report["verdict"], *report["other_findings"]) if f["rule"] == "TLC075"]
    says = " ".join(f["summary"] for f in told)
    for expected in (
        "it returns a tensor of shape (8, 96), and Y of row_sum.total has (8,)",
        "it returns nothing, and row_sum.total has 1 output (Y)",
        "it returns 2 values, and row_sum.total has 1 output (Y)",
        "it returns a str for Y, and no tensor",
        "it ends with AttributeError",
        "and three takes (a, b, c, d), so it was compared with nothing",
        "no kernel named nope is launched; those that are: row_sum.total, scale.scaled",
    ):
        assert expected in says, says
    assert status == 1 and told and all(f["owner"] == "reference" for f in told)
    assert {f["location"]["file"] for f in told if f["location"]} == {str(tmp_path / "refs.py")}
    assert any("agree with --reference refs:total@total" in line for line in report["verdict"]["checked"])


@pytest.mark.parametrize(
    ("reference", "says"),
    [("refs:tota", "it has total"), ("nowhere.py:f", "no such file"), ("refs", "write module:function")],
)
def test_what_can_be_seen_to_be_no_reference_is_bad_usage(tmp_path: Path, reference: str, says: str) -> None:
    status, report, said = triage(tmp_path, KERNELS, "--reference", reference)
    assert status == 2 and not report and says in said


def test_a_module_that_fails_while_it_is_imported_is_a_finding_at_its_line(tmp_path: Path) -> None:
    status, report, _ = triage(
        tmp_path,
        KERNELS,
        *given("refs:total"),
        references="import torch\nraise OSError('no data')\ndef total(x): ...\n",
    )
    verdict = report["verdict"]
    assert status == 1 and verdict["rule"] == "TLC075" and verdict["owner"] == "reference"
    assert "cannot be imported: OSError: no data" in verdict["summary"] and verdict["location"]["line"] == 2


ON_CPU = """
import tilelang
import tilelang.language as T
import torch


@T.prim_func
def add(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")):
    with T.Kernel(1):
        for i in T.serial(64):
            C[i] = A[i] + B[i] * 2.0


def run():
    tilelang.compile(add, out_idx=[2], target="c")(torch.randn(64), torch.randn(64))


def right(a, b):
    return a + 2 * b


def wrong(a, b):
    return a + b
"""


def test_kernels_that_really_run_are_compared_in_the_observed_run(tmp_path: Path) -> None:
    status, report, _ = triage(tmp_path, ON_CPU, *given("kernel:right"), "--call", "run()", "--no-experiments")
    checked = report["verdict"]["checked"]
    assert status == 0 and any("1 launch of add agrees with --reference kernel:right" in line for line in checked)
    status, report, _ = triage(tmp_path, ON_CPU, *given("kernel:wrong"), "--call", "run()", "--no-experiments")
    verdict = report["verdict"]
    assert status == 1 and verdict["rule"] == "TLC076" and verdict["state"] == "classified"
    assert ON_CPU.splitlines()[verdict["location"]["line"] - 1].strip().startswith("tilelang.compile(add")


@pytest.mark.slow
def test_a_case_that_is_resumed_is_compared_with_its_references(tmp_path: Path) -> None:
    alone = KERNELS.partition("def scale")[0] + 'row_sum(8, 96)(torch.randn(8, 96, device="cuda"))\n'
    _, report, _ = triage(tmp_path, alone, *given("refs:total"), "--no-experiments")
    assert any("the launches against --reference" in line["what"] for line in report["verdict"]["not_checked"])
    command = [sys.executable, "-m", "triage", "resume", "--json", "report.json", ".triage/kernel.py-1"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300, capture_output=True)
    verdict = json.loads((tmp_path / "report.json").read_text("utf-8"))["verdict"]
    assert "agree with the given reference on the CPU twin" in verdict["title"]
    assert not any("against --reference" in line["what"] for line in verdict["not_checked"])


@pytest.mark.slow
def test_launches_of_a_profiler_are_said_not_to_be_compared(tmp_path: Path) -> None:
    by_profiler = KERNELS.partition("torch.manual_seed")[0] + "row_sum(8, 96).get_profiler().run_once()\n"
    status, report, _ = triage(tmp_path, by_profiler, *given("refs:total"))
    lines = [line["what"] for line in report["verdict"]["not_checked"]]
    assert status == 0 and "any launch against --reference refs:total" in lines
    assert "given reference" not in report["verdict"]["title"]


TF32 = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit
def matmul(M, N, K, block=32):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((K, N), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            a = T.alloc_shared((block, block), "float32")
            b = T.alloc_shared((block, block), "float32")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, block), num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * block, bx * block])

    return main


a, b, c = (torch.randn(64, 64, device="cuda") for _ in range(3))
matmul(64, 64, 64)(a, b, c)
"""


@pytest.mark.slow
def test_what_tensor_cores_round_off_of_float32_is_no_difference(tmp_path: Path) -> None:
    status, report, _ = triage(tmp_path, TF32, *given("torch:matmul"))
    assert status == 0 and "agree with the given reference" in report["verdict"]["title"]
