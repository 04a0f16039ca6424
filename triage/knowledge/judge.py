"""Records and facts to findings: the one pure function `judge`.

Every record is tried against every rule of its kind. An error that no rule explains still becomes a finding, by its
stage alone. A finding is `localized` only if the rule matched, its place is known, and the confidence is at least
likely; the place is never the line that merely started a compile (see `rule.default_place`).

Confidence starts at what the rule allows and goes down: to at most likely where the raising frame could not be seen,
to at most likely where a warning or a log line is all there is, to possible for an error that was merely being handled when
another one came or whose words fit several rules and whose frame could not be seen, and one step on a tilelang that the
rule was not checked against.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.conditions import show
from triage.knowledge.files import PLACEHOLDER
from triage.knowledge.foreign import most, other_package
from triage.knowledge.known_issues import with_issues
from triage.knowledge.locate import ReadSource, labels_of, locate, no_source, user_frame
from triage.knowledge.match import Outcome, Record, Trial, raising_frame, try_rule, user_raised
from triage.knowledge.pattern import specificity
from triage.knowledge.rule import Rule, RuleSet, default_place
from triage.knowledge.stages import StageGuess, stated
from triage.knowledge.upstream import NO_ISSUES, Issues
from triage.knowledge.values import is_about_shapes, is_independent
from triage.model import (
    STAGES,
    Category,
    Confidence,
    ErrorRecord,
    Finding,
    Fix,
    Owner,
    Quote,
    State,
)

LADDER = (Confidence.CONFIRMED, Confidence.LIKELY, Confidence.POSSIBLE)
#: The category that a stage alone allows to say; the others are decided by comparison and repetition, not by stage.
CATEGORY_OF_STAGE = {
    **dict.fromkeys(STAGES[: STAGES.index("dsl")], Category.ENVIRONMENT),
    **dict.fromkeys(STAGES[STAGES.index("dsl") : STAGES.index("launch") + 1], Category.GENERATION),
    "autotune": Category.GENERATION,  # the tuner itself refuses; how fast a configuration is raises nothing
    "cache": Category.GENERATION,  # what a cache refuses is a kernel that was built, or could not be
}


#: an assert whose condition compares values: by a function made for it, by a norm, or by a bound
COMPARING_ASSERT = re.compile(
    r"\s*assert\b.*(allclose|isclose|\bequal\b|array_equal|\.all\(\)|abs\(|\.max\(\)|\.norm\(|<|==)"
)


COMPARING_FUNCTION = re.compile(r"\s*assert\b.*(?:allclose|isclose|array_equal|torch\.equal)\(")
#: how checks of one's own word that two results differ
COMPARING_WORDS = re.compile(
    r"\bnot (?:all)?close\b|\bmax(?:imum)?[ _]?(?:abs(?:olute)?[ _]|rel(?:ative)?[ _])?(?:err|error|diff|difference)\b"
    r"|\b[Mm]ismatch(?:es|ed)?\b.{0,40}\b(?:elements?|outputs?|results?|reference|values?)\b|(?:[Oo]utput|[Rr]esult)s? (?:do|does)(?:n't| not) match"
)
#: errors whose type says where they come from, although the script's own line raises them
OF_IMPORTS = ("ImportError", "ModuleNotFoundError", "SyntaxError", "IndentationError", "TabError")
#: what TVM and TileLang raise in C++
OF_COMPILER = ("InternalError", "TVMError")
#: what Python raises where the program is wrong, and not its files, its memory or its machine
OF_PROGRAMS = (
    "AttributeError", "IndexError", "KeyError", "NameError", "TypeError", "UnboundLocalError", "ValueError",
    "ZeroDivisionError",
)  # fmt: skip
#: what a line is about that uses the tile language, or a kernel's factory
TILE_LANGUAGE = re.compile(r"\b(?:T|tl|tilelang)\.")


@dataclass(frozen=True)
class Observability:
    """What could be seen of the subject. `tilelang` is its version if known; `read_source` gives a user file's text.

    `issues` are the faults that upstream knows: which of them the subject may have, its version decides.
    """

    tilelang: str | None = None
    read_source: ReadSource = no_source
    #: the stage of an error, the stages that its text leaves open, and whose fault it may be
    guess_of: Callable[[ErrorRecord], StageGuess] = stated
    issues: Issues = NO_ISSUES
    #: whether anything says that the errors are those of a kernel of TileLang; of a pasted text, its words
    of_tilelang: bool = True

    def stage_of(self, error: ErrorRecord) -> str | None:
        return self.guess_of(error).stage


def judge(
    records: Sequence[Record],
    facts: Mapping[str, Any],
    rules: RuleSet,
    observability: Observability | None = None,
) -> list[Finding]:
    """The findings of these records, in the order of the records; within one record the surest first.

    `facts` are the values known about the records' subject. Errors of one chain of causes (`Record.outer`) yield one
    fallback at most, for the decisive one, and none if any of them is explained by a rule.
    """
    seen = observability or Observability()
    findings: list[Finding] = []
    explained: set[tuple[str, int]] = set()
    unexplained: dict[tuple[str, int], Record] = {}
    #: a compiler repeats one cause in every instantiation: one chain tells each rule once
    told: set[tuple[tuple[str, int], str]] = set()
    for record in records:
        chain = (record.about, id(record.outer or record.error))  # hashing a chain would recurse as deep as it is long
        found: list[Finding] = []
        unobserved: set[str] = set()
        for rule in rules.possible(record.on, record.text):
            trial = try_rule(rule, record, facts)
            if trial.matched and (record.on != "error" or (chain, rule.code) not in told):
                told.add((chain, rule.code))
                found.append(_of_match(rule, record, trial, facts, seen))
                if trial.outcome is Outcome.UNOBSERVED:
                    unobserved.add(rule.code)
        found = _undecided(found, unobserved)
        findings += sorted(found, key=lambda finding: _order(finding, rules))
        if record.on == "error":
            if record.certain and any(f.level == "fault" for f in found):
                explained.add(chain)
            elif record.certain:
                unexplained.setdefault(chain, record)
    findings += [
        with_issues(fallback(record, facts, seen), record, facts, seen.issues, seen.tilelang)
        for chain, record in unexplained.items()
        if chain not in explained
    ]
    return fold(findings)


def _of_match(rule: Rule, record: Record, trial: Trial, facts: Mapping[str, Any], seen: Observability) -> Finding:
    """The finding with what upstream knows of it, which is nothing where the error may be another library's."""
    finding = finding_of_rule(rule, record, trial, facts, seen)
    limit = None if seen.of_tilelang else most(record, trial)
    if limit is not None and LADDER.index(finding.confidence) < LADDER.index(limit):
        finding = with_confidence(finding, limit)
    if limit is Confidence.POSSIBLE:
        return finding
    return with_issues(finding, record, facts, seen.issues, seen.tilelang)


