"""Looking at many changes in one run: it says of each what a run of the changed script says."""

from __future__ import annotations

from pathlib import Path

import pytest

from triage.experiment.errors import read_events
from triage.experiment.repairs import edits
from triage.experiment.repairs.edit import Edit
from triage.experiment.screen import Screened, screened
from triage.experiment.scripts import Candidate, ScriptRunner
from triage.experiment.twin import read

pytestmark = pytest.mark.tilelang

SCRIPT = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def scaled(M, N, block):
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), S: T.Tensor((N,), "float32"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block), threads=64) as bx:
            row = T.alloc_fragment((block, N), "float32")
            total = T.alloc_fragment((block,), "float32")
            T.copy(A[bx * block, 0], row)
            T.reduce_sum(row, total, dim=1)
            for i, j in T.Parallel(block, N):
                row[i, j] = row[i, j] * S[i] / total[i]
            T.copy(row, C[bx * block, 0])

    return main


def main():
    torch.manual_seed(0)
    a, s = torch.rand(24, 32, device="cuda"), torch.rand(32, device="cuda")
    {run}


main()
"""
WANT = "a * s / a.sum(1, keepdim=True)"
ONE = f"c = scaled(24, 32, 8)(a, s)\n    torch.testing.assert_close(c, {WANT})"
OWN = f"c = scaled(24, 32, 8)(a, s)\n    error = (c - {WANT}).abs().mean().item()\n    assert error < 1e-5, error"
LOOP = (
    f"for rows in (8, 24):\n        c = scaled(rows, 32, 8)(a[:rows], s)\n        error = (c - ({WANT})[:rows]).abs().max()\n"
    "        if error > 1e-5:\n            raise SystemExit(1)"
)
IN_PLACE = (
    "for step in range(2):\n        a = scaled(24, 32, 8)(a, s)\n    want = torch.rand(24, 32, device='cuda') * 0\n"
    f"    torch.manual_seed(0)\n    b = torch.rand(24, 32, device='cuda')\n    for step in range(2):\n        b = {WANT.replace('a', 'b', 1).replace('a.sum', 'b.sum')}\n"
    "    torch.testing.assert_close(a, b + want)"
)
WAYS = {"one": ONE, "own": OWN, "loop": LOOP, "in-place": IN_PLACE}


@pytest.fixture
def look(tmp_path: Path):  # type: ignore[no-untyped-def]
    def look(source: str, some: list[Edit], seconds: float = 60.0) -> tuple[Screened, dict[Edit, bool]]:
        """What is said of edits in one run, and what runs of the changed scripts say."""
        script = tmp_path / "kernel.py"
        script.write_text(source, encoding="utf-8")
        with ScriptRunner(tmp_path / "runs", script, cwd=tmp_path, jobs=1) as runner:
            found = screened(runner, Candidate(source, twin=()), some, seconds, 20.0)
            runs = {edit: runner.run(Candidate(edit.apply(source), twin=())) for edit in found.known}
            return found, {e: read(read_events(s.directory), s.status, runner.blob).passes for e, s in runs.items()}

    return look


@pytest.mark.parametrize("way", WAYS)
def test_what_is_said_of_a_change_is_what_the_changed_script_does(look, way: str) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", WAYS[way])
    usual = [edit for edit in edits(source, range(8, 20)) if edit.line in (14, 15, 16, 17)]
    right = [edit for edit in usual if edit.line == 17 and edit.says == "`i` as `j`"]
    found, runs = look(source, [*right, *usual[::9]])
    assert found.all and len(found.known) > 8
    assert found.known == runs
    assert any(runs.values()) and not all(runs.values())


def test_a_change_that_kills_the_process_hinders_no_other(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE)
    start = source.index("row[i, j] * S[i]")
    deadly = Edit(17, 17, "term", "deadly", ((start, start + 16, "__import__('os').abort()"),))
    right = an_edit_of(source, "S[i]", "S[j]")
    found, runs = look(source, [deadly, right, deadly, an_edit_of(source, "S[i]", "S[0]")])
    assert found.seen == 4 and found.known[right] and runs[right] and deadly not in found.known
    assert len(found.known) == 2


def test_a_statement_that_is_in_no_launched_kernel_is_left_to_others(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE)
    found, _ = look(source, [an_edit_of(source, "torch.rand(32", "torch.ones(32")])
    assert found.known == {} and found.seen == 1


def test_where_nothing_is_wrong_nothing_is_said(look) -> None:  # type: ignore[no-untyped-def]
    source = SCRIPT.replace("{run}", ONE).replace("S[i]", "S[j]")
    found, _ = look(source, [an_edit_of(source, "S[j]", "S[i]")])
    assert found.known == {} and found.seen == 0


def an_edit_of(source: str, old: str, new: str) -> Edit:
    start = source.index(old)
    line = source.count("\n", 0, start) + 1
    return Edit(line, line, "term", f"`{old}` as `{new}`", ((start, start + len(old), new),))
