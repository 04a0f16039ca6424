"""Minimize a failing script: its fault confirmed first, then made small under the oracle, the best always on disk.

    start      the script as it is, a few times: it must fail, and each time with the same fault
    values     of a mismatch the simplest values of its input that show it (`minimize_input.py`)
    reduce     `reduce.py` proposes smaller texts, a warm worker runs each, the oracle says whether it is the same fault
    shapes     of a mismatch the smallest shapes that show it
    end        the result once more in a run of its own, with the header that says what it shows

Every experiment is known by its content: what was run before is answered from its directory, so after a kill the same
command goes on where it was and ends with the same text.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from triage.experiment import autodd
from triage.experiment.minimal import OutOfBudget
from triage.experiment.minimize_input import SimplestInput, simple_values, small_shapes
from triage.experiment.oracle import Verdict
from triage.experiment.reduce import Found, Reducer
from triage.experiment.same_fault import Start, moving, outcome, start_of, steady, wrong_set
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.source import acts, spaced
from triage.knowledge.rule import RuleSet
from triage.knowledge.stages import Stages
from triage.model import Comparison, ErrorRecord
from triage.readers import decisive

#: how often the start is run before it is reduced
STARTS = 3
#: how long the script as it is may take, in seconds
START_LIMIT = 300.0
#: a candidate may take so many times as long as the start, in seconds at least `SHORTEST`
PATIENCE, SHORTEST = 3.0, 10.0


class NothingToMinimizeError(Exception):
    """The start shows no fault, none that is known, or not always the same; the message says which."""


@dataclass(frozen=True)
class Minimized:
    """`text` shows the fault of `error`. `finished`: nothing more could be taken away, else the time ran out."""

    text: str
    error: ErrorRecord
    rule: str
    lines: int
    lines_before: int
    runs: int
    seconds: float
    finished: bool
    #: of a mismatch the simplest input that shows it, and whether its wrong elements are then the `same` in every run or `changes`
    input: SimplestInput | None = None
    wrong_set: str | None = None


def minimize_script(
    runner: ScriptRunner,
    source: str,
    *,
    argv: tuple[str, ...] = (),
    call: str | None = None,
    rules: RuleSet,
    stages: Stages,
    budget: float,
    reducer: str = "triage",
    keep: Callable[[str], None] = lambda text: None,
    progress: Callable[[str], None] = lambda line: None,
) -> Minimized:
    """The smallest script found in `budget` seconds that shows the fault of `source`.

    `reducer` is triage or autodd: who proposes smaller texts. Raises `NotInstalledError` where autodd is not there,
    `NothingToMinimizeError` where the start cannot be relied on, `TemplateError` where nothing can be run.
    """
    began = time.monotonic()
    progress("running the script as it is")
    asked = Candidate(source, argv, call)
    traced = runner.run(replace(asked, trace=True), START_LIMIT)
    start, error = _start(traced, rules, stages)
    compile = runner.compile
    # what is wrong before the device compiler needs none, and it is the dearest part of a script that runs on
    runner.compile = compile and start.phase == "device"
    while True:
        repeats = runner.repeats(asked, STARTS - 1, START_LIMIT)
        again = [start_of(shown.errors, shown.status, rules, stages) for shown in repeats]
        start = moving(start, again)
        unsteady = steady(start, again)
        if unsteady is None:
            break
        if runner.compile == compile:
            raise NothingToMinimizeError(f"the script does not show the same fault every time: {unsteady}")
        runner.compile = compile  # it needs the device compiler after all
    limit = max(SHORTEST, PATIENCE * max(shown.seconds for shown in repeats))
    lines_before = len(source.splitlines())

    allowed = acts(source)

    def ask(texts: Iterable[str]) -> tuple[Candidate, Shown] | None:
        """The first text that shows the fault. Whoever proposed it, none is run that acts on the world otherwise."""

        def left() -> float:
            seconds = began + budget - time.monotonic()
            if seconds <= 0:
                raise OutOfBudget
            return seconds

        def same(shown: Shown) -> bool:
            return outcome(start, shown.status, shown.errors, rules, stages).verdict == Verdict.SAME

        coming = (replace(asked, source=text) for text in texts if left() and acts(text) <= allowed)
        return runner.first(coming, same, min(limit, left() + 1.0))

    def first(texts: Iterable[str]) -> Found | None:
        found = ask(texts)
        return Found(found[0].source, _path(found[1].errors[-1])) if found else None

    def shows(text: str) -> Comparison | None:
        found = ask([text])
        return found[1].errors[-1].comparison if found else None

    def better(text: str) -> None:
        keep(text)
        progress(f"{lines_before} lines -> {len(text.splitlines())} ({runner.count} runs)")

    simplest = simple_values(source, start.comparison, shows) if start.comparison else None
    if simplest is not None and simplest.text != source:
        source = simplest.text
        better(source)
        traced = runner.run(replace(asked, source=source, trace=True), limit)
        error = traced.errors[-1] if traced.errors else error

    if reducer == "autodd":
        text, finished = autodd.reduce(source, first, better, python=runner.python)
    else:
        search = Reducer(source, first, better, traced.executed, _path(error))
        text, finished = search.run(), search.finished
    last = runner.run(replace(asked, source=text), limit)
    compared = last.errors[-1].comparison if last.errors else None
    if simplest is not None and compared is not None:
        simplest = small_shapes(simplest, text, compared, shows)
        if simplest.text != text:
            text = simplest.text
            better(text)
            last = runner.run(replace(asked, source=text), limit)
    moves = _wrong_set([last, runner.again(replace(asked, source=text), limit)], rules, stages) if simplest else None
    return Minimized(
        text, last.errors[-1] if last.errors else error, start.key.rule, len(text.splitlines()), lines_before,
        runner.count, round(time.monotonic() - began, 2), finished, simplest, moves,
    )  # fmt: skip


def _start(shown: Shown, rules: RuleSet, stages: Stages) -> tuple[Start, ErrorRecord]:
    start = start_of(shown.errors, shown.status, rules, stages)
    if start is not None and shown.errors:
        return start, shown.errors[-1]
    if shown.status == "succeeded":
        raise NothingToMinimizeError(
            "the script runs to its end: there is no fault to keep (what static checks or warnings tell is not minimized)"
        )
    raise NothingToMinimizeError(f"the script ended ({shown.why or shown.status}), and no error says why")


def _wrong_set(shown: Sequence[Shown], rules: RuleSet, stages: Stages) -> str | None:
    """Whether the wrong elements are the same in runs of one script, whose input may be random where it began."""
    one, *others = (start_of(run.errors, run.status, rules, stages) for run in shown)
    return wrong_set(one, others) if one is not None else None


def _path(error: ErrorRecord) -> tuple[int, ...]:
    """The user's lines on the way to the error, the raising one last."""
    return tuple(frame.line for frame in error.frames if frame.user and frame.line)


def page(result: Minimized, script: Path, runner: ScriptRunner) -> str:
    """The minimized script as a reader gets it: formatted, under a comment that tells what it shows and how to see it."""
    decides = decisive(result.error)  # the outer message of a device compiler begins with the whole source
    said = decides.message.strip().splitlines()
    lines = [
        f"Minimized from {script.name} by triage: {result.lines_before} -> {result.lines} lines.",
        f"Shows: {result.rule + ' ' if result.rule else ''}{decides.type}: {said[0] if said else ''}",
        *([f"Input: {result.input.said}"] if result.input else []),
        *(["The wrong elements are others in every run."] if result.wrong_set == "changes" else []),
        f"With: {runner.versions}; target {runner.target}",
        "Run: python THIS_FILE" + ("" if result.finished else " (the search ran out of time; it may get smaller)"),
    ]
    return "".join(f"# {line}\n" for line in lines) + spaced(result.text)
