"""`triage explain TEXT`: what a text says went wrong, by the same readers and rules as a run, and which rules it fits.

The verdict is what a run that printed this text would come to, as far as its output alone tells: readers make records of
the text, rules make findings of the records, and the best of these is the verdict. Where the text holds no error that readers
know, its lines are looked up as error texts; where they are none, the words of the report hint at a category, which then is
possible at most. Pure, but for `load_knowledge`.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from triage.findings import find
from triage.knowledge.fits import Fit, Fits, find_fits, printable, show_fits
from triage.knowledge.foreign import speaks_of_tilelang
from triage.knowledge.judge import Observability, judge
from triage.knowledge.load import load_rules
from triage.knowledge.match import TEXT_LIMIT, Record, record_of_warning, records_of_error
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import StageGuess, Stages
from triage.knowledge.symptoms import PLAIN, Symptom, Symptoms
from triage.knowledge.upstream import Issues, read_issues
from triage.model import Category, Confidence, ErrorRecord, Finding, Owner, Quote, State, to_json
from triage.ownership import owner_by_path
from triage.readers import Reading, decisive, read_output
from triage.readers.denial import is_denied, quotes_denied
from triage.readers.installed import installed_tilelang
from triage.readers.lines import VIEW_LIMIT
from triage.readers.repeats import told_once, warned_once
from triage.readers.unwrap import Unwrapped, unwrap
from triage.report.build import rank

SCHEMA = "triage.explain/1"
ARTIFACT = "text"
#: What the verdict rests on: a rule, the stage that frames or text tell, an error that tells neither, the words of the report, or nothing.
Basis = Literal["rule", "stage", "error", "words", "nothing"]
#: Lines of a text without any record that are looked up as error texts: a report says what happened within so many.
LOOKED_UP = 200
#: Different errors of one text that are judged, half of them from its beginning and half from its end, where errors that say why
#: stand: a log with more is that of a whole test suite, and each costs about 0.2 ms.
JUDGED = 1_000
#: Lines of a long text that are shown to rules around each record: a message with its frames.
BEFORE, AFTER = 3, 80
#: Findings beside the verdict, and lines of a summary, that are shown; columns of a page; characters of one line.
SHOWN, WIDTH, LINE = 4, 96, 600
#: What speaks against a rule whose words the text quotes as those of an error that is gone.
DENIED = "the text says that it is not there"
#: A line that names a frame, also where it was quoted.
FRAME = re.compile(r"[\s>|E]*File \"[^\"\n]+\", line \d+")
#: How the table of stages says that it went by words, which somebody who tells of a failure uses, too.
BY_WORDING = "the wording"


@dataclass(frozen=True)
class Knowledge:
    """What texts are explained with."""

    rules: RuleSet
    stages: Stages
    symptoms: Symptoms
    issues: Issues = field(default_factory=Issues)


@dataclass(frozen=True)
class Explanation:
    """`finding` is the verdict, `basis` what it rests on; `stages` are the candidates where its stage is open."""

    finding: Finding | None
    basis: Basis
    others: tuple[Finding, ...]
    guess: StageGuess | None
    symptoms: tuple[Symptom, ...]
    fits: Fits
    tilelang: str | None = None
    #: the name of the verdict's rule; a known issue may give the finding another cause
    name: str | None = None
    #: all errors of the text are those of other programs
    elsewhere: bool = False
    #: different errors in the middle of the text that were not judged
    left_out: int = 0

    @property
    def category(self) -> Category | None:
        """Also what words alone hint at, if they hint at one category."""
        if self.finding and self.finding.category:
            return self.finding.category
        return self.symptoms[0].category if len(self.symptoms) == 1 else None

    @property
    def confidence(self) -> Confidence:
        return self.finding.confidence if self.finding and self.basis != "words" else Confidence.POSSIBLE

    @property
    def stages(self) -> tuple[str, ...]:
        if self.finding and self.finding.stage:
            return (self.finding.stage,)
        return self.guess.candidates if self.guess else ()

    @property
    def owner(self) -> Owner:
        if self.finding and self.finding.owner is not Owner.UNKNOWN:
            return self.finding.owner
        return self.guess.owner_hint if self.guess and self.basis == "stage" else Owner.UNKNOWN

    @property
    def is_explained(self) -> bool:
        """Whether the text was explained: a rule reads its error or fits its words with nothing against it, or the error has a
        category or a stage. What the words of a report hint at explains nothing."""
        return self.basis in ("rule", "stage") or any(fit.against is None for fit in self.fits.fits)

    @property
    def next(self) -> tuple[str, ...]:
        """What to do for a better signal."""
        if self.finding and self.finding.rule:
            return (f"triage explain {self.finding.rule}",)
        if self.elsewhere:
            return ("give the error of the kernel itself: what this text shows was printed by another program",)
        if self.basis == "words":
            return tuple(dict.fromkeys(symptom.next for symptom in self.symptoms))
        return ("triage run kernel.py, which sees more than the text",)


def load_knowledge(root: Path) -> Knowledge:
    """Everything below a rules folder. Raises as its parts do: `RuleErrors`, `ValueError`, `OSError`."""
    stages = Stages.load(root / "reference" / "stages.toml")
    return Knowledge(load_rules(root), stages, Symptoms.load(root), read_issues(root)[0])


def explain_text(text: str, knowledge: Knowledge) -> Explanation:
    """What a text comes to. Any text is accepted."""
    tilelang = installed_tilelang(text)
    seen = Observability(
        tilelang=tilelang,
        guess_of=knowledge.stages.stage_of,
        issues=knowledge.issues,
        of_tilelang=speaks_of_tilelang(text),
    )
    unwrapped = unwrap(text)
    plain = Unwrapped(text, tuple(range(1, text.count("\n") + 2)))
    chosen = min(
        (_judged(source, text.split("\n"), knowledge.rules, seen) for source in _different(plain, unwrapped)),
        key=_worse,
    )
    fits = _undenied(_fits(chosen, knowledge.rules))
    findings = chosen.findings or _looked_up(unwrapped, fits, knowledge, seen)
    best = findings[0] if findings else None
    guess = _guess(best, chosen.reading, knowledge.stages) if best and best.rule is None else None
    symptoms: tuple[Symptom, ...] = ()
    elsewhere = bool(chosen.reading.errors) and all(decisive(error).printed_by for error in chosen.reading.errors)
    if (
        best is None or best.category is None
    ) and not elsewhere:  # what was printed around another program's error is its
        plain_only = best is not None  # that it is an error is known already
        denied = {fits.number(fit.line) for fit in fits.fits if fit.against == DENIED}
        told = _without(text, denied | _of_frames(text))
        symptoms = tuple(s for s in knowledge.symptoms.of(told) if s.score >= PLAIN or not plain_only)
    rule = knowledge.rules.get(best.rule) if best and best.rule else None
    return Explanation(
        best, _basis(best, guess, symptoms), tuple(findings[1:]), guess, symptoms, fits, tilelang, rule.name if rule else None,
        elsewhere,
        chosen.left_out,
    )  # fmt: skip


@dataclass(frozen=True)
class _Judged:
    """One reading of the text, and the findings of it, best first, with the line numbers of the original.

    `left_out` counts the errors, all different, that were not judged because there are more than `JUDGED`.
    """

    source: Unwrapped
    reading: Reading
    findings: list[Finding]
    left_out: int


def _different(plain: Unwrapped, unwrapped: Unwrapped) -> list[Unwrapped]:
    return [plain] if plain.text.splitlines() == unwrapped.text.splitlines() else [plain, unwrapped]


def _judged(source: Unwrapped, original: Sequence[str], rules: RuleSet, seen: Observability) -> _Judged:
    reading = read_output(source.text, ARTIFACT, owner_by_path)
    errors = told_once(e for e in reading.errors if not _is_denied(e, source, original))
    left_out = max(len(errors) - JUDGED, 0)
    if left_out:
        errors = errors[: JUDGED // 2] + errors[-JUDGED // 2 :]
    reading = replace(reading, errors=errors, warnings=warned_once(reading.warnings))
    run = {"tilelang.version": seen.tilelang} if seen.tilelang else {}
    found = find(reading.errors, reading.warnings, (), (), {"run": run}, rules, seen)
    faults, advice = [f for f in found if f.level != "advice"], [f for f in found if f.level == "advice"]
    return _Judged(source, reading, [_in_original(f, source) for f in (*rank(faults), *rank(advice))], left_out)


def _is_denied(error: ErrorRecord, source: Unwrapped, original: Sequence[str]) -> bool:
    """Whether the line that an error was read from quotes it to say that it is not there; a traceback is no quotation."""
    number = source.number(error.quote.line) if error.quote and error.quote.line and not error.frames else None
    return number is not None and quotes_denied(original[number - 1], original[number - 2] if number > 1 else "")


def _worse(judged: _Judged) -> tuple[bool, bool, bool, bool, int]:
    """The reading that tells less, or less surely, sorts later; of equal ones the plain one, which comes first, wins.

    A line that was copied out of a traceback is read, too, but the traceback around it says where it was raised.
    """
    best = judged.findings[0] if judged.findings else None
    placeless = not any(error.frames for error in judged.reading.errors)
    sure = list(Confidence).index(best.confidence) if best else 0
    return best is None or best.rule is None, best is None or best.category is None, best is None, placeless, sure


def _in_original(finding: Finding, source: Unwrapped) -> Finding:
    if finding.quote is None or finding.quote.line is None:
        return finding
    return replace(finding, quote=replace(finding.quote, line=source.number(finding.quote.line)))


def _fits(judged: _Judged, rules: RuleSet) -> Fits:
    """The rules that fit the text as it was read; of a long one, what stands around its records."""
    reading = judged.reading
    records = [record for error in reading.errors for record in records_of_error(error, decides=decisive(error))]
    records += [record_of_warning(warning) for warning in reading.warnings]
    lines = list(range(len(reading.lines)))
    if sum(len(line.view) + 1 for line in reading.lines) > TEXT_LIMIT:
        around = {at for start in _lines_of(records) for at in range(start - 1 - BEFORE, start + AFTER)}
        lines = sorted(around & set(lines))
    numbers = tuple(judged.source.number(at + 1) or at + 1 for at in lines)
    text = "\n".join(reading.lines[at].view for at in lines)[:TEXT_LIMIT]
    return replace(find_fits(text, rules, records), numbers=numbers)


def _undenied(fits: Fits) -> Fits:
    """With what speaks against those whose words the text says are not there."""
    lines = fits.text.split("\n")

    def seen(fit: Fit) -> Fit:
        line, above = lines[fit.line - 1], lines[fit.line - 2] if fit.line > 1 else ""
        start = fit.start - fits.text.rfind("\n", 0, fit.start) - 1
        denied = is_denied(line, start, min(start + fit.end - fit.start, len(line)), above)
        return replace(fit, against=DENIED) if denied and not fit.against else fit

    return replace(fits, fits=tuple(sorted(map(seen, fits.fits), key=lambda fit: fit.against is not None)))


def _without(text: str, numbers: Collection[int]) -> str:
    """The text without some of its lines, counted from 1."""
    return "\n".join(line for number, line in enumerate(text.split("\n"), 1) if number not in numbers)


def _of_frames(text: str) -> set[int]:
    """The lines of a traceback's frames with the source below them: nobody tells anything there, and each `raise` names an error."""
    lines = text.split("\n")
    frames = [number for number, line in enumerate(lines, 1) if FRAME.match(line)]
    return {*frames, *(number + 1 for number in frames)}


