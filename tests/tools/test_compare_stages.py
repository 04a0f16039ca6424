"""`triage run --stages`: the tiles of a block against the values that the user's generator yields, stage by stage."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triage.model import StepOutcome
from triage.tools import compare_stages, cpu_twin

pytestmark = pytest.mark.tilelang

ROOT = Path(__file__).resolve().parents[2]
HEAD = """
import tilelang
import tilelang.language as T
import torch

"""
SOFTMAX = (
    HEAD
    + """
@tilelang.jit(out_idx=[-1])
def softmax(M, N, rows=4):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, rows), threads=64) as bx:
            x = T.alloc_fragment((rows, N), "float32")
            top = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, N):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx * rows, 0])

    return main


torch.manual_seed(0)
softmax(10, 32)(torch.randn(10, 32, device="cuda"))
"""
)
ATTENTION = (
    HEAD
    + """
@tilelang.jit(out_idx=[-1])
def weighted(L, D, B=16):
    @T.prim_func
    def main(S: T.Tensor((B, L), "float32"), V: T.Tensor((L, D), "float32"), O: T.Tensor((B, D), "float32")):
        with T.Kernel(1, threads=64) as bx:
            s = T.alloc_fragment((B, B), "float32")
            v = T.alloc_shared((B, D), "float32")
            m = T.alloc_fragment((B,), "float32")
            new = T.alloc_fragment((B,), "float32")
            fade = T.alloc_fragment((B,), "float32")
            o = T.alloc_fragment((B, D), "float32")
            T.fill(m, -1e30)
            T.clear(o)
            for k in T.serial(L // B):
                T.copy(S[0, k * B], s)
                T.copy(V[k * B, 0], v)
                T.reduce_max(s, new, dim=1)
                for i in T.Parallel(B):
                    new[i] = T.max(new[i], m[i])
                for i in T.Parallel(B):
                    fade[i] = T.exp(m[i] - new[i])
                    m[i] = new[i]
                for i, j in T.Parallel(B, B):
                    s[i, j] = T.exp(s[i, j] - m[i])
                for i, j in T.Parallel(B, D):
                    o[i, j] = o[i, j] * fade[i]
                T.gemm(s, v, o)
            T.copy(o, O[0, 0])

    return main


torch.manual_seed(0)
weighted(64, 16)(torch.randn(16, 64, device="cuda"), torch.randn(64, 16, device="cuda"))
"""
)
STAGES = """
import torch


def softmax(x, *, block):
    rows = x[block[0] * 4 : (block[0] + 1) * 4]
    yield "x", rows
    top = rows.amax(1)
    yield "top", top
    e = (rows - top[:, None]).exp()
    yield "x", e
    yield "total", e.sum(1)
    yield "x", e / e.sum(1, keepdim=True)


def ends(x, *, block):
    yield from list(softmax(x, block=block))[::4]


def weighted(s, v):
    m, o = torch.full((16,), -1e30), torch.zeros(16, 16)
    for k in range(4):
        part = s[:, k * 16 : (k + 1) * 16]
        yield "s", part
        new = torch.maximum(m, part.amax(1))
        yield "new", new
        fade, m = (m - new).exp(), new
        yield "fade", fade
        yield "m", m
        p = (part - m[:, None]).exp()
        yield "s", p
        yield "o", o * fade[:, None]
        o = o * fade[:, None] + p @ v[k * 16 : (k + 1) * 16]
        yield "o", o


def returns(x):
    return x


def nothing(x):
    yield from ()


def unknown(x):
    yield "top", x[:4].amax(1)
    yield "bottom", x


def shape(x):
    yield "x", x[0]


def fails(x):
    yield "x", x.missing


def words(x):
    yield "x"


def takes(a, b, c):
    yield "x", a
"""


@pytest.fixture
def compared(launched, tmp_path: Path):  # type: ignore[no-untyped-def]
    def compared(text: str, function: str) -> tuple[Any, Any]:
        (tmp_path / "ref.py").write_text(STAGES, encoding="utf-8")
        script = launched(text)
        script.options = replace(script.options, stages=(f"ref:{function}",))
        script.step(cpu_twin.run, "run")
        return script, script.step(compare_stages.run, "run")

    return compared


@pytest.mark.parametrize(("text", "function", "count"), [(SOFTMAX, "softmax", 5), (ATTENTION, "weighted", 28)])
def test_a_right_kernel_comes_to_all_stages(compared, text: str, function: str, count: int) -> None:
    _, told = compared(text, function)
    assert told.outcome is StepOutcome.CLEAN and not told.hazards, told
    assert told.checked[0].startswith(f"{count} stages of ref:{function} against the tiles of ")


@pytest.mark.parametrize(
    ("text", "function", "right", "wrong", "line"),
    [
        (SOFTMAX, "softmax", "T.exp(x[i, j] - top[i])", "T.exp2(x[i, j] - top[i])", "T.exp2("),
        pytest.param(
            *(SOFTMAX, "softmax", "T.reduce_sum(x, total, dim=1)", "T.reduce_max(x, total, dim=1)", "max(x, total"),
            marks=pytest.mark.slow,
        ),
        (ATTENTION, "weighted", "T.exp(m[i] - new[i])", "T.exp(new[i] - m[i])", "T.exp(new[i]"),
        pytest.param(*(ATTENTION, "weighted", "o[i, j] * fade[i]", "o[i, j] * 1.0", "* 1.0"), marks=pytest.mark.slow),
        pytest.param(
            *(ATTENTION, "weighted", "T.exp(s[i, j] - m[i])", "T.exp(s[i, j] - m[0])", "m[0]"), marks=pytest.mark.slow
        ),
    ],
)
def test_the_first_statement_that_leaves_something_else_is_named(compared, text, function, right, wrong, line) -> None:
    script, told = compared(text.replace(right, wrong), function)
    (hazard,) = told.hazards
    assert (hazard.kind, hazard.at.line) == ("stage-differs", script.line(line)), hazard
    assert any("is still as stage" in label.text for label in hazard.labels)


@pytest.mark.slow
def test_what_no_stage_tells_of_may_be_wrong_instead(compared) -> None:
    script, told = compared(SOFTMAX.replace("T.exp(x", "T.exp2(x"), "ends")
    (hazard,) = told.hazards
    assert hazard.kind == "stage-may-differ"
    assert {script.line("T.exp2("), script.line("reduce_sum")} <= {hazard.at.line, *(one.line for one in hazard.labels)}


@pytest.mark.parametrize(
    ("function", "why"),
    [
        ("returns", "something else than pairs"),
        pytest.param("nothing", "yields nothing", marks=pytest.mark.slow),
        pytest.param("unknown", "no statement of softmax.main writes 'bottom'", marks=pytest.mark.slow),
        pytest.param("shape", "it yields a tensor of shape (32,) for x, which has (4, 32)", marks=pytest.mark.slow),
        ("fails", "it ends with AttributeError"),
        pytest.param("words", "something else than pairs", marks=pytest.mark.slow),
        pytest.param("takes", "softmax.main has 1 input", marks=pytest.mark.slow),
    ],
)
def test_what_is_wrong_with_stages_is_told(compared, function: str, why: str) -> None:
    _, told = compared(SOFTMAX, function)
    (hazard,) = told.hazards
    assert hazard.kind == "stages-unusable" and why in hazard.fields["why"], hazard
    assert hazard.at is not None and hazard.at.file.endswith("ref.py")


def test_the_verdict_names_the_statement_and_bad_stages_are_bad_usage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "ref.py").write_text(STAGES, encoding="utf-8")
    text = SOFTMAX.replace("T.exp(x", "T.exp2(x")
    (tmp_path / "kernel.py").write_text(text, encoding="utf-8")

    def run(stages: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "triage", "run", "--json", "report.json", "--stages", stages, "kernel.py"]
        return subprocess.run(command, cwd=tmp_path, check=False, timeout=300, capture_output=True, text=True)

    ended = run("ref:softmax")
    verdict = json.loads((tmp_path / "report.json").read_text("utf-8"))["verdict"]
    assert (verdict["rule"], verdict["state"], ended.returncode) == ("TLC080", "localized", 1), ended.stdout
    assert "T.exp2(" in text.splitlines()[verdict["location"]["line"] - 1]
    bad = run("ref:softmaxx")
    assert bad.returncode == 2 and "has no softmaxx" in bad.stderr and "Traceback" not in bad.stderr
