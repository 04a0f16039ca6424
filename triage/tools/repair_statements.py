"""repair-statements: which statement, changed a little, makes the wrong result right?"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from triage.experiment.client import TemplateError
from triage.experiment.modules import beside
from triage.experiment.repair_search import Repaired, Search
from triage.experiment.repairs import Edit, edits, further_edits, host_edits
from triage.graph.spec import ToolSpec
from triage.lints.hazard import Hazard
from triage.model import Fact, FoundBy, Label, Place, StepOutcome, StepStatus
from triage.tools.base import Result, Work
from triage.tools.compared import twin_run
from triage.tools.suggested import suggested
from triage.tools.twin_runs import lines_of, patterns, said_of, unchanged, wrong

SPEC = ToolSpec(
    "repair-statements",
    "change one statement at a time and compute again",
    adds=("repair.tried", "repair.statements"),
    seconds=lambda facts: 20.0,
)
#: The steps after this one want some of the budget, too: seconds that this one takes at most.
LONGEST = 75.0
#: So many statements may be named; where more would do, the edits say nothing about the place.
MOST = 4


def run(work: Work) -> Result:
    """Search for one edit that restores the agreement on the twin, also with other inputs."""
    candidate = unchanged(work)
    if candidate is None:
        return Result(detail="statements are changed in a script, and this run is of a module or the script is gone")
    seen = twin_run(work)
    if seen is None or seen.run.verdict != "mismatched":
        return Result(detail="the unchanged script did not fail on the twin")
    start, file = seen.run, work.script_path
    lines = {id: lines_of(record, file) for id, record in seen.records.items()}
    wrote = frozenset().union(*(compared.writers for compared in start.comparisons if not compared.matched))
    accused = set().union(*(lines[id] for id in wrote & lines.keys()))
    inside = set().union(*lines.values())
    changes = edits(candidate.source, inside, patterns(start), accused)
    modules = _modules(work, candidate.source)
    outside = host_edits(candidate.source) + [e for path, text in modules.items() for e in host_edits(text, path)]
    deadline = time.monotonic() + min(LONGEST, work.seconds)

    def left() -> float:
        return deadline - time.monotonic()

    def further() -> list[Edit]:
        return further_edits(candidate.source, inside, changes, patterns(start))

    try:
        with work.script_runner() as runner:
            search = Search(runner, candidate, start, float(work.facts["twin.seconds"]), modules)
            found = search.run(candidate.source, changes, left, work.progress, further)
            found = search.outside(candidate.source, found, outside, left)
            found = search.confirmed(candidate.source, found)
    except TemplateError as error:
        return Result(status=StepStatus.FAILED, detail=f"changed copies cannot be run: {error}")
    facts = (
        Fact("repair.tried", found.tried, source=SPEC.name),
        Fact("repair.statements", len(found.edits), source=SPEC.name),
    )
    found = replace(found, perhaps_meant=start.perhaps_meant, between=start.between_results)
    if not wrote:
        found = replace(found, derived=True)
    text = candidate.source.splitlines()

    # what computes before what only gives it memory, and before what gives it its sizes, of which many another one would hide a fault, too
    def later(edit: Edit) -> tuple[bool, bool]:
        return edit.line not in inside, "alloc_" in "".join(text[edit.line - 1 : edit.end])

    found = replace(found, edits=tuple(sorted(found.edits, key=later)))
    texts = {"": candidate.source, **modules}
    hazards = _hazards(found, file, said_of(wrong(start)), lambda edit: edit.place_in(texts[edit.file]))
    return Result(
        outcome=StepOutcome.FINDING if hazards else StepOutcome.UNKNOWN,
        detail=_detail(found),
        facts=facts,
        hazards=hazards,
        repairs=suggested(work, candidate.source, file, found.alone, hazards[0]) if found.alone else (),
    )


def _modules(work: Work, source: str) -> dict[str, str]:
    """The user's modules in which the call or the reference may stand, by their paths."""
    found = beside(source, Path(work.script_path))
    for reference in work.references:
        if reference.file and reference.file != work.script_path:
            with contextlib.suppress(OSError, ValueError):
                found[reference.file] = Path(reference.file).read_text(encoding="utf-8-sig")
    return found


def _hazards(
    found: Repaired, file: str, fields: dict[str, object], line_of: Callable[[Edit], int]
) -> tuple[Hazard, ...]:
    if not 0 < len(found.edits) <= MOST:
        return ()
    first = found.edits[0]
    others = (*found.edits[1:], *([found.outside] if found.outside else []))
    labels = tuple(
        Label(edit.file or file, line_of(edit), f"{edit.says}: this makes the result right, too") for edit in others
    )
    told = {
        **fields,
        "change": first.says,
        "sort": first.kind,
        "count": len(found.edits),
        "reservation": found.reservation,
        "look_at": found.look_at,
        "found_by": FoundBy.EXPERIMENT.value,
    }
    kind = "statement-repaired" if found.alone else "statements-repaired"
    return (Hazard(kind, "run", Place(file, line_of(first)), labels, told),)


def _detail(found: Repaired) -> str:
    if not found.count:
        return "no statement of a kernel stands in the script itself, and files beside it are not changed"
    tried = f"{found.tried} of {found.count} small changes tried"
    if not found.edits:
        return f"{tried}; none makes the result right"
    return f"{tried}; " + "; ".join(_said(edit) for edit in found.edits[:MOST])


def _said(edit: Edit) -> str:
    return f"line {edit.line}: {edit.says} makes it right, also with other inputs"
