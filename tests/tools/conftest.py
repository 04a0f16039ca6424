"""Tools by themselves: a script is observed, and a tool gets what the walker would give it."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from triage.case import Case
from triage.knowledge.files import rules_root
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages
from triage.tools import observe
from triage.tools.base import Options, Result, Work


class Observed:
    """A script that was observed without a GPU: its case, and the facts. Where these are `given`, nothing is observed, nor compiled."""

    def __init__(self, folder: Path, text: str, given: dict[str, Any] | None = None) -> None:
        self.script = folder / "script.py"
        self.script.write_text(textwrap.dedent(text))
        self.case = Case.create(folder, "script")
        self.steps = 0
        self.options = Options(script=str(self.script), cwd=str(folder), python=sys.executable)
        self.facts: dict[str, dict[str, Any]] = {"run": given} if given else {}
        if given is None:
            self.step(observe.run, "run")

    def step(
        self,
        tool: Callable[[Work], Result],
        about: str,
        seconds: float = 200.0,
        capabilities: tuple[str, ...] = ("execute",),
    ) -> Result:
        """Run a tool; what it finds is known to the next."""
        self.steps += 1
        work = Work(
            self.case, self.options, about, self.steps, self.case.step_dir(self.steps), seconds, frozenset(capabilities),
            {**self.facts.get("run", {}), **self.facts.get(about, {})}, {}, (), list, (), RuleSet((), rules_root()),
            Stages.load(rules_root() / "reference" / "stages.toml"), rules_root(),
            lambda file: Path(file).read_text() if file == str(self.script) else None, lambda: pytest.fail("no lowering is needed"),
        )  # fmt: skip
        result = tool(work)
        for fact in result.facts:
            self.facts.setdefault(fact.about, {})[fact.name] = fact.value
        return result

    def line(self, text: str) -> int:
        """The line of the script that holds a text."""
        return next(n for n, line in enumerate(self.script.read_text().splitlines(), 1) if text in line)

    @property
    def failed(self) -> list[str]:
        """The comparisons that failed."""
        return [
            about
            for about, known in self.facts.items()
            if known.get("comparison.verdict") == "mismatched" and about != "run"
        ]


@pytest.fixture
def observed(tmp_path: Path) -> Callable[[str], Observed]:
    return lambda text: Observed(tmp_path, text)


@pytest.fixture
def launched(tmp_path: Path) -> Callable[[str], Observed]:
    """A script of which no more is known than that it came to its end and launched kernels."""
    return lambda text: Observed(tmp_path, text, {"run.status": "succeeded", "launches.count": 1})
