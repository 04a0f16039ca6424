"""Scripts that compare nothing: what their launches write may not depend on how the work is cut into tiles."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triage.experiment.schedules import schedules
from triage.lints.hazard import Hazard
from triage.model import StepOutcome
from triage.tools import cpu_twin, vary_schedule

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def made(M, N, block=32, rows=8):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M, N), "float32")):
        with T.Kernel({grid}, threads=64) as {at}:
            x = T.alloc_shared((rows, block), "float32")
            carry = T.alloc_fragment((rows,), "float32")
            T.clear(carry)
{body}
    return main


x = torch.randn(16, 64, device="cuda")
y = made(16, 64)(x)
{end}
"""
SCAN = """
            for n in T.serial(T.ceildiv(N, block)):
                T.copy(X[by * rows, n * block], x)
                T.cumsum(x, dim=1)
                for i, j in T.Parallel(rows, block):
                    x[i, j] = x[i, j] + carry[i]
                T.copy(x, Y[by * rows, n * block])
                for i in T.Parallel(rows):
                    carry[i] = x[i, block - 1]
"""
BY_BLOCK = """
            T.copy(X[by * rows, bx * block], x)
            T.reduce_absmax(x, carry, dim=1)
            for i, j in T.Parallel(rows, block):
                Y[by * rows + i, bx * block + j] = T.round(x[i, j] / carry[i] * 127.0)
"""


def scan(body: str = SCAN, end: str = "print(y.sum())") -> str:
    return SCRIPT.format(grid="T.ceildiv(M, rows)", at="by", body=body, end=end)


def by_block() -> str:
    return SCRIPT.format(grid="T.ceildiv(N, block), T.ceildiv(M, rows)", at="(bx, by)", body=BY_BLOCK, end="")


def result(launched: Any, text: str) -> Any:
    script = launched(text)
    script.step(cpu_twin.run, "run")
    return script.step(vary_schedule.run, "run")


@pytest.mark.tilelang
def test_a_right_scan_comes_to_the_same_with_other_tiles(launched) -> None:
    """Its inputs are random and not seeded: they must be the same in every run all the same."""
    told = result(launched, scan())
    assert told.outcome is StepOutcome.CLEAN and not told.hazards, told
    assert "block=16" in told.checked[0] and "block=64" in told.checked[0] and "rows=16" in told.checked[0]


@pytest.mark.tilelang
def test_a_carry_that_is_forgotten_shows_as_another_result(launched) -> None:
    told = result(launched, scan(SCAN.replace("x[i, j] + carry[i]", "x[i, j] + carry[i] * 0.0")))
    (hazard,) = told.hazards
    assert isinstance(hazard, Hazard) and hazard.kind == "result-depends-on-schedule"
    assert (hazard.fields["name"], hazard.fields["old"], hazard.at.line) == ("block", 32, 8)
    assert told.checked and "rows=16" in told.checked[0]  # what does not depend on it is told, too


@pytest.mark.tilelang
@pytest.mark.slow
def test_a_script_that_never_writes_the_same_twice_is_not_blamed_on_a_tile(launched) -> None:
    told = result(
        launched, scan().replace("x = torch.randn", "import time; torch.manual_seed(time.time_ns())\nx = torch.randn")
    )
    assert told.outcome is StepOutcome.UNKNOWN and not told.hazards and not told.checked, told
    assert told.not_checked and all("something else each time" in one.why for one in told.not_checked)


@pytest.mark.tilelang
def test_what_each_block_does_for_itself_is_advice(launched) -> None:
    (hazard,) = result(launched, by_block()).hazards
    assert hazard.kind == "result-depends-on-block" and hazard.fields["name"] == "block"


@pytest.mark.tilelang
def test_a_script_that_compares_is_not_asked(launched) -> None:
    told = result(launched, scan(end="torch.testing.assert_close(y, x.cumsum(1))"))
    assert told.outcome is StepOutcome.UNKNOWN and "compares" in told.detail


@pytest.mark.slow
@pytest.mark.tilelang
def test_the_report_of_a_run_names_the_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "kernel.py").write_text(scan(SCAN.replace("+ carry[i]", "")), encoding="utf-8")
    command = [sys.executable, "-m", "triage", "run", "--json", "report.json", "kernel.py"]
    ended = subprocess.run(command, cwd=tmp_path, check=False, timeout=300, capture_output=True, text=True)
    verdict = json.loads((tmp_path / "report.json").read_text("utf-8"))["verdict"]
    assert (verdict["rule"], verdict["state"], verdict["location"]["line"]) == ("TLC078", "classified", 8), ended.stdout
    assert ended.returncode == 1


def said(source: str, *extents: int) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in schedules(source, extents).schedules:
        found.setdefault(one.name, []).append(one.new)
    return found


def test_only_numbers_that_are_nothing_but_tiles_are_changed() -> None:
    assert said(scan()) == {"rows": [16], "block": [16, 64]}
    assert said(scan(), 32) == {"rows": [16], "block": [16]}  # a size that is a multiple of the tile stays one
    value = scan(SCAN.replace("+ carry[i]", "+ carry[i] / block"))
    assert said(value) == {"rows": [16]}
    assert dict(schedules(value, ()).left_alone)["block"] == "what is computed depends on it"
    shape = scan().replace('Y: T.Tensor((M, N), "float32")', 'Y: T.Tensor((M, N // block), "float32")')
    assert dict(schedules(shape, ()).left_alone)["block"] == "the shape of a tensor depends on it"
    given = scan().replace("made(16, 64)", "made(16, 64, block=B)")
    assert said(given) == {"rows": [16]}
    assert said("def f(:") == {}


@given(st.integers(1, 4096), st.integers(1, 4096))
def test_every_schedule_is_python_with_the_number_in_its_place(old: int, extent: int) -> None:
    source = scan().replace("block=32", f"block={old}")
    for one in schedules(source, (extent,)).schedules:
        changed = one.apply(source)
        compile(changed, "kernel.py", "exec")
        assert f"{one.name}={one.new}" in changed and one.new != one.old
        assert extent % one.old or not extent % one.new
