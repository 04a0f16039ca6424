"""Kernels that the harness captures from scripts, as programs for experiments."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triage.experiment.process import Subject, run_subject
from triage.experiment.template import Program
from triage.model import ErrorRecord, from_json

KERNELS = Path(__file__).resolve().parent / "kernels"


@dataclass(frozen=True)
class Captured:
    """One kernel of a script, and the error its compile raised, if any."""

    name: str
    program: Program
    error: ErrorRecord | None


def capture(script: Path, directory: Path, arch: str = "sm_90a") -> list[Captured]:
    """Run a script under observation, in `directory`, and return its kernels in the order they were compiled."""
    blobs = directory / "blobs"
    directory.mkdir(parents=True, exist_ok=True)
    run = run_subject(
        Subject(script=script.resolve(), cwd=directory, arch=arch), directory / "step", blobs, timeout=300
    )

    def whole(value: Any) -> Any:
        if isinstance(value, dict) and set(value) == {"blob"}:
            return json.loads((blobs / value["blob"]).read_text())
        return value

    errors = {e["kernel"]: whole(e["error"]) for e in run.events if e["type"] == "error" and e.get("kernel")}
    found = []
    for event in run.events:
        if event["type"] == "kernel" and event["primfunc"]:
            program = Program(blobs / event["primfunc"]["blob"], event["target"], event["pass_configs"] or {})
            error = errors.get(event["id"])
            found.append(Captured(event["name"], program, from_json(ErrorRecord, error) if error else None))
    return found


def marked_lines(script: Path) -> list[int]:
    """The lines of a script that end in `# BUG`, from 1."""
    return [n for n, line in enumerate(script.read_text().splitlines(), 1) if line.endswith("# BUG")]


def read_source(file: str) -> str | None:
    path = Path(file)
    return path.read_text() if path.is_file() else None