def _undecided(found: list[Finding], unobserved: Collection[str]) -> list[Finding]:
    """The findings about one record, each only possible where the words fit several and nobody saw which of them raised it."""
    rivals = {f.rule for f in fold(found) if f.level == "fault"}
    if len(rivals) < 2 or not rivals <= set(unobserved):
        return found
    return [with_confidence(f, Confidence.POSSIBLE) if f.rule in rivals else f for f in found]


def _order(finding: Finding, rules: RuleSet) -> tuple[int, int]:
    """Surest first; of equally sure ones that whose expression demands more."""
    rule = rules.get(finding.rule or "")
    return LADDER.index(finding.confidence), -specificity(rule.match.text) if rule and rule.match.text else 0


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """Drop findings that another one explains, and repeated ones of the same rule at the same place about the same."""
    explained = {(code, f.about) for f in findings for code in f.explains if code != f.rule}
    kept: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        if (finding.rule, finding.about) in explained:
            continue
        key = (finding.rule or finding.signature, finding.about, finding.location, finding.summary)
        kept.setdefault(key, finding)
    return list(kept.values())


def finding_of_rule(rule: Rule, record: Record, trial: Trial, facts: Mapping[str, Any], seen: Observability) -> Finding:
    """The finding of one match."""
    confidence = confidence_of(rule, record, trial, seen.tilelang)
    values = {**record.fields, **trial.captures}
    argument = fill(rule.claim.argument, values) if rule.claim.argument else None
    location = locate(rule.claim.place, argument, record, seen.read_source, rule.stage)
    sure = confidence in (Confidence.CONFIRMED, Confidence.LIKELY)
    return Finding(
        state=State.LOCALIZED if location and sure else State.CLASSIFIED,
        category=Category(rule.category),
        title=rule.title,
        summary=_summary(rule, values),
        rule=rule.code,
        cause=rule.name,
        # a family of checks may stand in several stages: where this one was raised, its frames and its text say better
        stage=record.fields.get("error.stage")
        or (None if rule.stage == "dsl" and _is_plain_python(record, facts) else rule.stage),
        location=location,
        labels=labels_of(record, location, seen.read_source),
        quote=_quote(record),
        owner=Owner(rule.owner),
        confidence=confidence,
        signature=signature(f"{rule.code}/{rule.name}", rule.stage, record.error),
        level=rule.level,
        about=record.about,
        why=rule.why,
        fixes=_fixes(rule, values),
        captures=dict(trial.captures),
        explains=rule.explains,
    )


