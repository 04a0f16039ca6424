"""Try edits of a wrong kernel on the CPU twin: which of them make its comparison agree, also with other inputs and sizes?

One statement whose edit restores the agreement is where the fault is; of several statements any may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triage.experiment.comparisons import is_by_function
from triage.experiment.errors import read_events
from triage.experiment.repairs import LESS_USUAL, MOVABLE, SYNTHETIC, Edit, other_sizes
from triage.experiment.screen import Screened, screened
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import Compared, TwinRun, read

#: other inputs with which an edit has to agree, too
SEEDS = (1, 2)
#: an edit that would accuse a statement is run so many times more, and so is the unchanged script
AGAIN = 3
#: a changed copy may take so many times as long as the unchanged one, and so many seconds at least
PATIENCE, SHORTEST = 4.0, 10.0
#: the part of the time in which edits are looked at many in one run, the part of what is left that is kept for what comes after the usual
#: ones were run, and the part of that in which further ones are looked at
SCREENING, KEPT, FURTHER = 0.4, 0.5, 0.65
#: of edits with which a kernel goes beyond the ends of a buffer so many are told beside those with which it does not
MOST_STRAYING = 2
#: what the last block of a right kernel does, too: TileLang reads zeros there and drops what is written
HARMLESS = ("oob-read", "oob-write")
#: a part of an output that no block writes
UNWRITTEN = "never-written"


@dataclass(frozen=True)
class Repaired:
    """The edits that restore the agreement, at most one a statement, also with other inputs.

    `tried` of `count` edits were run or need not be. `settled`: of the other statements all edits were tried that are as usual as the
    found ones, or less usual only. `doubtful` are those of the edits with which the script fails with other sizes, so that they may
    fit its own sizes only.
    """

    edits: tuple[Edit, ...] = ()
    tried: int = 0
    count: int = 0
    settled: bool = False
    doubtful: tuple[Edit, ...] = ()
    #: what is compared is not known to be what the kernels wrote as it is: the script may have computed it from that
    derived: bool = False
    #: the script only prints that the results differ
    perhaps_meant: bool = False
    #: what is compared are results of two launches
    between: bool = False
    #: an edit outside of the kernels that restores the agreement, too, and whether all of those were tried
    outside: Edit | None = None
    looked_outside: bool = True
    #: the same comes out each time
    steady: bool = True
    #: with the edits a kernel reads or writes beyond the ends of a buffer, where it did not before
    strays: bool = False

    @property
    def alone(self) -> Edit | None:
        """The edit of the only statement that can be repaired, if nothing speaks against that it is the wrong one."""
        return self.edits[0] if len(self.edits) == 1 and not self.reservation else None

    @property
    def reservation(self) -> str:
        """What else may be wrong than the first of the edits, as half a sentence; empty where nothing is known."""
        if len(self.edits) > 1:
            return f"{len(self.edits)} statements can be changed so that it does, each of them alone"
        if not self.steady:
            return "run again, the script unchanged agrees at times, too, or with the change does not, so that chance may have made it agree"
        if self.strays:
            return "with the change the kernel reads or writes beyond the end of a buffer, where it did not before"
        if self.perhaps_meant:
            return "the script only prints that the results differ, and may expect it"
        if self.between:
            return "two results are compared with each other, and the other one may be wrong as well"
        if self.doubtful:
            return "with other sizes it still does not, so that the change may fit only these"
        if self.derived:
            return "what is compared is not known to be what the kernel wrote as it is, and what was made of that may be wrong instead"
        if not self.settled:
            return "there was no time for all usual changes of other statements, of which one may do the same"
        if self.outside is not None:
            place = f"line {self.outside.line}" + (
                f" of {os.path.basename(self.outside.file)}" if self.outside.file else ""
            )
            return f"{self.outside.says} in {place}, outside of the kernel, does the same"
        if not self.looked_outside:
            return "there was no time for all usual changes of the call and the reference, of which one may do the same"
        if any(edit.rare >= SYNTHETIC for edit in self.edits):
            return "this is no usual slip, but one of thousands of changes that were put together, and may only make up for another fault"
        if any(edit.kind == MOVABLE for edit in self.edits):
            return (
                "what it puts in or takes out may be missing, or too much, in any statement that the value goes through"
            )
        return ""

    @property
    def look_at(self) -> str:
        """Where to look, by what else may be wrong."""
        if len(self.edits) > 1 or self.outside is not None:
            return "this statement and the labelled ones"
        if self.derived:
            return "this statement, and what the script makes of the kernel's result"
        return "this statement first; the fault may lie in another one"


class Search:
    """Runs edits of a script. `candidate` is the unchanged script in twin mode, which showed `start` in `seconds`; `modules` are the
    texts of modules that edits may change, too, by their paths."""

    def __init__(
        self,
        runner: ScriptRunner,
        candidate: Candidate,
        start: TwinRun,
        seconds: float,
        modules: Mapping[str, str] | None = None,
    ) -> None:
        self.runner, self.candidate, self.start = runner, candidate, start
        self.modules = modules or {}
        self.limit = max(SHORTEST, PATIENCE * seconds)

    def run(
        self,
        source: str,
        edits: Sequence[Edit],
        left: Callable[[], float],
        progress: Callable[[str], None] = lambda line: None,
        further: Callable[[], Sequence[Edit]] | None = None,
    ) -> Repaired:
        """Try the edits in their order, as long as there is time (`left() > 0`), and where none of them will do, those that `further` makes.

        Of a statement that was repaired no further ones are tried, unless that was by a movable one, and of the others none that
        is rare where a usual one has done.
        """
        edits = self._distinct(source, edits)
        screened = self._screened(edits, SCREENING * left())
        kept = KEPT * left() if further is not None else 0.0
        found, looked_at = self._tried(source, edits, screened, lambda: left() - kept, progress)
        if further is None or (found.edits and not found.strays):
            return found
        more_edits = self._distinct(source, further())
        looked = self._screened(more_edits, FURTHER * left())
        agreeing = [edit for edit in more_edits if looked.known.get(edit)]
        more, _ = self._tried(source, agreeing, Screened(0), left, progress)
        tried, count = looked.seen - more.count + more.tried, len(more_edits)
        if not more.edits or more.strays:  # then for the usual ones that were left
            rest = replace(screened, known={**screened.known, **dict.fromkeys(looked_at, False)})
            last, _ = self._tried(source, edits, rest, left, progress)
            found = min((last, found, more), key=lambda one: (not one.edits, one.strays))
            return replace(found, tried=last.tried + tried, count=last.count + count)
        settled = more.settled and found.tried == found.count and looked.all
        return replace(more, tried=found.tried + tried, count=found.count + count, settled=settled)

    def _screened(self, edits: Sequence[Edit], seconds: float) -> Screened:
        return screened(self.runner, self.candidate, edits, seconds, self.limit)

    @staticmethod
    def _distinct(source: str, edits: Sequence[Edit]) -> list[Edit]:
        """The first edit of each text."""
        first: dict[str, Edit] = {}
        for edit in edits:
            first.setdefault(edit.apply(source), edit)
        return list(first.values())

    def _tried(
        self,
        source: str,
        edits: Sequence[Edit],
        screened: Screened,
        left: Callable[[], float],
        progress: Callable[[str], None],
    ) -> tuple[Repaired, set[Edit]]:
        """What comes of edits, of some of which it is known already whether they may do: these first, none that may not, and last those that hardly
        make sense; and which were looked at."""
        known = screened.known
        edits = sorted(edits, key=lambda e: (known.get(e) is not True, e in screened.unclear, e in screened.straying))
        looked_at = {edit for edit in edits if known.get(edit) is False}
        passing: list[Edit] = []
        straying: list[Edit] = []

        def remain() -> list[Edit]:
            enough = {(edit.line, edit.end) for edit in straying}
            is_open = self._open(edits, looked_at, passing)
            return [e for e in is_open if e not in screened.straying or (e.line, e.end) not in enough]

        while remaining := remain():
            edit, tried = self._next(source, remaining, left)
            looked_at.update(tried)
            if edit is None:
                break
            if self._also_with_others(source, edit):
                into = straying if self._strays(source, edit) else passing
                into[:] = [*(one for one in into if (one.line, one.end) != (edit.line, edit.end)), edit]
                into[:] = [one for one in into if one.rare <= _rarest(into)]
                progress(f"line {edit.line}: {edit.says} restores the agreement")
        strays = not passing and bool(straying)
        repaired = {(edit.line, edit.end) for edit in passing}
        beside = [edit for edit in straying if (edit.line, edit.end) not in repaired]
        passing += beside if strays else [edit for edit in beside if edit.rare <= _rarest(passing)][:MOST_STRAYING]
        still_open = remain()
        found = Repaired(
            strays=strays,
            edits=tuple(passing),
            tried=len(edits) - len(still_open),
            count=len(edits),
            settled=bool(passing) and not still_open,
            doubtful=tuple(edit for edit in passing if not self._also_larger(source, edit)),
        )
        return found, looked_at

    def outside(self, source: str, found: Repaired, edits: Sequence[Edit], left: Callable[[], float]) -> Repaired:
        """The result with what edits outside of the kernels do, if it would accuse a statement of one."""
        remaining = list(edits) if found.alone else []
        while remaining:
            edit, tried = self._next(source, remaining, left)
            if edit is not None and self._also_with_others(source, edit):
                return replace(found, outside=edit)
            if edit is None:
                return replace(found, looked_outside=len(tried) == len(remaining))
            remaining = [one for one in remaining if one not in tried]
        return found

    def confirmed(self, source: str, found: Repaired) -> Repaired:
        """The result after runs of the edit that would accuse a statement, and of the unchanged script: of many edits one may agree by
        chance where random inputs are not seeded, or the script throws dice."""
        if found.alone is None:
            return found
        copy = replace(self.candidate, source=found.alone.apply(source))
        agree = (self._agrees(shown) for shown in self.runner.repeats(copy, AGAIN, self.limit))
        unchanged = (self._agrees(shown) for shown in self.runner.repeats(self.candidate, AGAIN, self.limit))
        return replace(found, steady=all(agree) and not any(unchanged))

    @staticmethod
    def _open(edits: Sequence[Edit], looked_at: set[Edit], passing: Sequence[Edit]) -> list[Edit]:
        """The edits that are still to be tried."""
        repaired = {(edit.line, edit.end): edit.kind for edit in passing}
        rarest = _rarest(passing) if passing else None

        def is_open(edit: Edit) -> bool:
            by = repaired.get((edit.line, edit.end))
            done = by is not None and (by != MOVABLE or edit.kind == MOVABLE)
            return edit not in looked_at and not done and (rarest is None or edit.rare <= rarest)

        return [edit for edit in edits if is_open(edit)]

    def _next(self, source: str, edits: Sequence[Edit], left: Callable[[], float]) -> tuple[Edit | None, list[Edit]]:
        """The first edit that restores the agreement, and those that were looked at until then."""
        copies = {self._copy(source, edit): edit for edit in reversed(edits)}
        tried: list[Candidate] = []

        def coming() -> Iterator[Candidate]:
            for copy in reversed(copies):
                if left() <= 0:
                    return
                tried.append(copy)
                yield copy

        found = self.runner.first(coming(), self._agrees, self.limit)
        if found is None:
            return None, [copies[copy] for copy in tried]
        return copies[found[0]], [copies[copy] for copy in tried[: tried.index(found[0]) + 1]]

    def _copy(self, source: str, edit: Edit) -> Candidate:
        if edit.file:
            return replace(self.candidate, others=((edit.file, edit.apply(self.modules[edit.file])),))
        return replace(self.candidate, source=edit.apply(source))

    def _also_with_others(self, source: str, edit: Edit) -> bool:
        copy = self._copy(source, edit)
        others = [replace(copy, twin=(*(copy.twin or ()), ("seed", seed))) for seed in SEEDS]
        return all(self._agrees(self.runner.run(other, self.limit)) for other in others)

    def _strays(self, source: str, edit: Edit) -> bool:
        """Whether with the change a kernel goes beyond the ends of a buffer, where it did not before. A right kernel may do so, too, and what it reads
        there is zero; but so a change may hide a fault that is somewhere else. That nobody writes a part of an output no such change hides."""
        run = self._read(self.runner.run(self._copy(source, edit), self.limit))
        before, after = _happened(self.start), _happened(run)
        if any(kind == UNWRITTEN for kind, _ in before - after):
            return False
        places = _places(self.start)
        new = [h for h in run.happenings if h.get("kind") in HARMLESS and _happening(h) not in before]
        return any(_place(h) not in places for h in new)

    def _also_larger(self, source: str, edit: Edit) -> bool:
        """Whether nothing is wrong with other sizes either; True where the script does not come so far with them."""
        sizes = [size for size in other_sizes(source) if all(size[:2] != change[:2] for change in edit.changes)]
        if not sizes:
            return True
        larger = replace(edit, changes=(*edit.changes, *sizes)).apply(source)
        run = self._read(self.runner.run(replace(self.candidate, source=larger), self.limit))
        return run.verdict != "mismatched"

    def _read(self, shown: Shown) -> TwinRun:
        return read(read_events(shown.directory), shown.status, self.runner.blob)

    def _agrees(self, shown: Shown) -> bool:
        """Whether the script now comes to its end, its launches computed, and with comparisons of the kind that failed."""
        if shown.status != "succeeded":
            return False
        run = self._read(shown)
        wrong = {c.function for c in self.start.comparisons if not c.matched and is_by_function(c.function)}
        if run.nan > self.start.nan or _worst(run) - _worst(self.start):
            return False  # a check of the largest error does not see NaN
        if _vanished(self.start, run):
            return False
        return run.passes and run.computed >= self.start.computed and wrong <= {c.function for c in run.comparisons}


def _worst(run: TwinRun) -> set[tuple[str, str]]:
    """What no right kernel does, by kind and buffer."""
    return {(kind, buffer) for kind, buffer in _happened(run) if kind not in HARMLESS}


def _happened(run: TwinRun) -> set[tuple[str, str]]:
    return set(map(_happening, run.happenings))


def _happening(happening: Mapping[str, Any]) -> tuple[str, str]:
    return str(happening.get("kind")), str(happening.get("buffer"))


def _places(run: TwinRun) -> set[str]:
    return set(map(_place, run.happenings))


def _place(happening: Mapping[str, Any]) -> str:
    """Where beyond the ends: in a buffer of the same shape that is no other place."""
    return f"{happening.get('kind')} {happening.get('indices')} {happening.get('extent')}"


def _vanished(start: TwinRun, run: TwinRun) -> bool:
    """Whether what is expected is now so small that its tolerance lets anything as small pass, and was not before: it was computed of a result."""

    def is_nothing(compared: Compared) -> bool:
        return compared.largest is not None and compared.largest <= float(compared.tolerance.get("atol") or 0.0)

    before = {(c.function, c.at) for c in start.comparisons if c.largest is not None and not is_nothing(c)}
    return any(c.matched and is_nothing(c) and (c.function, c.at) in before for c in run.comparisons)


def _rarest(passing: Sequence[Edit]) -> int:
    """How rare an edit may be beside those that do: where a usual one does, no rare one counts."""
    return max(LESS_USUAL, min(edit.rare for edit in passing))
