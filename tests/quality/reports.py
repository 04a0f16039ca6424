"""The labelled public reports of `fixtures/reports`, and how triage answers on them; its README tells their fields."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from triage.explaining import Explanation

REPORTS = Path(__file__).resolve().parents[2] / "fixtures" / "reports" / "reports.jsonl"


def load() -> list[dict[str, Any]]:
    return [json.loads(line) for line in REPORTS.read_text("utf-8").splitlines()]


def verdict(said: Explanation, report: dict[str, Any]) -> str:
    """`right` or `wrong` by the category, or `unanswered`."""
    if said.category is None:
        return "unanswered"
    return "right" if said.category == report["category"] else "wrong"