def _is_plain_python(record: Record, facts: Mapping[str, Any]) -> bool:
    """Whether Python raised the error in a line of the script that neither builds a kernel nor uses the tile language.

    A mistake of Python's own, a wrong name, looks the same in a kernel and beside it. Of a text nobody knows what ran.
    """
    error = record.error
    frame = raising_frame(error) if error else None
    if error is None or frame is None or is_text_only(facts):
        return False
    return frame.user is True and error.phase is None and TILE_LANGUAGE.search(frame.text) is None


def confidence_of(rule: Rule, record: Record, trial: Trial, tilelang: str | None) -> Confidence:
    steps = LADDER.index(Confidence(rule.confidence))
    if trial.outcome is Outcome.UNOBSERVED or not record.certain:
        steps = max(steps, LADDER.index(Confidence.LIKELY))
    if record.on == "error" and not record.certain:  # it was being handled when another error decided
        steps = LADDER.index(Confidence.POSSIBLE)
    if tilelang and not checked_with(rule, tilelang):
        steps += 1
    return LADDER[min(steps, len(LADDER) - 1)]


def _summary(rule: Rule, values: Mapping[str, Any]) -> str:
    look_at = f"; look at {fill(rule.claim.look_at, values)}" if rule.claim.look_at else ""
    return fill(rule.claim.says, values) + look_at


def checked_with(rule: Rule, tilelang: str) -> bool:
    """Whether the rule was checked against this version; local parts (`+cuda…`) and post releases do not count."""
    return _release(tilelang) in {_release(version) for version in rule.checked_with}