def _lines_of(records: Sequence[Record]) -> Iterator[int]:
    for record in records:
        quote = record.error.quote if record.error else record.warning.quote if record.warning else None
        if quote and quote.line:
            yield quote.line


def _looked_up(source: Unwrapped, fits: Fits, knowledge: Knowledge, seen: Observability) -> list[Finding]:
    """What lines come to that stand for themselves, without a type or a traceback: as the text of an error."""
    told = [fit.line for fit in fits.fits if fit.against is None]
    denied = {fit.line for fit in fits.fits if fit.against == DENIED}
    lines = source.text.split("\n")[:LOOKED_UP]
    alone = sum(bool(line.strip()) for line in lines) == 1
    for at in [*(n - 1 for n in told if n <= len(lines)), *range(len(lines))]:
        line = lines[at].strip(" `'\"*")
        if len(line.split()) < 2 or at + 1 in denied or quotes_denied(line, lines[at - 1] if at else ""):
            continue
        error = ErrorRecord("exception", "", line, quote=Quote(lines[at], ARTIFACT, source.number(at + 1)))
        guess = knowledge.stages.stage_of(error)
        if at + 1 not in told and not _is_error_text(line, guess, alone, knowledge.symptoms):
            continue
        found = judge(records_of_error(error, guess.stage), {}, knowledge.rules, seen)
        told_by_rule = [finding for finding in found if finding.rule]
        if told_by_rule or guess.stage or guess.candidates:
            return rank(told_by_rule or found)
    return []


