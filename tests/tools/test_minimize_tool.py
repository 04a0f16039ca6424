"""The node that makes a script small, in a whole run: a fault that no rule knows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
SCRIPT = """import torch
import tilelang
import tilelang.language as T

FACTORS = {"half": 0.5, "double": 2.0}


def table(n):
    if n % 3 == 0:
        raise LookupError("no factors for that many rows")
    return FACTORS["half"]


@tilelang.jit(out_idx=[-1])
def scale(m, n):
    @T.prim_func
    def main(A: T.Tensor((m, n), "float16"), B: T.Tensor((m, n), "float16")):
        with T.Kernel(m, threads=128) as row:
            for j in T.Parallel(n):
                B[row, j] = A[row, j] * 2

    return main


x = torch.randn(96, 64, device="cuda", dtype=torch.float16)
y = scale(96, 64)(x)
print(y * table(96))
"""


@pytest.mark.tilelang
@pytest.mark.skipif(find_spec("tilelang") is None, reason="the script needs tilelang")
def test_a_fault_that_nobody_knows_is_shown_by_a_small_script(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "triage", "run", "kernel.py", "--json", "report.json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text())
    step = next(s for s in report["walk"] if s["node"] == "minimize")
    assert (step["status"], step["outcome"]) == ("ran", "finding"), step
    facts = {f["name"]: f["value"] for f in report["facts"] if f["name"].startswith("minimized.")}
    small = next(a["path"] for a in report["artifacts"] if a["kind"] == "minimized script")
    text = (next((tmp_path / ".triage").glob("kernel.py-*")) / small).read_text()
    assert facts["minimized.lines"] <= 5 < facts["minimized.lines_before"]
    assert "LookupError" in text and "scale" not in text and "tilelang.language" not in text
    assert "made small" in done.stdout
