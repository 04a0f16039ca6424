"""With a GPU the script runs unchanged under observation: nothing virtual, real errors, real results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from triage.tools.capabilities import has_gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu(), reason="there is no NVIDIA device on this machine"),
]
ROOT = Path(__file__).resolve().parent.parent

KERNEL = """
import torch
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[-1])
def add(n, block=256, threads=128):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i]
    return main

kernel = add(1000)
a, b = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
c = kernel(a, b)
"""


def triage(text: str, folder: Path) -> dict[str, Any]:
    (folder / "kernel.py").write_text(text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "triage", "run", "kernel.py", "--json", "report.json"],
        cwd=folder, env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}, check=False, timeout=300,
    )  # fmt: skip
    report: dict[str, Any] = json.loads((folder / "report.json").read_text(encoding="utf-8"))
    return report


def test_a_right_kernel_is_healthy_and_really_ran(tmp_path: Path) -> None:
    report = triage(KERNEL + "torch.testing.assert_close(c, a + b)\n", tmp_path)
    assert report["verdict"]["state"] == "healthy"
    assert report["environments"][0]["ran_on"] == "cuda:0"
    assert not any(fact["caliber"] == "virtual" for fact in report["facts"])


def test_a_wrong_result_is_correctness_at_the_comparison(tmp_path: Path) -> None:
    report = triage(KERNEL + "torch.testing.assert_close(c, a - b)\n", tmp_path)
    assert (report["verdict"]["state"], report["verdict"]["category"]) == ("classified", "correctness")
    told = [
        report["verdict"]["location"],
        *report["verdict"]["labels"],
    ]  # the kernel may be wrong, or what it is compared with
    assert len(KERNEL.splitlines()) + 1 in [place["line"] for place in told]


def test_a_wrong_call_is_at_the_users_call(tmp_path: Path) -> None:
    report = triage(KERNEL + "kernel(a.half(), b)\n", tmp_path)
    assert (report["verdict"]["state"], report["verdict"]["stage"]) == ("localized", "call")
    assert report["verdict"]["location"]["line"] == len(KERNEL.splitlines()) + 1


def test_a_layout_fault_is_localized_as_without_a_gpu(tmp_path: Path) -> None:
    text = (ROOT / "fixtures" / "kernels" / "layout-conflict.py").read_text(encoding="utf-8")
    report = triage(text, tmp_path)
    assert report["verdict"]["state"] == "localized"
    assert "# BUG" in text.splitlines()[report["verdict"]["location"]["line"] - 1]


def test_an_nvcc_error_names_the_users_line(tmp_path: Path) -> None:
    text = (ROOT / "fixtures" / "kernels" / "nvcc-bad-intrinsic.py").read_text(encoding="utf-8")
    report = triage(text, tmp_path)
    assert report["verdict"]["rule"] == "TLG051"
    assert report["verdict"]["location"] is not None
    assert "# BUG" in text.splitlines()[report["verdict"]["location"]["line"] - 1]


def test_an_illegal_access_is_reported_with_its_device(tmp_path: Path) -> None:
    text = KERNEL + "big = torch.empty(1, device='cuda').as_strided((1000,), (1 << 33,))\nbig.sum().item()\n"
    report = triage(text, tmp_path)
    assert report["verdict"]["state"] in ("classified", "unknown", "localized")
    assert report["environments"][0]["ran_on"] == "cuda:0"
