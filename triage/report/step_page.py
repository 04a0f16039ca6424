"""What one step of the walk found when it was run alone, as plain text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from triage.model import Artifact, Fact, Finding, Step
from triage.report.text import defuse, one_line

#: a fact's value is cut here; the case keeps it whole
VALUE = 160


def render(step: Step, facts: Sequence[Fact], artifacts: Sequence[Artifact], findings: Sequence[Finding]) -> str:
    """The step with its outcome, the facts and files it added, and what is known after it."""
    lines = [f"step {step.number}: {step.node} ({step.tool}), about {step.about}"]
    lines.append(f"{step.status}, {step.outcome}, {step.seconds:.2f} s" + (f": {step.detail}" if step.detail else ""))
    lines += _section("facts", (_fact(fact) for fact in facts))
    lines += _section("files", (f"{artifact.kind}: {artifact.path}" for artifact in artifacts))
    lines += _section("known after it", (_finding(finding) for finding in findings))
    return defuse("\n".join(one_line(line) if line else "" for line in lines) + "\n")


def _section(heading: str, entries: Iterator[str]) -> list[str]:
    body = [f"  {entry}" for entry in entries]
    return ["", heading, *body] if body else []


def _fact(fact: Fact) -> str:
    value = json.dumps(fact.value, default=str)
    unit = f" {fact.unit}" if fact.unit else ""
    shown = value if len(value) <= VALUE else f"{value[:VALUE]}…"
    return f"{fact.name} = {shown}{unit} ({fact.about}, {fact.caliber})"


def _finding(finding: Finding) -> str:
    place = f" at {finding.location.file}:{finding.location.line}" if finding.location else ""
    rule = f"{finding.rule} " if finding.rule else ""
    return f"{finding.state}: {rule}{finding.title}{place}"
