"""Which of all findings is the verdict: localized before classified, then by category, then by confidence."""

from __future__ import annotations

from collections.abc import Sequence

from triage.model import Category, Confidence, Finding, State

STATES = (State.LOCALIZED, State.CLASSIFIED, State.UNKNOWN, State.HEALTHY)
CATEGORIES = (
    Category.ENVIRONMENT,
    Category.GENERATION,
    Category.CORRECTNESS,
    Category.INTERMITTENT,
    Category.PERFORMANCE,
    None,
)
CONFIDENCES = tuple(Confidence)


def order(findings: Sequence[Finding]) -> list[Finding]:
    """The faults among the findings, best first; what another finding explains is left out."""
    faults = [f for f in findings if f.level == "fault"]
    explained = {code for f in faults for code in f.explains}
    faults = [f for f in faults if f.rule not in explained]
    return sorted(faults, key=_rank)


def _rank(finding: Finding) -> tuple[int, int, int]:
    return (
        STATES.index(finding.state),
        CATEGORIES.index(finding.category),
        CONFIDENCES.index(finding.confidence),
    )
