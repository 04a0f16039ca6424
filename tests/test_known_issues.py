"""`triage run` on kernels that met a known fault of the compiler: two that the installed release still has, two that it has not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
pytestmark = [
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="needs tilelang"),
]

HEAD = """\
import tilelang
import tilelang.language as T


@tilelang.jit%s
def make():
    @T.prim_func
    def main(%s):
"""
TAIL = """
    return main


make()
"""


def kernel(params: str, body: str, configs: str = "") -> str:
    return HEAD % (f"(pass_configs={configs})" if configs else "", params) + body + TAIL


SMALL_INTEGERS = kernel(
    'A: T.Tensor((64, 64), "int4"), B: T.Tensor((64, 64), "int4"), C: T.Tensor((64, 64), "int32")',
    """\
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((64, 32), "int4")
            right = T.alloc_shared((64, 32), "int4")
            total = T.alloc_fragment((64, 64), "int32")
            T.clear(total)
            for step in T.Pipelined(2, num_stages=2):
                T.copy(A[0, step * 32], left)
                T.copy(B[0, step * 32], right)
                T.gemm(left, right, total, transpose_B=True)
            T.copy(total, C)
""",
)
PIPELINE_IN_WHILE = kernel(
    'A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32"), rounds: T.int32',
    """\
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((64, 64), "float16")
            right = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float32")
            done = T.alloc_var("int32")
            done = 0
            T.clear(total)
            while done < rounds:
                for step in T.Pipelined(4, num_stages=2):
                    T.copy(A[0, step * 64], left)
                    T.copy(B[step * 64, 0], right)
                    T.gemm(left, right, total)
                done = done + 1
            T.copy(total, C)
""",
)
REDUCER_WITHOUT_LOOP = kernel(
    'Out: T.Tensor((128,), "float32")',
    """\
        with T.Kernel(1, threads=128):
            sums = T.alloc_reducer((128,), "float32", op="sum")
            T.clear(sums)
            T.finalize_reducer(sums)
            T.copy(sums, Out)
""",
)
TMA_ALONE = kernel(
    'X: T.Tensor((256, 256), "float16"), Y: T.Tensor((256, 256), "float16")',
    """\
        with T.Kernel(4, threads=128) as block:
            tile = T.alloc_shared((64, 256), "float16")
            T.copy(X[block * 64, 0], tile)
            T.copy(tile, Y[block * 64, 0])
""",
    '{"tl.disable_warp_specialized": True}',
)


def verdict(script: str, folder: Path) -> dict[str, Any]:
    (folder / "kernel.py").write_text(script, "utf-8")
    subprocess.run(
        [sys.executable, "-m", "triage", "run", "kernel.py", "--arch", "sm_90a", "--no-experiments", "--json", "r.json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, timeout=300,
    )  # fmt: skip
    found: dict[str, Any] = json.loads((folder / "r.json").read_text("utf-8"))["verdict"]
    return found


@pytest.mark.parametrize(
    ("script", "rule", "issue", "switch"),
    [
        (SMALL_INTEGERS, "TLG079", "tile-ai/tilelang#2563", "tl.disable_warp_specialized=True"),
        (PIPELINE_IN_WHILE, "TLG042", "tile-ai/tilelang#2548", "tl.disable_warp_specialized=True"),
    ],
)
def test_a_fault_that_is_still_there_comes_with_the_switch_and_no_upgrade(
    script: str, rule: str, issue: str, switch: str, tmp_path: Path
) -> None:
    found = verdict(script, tmp_path)
    assert found["rule"] == rule
    told = {one["id"]: one for one in found["known_issues"]}
    assert told[issue]["standing"] == "affected"
    assert f"Set {switch}" in told[issue]["says"]
    assert any(fix["title"].startswith(f"Set {switch}") for fix in found["fixes"])
    assert not any("pgrade" in one["says"] for one in told.values())
    assert not any("pgrade" in fix["title"] for fix in found["fixes"])


@pytest.mark.parametrize("script", [REDUCER_WITHOUT_LOOP, TMA_ALONE])
def test_a_fault_that_is_gone_is_not_spoken_of(script: str, tmp_path: Path) -> None:
    found = verdict(script, tmp_path)
    assert found["state"] == "healthy"
    assert found["known_issues"] == []
