"""The labelled scripts of `tests/quality/wrong`, and how triage answers on them."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from corpus import ROOT, run_triage

#: another folder of the same form may be asked about
SCRIPTS = Path(os.environ.get("TRIAGE_WRONG", ROOT / "tests" / "quality" / "wrong"))
#: whom a verdict accuses, as the answers say it
CULPRITS = {"kernel": "program", "tolerance": "tolerance", "reference": "reference", "compiler": "compiler"}
#: a line counts as found within this distance
NEAR = 1


@dataclass(frozen=True)
class Case:
    """`lines`: where a careful reader puts the first wrong statement; none of a right script."""

    name: str
    family: str
    fault: str
    culprit: str
    lines: tuple[int, ...]


@dataclass(frozen=True)
class Answer:
    """`how`: which kind of tool named the place: lint, twin, repair, model, reference, or comparison (only that something differs)."""

    case: Case
    state: str
    category: str | None
    rule: str | None
    owner: str
    line: int | None
    labels: tuple[int, ...]
    seconds: float

    @property
    def culprit(self) -> str:
        if self.state == "healthy":
            return "none"
        if self.case.culprit == "comparison" and self.owner == "kernel":
            return "comparison"
        return CULPRITS.get(self.owner, "unknown")

    @property
    def right_culprit(self) -> bool:
        return self.culprit == self.case.culprit

    @property
    def how(self) -> str:
        number = int(self.rule[3:]) if self.rule and self.rule.startswith("TLC") else 0
        if number in (51, 52):
            return "repair"
        if number in (55, 56, 57, 58, 59):
            return "twin"
        return {50: "comparison", 20: "comparison", 53: "model", 54: "reference", 60: "reference"}.get(number, "lint")

    @property
    def right_line(self) -> bool:
        return any(abs(self.line - line) <= NEAR for line in self.case.lines) if self.line else False

    @property
    def among_labels(self) -> bool:
        return any(abs(label - line) <= NEAR for label in self.labels for line in self.case.lines)


def load() -> list[Case]:
    answers = tomllib.loads((SCRIPTS / "answers.toml").read_text("utf-8"))
    return [
        Case(name, one["family"], one["fault"], one["culprit"], tuple(one.get("lines", ())))
        for name, one in answers.items()
    ]  # fmt: skip


def ask(case: Case, folder: Path, budget: float = 120.0, words: Iterable[str] = ()) -> Answer:
    """Run `triage run` on a copy of the script without its marks."""
    place = folder / case.name.removesuffix(".py")
    place.mkdir(parents=True)
    if (SCRIPTS / "helpers").is_dir():
        shutil.copytree(SCRIPTS / "helpers", place / "helpers")
    (place / case.name).write_text(re.sub(r" *# BUG.*", "", (SCRIPTS / case.name).read_text("utf-8")), encoding="utf-8")
    report, _ = run_triage(place, case.name, "--budget", str(budget), *words, timeout=900)
    verdict = report["verdict"]
    location = verdict["location"] or {}
    return Answer(
        case,
        state=verdict["state"],
        category=verdict["category"],
        rule=verdict["rule"],
        owner=verdict["owner"],
        line=location.get("line"),
        labels=tuple(label["line"] for label in verdict["labels"]),
        seconds=sum(step["seconds"] for step in report["walk"]),
    )
