"""`doctor`: what this machine and this tilelang can do, as a command and as the step that looks into a broken environment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from triage import diagnosis, probe
from triage.diagnosis import Diagnosis, Reference, Weight
from triage.graph.spec import ToolSpec
from triage.knowledge.files import rules_root
from triage.knowledge.load import load_rules
from triage.lints.hazard import Hazard
from triage.model import Caliber, Fact, StepOutcome
from triage.progress import Progress
from triage.report import machine_page
from triage.report.text import encodable
from triage.tools.base import Result, Work

SPEC = ToolSpec(
    "doctor",
    "versions, installation and abilities of this machine",
    adds=("tilelang.version", "installed.versions"),
    seconds=lambda facts: 5.0,
    essential=True,
)


def examine(
    python: str, root: Path | None = None, progress: Callable[[str], None] = lambda line: None
) -> tuple[Diagnosis, Reference]:
    """Probe the machine from inside the interpreter `python` and judge what is found. Takes seconds: two imports."""
    reference = diagnosis.load_reference(root or rules_root())
    machine = probe.probe(
        python,
        modules=[t.module for t in reference.tools if t.module],
        attributes=[t.attribute for t in reference.tools if t.attribute],
        tick=lambda seconds: progress(f"looking at the machine, importing torch and tilelang: {seconds:.0f} s"),
    )
    checked_with = {rule.code: rule.checked_with for rule in load_rules(root).rules}
    return diagnosis.diagnose(machine, reference, checked_with), reference


def command(
    require: Sequence[str] = (), python: str = sys.executable, as_json: bool = False, stream: TextIO | None = None
) -> int:
    """`triage doctor`: print the page; 1 where a required capability is absent, 2 for one that does not exist, else 0."""
    out = stream or sys.stdout
    names = [name for item in require for name in item.split(",") if name]
    unknown = [name for name in names if name not in probe.CAPABILITIES]
    if unknown:
        known = ", ".join(probe.CAPABILITIES)
        print(f"triage doctor: no such capability: {', '.join(unknown)}; known: {known}", file=sys.stderr)
        return 2
    with Progress(sys.stderr) as progress:
        found, reference = examine(python, progress=progress.tell)
    page = machine_page.as_json if as_json else machine_page.render
    out.write(encodable(page(found, reference, names), out.encoding or "utf-8"))
    able = probe.capabilities(found.machine)
    return 1 if any(name not in able for name in names) else 0


def run(work: Work) -> Result:
    """The step: problems of the installation become hazards that rules may match, each named by `hazard.kind`."""
    found, _ = examine(work.options.python or sys.executable, work.rules_root, work.progress)
    problems = [p for p in found.problems if p.weight == Weight.PROBLEM]
    hazards = tuple(
        Hazard(f"environment-{p.name}", "installation", fields={"title": p.title, "why": p.why, "do": p.do})
        for p in problems
    )
    version = found.machine.tilelang_version or found.machine.version("tilelang")
    others = {name: package.version for name, package in found.machine.packages.items() if package.version}
    told = {"tilelang.version": version, "installed.versions": others}
    facts = tuple(Fact(n, value, caliber=Caliber.OBSERVED, source="doctor") for n, value in told.items() if value)
    return Result(
        outcome=StepOutcome.FINDING if problems else StepOutcome.CLEAN,
        detail="; ".join(p.title for p in problems) or "the installation shows no problem",
        facts=facts,
        hazards=hazards,
        checked=() if problems else ("the installation: versions, imports, toolkit [measured here]",),
    )
