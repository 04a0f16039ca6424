"""`triage minimize` on a script whose kernel computes wrong values on the CPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
START = ROOT / "tests" / "experiment" / "traps" / "mismatch" / "start.py"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.tilelang,
    pytest.mark.skipif(find_spec("tilelang") is None, reason="the scripts need tilelang"),
]


def test_a_mismatch_gets_small_in_text_values_and_shapes(tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(START.read_text(encoding="utf-8"), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "triage", "minimize", "kernel.py", "-o", "small.py", "--budget", "300"], cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=500,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "small.py").read_text(encoding="utf-8")
    assert "# Input: all ones already show it: wrong by a factor of 3 in the last" in text
    assert "others in every run" not in text
    assert "sum_of_two" not in text and "randn" not in text and "64" not in text.partition("import")[2]
    assert "T.if_then_else" in text and "a + a" in text
    alone = subprocess.run([sys.executable, "small.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert alone.returncode == 1 and "Tensor-likes are not close" in alone.stderr
    (found,) = tmp_path.glob(".triage/minimize-*/input.json")
    assert json.loads(found.read_text(encoding="utf-8"))["values"] == "ones"