def _is_error_text(line: str, guess: StageGuess, alone: bool, symptoms: Symptoms) -> bool:
    """Whether a line is what some place prints. That it has words of a stage says so only of a line that is all there is."""
    if guess.stage is None and not guess.candidates:
        return False
    if not guess.why.startswith(BY_WORDING):
        return True
    return alone and not any(symptom.score >= PLAIN for symptom in symptoms.of(line))


def _guess(finding: Finding, reading: Reading, stages: Stages) -> StageGuess | None:
    """What the table of stages says of the error that a finding is about."""
    for error in reading.errors:
        one = decisive(error)
        if finding.quote and one.quote and one.quote.text == finding.quote.text:
            return stages.stage_of(one)
    if finding.quote:
        return stages.stage_of(ErrorRecord("exception", "", finding.quote.text.strip()))
    return None


def _basis(best: Finding | None, guess: StageGuess | None, symptoms: Sequence[Symptom]) -> Basis:
    if best and best.rule:
        return "rule"
    if best and (best.category or best.stage or (guess and guess.candidates)):
        return "stage"
    if symptoms:
        return "words"
    return "error" if best else "nothing"


# --------------------------------------------------------------------------------------------------------


def as_json(explanation: Explanation, source: dict[str, Any], triage: str) -> dict[str, Any]:
    """The explanation as plain data. Key names are a promise; additions are free, renames are not.

    `source` says where the text came from: `{"kind": "text" | "file" | "stdin", "path", "characters", "left_out"}`.
    """
    best = explanation.finding
    fits = explanation.fits
    return {
        "schema": SCHEMA,
        "triage": triage,
        "source": source,
        "tilelang": explanation.tilelang,
        "errors_left_out": explanation.left_out,
        "verdict": {
            "state": str(best.state if best and explanation.basis != "words" else State.UNKNOWN),
            "category": explanation.category,
            "categories": [s.category for s in explanation.symptoms]
            or ([best.category] if best and best.category else []),
            "stage": best.stage if best else None,
            "stages": list(explanation.stages),
            "pass": explanation.guess.pass_name if explanation.guess else None,
            "owner": explanation.owner,
            "rule": best.rule if best else None,
            "name": explanation.name,
            "cause": best.cause if best else None,
            "title": best.title if best else None,
            "summary": best.summary if best else None,
            "confidence": explanation.confidence,
            "basis": explanation.basis,
            "quote": {"text": best.quote.text, "line": best.quote.line} if best and best.quote else None,
            "location": to_json(best.location) if best else None,
            "captures": {name: _plain(value) for name, value in best.captures.items()} if best else {},
            "known_issues": to_json(best.known_issues) if best else [],
            "next": list(explanation.next),
        },
        "other_findings": [
            {"rule": f.rule, "title": f.title, "category": f.category, "stage": f.stage, "confidence": f.confidence}
            for f in explanation.others
        ],
        "symptoms": [
            {"category": s.category, "phrases": list(s.phrases), "says": s.says, "next": s.next}
            for s in explanation.symptoms
        ],
        "fits": [_fit_json(fit, fits) for fit in fits.fits],
        "near": [
            {
                "rule": miss.rule.code,
                "name": miss.rule.name,
                "title": miss.rule.title,
                "share": round(miss.share, 3),
                "line": fits.number(miss.line),
                "present": list(miss.present),
                "missing": [{"expected": gap.expected, "instead": gap.instead} for gap in miss.missing],
                "differs": miss.differs,
            }
            for miss in fits.near
        ],
    }


