"""The oracle of script experiments: does a changed copy of a script show the same fault as the start? Pure.

A reducer that takes any failure for the failure slips from one bug to the next. So what ended the start becomes a
`Start`, what ended a candidate becomes one in the same way, and `outcome` says in which parts they differ:

    kind, exception, raiser (path and function outside the user's files; "" if the script's own line raised), pass, phase
    rule and operands      where a rule of knowledge reads the error and its raising frame was seen
    callee, line           what the user's line calls, such as `T.gemm`, and its words
    functions              the user's functions on the way to it
    text                   the decisive line, numbers blanked, where no rule reads it
    statement              the script's own `raise`, `assert` or `sys.exit`, where that made the error
    ended                  what became of the error: raised again in other words, or passed on as an exit status
    caught                 what failed and was caught before: an autotuner's last error is the same whatever its kernels lack
    comparison             where it rests on a failed comparison of computed values: the function, its tolerance, the output that
                           a kernel wrote, what both operands were computed by, and the pattern of what is wrong
    importing, nan         it came while a module was imported; its values are NaN, which agrees with nothing

For such a `mismatch` the pattern stands for the text and its numbers. Whatever a kernel or its reference loses makes a mismatch of
its own, so both must be the same programs but for their numbers, and no buffer may come to hold garbage. Which elements are wrong may change, from run to run as
well as with the shape; a comparison that can no longer show anything (of nothing, with itself) is another fault.

Operands must be equal, except those that the rule's `same_fault` conditions read: of these the conditions must hold,
the larger of two stays the larger, and no extent becomes empty. Only errors that were seen as events count; what a script prints is no evidence. A time-out or a broken experiment shows
nothing, unless the start hung in the same place.

Two kernels of one script may hold the same mistake, and dropping the first leads to the second. So the user's line and the
functions on the way to it must be the start's with nothing but omissions, numbers aside. For a candidate in which names
were changed (`renamed`) that cannot be asked, and only the callee tells two calls of one operator apart.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from keyword import iskeyword

from triage.conditions import Condition, holds, show
from triage.experiment.oracle import Outcome, Verdict, decisive, normalize, placeless, raiser, told
from triage.knowledge.match import Outcome as Match
from triage.knowledge.match import invariant, raising_frame, record_of_error, try_rule, user_raised
from triage.knowledge.pattern import specificity
from triage.knowledge.rule import Rule, RuleSet
from triage.knowledge.stages import Stages
from triage.model import Comparison, ErrorRecord, FaultKey, Frame
from triage.numerics.pattern import Pattern, alike, describe, pattern_of
from triage.readers import decisive as decisive_record


@dataclass(frozen=True)
class Start:
    """What ended a run, as far as it identifies the fault."""

    key: FaultKey
    #: the conditions of the rule that stay true while operands change
    invariant: tuple[Condition, ...] = ()
    phase: str = ""
    #: where a hang is: the kernel that was being built or launched
    kernel: str = ""
    statement: str = ""
    ended: tuple[str, ...] = ()
    #: rule or text, and raiser, of the errors that were caught before it and not made good
    caught: frozenset[tuple[str, str]] = frozenset()
    importing: bool = False
    nan: bool = False
    #: the words of the user's line, numbers blanked, and the names of the functions that lead to it
    line: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    #: the failed comparison that ended the run, and the patterns that its wrong elements had
    comparison: Comparison | None = field(default=None, compare=False)
    patterns: tuple[Pattern, ...] = field(default=(), compare=False)


def start_of(errors: Sequence[ErrorRecord], status: str, rules: RuleSet, stages: Stages) -> Start | None:
    """The fault that ended a run, whose last error is the last of `errors`; None where none was seen as an event."""
    last = errors[-1] if errors else None
    if status not in ("failed", "timed_out") or last is None or last.origin != "event":
        return None
    if (status == "timed_out") != (last.kind == "timeout"):
        return None
    if last.kind == "timeout":
        return _hang(last)
    if last.type == "Killed" or last.suspect:  # a limit of the experiment, or the virtual device, may have caused it
        return None
    passed_on = _passed_on(errors) if last.type == "SystemExit" else None
    outer = passed_on or last
    one = decisive_record(outer)
    frames = one.frames or outer.frames
    # a compiler's message names the user's line without its text; then the call that started the build tells it
    way = frames if one.kind != "compiler" else outer.frames or frames
    guess = stages.stage_of(one)
    echo = _echo(errors, one)
    phase = one.phase or outer.phase or (echo.phase if echo else None) or ""
    rule, operands = _rule(one, guess.stage, rules)
    raised = raising_frame(one)
    own = user_raised(one)
    compared = last.comparison if last.comparison and last.comparison.pattern else None
    key = FaultKey(
        kind="mismatch" if compared else one.kind,
        exception=one.type,
        raiser="" if raised is not None and raised.user else raiser(frames),
        pass_name=one.pass_name or outer.pass_name or (echo.pass_name if echo else None) or guess.pass_name or "",
        rule=rule.code if rule else "",
        callee=callee(way),
        operands={} if compared else operands,
        text="" if rule or compared or one.kind == "signal" else normalize(decisive(one.message)),
    )
    return Start(
        key,
        invariant=invariant(rule, operands) if rule and not compared else (),
        phase=phase,
        statement=_words(raised.text) if own and raised else "",
        ended=_ended(last, one, passed_on, compared),
        caught=_caught(errors, one, rules, stages),
        importing=_importing(way),
        nan=compared is None and re.search(r"\bnan\b", told(one.message), re.IGNORECASE) is not None,
        line=_line(way),
        functions=_functions(way),
        comparison=compared,
        patterns=(pattern_of(compared.pattern),) if compared and compared.pattern else (),
    )


def outcome(
    start: Start,
    shown_status: str,
    shown_errors: Sequence[ErrorRecord],
    rules: RuleSet,
    stages: Stages,
    *,
    renamed: bool = False,
) -> Outcome:
    """Compare what a candidate showed (`shown_errors`: the last is what ended it) with the start.

    `renamed`: the candidate's names may be others than the start's.
    """
    if shown_status == "succeeded":
        return Outcome(Verdict.NONE)
    other = start_of(shown_errors, shown_status, rules, stages)
    if shown_status == "timed_out":
        if other is not None and start.key.kind == "timeout" and not differing(start, other, renamed):
            return Outcome(Verdict.SAME)
        return Outcome(Verdict.UNKNOWN, why="timed_out")
    if shown_status != "failed":
        return Outcome(Verdict.UNKNOWN, why=shown_status)
    if other is None:
        return Outcome(Verdict.UNKNOWN, why="it failed, and no event says why")
    differs = differing(start, other, renamed)
    if differs:
        return Outcome(Verdict.OTHER, differs, why=_shown_difference(start, other, differs))
    return Outcome(Verdict.SAME)


def differing(start: Start, other: Start, renamed: bool = False) -> tuple[str, ...]:
    """The parts in which another fault differs from the start; none if it is the same."""
    parts = [name for name in IDENTITY if getattr(start.key, name) != getattr(other.key, name)]
    parts += [name for name in CIRCUMSTANCES if getattr(start, name) != getattr(other, name)]
    if not renamed and not _within(other.line, start.line):
        parts.append("line")
    if not renamed and not _within(other.functions, start.functions):
        parts.append("functions")
    parts += _comparisons_differ(start, other)
    if bool(start.caught) != bool(other.caught) or not other.caught <= start.caught:
        parts.append("caught")
    if start.key.rule != other.key.rule:
        return tuple(parts)
    mine, theirs = start.key.operands, other.key.operands
    free = {name for condition in start.invariant for name in (condition.fact, *condition.right)}
    for name in sorted(mine.keys() | theirs.keys()):
        both = name in mine and name in theirs
        if not both or (mine[name] != theirs[name] and not (name in free and _alike(mine[name], theirs[name]))):
            parts.append(f"operands.{name}")
    parts += [c.text for c in start.invariant if not holds(c, theirs).holds or _order(c, mine) != _order(c, theirs)]
    return tuple(parts)


def _comparisons_differ(start: Start, other: Start) -> list[str]:
    """In what two failed comparisons differ. A start that was seen with several patterns may have any of them."""
    one, two = start.comparison, other.comparison
    if one is None or two is None:
        return [] if one is two else ["comparison"]
    parts = [f"comparison.{name}" for name in COMPARED if getattr(one, name) != getattr(two, name)]
    if _outputs(one) != _outputs(two):
        parts.append("comparison.written")
    if not set(two.garbage) <= set(one.garbage):
        parts.append("comparison.garbage")
    agree = [alike(mine, theirs) for mine in start.patterns for theirs in other.patterns]
    if not any(where and values for where, values in agree):
        parts.append("comparison.pattern")
    return parts


def _outputs(comparison: Comparison) -> list[tuple[str, str]]:
    return [(output.name, output.argument) for output in comparison.written]


def _order(condition: Condition, operands: Mapping[str, object]) -> bool | None:
    """Of two numbers that must differ, whether the first is the smaller one: too few arguments are not too many."""
    if condition.op != "!=":
        return None
    one, two = operands.get(condition.fact), operands.get(condition.right[0])
    return one < two if isinstance(one, int | float) and isinstance(two, int | float) else None


def _alike(one: object, other: object) -> bool:
    """Whether an operand that may change is still of its kind: a number, a symbol or a shape, and empty only if it was."""
    return isinstance(one, str) == isinstance(other, str) and _is_empty(one) == _is_empty(other)


def _is_empty(value: object) -> bool:
    """Whether an extent, or one of a shape, is zero or negative."""
    if isinstance(value, str):
        return re.search(r"(?<![\w.])(?:0|-\d+)(?![\w.])", value) is not None
    return isinstance(value, int | float) and value <= 0


COMPARED = ("function", "tolerance", "dtype", "vacuous", "program", "sources")
IDENTITY = ("kind", "exception", "raiser", "pass_name", "rule", "callee", "text")
CIRCUMSTANCES = ("phase", "kernel", "statement", "ended", "importing", "nan")


def moving(start: Start, repeats: Sequence[Start | None]) -> Start:
    """The start with the patterns of its repeats, where nothing but the place of the wrong elements differs: those of a race
    are elsewhere in every run."""
    patterns = list(start.patterns)
    for repeat in repeats:
        if repeat is None or set(differing(start, repeat)) != {"comparison.pattern"}:
            continue
        agree = [alike(mine, theirs) for mine in start.patterns for theirs in repeat.patterns]
        if all(values for _, values in agree):
            patterns += repeat.patterns
    return dataclasses.replace(start, patterns=tuple(dict.fromkeys(patterns)))


def wrong_set(start: Start, repeats: Sequence[Start | None]) -> str | None:
    """Whether the wrong elements are the `same` in every run or it `changes` which; None if the fault is no mismatch."""
    seen = {_digest(one) for one in (start, *repeats) if one is not None}
    if None in seen:
        return None
    return "same" if len(seen) == 1 else "changes"


def _digest(fault: Start) -> str | None:
    pattern = fault.comparison.pattern if fault.comparison else None
    return pattern.digest if pattern else None


@dataclass(frozen=True)
class Unsteady:
    """Why a start cannot be minimized: of `runs` runs of the unchanged script, `other` did not show its fault."""

    runs: int
    other: int
    differs: tuple[str, ...]
    why: str

    def __str__(self) -> str:
        return self.why


def steady(start: Start, repeats: Sequence[Start | None]) -> Unsteady | None:
    """None if every repeat of the unchanged script (its `start_of`) shows the very same fault, operands included."""
    exact = dataclasses.replace(start, invariant=())
    told = [
        ("fault",) if repeat is None else differing(exact, repeat) or (("line",) if repeat != start else ())
        for repeat in repeats
    ]
    counted = Counter(part for parts in told for part in parts)
    if not counted:
        return None
    other = sum(parts != () for parts in told)
    parts = tuple(sorted(counted))
    none = counted["fault"]
    why = f"{other} of {len(repeats)} repeats of the unchanged script did not show its fault"
    told_apart = [*([f"{none} showed none that can be told"] if none else []), *(p for p in parts if p != "fault")]
    return Unsteady(len(repeats), other, parts, f"{why}: {', '.join(told_apart)}")


@dataclass(frozen=True)
class Reproduction:
    """How often a fault came: in `same` of `runs` runs that could tell; `low` and `high` bound its rate (exact, 95 %)."""

    same: int
    runs: int
    low: float
    high: float


def rate(outcomes: Iterable[Outcome], confidence: float = 0.95) -> Reproduction:
    """The rate of `same-fault`, with its Clopper-Pearson interval. Runs of unknown outcome do not count."""
    verdicts = [one.verdict for one in outcomes if one.verdict is not Verdict.UNKNOWN]
    same, runs = verdicts.count(Verdict.SAME), len(verdicts)
    tail = (1 - confidence) / 2
    low = 0.0 if same == 0 else _root(lambda p: at_least(same, runs, p) - tail)
    high = 1.0 if same == runs else _root(lambda p: at_least(same + 1, runs, p) - (1 - tail))
    return Reproduction(same, runs, low, high)


def at_least(count: int, runs: int, p: float) -> float:
    """The probability of `count` or more successes of `runs`, each of probability `p`."""
    return math.fsum(math.comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(count, runs + 1))


def _root(rising: Callable[[float], float]) -> float:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2


# --------------------------------------------------------------------------------------------------------


def _hang(error: ErrorRecord) -> Start | None:
    """A hang is known by the phase and the kernel in which it is; without a phase it has no place."""
    if not error.phase:
        return None
    key = FaultKey("timeout", error.type, callee=callee(error.frames))
    return Start(
        key,
        phase=error.phase,
        kernel=error.kernel or "",
        line=_line(error.frames),
        functions=_functions(error.frames),
    )


def _caught(
    errors: Sequence[ErrorRecord], one: ErrorRecord, rules: RuleSet, stages: Stages
) -> frozenset[tuple[str, str]]:
    found = set()
    for error in errors:
        inner = decisive_record(error)
        echo = (inner.type, inner.message) == (one.type, one.message)
        if echo or not error.handled or error.recovered or error.stubbed:
            continue
        rule, _ = _rule(inner, stages.stage_of(inner).stage, rules)
        said = rule.code if rule else f"{inner.type}: {normalize(decisive(inner.message))}"
        found.add((said, raiser(inner.frames or error.frames)))
    return frozenset(found)


def _passed_on(errors: Sequence[ErrorRecord]) -> ErrorRecord | None:
    """The error that a script caught before it ended itself by an exit status."""
    caught = (e for e in reversed(errors[:-1]) if e.origin == "event" and e.handled and not (e.recovered or e.stubbed))
    return next(caught, None)


def _ended(
    last: ErrorRecord, one: ErrorRecord, passed_on: ErrorRecord | None, compared: Comparison | None
) -> tuple[str, ...]:
    """How the decisive error came to end the script, if not by itself. What is said of a mismatch has its values in it."""
    said: tuple[str, ...] = ("caught",) if last.handled or passed_on else ()
    if last.type == one.type and last.message == one.message:
        return said
    frame = raising_frame(last)
    if frame is None or not user_raised(last):
        return (*said, last.type, raiser(last.frames))
    text = "" if compared else normalize(last.message.partition("\n")[0])
    return (*said, last.type, _words(frame.text), text)


def _echo(errors: Sequence[ErrorRecord], one: ErrorRecord) -> ErrorRecord | None:
    """The same error as it was seen on its way out of a compile, where phase and pass were known."""
    return next((e for e in errors if e.handled and (e.type, e.message) == (one.type, one.message)), None)


def _rule(error: ErrorRecord, stage: str | None, rules: RuleSet) -> tuple[Rule | None, dict[str, object]]:
    """The rule that reads an error, and what it captured; of several the one whose text demands most."""
    record = record_of_error(error, stage)
    possible = rules.possible("error", record.text)
    trials = [(rule, try_rule(rule, record, {})) for rule in possible if rule.level == "fault"]
    matched = [(rule, trial) for rule, trial in trials if trial.outcome is Match.MATCH]
    if not matched:
        return None, {}
    rule, trial = max(matched, key=lambda pair: specificity(pair[0].match.text) if pair[0].match.text else 0)
    return rule, {name: placeless(v) if isinstance(v, str) else v for name, v in trial.captures.items()}


def _user_frame(frames: Sequence[Frame]) -> Frame | None:
    return next((frame for frame in reversed(frames) if frame.user), None)


WORD = re.compile(r"\d[\w.]*|\w+|[^\w\s]")
QUOTE = "'"


def _line(frames: Sequence[Frame]) -> tuple[str, ...]:
    """The words of the deepest user line, numbers blanked."""
    frame = _user_frame(frames)
    words = _tokens(frame.text.partition("#")[0]) if frame else []
    return tuple("0" if word[0].isdigit() else word for word in words)


def _functions(frames: Sequence[Frame]) -> tuple[str, ...]:
    return tuple(frame.function for frame in frames if frame.user)


def _within(some: tuple[str, ...], whole: tuple[str, ...]) -> bool:
    """Whether `some` is `whole` with omissions. Of a statement that goes on in the next line only the beginning was seen."""
    if whole.count("(") > whole.count(")"):
        return some[: len(whole)] == whole or _within(some, (*whole, ")"))
    rest = iter(whole)
    return all(word in rest for word in some)


def _importing(frames: Sequence[Frame]) -> bool:
    """Whether the error came while the script imported a module, and not while it ran."""
    script = next((number for number, frame in enumerate(frames) if frame.user), len(frames))
    return any(frame.function == "<module>" for frame in frames[script + 1 :])


CALL = re.compile(r"(?<![\w.])([A-Za-z_]\w*(?:\s*\.\s*\w+)*)\s*\(")
DECORATOR = re.compile(r"@\s*([\w.]+)")


def callee(frames: Sequence[Frame]) -> str:
    """The name of what the deepest user line calls, as it is written there: the call that failed where the frame tells
    its columns, else the outermost one; "" where it calls nothing."""
    frame = _user_frame(frames)
    if frame is None:
        return ""
    text = frame.text.partition("#")[0]
    decorator = DECORATOR.match(text)
    if decorator:
        return decorator[1]
    calls = [(m, "".join(m[1].split())) for m in CALL.finditer(text) if not iskeyword(m[1])]
    if text.startswith(("def ", "class ")):
        calls = calls[1:]
    if frame.column is not None and frame.end_column is not None:
        width = frame.end_column - frame.column
        calls = [c for c in calls if _closing(text, c[0].end()) - c[0].start() == width] or calls
    return calls[0][1] if calls else ""


def _closing(text: str, at: int) -> int:
    """Where the parenthesis that opens before `at` is closed; the end of the text if it is not."""
    depth = 1
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _words(text: str) -> str:
    return " ".join(_tokens(text))


def _tokens(text: str) -> list[str]:
    """The words and signs of a statement, however it is spaced and quoted."""
    return [QUOTE if word == '"' else word for word in WORD.findall(text)]


def _shown_difference(start: Start, other: Start, differs: Sequence[str]) -> str:
    return "; ".join(_shown_part(start, other, part) for part in differs)


def _shown_part(start: Start, other: Start, part: str) -> str:
    operand = part.removeprefix("operands.")
    if operand != part:
        return f"{operand}: {_shown(start.key.operands.get(operand))} → {_shown(other.key.operands.get(operand))}"
    if part in IDENTITY:
        one, two = getattr(start.key, part), getattr(other.key, part)
    elif part.startswith("comparison"):
        one, two = (_shown_comparison(fault, part.partition(".")[2]) for fault in (start, other))
    elif hasattr(start, part):
        one, two = getattr(start, part), getattr(other, part)
    else:
        return f"not {part}"
    return f"{part}: {_shown(one)} → {_shown(two)}"


def _shown_comparison(fault: Start, part: str) -> str:
    comparison = fault.comparison
    if comparison is None:
        return "none"
    if part == "pattern":
        return describe(comparison.pattern) if comparison.pattern else "none"
    if part == "garbage":
        return ", ".join(comparison.garbage)
    if part == "written":
        return ", ".join(f"{argument} of {name}" for name, argument in _outputs(comparison))
    return str(getattr(comparison, part, comparison.function))


def _shown(value: object) -> str:
    if isinstance(value, frozenset):
        value = tuple(said for said, _ in sorted(value))
    if isinstance(value, tuple):
        value = " ".join(map(str, value))
    return "none" if value is None or value == "" else show(value)
