"""The step of the walk that bisects switches, in a whole run: what it tells, and what it leaves to others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="lowering needs tilelang"),
]

ROOT = Path(__file__).resolve().parent.parent.parent

#: the script turns vectorization off, and cp.async cannot move the two bytes that are left of a copy
FAILS = """
import tilelang
import tilelang.language as T


@tilelang.jit(target={"kind": "cuda", "arch": "sm_80"}, pass_configs={"tirx.disable_vectorize": True})
def kernel():
    @T.prim_func
    def scale(A: T.Tensor((256, 256), "float16"), B: T.Tensor((256, 256), "float16")):
        with T.Kernel(4, threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((64, 32), "float16")
            for k in T.Pipelined(8, num_stages=3):
                T.copy(A[bx * 64, k * 32], a)
                T.copy(a, c)
                T.copy(c, B[bx * 64, k * 32])

    return scale


kernel()
"""


def test_a_fault_of_the_options_is_told_by_its_switches_and_not_localized_by_them(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(FAILS, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "triage", "run", "kernel.py", "--budget", "400", "--json", "report.json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, capture_output=True, timeout=500,
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    verdict = report["verdict"]
    assert "switches" in [step["node"] for step in report["walk"] if step["status"] == "ran"]
    (first, *_) = verdict["switches"]
    assert [(s["what"], s["was"], s["now"]) for s in first["settings"]] == [("tirx.disable_vectorize", "True", "unset")]
    assert first["effect"] == "preserves" and first["passes"] == ["tl.VectorizeLoop"]
    assert verdict["state"] != "localized" and verdict["owner"] != "compiler"
    facts = {fact["name"]: fact["value"] for fact in report["facts"] if fact["about"].startswith("kernel:")}
    assert facts["switch.best"] == "tirx.disable_vectorize True → unset" and facts["switch.sets"] >= 1