def _fit_json(fit: Fit, fits: Fits) -> dict[str, Any]:
    return {
        "rule": fit.rule.code,
        "name": fit.rule.name,
        "title": fit.rule.title,
        "line": fits.number(fit.line),
        "matched": fits.text[fit.start : fit.end],
        "captures": {name: _plain(value) for name, value in fit.captures.items()},
        "open": list(fit.open),
        "against": fit.against,
    }


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str | bool) or value is None else str(value)


def show(explanation: Explanation) -> str:
    """The verdict, then the fits and the nearest misses, as plain text."""
    return "\n".join([*_verdict_lines(explanation), "", "FITS", show_fits(explanation.fits)])


def _verdict_lines(explanation: Explanation) -> Iterator[str]:
    best, fits = explanation.finding, explanation.fits
    yield "VERDICT"
    yield f"  {_headline(explanation)}"
    if best and explanation.basis in ("rule", "stage", "error"):
        yield f"  {best.rule} {explanation.name}: {best.title}" if best.rule else f"  {printable(best.title)}"
        yield from _text_lines(best.summary)
        if best.quote:
            number = f"{best.quote.line} | " if best.quote.line else ""
            yield f"  {number}{printable(best.quote.text.strip())[:200]}"
        for issue in best.known_issues[:SHOWN]:
            yield f"  {printable(str(issue.get('says') or issue.get('id')))}"
    if explanation.guess and explanation.stages:
        yield f"  the stage by {printable(explanation.guess.why)}"
    for symptom in explanation.symptoms:
        yield f"  possibly {symptom.category}: {symptom.says} ({', '.join(map(repr, symptom.phrases[:SHOWN]))})"
    for other in explanation.others[:SHOWN]:
        where = f" (line {other.quote.line})" if other.quote and other.quote.line else ""
        yield f"  also: {other.rule + ' ' if other.rule else ''}{printable(other.title)}{where}"
    if best is None and not explanation.symptoms and all(fit.against for fit in fits.fits):
        yield "  nothing in this text is an error that triage knows, and its words hint at nothing"
    for at, line in enumerate(fits.text.split("\n"), 1):
        if len(line) >= VIEW_LIMIT:
            yield f"  of line {fits.number(at)} only the first {VIEW_LIMIT} characters were read"
    if explanation.left_out:
        ends = f"the first and the last {JUDGED // 2}"
        yield f"  not looked at: {explanation.left_out} further errors, all different, between {ends}"
    for step in explanation.next:
        yield f"  next: {step}"


def _headline(explanation: Explanation) -> str:
    category = explanation.category or "category unknown"
    stages = explanation.stages
    stage = f"stage {stages[0]}" if len(stages) == 1 else f"stage {' or '.join(stages)}" if stages else "stage unknown"
    return f"{category}, {stage}, owner: {explanation.owner} ({explanation.confidence})"


def _text_lines(text: str) -> Iterator[str]:
    """The first lines of a text, each filled to the width of a page."""
    for line in text.splitlines()[:SHOWN]:
        yield from (f"  {part}" for part in textwrap.wrap(printable(line[:LINE]), WIDTH))
