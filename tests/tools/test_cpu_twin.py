"""The CPU twin in the walk: what a script without a GPU is told of its values."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from triage.experiment.twin import Compared, TwinRun
from triage.model import Mismatch, Output
from triage.tools.mismatch_pattern import PICTURE
from triage.tools.twin_runs import of_happenings, wrong_on_twin

ROOT = Path(__file__).resolve().parents[2]
SUM = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[1])
def row_sum(M, N, block=32):
    @T.prim_func
    def main(X: T.Tensor((M, N), "float32"), Y: T.Tensor((M,), "float32")):
        with T.Kernel(M, threads=32) as row:
            x = T.alloc_fragment((1, block), "float32")
            s = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for k in T.serial(T.ceildiv(N, block)):
                T.copy(X[row, k * block], x)
                T.reduce_sum(x, s, dim=1)
                total[0] = total[0] + s[0]
            Y[row] = total[0]

    return main


torch.manual_seed(0)
x = torch.randn(8, 96, device="cuda")
torch.testing.assert_close(row_sum(8, 96)(x), x.sum(1))
"""


def triage(folder: Path, source: str, *words: str) -> dict[str, Any]:
    (folder / "kernel.py").write_text(source, encoding="utf-8")
    command = [sys.executable, "-m", "triage", "run", "--json", "report.json", *words, "kernel.py"]
    subprocess.run(command, cwd=folder, env=None, check=False, timeout=300, capture_output=True)
    report: dict[str, Any] = json.loads((folder / "report.json").read_text("utf-8"))
    return report


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def step(report: dict[str, Any], node: str) -> dict[str, Any]:
    return next(step for step in report["walk"] if step["node"] == node)


def test_a_comparison_that_agrees_on_the_twin_is_said_to(tmp_path: Path) -> None:
    report = triage(tmp_path, SUM)
    verdict = report["verdict"]
    assert verdict["state"] == "healthy" and "agrees on the CPU twin" in verdict["title"]
    assert any("on the CPU twin" in line for line in verdict["checked"])
    assert not any("no kernel was executed" in line["what"] for line in verdict["not_checked"])
    assert step(report, "repair")["status"] == "skipped" if any(s["node"] == "repair" for s in report["walk"]) else True


def test_a_wrong_sum_is_led_back_to_its_statement(tmp_path: Path) -> None:
    wrong = SUM.replace("total[0] + s[0]", "total[0] - s[0]")
    report = triage(tmp_path, wrong, "--budget", "45")
    verdict = report["verdict"]
    line = 1 + wrong.splitlines().index("                total[0] = total[0] - s[0]")
    assert verdict["category"] == "correctness" and verdict["rule"] in ("TLC051", "TLC052")
    told = {verdict["location"]["line"], *(label["line"] for label in verdict["labels"])}
    assert line in told
    assert "everywhere" in step(report, "pattern")["detail"]
    (picture,) = [one["path"] for one in report["artifacts"] if one["kind"] == PICTURE]
    assert "########" in next((tmp_path / ".triage").glob(f"*/{picture}")).read_text("utf-8")


BLIND = """
try:
    torch.testing.assert_close(row_sum(8, 96)(x).roll(1), x.sum(1))
except AssertionError:
    print("differs, as it must")
else:
    raise RuntimeError("the check is blind")
"""


@pytest.mark.slow
def test_a_check_that_has_to_fail_is_none_of_the_virtual_device(tmp_path: Path) -> None:
    report = triage(tmp_path, SUM + BLIND)
    assert report["verdict"]["state"] == "healthy"
    assert "agrees on the CPU twin" in report["verdict"]["title"]


@pytest.mark.slow
def test_who_prints_that_a_result_is_wrong_is_told_why(tmp_path: Path) -> None:
    wrong = SUM.replace("total[0] + s[0]", "total[0] - s[0]").replace(
        "torch.testing.assert_close(", "good = torch.allclose("
    )
    verdict = triage(tmp_path, wrong + "print('ok' if good else 'WRONG')\n")["verdict"]
    assert verdict["state"] in ("localized", "classified")
    assert wrong.splitlines()[verdict["location"]["line"] - 1].strip() == "total[0] = total[0] - s[0]"


