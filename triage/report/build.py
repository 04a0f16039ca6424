"""From what a case knows to the report object: pure, so the same case gives the same report byte for byte."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import triage
from triage.model import (
    REPORT_SCHEMA,
    Artifact,
    Category,
    Confidence,
    Environment,
    Fact,
    Finding,
    NotChecked,
    State,
    Step,
    to_json,
)
from triage.report import words
from triage.report.contract import (
    ArtifactEntry,
    EnvironmentEntry,
    FactEntry,
    KnownIssueEntry,
    LocationEntry,
    NotCheckedEntry,
    Note,
    Report,
    Subject,
    Verdict,
    WalkStep,
)
from triage.report.excerpt import checked as checked_location
from triage.report.excerpt import cut

_STATE_ORDER = (State.LOCALIZED, State.CLASSIFIED, State.UNKNOWN, State.HEALTHY)
#: an unusable installation explains what follows from it, a kernel that does not build cannot be wrong or slow yet
_CATEGORY_ORDER = (
    Category.ENVIRONMENT,
    Category.GENERATION,
    Category.CORRECTNESS,
    Category.INTERMITTENT,
    Category.PERFORMANCE,
    None,
)
_CONFIDENCE_ORDER = (Confidence.CONFIRMED, Confidence.LIKELY, Confidence.POSSIBLE)

#: shown when no step drew a conclusion: silence is not health
NOTHING_DECIDED = Finding(
    State.UNKNOWN,
    None,
    "No conclusion was reached",
    "No step of the walk found a fault, and none could say that there is none.",
)


def build_report(
    subject: Mapping[str, Any],
    environments: Sequence[Environment],
    findings: Sequence[Finding],
    steps: Sequence[Step],
    facts: Sequence[Fact],
    artifacts: Sequence[Artifact],
    checked: Sequence[str],
    not_checked: Sequence[NotChecked],
    notes: Sequence[Finding] = (),
    *,
    sources: Mapping[str, str] | None = None,
    case: str | None = None,
) -> Report:
    """Build the report object of `contract.Report`.

    `subject` has `kind`, `path`, `sha256`, `argv` (missing ones become empty). The verdict is the best of
    `findings` (`rank`); those of level `advice` join `notes`. A healthy verdict needs a finding that says so:
    without any finding the state is `unknown`. `sources` maps the file names used in locations and labels to
    their text, of which the lines around the places are kept. `case` is the case directory.
    """
    faults = rank([no_more_than_shown(f) for f in findings if f.level != "advice"])
    best = faults[0] if faults else NOTHING_DECIDED
    advice = [*notes, *(f for f in findings if f.level == "advice")]
    kind = str(subject.get("kind", "script"))
    texts = sources or {}

    def verdict(finding: Finding) -> Verdict:
        return _verdict(finding, words.basis(kind, finding, steps, environments), texts)

    chosen = verdict(best)
    chosen["checked"] = list(checked)
    chosen["not_checked"] = [cast(NotCheckedEntry, to_json(item)) for item in not_checked]
    others = []
    for finding in faults[1:]:
        if finding.state == State.HEALTHY:
            continue  # a clean bill of one part does not stand beside a fault of the whole
        entry = verdict(finding)
        entry["explained_by"] = best.rule if finding.rule is not None and finding.rule in best.explains else None
        others.append(entry)
    return {
        "schema": REPORT_SCHEMA,
        "subject": _subject(subject, kind),
        "environments": [cast(EnvironmentEntry, _plain(to_json(e))) for e in environments],
        "verdict": chosen,
        "other_findings": others,
        "notes": [_note(f) for f in advice],
        "walk": [cast(WalkStep, _plain(to_json(s))) for s in steps],
        "facts": [cast(FactEntry, _plain(to_json(f))) for f in facts],
        "artifacts": [cast(ArtifactEntry, to_json(a)) for a in artifacts],
        "case": case,
        "triage": triage.__version__,
    }


def no_more_than_shown(finding: Finding) -> Finding:
    """`localized` promises a place and more than a possibility; a finding without them is `classified`."""
    promised = finding.location is not None and finding.confidence != Confidence.POSSIBLE
    if finding.state == State.LOCALIZED and not promised:
        return replace(finding, state=State.CLASSIFIED)
    return finding


def rank(findings: Sequence[Finding]) -> list[Finding]:
    """Best first: by state, by category, by confidence; what another finding explains comes after it, what only a stage
    tells after what a rule tells, and an error that the script got over after what ended it; else as given."""
    explained = {code for f in findings for code in f.explains}

    def key(finding: Finding) -> tuple[bool, int, bool, bool, int, int]:
        return (
            finding.passed,
            _STATE_ORDER.index(finding.state),
            finding.rule in explained,
            finding.rule is None,
            _CATEGORY_ORDER.index(finding.category),
            _CONFIDENCE_ORDER.index(finding.confidence),
        )

    return sorted(findings, key=key)


def _subject(subject: Mapping[str, Any], kind: str) -> Subject:
    return {
        "kind": cast(Any, kind),
        "path": str(subject.get("path") or ""),
        "sha256": str(subject.get("sha256") or ""),
        "argv": [str(a) for a in subject.get("argv") or ()],
    }


def _verdict(finding: Finding, basis: str, sources: Mapping[str, str]) -> Verdict:
    return {
        "state": finding.state,
        "category": finding.category,
        "stage": finding.stage,
        "rule": finding.rule,
        "cause": finding.cause,
        "title": finding.title,
        "summary": finding.summary,
        "location": cast("LocationEntry | None", to_json(checked_location(finding.location, sources))),
        "labels": to_json(finding.labels),
        "quote": to_json(finding.quote),
        "owner": finding.owner,
        "confidence": finding.confidence,
        "signature": finding.signature or signature(finding),
        "known_issues": cast("list[KnownIssueEntry]", _plain(to_json(finding.known_issues))),
        "fixes": to_json(finding.fixes),
        "checked": [],
        "not_checked": [],
        "why": finding.why,
        "about": finding.about,
        "basis": basis,
        "captures": _plain(to_json(finding.captures)),
        "excerpts": cut(finding.location, finding.labels, sources),
        "switches": to_json(finding.switches),
        "neighbours": to_json(finding.neighbours),
    }


def signature(finding: Finding) -> str:
    """The group key of a finding that came without one: 16 hex digits over its kind, no operands and no places."""
    parts = (finding.category, finding.stage, finding.rule or finding.title, finding.cause)
    return hashlib.sha256("\0".join(str(p or "") for p in parts).encode()).hexdigest()[:16]


def _note(finding: Finding) -> Note:
    return {
        "rule": finding.rule,
        "title": finding.title,
        "location": cast("LocationEntry | None", to_json(finding.location)),
        "summary": finding.summary,
        "fixes": to_json(finding.fixes),
    }


def _plain(value: Any) -> Any:
    """Values as JSON has them: NaN, infinities and foreign objects become their text."""
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    return str(value)
