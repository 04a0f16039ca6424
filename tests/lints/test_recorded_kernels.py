"""Whole kernels, as the recorder saw them: the healthy ones unaccused, the faulty ones accused on the marked line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from lint_kernels import DEVICES

from triage.lints import inspect
from triage.model import KernelRecord, from_json

RECORDS = Path(__file__).parents[2] / "fixtures" / "records"
MARK = re.compile(r"# HAZARD ([a-z0-9-]+)$")
FILES = ("healthy_kernels", "faulty_kernels")

Found = set[tuple[int, str]]


def marked(name: str) -> Found:
    lines = (RECORDS / f"{name}.py").read_text().splitlines()
    return {(number, found[1]) for number, line in enumerate(lines, 1) if (found := MARK.search(line))}


def hazards(records: dict[str, object]) -> Found:
    kernels = [from_json(KernelRecord, record) for record in records.values()]
    found = [hazard for kernel in kernels for hazard in inspect(kernel, DEVICES["sm_90a"])]
    return {(hazard.at.line if hazard.at else 0, hazard.kind) for hazard in found}


@pytest.mark.parametrize("name", FILES)
def test_recorded_kernels(name: str) -> None:
    assert hazards(json.loads((RECORDS / f"{name}.json").read_text())) == marked(name)


@pytest.mark.tilelang
@pytest.mark.parametrize("name", FILES)
def test_kernels_recorded_now(name: str) -> None:
    recorder = Path(__file__).with_name("record_kernels.py")
    command = [sys.executable, str(recorder), str(RECORDS / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert hazards(json.loads(done.stdout.splitlines()[-1])) == marked(name)


def test_other_devices_have_other_limits() -> None:
    records = json.loads((RECORDS / "healthy_kernels.json").read_text())
    gemm = from_json(KernelRecord, records["pipelined_gemm"])
    assert inspect(gemm, DEVICES["sm_80"]) == ()
    assert [h.kind for h in inspect(gemm, DEVICES["sm_75"])] == ["shared-over-limit"]


def test_every_kind_of_the_recorded_faults_is_documented() -> None:
    documented = re.findall(r"`([a-z0-9-]+)`", (RECORDS.parents[1] / "docs" / "hazards.md").read_text())
    assert {kind for _, kind in marked("faulty_kernels")} <= set(documented)
