"""Whose fault it is that a right program comes out wrong on a GPU: what was recorded on one, and, where there is one, the runs themselves."""

from __future__ import annotations

import json
import shutil
import tomllib
from pathlib import Path
from typing import Any

import pytest
from corpus import ROOT, run_triage

from triage.report.schema import problems
from triage.tools.capabilities import has_gpu

SCRIPTS = ROOT / "tests" / "quality" / "device"
RECORDED = ROOT / "fixtures" / "gpu" / "h200" / "device"
ANSWERS: dict[str, dict[str, Any]] = tomllib.loads((SCRIPTS / "answers.toml").read_text("utf-8"))
OWNERS = {"compiler": "compiler", "program": "kernel", "none": "unknown"}


def check(name: str, report: dict[str, Any]) -> None:
    right, verdict = ANSWERS[name], report["verdict"]
    assert report["environments"][0]["ran_on"] == "cuda:0"
    assert (verdict["state"] == "healthy") is (right["culprit"] == "none"), verdict
    assert verdict["owner"] == OWNERS[right["culprit"]], verdict
    if verdict["state"] == "localized":
        assert verdict["location"]["line"] in right["lines"], verdict


REPORTS = sorted(RECORDED.glob("*.json"))


def test_every_script_has_an_answer_and_every_culprit_a_recording() -> None:
    assert set(ANSWERS) == {path.name for path in SCRIPTS.glob("*.py")}
    assert {ANSWERS[f"{path.stem}.py"]["culprit"] for path in REPORTS} == set(OWNERS)


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_what_was_recorded_names_the_culprit(path: Path) -> None:
    report = json.loads(path.read_text("utf-8"))
    assert problems(report) == []
    check(f"{path.stem}.py", report)


@pytest.mark.tilelang
def test_without_a_gpu_nobody_is_accused(tmp_path: Path) -> None:
    name = "fragment-loops.py"
    shutil.copy(SCRIPTS / name, tmp_path)
    report, _ = run_triage(tmp_path, name)
    if not has_gpu():
        assert report["verdict"]["state"] == "healthy"


@pytest.mark.gpu
@pytest.mark.skipif(not has_gpu(), reason="there is no NVIDIA device on this machine")
@pytest.mark.parametrize("name", ANSWERS)
def test_this_device_names_the_culprit(tmp_path: Path, name: str) -> None:
    shutil.copy(SCRIPTS / name, tmp_path)
    report, _ = run_triage(tmp_path, name)
    check(name, report)
