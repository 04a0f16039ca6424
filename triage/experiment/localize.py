"""Find the user's line of a fault that no frame names, by lowering the kernel again without parts of it.

    unchanged twice → same fault both times, and the one that was reported?   otherwise: not localized, and why
    statements, top down, then inside the loops that are left                 while the same fault stays
    loops and branches around what is left: does it need them?
    annotations, loop kinds, thread counts, symbols, data types               which of them make the fault go?
    each of what is left, alone, against the whole program                    the counterfactual
    choose the one to point at (`choose.py`), and its line (`lines.py`)

Every experiment is a forked worker of the template and costs 0.05 to 0.3 s; `deadline` bounds them all.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triage.experiment import choose, lines, oracle
from triage.experiment.choose import Choice, Evidence, Unit, inside, mentions, short
from triage.experiment.minimal import OutOfBudget, minimize
from triage.experiment.oracle import Outcome, Verdict
from triage.experiment.template import Change, Program, Result, Template
from triage.model import Confidence, ErrorRecord, FaultKey, FoundBy, Label, Location

#: how many statements may show the same fault each by itself before the search stops looking for more
TWINS = 4


@dataclass(frozen=True)
class Experiment:
    """One line of the log: what was changed, what came of it, and how long it took in seconds."""

    changes: tuple[str, ...]
    verdict: str
    differs: tuple[str, ...] = ()
    seconds: float = 0.0


@dataclass(frozen=True)
class Localization:
    """The answer. `location` is None where the experiments do not single out a line; `how` then says why.

    `kept` is the set the fault needs, 1-minimal if `minimal`. `facts` holds passing neighbours: `passing.threads`, `passing.num_stages` (lists of values that lower).
    """

    location: Location | None
    confidence: Confidence | None
    how: str
    labels: tuple[Label, ...] = ()
    kept: tuple[Unit, ...] = ()
    unit: Unit | None = None
    minimal: bool = False
    tries: int = 0
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    log: tuple[Experiment, ...] = ()
    error: ErrorRecord | None = None


def localize(
    program: Program,
    template: Template,
    *,
    deadline: float,
    fault: ErrorRecord | None = None,
    read_source: Callable[[str], str | None],
) -> Localization:
    """Localize the fault that `program` shows when it is lowered or its code is generated.

    `deadline` is a `time.monotonic()` value after which no experiment starts. `fault` is the error that was reported;
    one that does not come again is not localized. `read_source` returns the text of a user's file, or None. Raises
    `template.TemplateError` if the template goes away.
    """
    search = Search(program, template, deadline)
    start = time.monotonic()
    try:
        refusal = search.begin(fault)
        found = _no_place(refusal) if refusal else _search(search, read_source)
    except OutOfBudget:
        found = _no_place("the time for experiments ran out before they showed anything")
    return _with_log(found, search, time.monotonic() - start)


def _search(search: Search, read_source: Callable[[str], str | None]) -> Localization:
    evidence = gather(search, [])
    choice = choose.choose(evidence)
    twins: list[Unit] = []
    if choice.unit is not None and evidence.alone.get(choice.unit.id) == Verdict.SAME:
        choice, twins = _twins(search, evidence, choice)
    places = Places(search.units, read_source)
    return _answer(search, evidence, choice, twins, places)


class Search:
    """The experiments on one program: they share a start, a log, and a deadline."""

    def __init__(self, program: Program, template: Template, deadline: float) -> None:
        self.program, self.template, self.deadline = program, template, deadline
        self.op = "codegen"
        self.key = FaultKey("exception")
        self.units: tuple[Unit, ...] = ()
        self.log: list[Experiment] = []
        self.error: ErrorRecord | None = None
        self.passes = 0

    def begin(self, fault: ErrorRecord | None) -> str | None:
        """Run the unchanged program twice and list its units; returns why there is nothing to search, or None."""
        if fault is not None and fault.phase == "device":
            self.op = "device"
        first = self.template.again(self.program, self.op)
        if first.status == "succeeded":
            return "the kernel lowers when it is tried again"
        if first.status != "failed" or first.error is None:
            return f"the kernel could not be lowered again: {first.why or first.status}"
        self.key = oracle.fault_key(first.error, first.pass_name)
        if fault is not None:
            differs = oracle.differing(_as_seen(self.key, fault), oracle.fault_key(fault))
            if differs:
                return f"lowered again, the kernel shows another error ({', '.join(differs)} differ)"
        self.error = first.error
        self.passes = int(first.facts.get("passes", 0))
        if first.error.phase == "lower":
            self.op = "lower"
        second = self.template.again(self.program, self.op)
        outcome = oracle.judge(self.key, second.status, second.error, second.pass_name)
        if outcome.verdict != Verdict.SAME:
            return f"two lowerings of the unchanged kernel differ: {outcome.verdict}"
        listed = self.template.run(self.program, "units")
        if listed.status != "succeeded":
            return f"the kernel's statements could not be listed: {listed.why or listed.status}"
        self.units = tuple(Unit.of(data) for data in listed.facts["units"])
        return None

    def ask(self, changes: Sequence[Change]) -> Verdict:
        """Run the program with changes. Raises `OutOfBudget` after the deadline.

        Another fault from an earlier pass than the start's hides what is asked, and is `unknown`.
        """
        left = self.deadline - time.monotonic()
        if left <= 0:
            raise OutOfBudget
        result = self.template.run(self.program, self.op, tuple(changes), min(left + 1.0, 30.0))
        outcome = self._judged(result)
        names = tuple(c.unit if c.value is None else f"{c.unit}={c.value}" for c in changes)
        self.log.append(Experiment(names, str(outcome.verdict), outcome.differs, result.seconds))
        return outcome.verdict

    def _judged(self, result: Result) -> Outcome:
        outcome = oracle.judge(self.key, result.status, result.error, result.pass_name)
        if outcome.verdict == Verdict.OTHER and int(result.facts.get("passes", 0)) < self.passes:
            return Outcome(Verdict.UNKNOWN, outcome.differs, "failed in an earlier pass")
        return outcome

    def of_kind(self, *kinds: str) -> list[Unit]:
        return [unit for unit in self.units if unit.kind in kinds]


def _as_seen(key: FaultKey, fault: ErrorRecord) -> FaultKey:
    """The key without the parts that the report of the fault does not have: a text has no frames and no pass."""
    return dataclasses.replace(
        key, pass_name=key.pass_name if fault.pass_name else "", raiser=key.raiser if fault.frames else ""
    )


# ------------------------------------------------------------------------------------------------------ evidence


def gather(search: Search, gone: Sequence[Change]) -> Evidence:
    """Minimize the program without `gone`, then ask what makes the fault go."""
    error = search.error
    assert error is not None
    text = oracle_text(error)
    kept, removed, minimal = _statements(search, list(gone), text)
    around, removed = _wrappers(search, kept, removed)
    declared = search.of_kind("allocation", "parameter")
    alone: dict[str, Verdict] = {}
    settings = _settings(search, kept, around, removed, text, alone, list(gone))
    try:
        for unit in [u for u in kept if u.id not in alone]:
            alone[unit.id] = search.ask([*gone, Change(unit.id)])
        if not kept:
            for unit in declared:
                if unit.kind == "allocation":
                    alone[unit.id] = search.ask([*removed, Change(unit.id)])
    except OutOfBudget:
        minimal = False
    return Evidence(
        tuple(kept), tuple(around), tuple(settings), alone, tuple(declared), text, search.key.pass_name,
        operators(error), frozenset(), minimal,
    )  # fmt: skip


def oracle_text(error: ErrorRecord) -> str:
    """What the error says, without the source excerpt at its end (which repeats a line of the user)."""
    arrow = oracle.ARROW.search(error.message)
    return error.message[: arrow.start()] if arrow else error.message


NODE = re.compile(r"\btl::(?:\w+::)*(\w+?)(?:Op)?Node::")
OP_NAME = re.compile(r"\btl\.(?:tileop\.)?(\w+)|\bT\.(\w+)")


def operators(error: ErrorRecord) -> frozenset[str]:
    """Tile operators that the error names: in its text, or by the class of a frame (`GemmNode` is `gemm`)."""
    named = {a or b for a, b in OP_NAME.findall(error.message)}
    for frame in error.frames:
        named |= {name.lower() for name in NODE.findall(frame.function)}
    return frozenset(named)


def _statements(search: Search, gone: list[Change], text: str) -> tuple[list[Unit], list[Change], bool]:
    """Level by level, the statements without which the fault goes; the changes that remove the others."""
    removed = list(gone)
    out = {change.unit for change in gone}
    droppable = [u for u in search.of_kind("statement", "bind", "loop", "if", "while") if u.id not in out]
    kept: list[Unit] = []
    minimal = True
    level = [u for u in droppable if u.parent is None or not _within(u, droppable)]
    assert search.error is not None
    hint = operators(search.error)
    while level:
        if not minimal:
            kept += level
            break
        holds = functools.partial(_still, search, tuple(removed), tuple(level))
        stay, minimal = minimize(level, holds, _guesses(level, droppable, hint, text))
        removed += [Change(u.id) for u in level if u not in stay]
        kept += stay
        level = [u for u in droppable if any(u.parent == s.path for s in stay)]
    kept.sort(key=lambda u: search.units.index(u))
    return kept, removed, minimal


def _still(search: Search, removed: Sequence[Change], level: Sequence[Unit], some: list[Unit]) -> bool:
    """Whether the fault is there with only `some` of a level."""
    return search.ask([*removed, *(Change(u.id) for u in level if u not in some)]) == Verdict.SAME


def _within(unit: Unit, others: Sequence[Unit]) -> bool:
    return any(inside(unit, other) for other in others)


def _guesses(level: list[Unit], everything: list[Unit], ops: frozenset[str], text: str) -> list[list[Unit]]:
    """Subsets of a level to try first: what holds an operator the error names, or works on a buffer it names."""

    def has(unit: Unit, test: Callable[[Unit], bool]) -> bool:
        return test(unit) or any(test(other) for other in everything if inside(other, unit))

    by_op = [u for u in level if has(u, lambda s: s.op is not None and short(s.op) in ops)]
    by_buffer = [u for u in level if has(u, lambda s: any(mentions(text, name) for name in s.buffers))]
    return [guess for guess in (by_op, by_buffer) if guess]


def _wrappers(search: Search, kept: list[Unit], removed: list[Change]) -> tuple[list[Unit], list[Change]]:
    """The loops and branches that have to be around what is left; the others are opened."""
    needed = []
    paths = {unit.path for unit in kept}
    for unit in search.of_kind("loop-around", "if-around", "attribute-around"):
        holds_some = any(str(path).startswith(f"{unit.path}.") for path in paths)
        if not holds_some or Change(unit.id) in removed:
            continue
        if search.ask([*removed, Change(unit.id)]) == Verdict.SAME:
            removed = [*removed, Change(unit.id)]
        else:
            needed.append(unit)
    return needed, removed


def _settings(
    search: Search,
    kept: list[Unit],
    around: list[Unit],
    removed: list[Change],
    text: str,
    alone: dict[str, Verdict],
    gone: list[Change],
) -> list[Unit]:
    """The settings whose change makes the fault go, in the reduced program and, into `alone`, in the whole one."""
    paths = {unit.path for unit in (*kept, *around)}
    found = []
    for unit in search.of_kind(*choose.SETTINGS):
        if unit.path is not None and unit.kind not in ("annotation", "threads") and unit.path not in paths:
            continue
        if unit.kind == "dtype" and not (
            mentions(text, str(unit.value)) or not choose.KNOWN_DTYPE.fullmatch(str(unit.value))
        ):
            continue
        if unit.kind == "threads" and not (choose.THREADS.search(text) or not kept):
            continue
        for change in trials(unit):
            if search.ask([*removed, change]) == Verdict.SAME:
                continue
            verdict = search.ask([*gone, change])
            if alone.get(unit.id) != Verdict.NONE:
                alone[unit.id] = verdict
            if unit not in found:
                found.append(unit)
            if verdict == Verdict.NONE:
                break
    return found


def trials(unit: Unit) -> list[Change]:
    """The changes by which a setting is tried: taken away, or for thread counts each of the usual ones."""
    if unit.kind == "threads":
        rest = list(unit.value[1:]) if isinstance(unit.value, (list, tuple)) else [1, 1]
        return [
            Change(unit.id, [count, *rest])
            for count in (128, *(c for c in unit.choices if c != 128))
            if count in unit.choices
        ]
    return [Change(unit.id)]


def _twins(search: Search, evidence: Evidence, choice: Choice) -> tuple[Choice, list[Unit]]:
    """Other statements that show the same fault by themselves: without all of them together it has to go.

    The choice is then the first of them in the program.
    """
    assert choice.unit is not None
    found = [choice.unit]
    try:
        while len(found) <= TWINS:
            gone = [Change(unit.id) for unit in found]
            verdict = search.ask(gone)
            if verdict != Verdict.SAME:
                found.sort(key=lambda unit: search.units.index(unit))
                alone = {**evidence.alone, **{unit.id: verdict for unit in found}}
                again = choose.choose(dataclasses.replace(evidence, alone=alone))
                how = f"{len(found)} statements show the error, each by itself; {WITHOUT[verdict]}"
                return dataclasses.replace(again, unit=found[0], how=how), found[1:]
            another = choose.choose(gather(search, gone)).unit
            if another is None or another in found:
                break
            found.append(another)
    except OutOfBudget:
        pass
    return choice, found[1:]


WITHOUT = {
    Verdict.NONE: "without them the kernel lowers",
    Verdict.OTHER: "without them another error comes",
    Verdict.UNKNOWN: "without them it is not known what comes",
}


# -------------------------------------------------------------------------------------------------------- answer


class Places:
    """The user's line of every unit."""

    def __init__(self, units: Sequence[Unit], read_source: Callable[[str], str | None]) -> None:
        self.read_source = read_source
        self.launch = next((u.span for u in units if u.kind == "threads" and u.span and u.span["user"]), None)

    def of(self, unit: Unit) -> Location | None:
        if unit.span:
            return self._location(str(unit.span["file"]), int(unit.span["line"])) if unit.span["user"] else None
        if unit.kind != "annotation" or self.launch is None:
            return None
        file = str(self.launch["file"])
        line = lines.line_of_annotation(
            self.read_source(file) or "", int(self.launch["line"]), unit.key or "", unit.buffers
        )
        return self._location(file, line) if line else None

    def _location(self, file: str, line: int) -> Location:
        source = self.read_source(file) or ""
        rows = source.splitlines()
        snippet = rows[line - 1].strip() if 0 < line <= len(rows) else None
        return Location(file, line, snippet=snippet, found_by=FoundBy.EXPERIMENT)


