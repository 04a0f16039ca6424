"""Which statement of a wrong kernel is accused, from the command line: the report names it and shows the change that was tried."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCALED = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[-1])
def double(N, block):
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), C: T.Tensor((N,), "float32")):
        with T.Kernel(N // block, threads=64) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] * 2.0

    return main


torch.manual_seed(0)
N = 200
a = torch.randn(N, device="cuda")
torch.testing.assert_close(double(N, 64)(a), a * 2.0)
"""


@pytest.mark.tilelang
@pytest.mark.skipif(find_spec("torch") is None, reason="the script needs torch")
def test_the_only_statement_that_can_be_repaired_is_named_with_its_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "kernel.py").write_text(SCALED, encoding="utf-8")
    command = [sys.executable, "-m", "triage", "run", "--json", "report.json", "kernel.py"]
    ended = subprocess.run(command, cwd=tmp_path, check=False, timeout=300, capture_output=True, text=True)
    verdict = json.loads((tmp_path / "report.json").read_text("utf-8"))["verdict"]
    assert (verdict["rule"], verdict["state"]) == ("TLC051", "localized"), ended.stdout
    assert verdict["location"]["line"] == 1 + SCALED.splitlines().index(
        "        with T.Kernel(N // block, threads=64) as bx:"
    )
    assert verdict["location"]["found_by"] == "experiment"
    fix = verdict["fixes"][0]
    assert (fix["verified"], fix["level"]) == ("passed", "matches")
    assert "+        with T.Kernel(T.ceildiv(N, block), threads=64) as bx:" in fix["patch"].splitlines()
