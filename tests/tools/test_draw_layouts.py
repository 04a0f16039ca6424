"""Displaced tiles, from the command line: the pattern names them and their block, and the next step draws the layouts."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DISPLACED = """
import tilelang
import tilelang.language as T
import torch


@tilelang.jit(out_idx=[2])
def matmul(M, N, K, block):
    @T.prim_func
    def main(A: T.Tensor((M, K), "float16"), B: T.Tensor((K, N), "float16"), C: T.Tensor((M, N), "float32")):
        with T.Kernel(N // block, M // block, threads=128) as (bx, by):
            a = T.alloc_shared((block, block), "float16")
            b = T.alloc_shared((block, block), "float16")
            c = T.alloc_fragment((block, block), "float32")
            T.clear(c)
            for k in T.Pipelined(K // block, num_stages=2):
                T.copy(A[by * block, k * block], a)
                T.copy(B[k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[bx * block, by * block])

    return main


torch.manual_seed(0)
a = torch.randn(128, 64, dtype=torch.float16, device="cuda")
b = torch.randn(64, 128, dtype=torch.float16, device="cuda")
torch.testing.assert_close(matmul(128, 128, 64, 32)(a, b), (a @ b).float(), rtol=1e-2, atol=1e-2)
"""


@pytest.mark.tilelang
@pytest.mark.skipif(find_spec("torch") is None, reason="the script needs torch")
@pytest.mark.slow
def test_displaced_tiles_lead_to_the_layouts_and_are_told_with_their_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (tmp_path / "kernel.py").write_text(DISPLACED, encoding="utf-8")
    command = [sys.executable, "-m", "triage", "run", "--budget", "45", "--json", "report.json", "kernel.py"]
    ended = subprocess.run(command, cwd=tmp_path, check=False, timeout=300, capture_output=True, text=True)
    report = json.loads((tmp_path / "report.json").read_text("utf-8"))
    walk = {step["node"]: step["detail"] for step in report["walk"] if step["status"] == "ran"}
    assert "displaced in 32 × 32 tiles: (0, 1) holds what (1, 0) should" in walk["pattern"], ended.stdout
    assert walk["pattern"].endswith("the first of them is written where bx = 0 and by = 1")
    assert "c: 32 × 32 elements in the registers of 128 threads" in walk["layout"]
    assert "a: 2 × 32 × 32 elements in shared memory, permuted in groups of 8" in walk["layout"]
    location = report["verdict"]["location"]  # what a picture shows accuses nothing; a repair may
    assert report["verdict"]["state"] != "localized" or "C[" in DISPLACED.splitlines()[location["line"] - 1]
    page = next((tmp_path / ".triage").glob("*/report.md")).read_text("utf-8")
    assert "\npicture of the inferred layouts, `steps/" in page and "thread.register of each element" in page
