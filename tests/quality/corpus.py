"""The labelled kernels of `fixtures/kernels`, and how triage answers on them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rewrite import Script

ROOT = Path(__file__).resolve().parent.parent.parent
KERNELS = ROOT / "fixtures" / "kernels"
#: The step that tries fixes is skipped here, as if the machine lacked something: no verdict depends on it, and it takes
#: as long as all others together.
FIX = re.compile(r"^(fix +=.*needs = )\[[^\]]*\]", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """A labelled script. `category` None means healthy; `line` False means that no line of it is at fault."""

    name: str
    script: Script
    category: str | None = "generation"
    line: bool = True
    env: dict[str, str] = field(default_factory=dict)
    args: tuple[str, ...] = ()


@dataclass(frozen=True)
class Answer:
    """What triage said, reduced to what is judged."""

    case: Case
    state: str
    category: str | None
    rule: str | None
    place: tuple[str, int] | None
    status: int
    title: str = ""

    @property
    def accused(self) -> bool:
        return self.state in ("localized", "classified")

    @property
    def right_category(self) -> bool:
        return self.category == self.case.category and self.accused == (self.case.category is not None)

    @property
    def right_line(self) -> bool:
        return self.place in self.case.script.marks()

    @property
    def right_localized(self) -> bool:
        """Whether `localized` is true here: category and, where a line is at fault, the line."""
        return self.right_category and (self.right_line or not self.case.line)

    def row(self) -> str:
        marks = "".join(c if ok else c.upper() for c, ok in (("c", self.right_category), ("l", self.right_line)))
        where = f"{self.place[0]}:{self.place[1]}" if self.place else "-"
        return f"{self.case.name:44} {self.state:10} {self.category or '-':13} {self.rule or '-':7} {where:24} {marks}  {self.title[:50]}"


def load() -> list[Case]:
    """Every labelled script: `answers.toml` says what its marks do not."""
    answers: dict[str, Any] = tomllib.loads((KERNELS / "answers.toml").read_text(encoding="utf-8"))
    cases = []
    for path in sorted(KERNELS.glob("*.py")):
        said = answers.get(path.stem, {})
        script = Script("kernel.py", {"kernel.py": path.read_text(encoding="utf-8")})
        category = None if said.get("healthy") else said.get("category", "generation")
        cases.append(
            Case(
                path.stem, script, category, bool(script.marks()) and category is not None,
                {k: str(v) for k, v in said.get("env", {}).items()}, tuple(said.get("args", ())),
            )
        )  # fmt: skip
    unknown = set(answers) - {case.name for case in cases}
    assert not unknown, f"answers.toml names scripts that do not exist: {unknown}"
    return cases


def ask(case: Case, folder: Path) -> Answer:
    """Run triage on a case in a folder of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in case.script.plain().items():
        (folder / name).write_text(text, encoding="utf-8")
    graph = folder / "graph.toml"
    text, count = FIX.subn(r'\1["ncu"]', (ROOT / "rules" / "graph.toml").read_text(encoding="utf-8"))
    assert count == 1
    graph.write_text(text, encoding="utf-8")
    report, status = run_triage(folder, case.script.main, "--graph", str(graph), *case.args, env=case.env)
    verdict = report["verdict"]
    at = verdict["location"]
    place = (os.path.basename(at["file"]), at["line"]) if at else None
    return Answer(case, verdict["state"], verdict["category"], verdict["rule"], place, status, verdict["title"])


def run_triage(
    folder: Path, script: str, *words: str, env: Mapping[str, str] | None = None, timeout: float = 600.0
) -> tuple[dict[str, Any], int]:
    """The report of `triage run` on a script in a folder, and the exit status; nothing of the caller's compiler settings reaches it."""
    report = folder / "report.json"
    own = {k: v for k, v in os.environ.items() if not k.startswith(("TILELANG_", "TL_", "TVM_"))}
    done = subprocess.run(
        [sys.executable, "-m", "triage", "run", script, "--json", str(report), *words],
        cwd=folder,
        env={**own, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), **(env or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert report.is_file() and "Traceback" not in done.stderr, f"{folder.name}: {done.returncode}\n{done.stderr}"
    return json.loads(report.read_text(encoding="utf-8")), done.returncode


def ask_all(cases: Sequence[Case], folder: Path) -> list[Answer]:
    """All answers, two at a time."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda case: ask(case, folder / case.name), cases))


def share(answers: Sequence[Answer], right: str) -> float:
    """The share of answers for which the property `right` holds; 1 for none."""
    return sum(getattr(a, right) for a in answers) / len(answers) if answers else 1.0
