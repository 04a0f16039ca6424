"""Find the user's line of a fault that no frame names, by lowering the kernel again without parts of it.

    search.py     the unchanged kernel twice: is it the reported fault, and does it come every time?
    evidence.py   what has to be there for it, and what makes it go
    choose.py     which of these to point at
    lines.py      the line of an annotation, which carries none

Every experiment is a forked worker of the template and costs 0.05 to 0.3 s; `deadline` bounds them all.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from triage.experiment import choose, lines
from triage.experiment.choose import Choice, Unit
from triage.experiment.evidence import gather, trials
from triage.experiment.minimal import OutOfBudget
from triage.experiment.oracle import Verdict
from triage.experiment.search import Experiment, Search
from triage.experiment.template import Change, Program, Template
from triage.model import Confidence, ErrorRecord, FoundBy, Label, Location

#: how many statements may show the same fault each by itself before the search stops looking for more
TWINS = 4


@dataclass(frozen=True)
class Localization:
    """The answer. `location` is None where the experiments do not single out a line; `how` then says why.

    `kept` is the set the fault needs, 1-minimal if `minimal`. `facts` holds passing neighbours: `passing.threads` and
    `passing.num_stages` are lists of values with which the kernel lowers.
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


def _twins(search: Search, evidence: choose.Evidence, choice: Choice) -> tuple[Choice, list[Unit]]:
    """Other statements that show the same fault by themselves: without all of them together it has to go.

    The choice is then the one that works on most buffers (a `T.clear` is seldom wrong), the first among equals.
    """
    assert choice.unit is not None
    found = [choice.unit]
    try:
        while len(found) <= TWINS:
            gone = [Change(unit.id) for unit in found]
            verdict = search.ask(gone)
            if verdict != Verdict.SAME:
                found.sort(key=lambda unit: (-len(unit.buffers), search.units.index(unit)))
                alone = {**evidence.alone, **{unit.id: verdict for unit in found}}
                again = choose.choose(dataclasses.replace(evidence, alone=alone))
                how = f"{len(found)} places show the error, each without the others; {WITHOUT[verdict]}"
                one_kind = len({unit.op for unit in found}) == 1
                sure = again.confidence if one_kind or again.confidence is None else Confidence.LIKELY
                return dataclasses.replace(again, unit=found[0], confidence=sure, how=how), found[1:]
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


def _answer(
    search: Search, evidence: choose.Evidence, choice: Choice, twins: list[Unit], places: Places
) -> Localization:
    labels = []
    for unit, text in (*choice.others, *((twin, "shows the same error without the other place") for twin in twins)):
        place = places.of(unit)
        if place is not None:
            labels.append(Label(place.file, place.line, text))
    facts = neighbours(search, choice)
    if choice.unit is None:
        return Localization(None, None, choice.how, tuple(labels), evidence.kept, facts=facts, minimal=evidence.minimal)
    location = places.of(choice.unit)
    first = {(location.file, location.line)} if location else set()
    own = [label for label in _one_a_line(labels) if (label.file, label.line) not in first]
    if location is None:
        how = f"{choice.how}; but the line of `{choice.unit.text}` is not known"
        return Localization(None, None, how, tuple(own), evidence.kept, choice.unit, evidence.minimal, facts=facts)
    return Localization(
        location, choice.confidence, choice.how, tuple(own), evidence.kept, choice.unit, evidence.minimal, facts=facts
    )  # fmt: skip


def _one_a_line(labels: Sequence[Label]) -> list[Label]:
    return list({(label.file, label.line): label for label in reversed(labels)}.values())[::-1]


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
