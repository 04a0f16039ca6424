"""Reports that a real H200 made: they keep the contract and say on what they were measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from triage.report import markdown, terminal
from triage.report.schema import problems

FOLDER = Path(__file__).resolve().parent.parent.parent / "fixtures" / "gpu" / "h200"
EXPECTED = {
    "healthy": ("healthy", None),
    "wrong-result": ("classified", "correctness"),
    "wrong-call": ("localized", "generation"),
    "layout-fault": ("localized", "generation"),
    "nvcc-error": ("localized", "generation"),
    "illegal-access": ("unknown", None),
}


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.json")), ids=lambda p: p.stem)
def test_a_report_of_a_real_device_keeps_the_contract(path: Path) -> None:
    report = json.loads(path.read_text(encoding="utf-8"))
    assert problems(report) == []
    assert (report["verdict"]["state"], report["verdict"]["category"]) == EXPECTED[path.stem]
    assert report["environments"][0]["ran_on"] == "cuda:0"
    assert not any(fact["caliber"] == "virtual" for fact in report["facts"])
    assert "measured on" in report["verdict"]["basis"]
    assert terminal.render(report) and markdown.render(report)


def test_every_recorded_report_is_expected() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(EXPECTED)
