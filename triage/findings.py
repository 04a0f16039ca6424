"""What the rules make of everything a case knows: errors, warnings, hazards and culprits to findings. Pure.

`judge` looks at one record at a time. Here the records of a case come together: a hazard brings the place a lint saw, and
the culprit that experiments found replaces the place of an error that only named the call that started a compile.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from triage.experiment import oracle
from triage.knowledge.judge import Observability, fill, fold, judge, with_confidence
from triage.knowledge.locate import names
from triage.knowledge.made_up import about_made_up_values
from triage.knowledge.match import Record, record_of_hazard, record_of_warning, records_of_error, user_raised
from triage.knowledge.place import find_handler
from triage.knowledge.related import find_escapes, find_expansions, find_operands
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages
from triage.lints.hazard import Hazard
from triage.model import (
    STAGES,
    Category,
    Confidence,
    ErrorRecord,
    Finding,
    FoundBy,
    Label,
    Location,
    Owner,
    State,
    WarningRecord,
    to_json,
)
from triage.ownership import owner_by_path
from triage.readers import decisive, read_output
from triage.tools.base import Bisected, Culprit

LADDER = tuple(Confidence)
#: stages that compare what the operands of an operator are, and the words of an error that does
OPERAND_STAGES = ("dsl", "semantic-check", "layout", "tile-op")
OF_OPERANDS = re.compile(
    r"shape|type\b|scope|layout|extent|operand|StructuralEqual|\b(?:rank|dim|size)|\b(?:b?float|u?int)\d+",
    re.IGNORECASE,
)
#: with this many labels an excerpt still leaves room for the rest of the report
MOST_LABELS = 4
#: cause of the findings about values that were never computed
MADE_UP = "made-up-values"
#: what an author's names and calls come to where the statement that sets them failed, and was caught
OF_NOTHING = re.compile(r"\bNoneType\b|^cannot access local variable|^name '\w+' is not defined")
#: An error in one of these ends the script before any hazard of a launch or of the values can show.
BEFORE_LAUNCH = frozenset(STAGES[: STAGES.index("launch")])


def find(
    errors: Sequence[ErrorRecord],
    warnings: Sequence[WarningRecord],
    hazards: Sequence[Hazard],
    culprits: Sequence[Culprit],
    facts: Mapping[str, Mapping[str, Any]],
    rules: RuleSet,
    seen: Observability,
    ignore: Iterable[str] = (),
    bisected: Sequence[Bisected] = (),
) -> list[Finding]:
    """All findings. `facts` maps what facts are about (`run`, `kernel:k1`) to their values; `ignore` names rules."""
    of_errors: list[Finding] = []
    of_stubs: list[Finding] = []
    latent: list[Finding] = []
    last = next((e for e in reversed(errors) if not (e.handled or e.recovered or e.stubbed or e.latent)), None)
    succeeded = facts.get("run", {}).get("run.status") == "succeeded"
    for error, found in _shared_causes_first(
        [(error, _of_error(error, culprits, facts, rules, seen)) for error in errors], facts
    ):
        if last is not None or succeeded:
            found = [_caught(f, error, last, seen) for f in found]
        (of_stubs if error.stubbed else latent if error.latent else of_errors).extend(found)
    if any(f.level == "fault" for f in of_errors):
        latent = [replace(f, level="advice") for f in latent]  # the run ended at something else
    of_errors += latent
    if any(f.level == "fault" and f.about != "run" for f in of_errors):  # that all builds failed says nothing of itself
        of_errors = [replace(f, level="advice") if f.stage == "autotune" else f for f in of_errors]
    of_errors = [_with_switches(f, bisected) for f in of_errors]
    findings: list[Finding] = []
    for warning in warnings:
        record = record_of_warning(warning)
        findings += judge([record], _facts(facts, record.about), rules, seen)
    for hazard in hazards:
        record = record_of_hazard(to_json(hazard), hazard.about)
        findings += judge([record], _facts(facts, hazard.about), rules, seen)
    if any(f.level == "fault" and f.stage in BEFORE_LAUNCH for f in of_errors):
        raised = {f.rule for f in of_errors}
        unexplained = {_line(f) for f in of_errors if f.location and f.rule is None and f.level == "fault"}
        findings = [f if raised.intersection(f.explains) or _line(f) in unexplained else _beside(f) for f in findings]
        told = {_line(f) for f in findings if f.location and f.level == "fault" and f.rule}
        of_errors = [replace(f, level="advice") if f.rule is None and _line(f) in told else f for f in of_errors]
    findings = [*of_errors, *findings]
    if any(f.level == "fault" for f in findings):
        of_stubs = [replace(f, level="advice") for f in of_stubs]  # the script's own fault is what its author asked for
    findings += of_stubs
    findings = [_with_expansions(f, seen) for f in findings]
    left_out = set(ignore)
    return [f for f in fold(findings) if f.rule not in left_out]


def _of_error(
    error: ErrorRecord,
    culprits: Sequence[Culprit],
    facts: Mapping[str, Mapping[str, Any]],
    rules: RuleSet,
    seen: Observability,
) -> list[Finding]:
    """What one error comes to, at its place."""
    one = decisive(error)
    chain = records_of_error(error, seen.stage_of(one), decides=one)
    known = _facts(facts, chain[0].about)
    if known.get("kernel.file"):
        chain = [replace(r, at=Location(known["kernel.file"], known["kernel.line"])) for r in chain]
    found = judge(chain, known, rules, seen)
    if about_made_up_values(one, facts.get("run", {}), seen.read_source):
        found = [_not_evidence(f) for f in found]
    if error.suspect:
        found = [_suspect(f, error.suspect) for f in found]
    placed = [_recovered(_at_culprit(f, error, culprits, rules, seen), error) for f in found]
    return [_with_related(f, oracle.told(one.message), seen) for f in placed]


def _shared_causes_first(
    found: Sequence[tuple[ErrorRecord, list[Finding]]], facts: Mapping[str, Mapping[str, Any]]
) -> list[tuple[ErrorRecord, list[Finding]]]:
    """Of several builds of one kernel that all failed, as an autotuner makes them, the cause that most of them share is
    the kernel's, of equally many the last: a script that went on expected the others. The rest becomes advice."""

    def build(error: ErrorRecord, of_error: list[Finding]) -> tuple[str, str] | None:
        name = facts.get(f"kernel:{error.kernel}", {}).get("kernel.name")
        if name is None or not error.handled or error.latent or not of_error or of_error[0].level != "fault":
            return None
        return name, of_error[0].signature

    builds = [build(*one) for one in found]
    counts = Counter(builds)
    shared: dict[str, tuple[str, str]] = {}  # by the kernel's name
    for one in builds:
        if one is not None and counts[one] >= counts[shared.get(one[0], one)]:
            shared[one[0]] = one
    return [
        (error, of_error if one is None or one == shared[one[0]] else [replace(f, level="advice") for f in of_error])
        for one, (error, of_error) in zip(builds, found, strict=True)
    ]


