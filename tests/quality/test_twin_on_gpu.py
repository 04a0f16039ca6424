"""What was recorded of the twin beside a GPU, and, where there is one, the comparison itself."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from triage.tools.capabilities import has_gpu

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "quality" / "wrong"
RECORDED = ROOT / "fixtures" / "gpu" / "h200" / "twin.jsonl"
#: rms difference over the rms of the values: rounding and the order of sums
NEAR = 1e-3
#: see the README beside the recording
KNOWN = {
    "row-sum.py": "cancels to nearly zero",
    "gemm-persistent.py": "the device's result is right although nothing clears",
}


def lines() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDED.read_text("utf-8").splitlines()]


def test_every_script_was_recorded_and_the_twin_computed_each_launch() -> None:
    assert {line["script"] for line in lines()} == {path.name for path in SCRIPTS.glob("*.py")}
    assert not [line for line in lines() if "unsupported" in line or "failed" in line]


def test_the_twin_agreed_with_the_device() -> None:
    apart = {line["script"] for line in lines() for buffer in line.get("buffers", ()) if buffer["apart"] > NEAR}
    assert apart == set(KNOWN)


def test_only_memory_that_nobody_wrote_was_nan_on_one_side() -> None:
    odd = [line for line in lines() if any(buffer["nan"] for buffer in line.get("buffers", ()))]
    assert odd and all(any(h.startswith("never-written") for h in line["happenings"]) for line in odd)


@pytest.mark.gpu
@pytest.mark.skipif(not has_gpu(), reason="there is no NVIDIA device on this machine")
@pytest.mark.parametrize(
    "name", ["gemm-relu.py", "softmax-online.py", "topk-routing.py", "w4a16-gemm.py", "right-splitk-atomic.py"]
)
def test_the_twin_agrees_with_this_device(tmp_path: Path, name: str) -> None:
    shutil.copytree(SCRIPTS / "helpers", tmp_path / "helpers")
    (tmp_path / name).write_text(re.sub(r" *# BUG.*", "", (SCRIPTS / name).read_text("utf-8")), encoding="utf-8")
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "twin_on_gpu.py"),
        str(tmp_path / "out.jsonl"),
        str(tmp_path / name),
    ]
    subprocess.run(command, check=True, timeout=300)
    told = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text("utf-8").splitlines()]
    buffers = [buffer for line in told for buffer in line.get("buffers", ())]
    assert buffers and all(buffer["apart"] <= NEAR and not buffer["nan"] for buffer in buffers)
