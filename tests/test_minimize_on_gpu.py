"""`triage minimize` on a machine with a GPU: values are computed there, each candidate in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triage.experiment import gpus
from triage.experiment.gpu_scripts import GpuRunner
from triage.experiment.scripts import Candidate
from triage.tools.capabilities import has_gpu

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not has_gpu(), reason="there is no NVIDIA device on this machine"),
]
ROOT = Path(__file__).resolve().parent.parent

TAIL = """import torch
import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def add(n, block=256, threads=128):
    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=threads) as bx:
            for i in T.Parallel(block):
                C[bx * block + i] = A[bx * block + i] + B[bx * block + i] * T.if_then_else(bx * block + i < n - 100, 1.0, 3.0)

    return main


unused = torch.randn(64, device="cuda")
a, b = torch.randn(1000, device="cuda"), torch.randn(1000, device="cuda")
c = add(1000)(a, b)
print(c.sum().item(), unused.sum().item())
"""
LIBRARY = TAIL + "torch.testing.assert_close(c, a + b)\n"
OWN = TAIL + "error = (c - (a + b)).abs().max().item()\nif error > 1e-3:\n    raise ValueError(f'wrong by {error}')\n"
#: an index that only the device checks: its context is lost from then on
BREAKS = """import torch

x = torch.zeros(4, device="cuda")
y = x[torch.full((8,), 1000, device="cuda")]
torch.cuda.synchronize()
"""


def shown(folder: Path, text: str):
    script = folder / "kernel.py"
    script.write_text(text, encoding="utf-8")
    with GpuRunner(folder / "runner", script, cwd=folder) as runner:
        return runner.run(Candidate(text), 300.0)


@pytest.mark.parametrize("text", [LIBRARY, OWN], ids=["a function that compares", "a reduction of the script's own"])
def test_what_is_wrong_is_told_with_the_kernels_output(text: str, tmp_path: Path) -> None:
    found = shown(tmp_path, text)
    assert found.status == "failed", found
    compared = found.errors[-1].comparison
    assert compared is not None and compared.pattern is not None
    assert [(output.name, output.argument) for output in compared.written] == [("add.main", "C")]
    runs = compared.pattern.axes[0].touched
    assert compared.pattern.wrong <= 100 and runs.first[0][0] >= 900 and sum(runs.last) > 990


def test_after_a_device_fault_the_next_candidate_computes(tmp_path: Path) -> None:
    assert shown(tmp_path, BREAKS).status == "failed"
    assert shown(tmp_path, TAIL).status == "succeeded"


def test_a_run_waits_for_who_holds_the_gpu(tmp_path: Path) -> None:
    holder = "import sys\nfrom triage.experiment import gpus\nwith gpus.held(gpus.visible()):\n    print('held', flush=True)\n    sys.stdin.readline()\n"
    script = tmp_path / "kernel.py"
    script.write_text("pass\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    assert gpus.visible()
    with subprocess.Popen(
        [sys.executable, "-c", holder], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as held:  # fmt: skip
        assert held.stdout is not None and held.stdout.readline() == "held\n"
        run = subprocess.Popen(
            [sys.executable, "-m", "triage", "run", "kernel.py"], cwd=tmp_path, env=environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(8.0)
        held.communicate("\n")
    run.wait(120.0)


def test_a_mismatch_gets_small_with_a_simple_input(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(LIBRARY, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "triage", "minimize", "kernel.py", "-o", "small.py", "--budget", "300"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "small.py").read_text(encoding="utf-8")
    assert "unused" not in text and "Input: " in text and "in the last" in text
    alone = subprocess.run([sys.executable, "small.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert alone.returncode == 1 and "Tensor-likes are not close" in alone.stderr
    assert list(tmp_path.glob(".triage/minimize-*/input.json"))