def _release(version: str) -> str:
    return re.sub(r"(\+.*|\.post\d+)$", "", version.split("+")[0].strip())


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Put values into `{name}` placeholders; one without a value says so."""
    return PLACEHOLDER.sub(lambda m: show(values[m[1]]) if values.get(m[1]) is not None else "(unknown)", template)


def signature(cause: str, stage: str | None, error: ErrorRecord | None) -> str:
    """16 hex digits that group failures of one cause: no operands, no lines, so stable over sizes and versions."""
    frame = raising_frame(error) if error else None
    function = bare_function(frame.function) if frame and not frame.user else ""
    parts = (cause, stage or "", error.type if error else "", function)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def bare_function(function: str) -> str:
    """A C++ signature or a Python name without types, template arguments and parameters."""
    name = re.sub(r"\(.*", "", function.replace("{anonymous}", ""))
    while (shorter := re.sub(r"<[^<>]*>", "", name)) != name:
        name = shorter
    return name.split()[-1] if name.split() else ""


def fallback(record: Record, facts: Mapping[str, Any], seen: Observability) -> Finding:
    """What can be said of an error that no rule explains: its stage and owner, if the tables know them, and the user's line.

    A line that merely started a compile is a label, not the location. What Python itself raises in a line of the script
    keeps the script from building anything, so it counts as generation, and so do shapes that PyTorch refuses there, and
    what its own checks refuse while a kernel is built; but after a launch whose results were made up only what values
    cannot bring about.
    """
    error = record.error
    assert error is not None
    guess = seen.guess_of(error)
    stage = record.fields.get("error.stage") or guess.stage
    frame = user_frame(record)
    raised_here = bool(error.kind == "exception" and frame and frame is raising_frame(error))
    if raised_here and error.type not in OF_IMPORTS:
        stage, guess = None, stated(error)  # the script's own line raised it: its words tell nothing of a compiler
    category = _category_of(error, stage, guess, seen)
    at_script = stage is None and frame is not None and not user_raised(error)
    own_line = raised_here and error.type in OF_PROGRAMS and not facts.get("launches.virtual")
    refused = user_raised(error) and error.phase == "build"
    # of a text nobody saw a line of, what Python raises in programs is as a rule the script or its call of a kernel
    unseen = is_text_only(facts) and stage is None and not (error.frames or guess.candidates)
    told = unseen and error.type in OF_PROGRAMS and not error.printed_by
    if (at_script and (is_independent(error) or own_line)) or refused or (told and category is None):
        category = Category.GENERATION
    wanted = "frame" if raised_here or stage is None else default_place(stage)
    location = locate(wanted, None, record, seen.read_source)
    if _compares_results(error, facts):
        category = Category.CORRECTNESS
    return Finding(
        state=State.CLASSIFIED if category else State.UNKNOWN,
        category=category,
        title=_title(error, category, (stage,) if stage else guess.candidates, at_script),
        summary=show(error.message) or "the error has no message",
        stage=stage,
        location=location,
        labels=labels_of(record, location, seen.read_source),
        quote=_quote(record),
        owner=guess.owner_hint,
        signature=signature("", stage, error),
        about=record.about,
    )


def _title(error: ErrorRecord, category: Category | None, stages: Sequence[str], at_script: bool) -> str:
    """What an error that no rule explains is called; `stages` are those it may come from, `at_script` if from none."""
    if category is Category.CORRECTNESS:
        return "An assertion about the results fails"
    if user_raised(error):
        built = error.phase == "build"
        return (
            "The script's own check refuses to build the kernel" if built else f"The script itself raised {error.type}"
        )
    if at_script and is_about_shapes(error):
        return "PyTorch refuses the shapes or types of the tensors in this line of the script"
    if at_script and category:
        return f"Python raises {error.type} in this line of the script"
    return f"{error.type or error.kind} {_whence(error, category, stages)}"


def _whence(error: ErrorRecord, category: Category | None, stages: Sequence[str]) -> str:
    if error.printed_by:
        return f"of {error.printed_by}"
    if stages:
        return f"in stage {' or '.join(stages)}"
    if category is Category.GENERATION:
        return "in the script, or in its call of a kernel" if error.type in OF_PROGRAMS else "while a kernel is built"
    return "of unknown cause" if category is None else "of the machine, or of what is installed on it"


def _category_of(error: ErrorRecord, stage: str | None, guess: StageGuess, seen: Observability) -> Category | None:
    """By the stage, or by those that the text leaves open if all say the same; a machine's fault is never the program's.

    What TileLang's C++ refuses, whichever of its files it was, it refuses while it builds a kernel: what a launch or the
    driver refuses has wordings and stages of its own.
    """
    if guess.owner_hint is Owner.ENVIRONMENT:
        return Category.ENVIRONMENT
    categories = {CATEGORY_OF_STAGE.get(one) for one in ((stage,) if stage else guess.candidates)}
    if len(categories) == 1 and None not in categories:
        return categories.pop()
    if error.printed_by or (not seen.of_tilelang and other_package(error.type)):
        return None
    checked = error.type.rpartition(".")[2] in OF_COMPILER or error.message.startswith("Check failed: ")
    building = stage is None and checked and not user_raised(error)
    return Category.GENERATION if building else None


def is_text_only(facts: Mapping[str, Any]) -> bool:
    """Whether nothing is known but a text: no run of the subject was observed."""
    return "run.status" not in facts and "launches.count" not in facts


def _compares_results(error: ErrorRecord, facts: Mapping[str, Any]) -> bool:
    """Whether an `assert` of the script compares numbers after kernels really ran.

    Of a text nobody knows what ran: there it is an `assert` whose function is made for comparing results.
    """
    frame = raising_frame(error)
    if is_text_only(facts):
        own = frame is None or user_raised(error)
        compared = COMPARING_FUNCTION.match(frame.text) if frame else None
        return own and error.type == "AssertionError" and bool(compared or COMPARING_WORDS.search(error.message))
    if frame is None or not frame.user or error.regardless:
        return False
    ran = facts.get("launches.count", 0) > 0 and not facts.get("launches.virtual")
    return bool(ran and COMPARING_ASSERT.match(frame.text))


def _quote(record: Record) -> Quote | None:
    if record.error:
        return record.error.quote or Quote(record.text or "")
    if record.warning:
        return record.warning.quote or Quote(record.warning.text)
    return Quote(record.text) if record.text else None


def _fixes(rule: Rule, values: Mapping[str, Any]) -> tuple[Fix, ...]:
    return tuple(Fix(title=fill(step, values)) for step in rule.fix.steps)


def with_confidence(finding: Finding, confidence: Confidence) -> Finding:
    """The finding at another confidence; what is only possible is not localized."""
    state = finding.state
    if state is State.LOCALIZED and confidence is Confidence.POSSIBLE:
        state = State.CLASSIFIED
    return replace(finding, confidence=confidence, state=state)
