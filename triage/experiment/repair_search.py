"""Try edits of a wrong kernel on the CPU twin: which of them make its comparison agree, also with other inputs?

One statement whose edit restores the agreement is where the fault is; of several statements any may be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from triage.experiment.errors import read_events
from triage.experiment.repairs import Edit
from triage.experiment.scripts import Candidate, ScriptRunner, Shown
from triage.experiment.twin import TwinRun, read

#: other inputs with which an edit has to agree, too
SEEDS = (1, 2)
#: what the last block of a right kernel does, too: TileLang reads zeros there and drops what is written
HARMLESS = ("oob-read", "oob-write")
#: a changed copy may take so many times as long as the unchanged one, and so many seconds at least
PATIENCE, SHORTEST = 4.0, 10.0


@dataclass(frozen=True)
class Repaired:
    """The edits that restore the agreement, at most one a statement. `tried` of `count` edits were run; `alone`: with other seeds, too."""

    edits: tuple[Edit, ...] = ()
    tried: int = 0
    count: int = 0

    @property
    def finished(self) -> bool:
        return self.tried >= self.count


def _worst(run: TwinRun) -> set[tuple[str, str]]:
    """What no right kernel does, by kind and buffer."""
    found = {(str(h.get("kind")), str(h.get("buffer"))) for h in run.happenings}
    return {(kind, buffer) for kind, buffer in found if kind not in HARMLESS}


class Search:
    """Runs edits of one file of a script. `candidate` is the unchanged script in twin mode, which showed `start` in `seconds`."""

    def __init__(self, runner: ScriptRunner, candidate: Candidate, start: TwinRun, seconds: float) -> None:
        self.runner, self.candidate, self.start = runner, candidate, start
        self.limit = max(SHORTEST, PATIENCE * seconds)

    def run(
        self,
        source: str,
        edits: Sequence[Edit],
        left: Callable[[], float],
        progress: Callable[[str], None] = lambda line: None,
    ) -> Repaired:
        """Try the edits in their order, as long as there is time; of a statement that was repaired no further ones."""
        looked_at: set[Edit] = set()
        passing: list[Edit] = []
        repaired: set[tuple[int, int]] = set()

        def open_edits() -> list[Edit]:
            return [e for e in edits if e not in looked_at and (e.line, e.end) not in repaired]

        while remaining := open_edits():
            running = {self._copy(edit.apply(source)): edit for edit in remaining}

            def wanted(shown: Shown, running: dict[Candidate, Edit] = running) -> bool:
                return self._agrees(shown)

            tried: list[Candidate] = []

            def coming(running: dict[Candidate, Edit] = running, tried: list[Candidate] = tried) -> Iterator[Candidate]:
                for copy in running:
                    if left() <= 0:
                        return
                    tried.append(copy)
                    yield copy

            found = self.runner.first(coming(), wanted, self.limit)
            if found is None:
                looked_at |= {running[copy] for copy in tried}
                break
            edit = running[found[0]]
            looked_at |= {running[copy] for copy in tried[: tried.index(found[0]) + 1]}
            repaired.add((edit.line, edit.end))
            passing.append(edit)
            progress(f"line {edit.line}: {edit.says} restores the agreement")
        sure = [edit for edit in passing if self._also_with_others(edit.apply(source))]
        gone = sum((e.line, e.end) in repaired and e not in looked_at for e in edits)
        return Repaired(tuple(sure), len(looked_at) + gone, len(edits))

    def _copy(self, source: str) -> Candidate:
        return replace(self.candidate, source=source)

    def _also_with_others(self, source: str) -> bool:
        copy = self._copy(source)
        others = [replace(copy, twin=(*(copy.twin or ()), ("seed", seed))) for seed in SEEDS]
        return all(self._agrees(self.runner.run(other, self.limit)) for other in others)

    def _agrees(self, shown: Shown) -> bool:
        """Whether the script now comes to its end, its launches computed, and with comparisons of the kind that failed."""
        if shown.status != "succeeded":
            return False
        run = read(read_events(shown.directory), shown.status, self.runner.blob)
        wrong = {c.function for c in self.start.comparisons if not c.matched and c.by_function}
        if run.nan > self.start.nan or _worst(run) - _worst(self.start):
            return False  # a check of the largest error does not see NaN
        return run.passes and run.computed >= self.start.computed and wrong <= {c.function for c in run.comparisons}
