"""The trace of a failing lowering: the pass, what came before it, and the IR that went in."""

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
    pytest.mark.skipif(find_spec("tilelang") is None, reason="lowering needs tilelang"),
]

ROOT = Path(__file__).resolve().parent.parent.parent


def test_the_ir_before_the_failing_pass_is_an_artifact(tmp_path: Path) -> None:
    script = ROOT / "fixtures" / "kernels" / "layout-conflict.py"
    subprocess.run(
        [sys.executable, "-m", "triage", "run", str(script), "--json", "report.json"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=False, capture_output=True, timeout=300,
    )  # fmt: skip
    report = json.loads((tmp_path / "report.json").read_text(encoding="utf-8"))
    artifacts = {a["kind"]: tmp_path / ".triage" / "layout-conflict.py-1" / a["path"] for a in report["artifacts"]}
    assert "T.reduce" in artifacts["IR before tl.LayoutInference"].read_text() or "tl.tileop.reduce" in (
        artifacts["IR before tl.LayoutInference"].read_text()
    )
    passes = artifacts["passes in their order"].read_text().splitlines()
    assert passes[-1] == "tl.LayoutInference  <- fails"
    assert len(passes) > 10
    assert [s["node"] for s in report["walk"]][:6] == ["observe", "error", "static", "lower", "trace", "statement"]