def _answer(search: Search, evidence: Evidence, choice: Choice, twins: list[Unit], places: Places) -> Localization:
    labels = []
    for unit, text in (*choice.others, *((twin, "shows the same error by itself") for twin in twins)):
        place = places.of(unit)
        if place is not None:
            labels.append(Label(place.file, place.line, text))
    facts = neighbours(search, choice)
    if choice.unit is None:
        return Localization(None, None, choice.how, tuple(labels), evidence.kept, facts=facts, minimal=evidence.minimal)
    location = places.of(choice.unit)
    own = [
        label
        for label in dict.fromkeys(labels)
        if location is None or (label.file, label.line) != (location.file, location.line)
    ]
    if location is None:
        how = f"{choice.how}; but the line of `{choice.unit.text}` is not known"
        return Localization(None, None, how, tuple(own), evidence.kept, choice.unit, evidence.minimal, facts=facts)
    return Localization(
        location, choice.confidence, choice.how, tuple(own), evidence.kept, choice.unit, evidence.minimal, facts=facts
    )  # fmt: skip


def neighbours(search: Search, choice: Choice) -> dict[str, Any]:
    """Values of the chosen setting with which the whole kernel lowers: thread counts, numbers of stages."""
    unit = choice.unit
    if unit is None or not unit.choices or unit.kind not in ("threads", "loop-annotation"):
        return {}
    changes = trials(unit) if unit.kind == "threads" else [Change(unit.id, value) for value in unit.choices]
    passing = []
    try:
        for change in changes:
            if search.ask([change]) == Verdict.NONE:
                passing.append(change.value[0] if unit.kind == "threads" else change.value)
    except OutOfBudget:
        pass
    return {f"passing.{'threads' if unit.kind == 'threads' else unit.key}": sorted(passing)}


def _no_place(how: str) -> Localization:
    return Localization(None, None, how)


def _with_log(found: Localization, search: Search, seconds: float) -> Localization:
    return dataclasses.replace(
        found, tries=len(search.log) + 2, seconds=round(seconds, 3), log=tuple(search.log), error=search.error
    )