@pytest.mark.slow
def test_what_torch_makes_of_a_result_accuses_no_statement_of_the_kernel_for_sure(tmp_path: Path) -> None:
    scaled = SUM.replace("total[0] + s[0]", "total[0] - s[0]").replace(
        "row_sum(8, 96)(x), x.sum(1)", "row_sum(8, 96)(x) * 1.0, x.sum(1)"
    )
    verdict = triage(tmp_path, scaled)["verdict"]
    assert verdict["category"] == "correctness" and verdict["state"] == "classified"
    assert verdict["confidence"] == "possible" and verdict["owner"] == "kernel"
    words = [sys.executable, "-m", "triage", "run", "--apply", "--budget", "40", "kernel.py"]
    before = (tmp_path / "kernel.py").read_bytes()
    subprocess.run(words, cwd=tmp_path, check=False, timeout=300, capture_output=True)
    assert (tmp_path / "kernel.py").read_bytes() == before


@pytest.mark.slow
def test_nan_on_both_sides_is_no_matter_of_tolerance(tmp_path: Path) -> None:
    verdict = triage(
        tmp_path,
        SUM.replace('x = torch.randn(8, 96, device="cuda")', 'x = torch.full((8, 96), float("nan"), device="cuda")'),
        "--budget",
        "30",
    )["verdict"]
    assert verdict["owner"] != "tolerance"


def test_without_experiments_nothing_is_run_again(tmp_path: Path) -> None:
    report = triage(tmp_path, SUM, "--no-experiments")
    assert step(report, "twin")["status"] == "skipped"
    assert "values were not computed" in report["verdict"]["title"]


@pytest.mark.slow
def test_what_is_too_large_for_the_twin_is_no_fault(tmp_path: Path) -> None:
    report = triage(tmp_path, SUM.replace("8, 96", "1 << 20, 96"))
    assert report["verdict"]["state"] == "healthy" and "values were not computed" in report["verdict"]["title"]
    facts = {fact["name"]: fact["value"] for fact in report["facts"]}
    assert facts["twin.computed"] == 0 and facts["twin.reason"]


UNWRITTEN = SUM.replace("            T.clear(total)\n", "")


@pytest.mark.slow
def test_memory_that_nobody_wrote_is_named_where_it_spoils_the_result(tmp_path: Path) -> None:
    verdict = triage(tmp_path, UNWRITTEN)["verdict"]
    assert verdict["state"] == "localized" and verdict["category"] == "correctness"
    assert UNWRITTEN.splitlines()[verdict["location"]["line"] - 1].strip() in (
        "total[0] = total[0] + s[0]",
        'total = T.alloc_fragment((1,), "float32")',
    )


def test_what_the_script_makes_of_a_result_is_named_beside_the_kernel() -> None:
    direct, run = a_run(nan=0, matched=False), replace(a_run(nan=0, matched=False), kernels=("row_sum",))
    derived = replace(run, comparisons=tuple(replace(one, written=()) for one in run.comparisons))
    told = {name: wrong_on_twin(one).fields for name, one in (("direct", direct), ("derived", derived))}
    assert told["direct"]["compared"] == "the kernel does not agree with its reference"
    assert "no launch wrote it as it is" in told["derived"]["compared"]
    assert "what the script makes of the result of row_sum before it compares it" in told["derived"]["look_at"]
    assert "makes of" not in told["direct"]["look_at"]
    for fields in told.values():
        assert "the arguments of the call" in fields["look_at"] and "the reference" in fields["look_at"]
    own = wrong_on_twin(replace(run, comparisons=(), failed_check=True)).fields
    assert own["compared"] == "the script's own check fails"


def a_run(nan: int, matched: bool) -> TwinRun:
    met = {"kind": "uninitialized-read", "buffer": "x", "count": 1, "place": {"file": "kernel.py", "line": 3}}
    mismatch = Mismatch((8,), "float32", wrong=2, total=8, nan=nan)
    compared = Compared(
        "m1",
        "torch.allclose",
        None,
        matched,
        {},
        mismatch=None if matched else mismatch,
        written=(Output("main", "Y"),),
    )
    return TwinRun(1, {}, (compared,), 0, (met,), nan, not matched, "succeeded" if matched else "failed")


def test_memory_that_nobody_wrote_accuses_only_where_it_reached_what_was_compared() -> None:
    assert [hazard.kind for hazard in of_happenings(a_run(nan=2, matched=False))] == ["read-of-unwritten"]
    assert of_happenings(a_run(nan=0, matched=False)) == []
    assert of_happenings(a_run(nan=0, matched=True)) == []
