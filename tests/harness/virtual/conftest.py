"""Run a script on the virtual device, in its own process, as `triage run` does."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

import pytest

BOOT = Path(__file__).resolve().parents[3] / "triage" / "harness" / "boot.py"


@dataclass
class Run:
    code: int
    output: str
    events: list[dict]

    def of(self, kind: str) -> list[dict]:
        return [e for e in self.events if e["type"] == kind]

    @property
    def virtual(self) -> set[str]:
        return {e["what"] for e in self.of("virtual")}

    @property
    def error(self) -> dict | None:
        errors = [e["error"] for e in self.of("error") if not e["handled"]]
        return errors[-1] if errors else None

    def complaints(self) -> list[str]:
        """What the harness itself could not do."""
        return [e["text"] for e in self.of("warning") if e["origin"] == "triage"]


@pytest.fixture
def device(tmp_path):
    """`device(text)` runs a script without nvcc on a virtual sm_90a; its folder may hold other modules."""

    def run(text: str, arch: str = "sm_90a", python: str = sys.executable) -> Run:
        script = tmp_path / "script.py"
        script.write_text(textwrap.dedent(text))
        out = tmp_path / "step"
        out.mkdir()
        spec = {
            "script": str(script),
            "argv": [],
            "cwd": str(tmp_path),
            "dir": str(out),
            "blobs": str(out / "blobs"),
            "mode": "virtual",
            "arch": arch,
            "target": {"kind": "cuda", "arch": arch},
            "call": None,
            "compile": False,
        }
        (tmp_path / "spec.json").write_text(json.dumps(spec))
        done = subprocess.run(
            [python, str(BOOT), str(tmp_path / "spec.json")],
            capture_output=True,
            text=True,
            timeout=600,
            stdin=subprocess.DEVNULL,
        )
        events = [json.loads(line) for file in sorted(out.glob("events-*")) for line in file.read_text().splitlines()]
        return Run(done.returncode, done.stdout + done.stderr, events)

    return run