def records_of_text(text: str, artifact: str, stages: Stages) -> list[Record]:
    """The records of a bare text, for rules that have nothing else to go by: each error's chain, each warning."""
    reading = read_output(text, artifact, owner_by_path)
    records = []
    for error in reading.errors:
        one = decisive(error)
        records += records_of_error(error, stages.stage_of(one).stage, decides=one)
    return records + [record_of_warning(warning) for warning in reading.warnings]


def _facts(facts: Mapping[str, Mapping[str, Any]], about: str) -> dict[str, Any]:
    return {**facts.get("run", {}), **facts.get(about, {})}


def _line(finding: Finding) -> tuple[str, int] | None:
    """The line a finding points at: a hazard on the line of an error that no rule knows is what that error is about."""
    return (finding.location.file, finding.location.line) if finding.location else None


def _beside(finding: Finding) -> Finding:
    """A warning or a hazard beside an error that stopped the script earlier: told, but not what stopped it."""
    return finding if finding.category is Category.ENVIRONMENT else replace(finding, level="advice", explains=())


def _not_evidence(finding: Finding) -> Finding:
    return replace(
        finding,
        level="advice",
        cause=MADE_UP,
        title="The script's own check failed on values that the virtual device made up",
        summary="No kernel was executed, so this says nothing about the kernel; what comes after this line was not run.",
    )


def _suspect(finding: Finding, why: str) -> Finding:
    return replace(
        finding,
        state=State.UNKNOWN,
        category=None,
        rule=None,
        fixes=(),
        title="The virtual device, and not the script, may have caused this",
        summary=f"{why}. A run on a GPU tells.",
        confidence=Confidence.POSSIBLE,
    )


def _recovered(finding: Finding, error: ErrorRecord) -> Finding:
    """An error that the script caught and got over is told, but it is not the script's failure."""
    return replace(finding, level="advice") if error.recovered else finding


def _caught(finding: Finding, error: ErrorRecord, last: ErrorRecord | None, seen: Observability) -> Finding:
    """The finding of an error that the script caught itself, and then ended well or of its `last` error.

    That one comes first, but where it may have come of what the caught one left undone.
    """
    at = _handler(error, seen) if error.handled and not (error.recovered or error.stubbed or error.latent) else None
    if at is None:
        return finding
    one = decisive(last) if last is not None else None
    follows = one is None or user_raised(one) or OF_NOTHING.search(one.message) is not None
    how = "ended without an error" if one is None else f"ended with another error, {one.type}"
    return replace(
        finding,
        summary=f"{finding.summary}; the script caught this error itself, and {how}",
        labels=(*finding.labels, at),
        passed=not follows,
    )


def _handler(error: ErrorRecord, seen: Observability) -> Label | None:
    """Where the script catches an error: the `except` around the innermost of its own calls that has one."""
    for frame in reversed(error.frames):
        source = seen.read_source(frame.file) if frame.user else None
        line = find_handler(source, frame.line) if source is not None else None
        if line is not None:
            return Label(frame.file, line, "the script catches the error here")
    return None


def _at_culprit(
    finding: Finding, error: ErrorRecord, culprits: Sequence[Culprit], rules: RuleSet, seen: Observability
) -> Finding:
    """The finding at the place that experiments found, if its own frame could not know the place.

    Without a rule the cause stays unknown, so the finding stays classified, but it has a place now.
    """
    culprit = next((c for c in culprits if c.kernel == error.kernel and c.location), None)
    word = _word(finding, rules)
    if culprit is None or culprit.location is None:
        return _only_text(finding, word, seen) if word else finding
    if word and not names(culprit.location, word, seen.read_source):
        how = "the error is there only while this is; what it names stands elsewhere"
        label = Label(culprit.location.file, culprit.location.line, how)
        at = finding.location
        apart = at is None or (at.file, at.line) != (label.file, label.line)
        labels = (*finding.labels, label) if apart else finding.labels
        return _only_text(replace(finding, labels=labels), word, seen)
    if finding.location is not None and finding.location.found_by not in (None, FoundBy.SPAN):
        return finding  # a span in an error text often names a declaration nearby; the other ways name the line itself
    confidence = max(finding.confidence, culprit.confidence, key=LADDER.index)
    sure = finding.rule is not None and confidence is not Confidence.POSSIBLE
    labels = (*culprit.labels, *(label for label in finding.labels if label not in culprit.labels))
    return replace(
        finding,
        location=culprit.location,
        labels=labels,
        confidence=confidence,
        state=State.LOCALIZED if sure else finding.state,
    )


def _with_switches(finding: Finding, bisected: Sequence[Bisected]) -> Finding:
    """The finding with what experiments on its kernel showed of switches and neighbours. Whose fault it is they tell only
    where nothing else does; they never tell the place."""
    for one in bisected:
        if finding.about == f"kernel:{one.kernel}":
            unowned = one.compiler and finding.owner is Owner.UNKNOWN
            finding = replace(
                finding,
                switches=one.sets or finding.switches,
                neighbours=one.neighbours or finding.neighbours,
                owner=Owner.COMPILER if unowned else finding.owner,
            )
    return finding


def _with_related(finding: Finding, told: str, seen: Observability) -> Finding:
    """The finding with labels at the lines which the accused one works with, as far as there is room for them."""
    at = finding.location
    source = seen.read_source(at.file) if at and finding.category is Category.GENERATION else None
    if at is None or source is None:
        return finding
    related = find_escapes(source, at.line, told)
    if finding.stage in OPERAND_STAGES and OF_OPERANDS.search(told):
        related += find_operands(source, at.line, told)
    taken = {(at.file, at.line), *((label.file, label.line) for label in finding.labels)}
    labels = [Label(at.file, one.line, one.text) for one in related if (at.file, one.line) not in taken]
    room = max(0, MOST_LABELS - len(finding.labels))
    return replace(finding, labels=(*finding.labels, *labels[:room]))


def _with_expansions(finding: Finding, seen: Observability) -> Finding:
    """The finding with the calls of the macro it lies in, where no frame told which of them it is."""
    at = finding.location
    source = seen.read_source(at.file) if at else None
    calls = find_expansions(source, at.line) if at and source is not None else []
    told = {(label.file, label.line) for label in finding.labels}
    if at is None or any((at.file, one.line) in told for one in calls):
        return finding
    return replace(finding, labels=(*finding.labels, *(Label(at.file, one.line, one.text) for one in calls)))


def _word(finding: Finding, rules: RuleSet) -> str | None:
    """What the accused line has to name, where the rule says that the error is about something named."""
    rule = rules.get(finding.rule or "")
    if rule is None or rule.claim.place != "text":
        return None
    return fill(rule.claim.argument or "", finding.captures)


def _only_text(finding: Finding, word: str, seen: Observability) -> Finding:
    """A place that was found by its text alone is likely at most: that line names it, and need not be what is wrong.

    So is the line that Python was running, if what the error names was written elsewhere.
    """
    at = finding.location
    if at is None or (at.found_by is not None and names(at, word, seen.read_source)):
        return finding
    return with_confidence(finding, max(finding.confidence, Confidence.LIKELY, key=LADDER.index))
